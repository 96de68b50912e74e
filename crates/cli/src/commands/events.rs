//! `tombolo events`: what happened, the newest last. `describe` shows the same for one object.

use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::selection::{self, CHUNK_SIZE};
use crate::{
    args::EventsArgs,
    catalogue,
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    follow::{self, Followed},
    moment,
    output::{
        Format, note,
        object::{json as to_json, json_line, without_managed_fields, yaml},
        table::{self, Grid, cell},
    },
    shell::Shell,
    target,
};

pub(super) async fn run(shell: &mut Shell, args: &EventsArgs) -> Result<Exit, Failure> {
    let about = args.about.as_deref().map(target::parse_one).transpose()?;
    let connection = shell.connect().await?;
    let events = catalogue::known("Event");
    let (namespace, query) = match &about {
        None => {
            let own = (!args.all_namespaces).then_some(connection.namespace.as_str());
            (own, Query::default())
        }
        Some((kind, name)) => {
            let resource = connection.resource(kind).await?;
            let own = (resource.namespaced && !args.all_namespaces)
                .then_some(connection.namespace.as_str());
            (own, about_query(&resource.kind, name))
        }
    };
    let path = events.collection(namespace);
    let with_namespace = namespace.is_none();

    loop {
        let list = selection::list(&connection, &path, &query, JSON, CHUNK_SIZE).await?;
        let resource_version = selection::list_revision(&list);
        let happened = newest_last(selection::items(&events, list));
        print(shell, args, &happened, with_namespace)?;
        shell.out.flush()?;
        if !args.watch {
            if happened.is_empty() {
                if let Some((kind, name)) = &about {
                    // Of what is not there, nothing happens either, and that is not the answer.
                    let resource = connection.resource(kind).await?;
                    connection.get(&resource.object(&connection.namespace, name)).await?;
                }
                note("no events");
            }
            return Ok(Exit::Ok);
        }
        let widths = grid(&happened, with_namespace, moment::now()).widths();
        let from =
            follow::From { path: &path, query: query.clone(), accept: JSON, resource_version };
        let followed = follow::follow(&connection, from, |change, event| {
            if change != follow::Change::Deleted {
                print_one(shell, args, event, with_namespace, &widths)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        match followed {
            Followed::Enough => return Ok(Exit::Ok),
            Followed::Expired => note("the server compacted its history: listing again"),
        }
    }
}

/// The events of one object, by its kind and name.
fn about_query(kind: &str, name: &str) -> Query {
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    Query::default().with("fieldSelector", selector)
}

/// The events of one object, for `describe`. Those of cluster-wide objects lie in any namespace.
pub(super) async fn of(
    connection: &Connection,
    kind: &str,
    name: &str,
    namespace: &str,
) -> Result<Vec<Value>, Failure> {
    let events = catalogue::known("Event");
    let namespace = (!namespace.is_empty()).then_some(namespace);
    let path = events.collection(namespace);
    let list =
        selection::list(connection, &path, &about_query(kind, name), JSON, CHUNK_SIZE).await?;
    Ok(newest_last(selection::items(&events, list)))
}

fn print(
    shell: &mut Shell,
    args: &EventsArgs,
    events: &[Value],
    with_namespace: bool,
) -> Result<(), Failure> {
    let list = || {
        let items: Vec<Value> = events.iter().cloned().map(without_managed_fields).collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
    };
    let text = match (args.output, args.watch) {
        (Format::Table | Format::Wide, _) if events.is_empty() => String::new(),
        (Format::Table | Format::Wide, _) => grid(events, with_namespace, moment::now()).to_text(),
        (Format::Name, _) => events.iter().map(|event| format!("{}\n", label(event))).collect(),
        (Format::Json, false) => to_json(&list())?,
        (Format::Yaml, false) => yaml(&list())?,
        (Format::Json, true) => events.iter().map(json_line).collect::<Result<_, _>>()?,
        (Format::Yaml, true) => events.iter().map(document).collect::<Result<_, _>>()?,
    };
    shell.out.text(&text)
}

fn print_one(
    shell: &mut Shell,
    args: &EventsArgs,
    event: Value,
    with_namespace: bool,
    widths: &[usize],
) -> Result<(), Failure> {
    match args.output {
        Format::Table | Format::Wide => {
            let grid = grid(&[event], with_namespace, moment::now());
            for row in &grid.rows {
                shell.out.text(&table::line(row, widths))?;
            }
        }
        Format::Name => shell.out.line(&label(&event))?,
        Format::Json => shell.out.text(&json_line(&without_managed_fields(event))?)?,
        Format::Yaml => shell.out.text(&document(&without_managed_fields(event))?)?,
    }
    shell.out.flush()
}

fn document(event: &Value) -> Result<String, Failure> {
    Ok(format!("---\n{}", yaml(event)?))
}

fn label(event: &Value) -> String {
    format!("event/{}", selection::name_of(event))
}

/// Events of old and new clients carry their time in different fields.
pub(super) fn seen_at(event: &Value) -> &str {
    [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["firstTimestamp"],
        &event["metadata"]["creationTimestamp"],
    ]
    .into_iter()
    .find_map(Value::as_str)
    .unwrap_or_default()
}

pub(super) fn newest_last(mut events: Vec<Value>) -> Vec<Value> {
    // Events of one moment keep the order in which the server has them.
    events.sort_by_key(|event| seen_at(event).parse::<Timestamp>().ok());
    events
}

pub(super) fn grid(events: &[Value], with_namespace: bool, now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    if with_namespace {
        grid.header.insert(0, "NAMESPACE".to_owned());
    }
    for event in events {
        let object = &event["involvedObject"];
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let seen = match event["count"].as_u64() {
            Some(count) if count > 1 => {
                format!("{} (x{count})", moment::age(seen_at(event), now))
            }
            _ => moment::age(seen_at(event), now),
        };
        let mut row = vec![
            seen,
            cell(&event["type"]),
            cell(&event["reason"]),
            format!("{}/{}", crate::output::harmless(&kind), cell(&object["name"])),
            cell(&event["message"]),
        ];
        if with_namespace {
            row.insert(0, cell(&event["metadata"]["namespace"]));
        }
        grid.rows.push(row);
    }
    grid
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_newest_event_comes_last_whatever_field_holds_its_time() {
        let events = newest_last(vec![
            json!({"lastTimestamp": "1970-01-01T00:05:00Z", "type": "Normal", "reason": "Placed",
                "involvedObject": {"kind": "App", "name": "web"}, "message": "on a", "count": 3,
                "metadata": {"namespace": "default"}}),
            json!({"eventTime": "1970-01-01T00:01:00.5Z", "type": "Warning", "reason": "Lost",
                "involvedObject": {"kind": "Node", "name": "a"}, "message": "two\nlines",
                "metadata": {"namespace": "shop"}}),
        ]);
        let now = Timestamp::from_second(330).expect("a valid time");
        expect![[r#"
            NAMESPACE   LAST SEEN   TYPE      REASON   OBJECT    MESSAGE
            shop        4m30s       Warning   Lost     node/a    two\nlines
            default     30s (x3)    Normal    Placed   app/web   on a
        "#]]
        .assert_eq(&grid(&events, true, now).to_text());
    }
}
