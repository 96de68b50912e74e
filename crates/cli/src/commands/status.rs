//! `tombolo status`: the whole continuum on one screen. Looks at everything at once; [`summed_up`] decides what
//! of it is worth a line.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::selection::{self, CHUNK_SIZE, name_of, namespace_of};
use crate::{
    args::StatusArgs,
    catalogue,
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    moment,
    output::{
        Format, Paint, harmless,
        object::{json as to_json, yaml},
        painted,
    },
    shell::Shell,
};

/// A screen has some 25 lines: the rest is for `get` and `events`.
const TROUBLES_MAX: usize = 8;
const EVENTS_MAX: usize = 5;
/// Of each, so many are asked for; more Events than this are an hour of a large continuum.
const EVENTS_LISTED_MAX: &str = "500";

/// What was found, as the server says it.
#[derive(Debug, Default)]
struct Seen {
    server: String,
    version: String,
    /// `None` if nobody may know, or there are none.
    loops: Option<Value>,
    sites: Vec<Value>,
    nodes: Vec<Value>,
    apps: Vec<Value>,
    events: Vec<Value>,
}

/// What is worth saying.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    /// A word and what there is to say of it.
    lines: Vec<(&'static str, String)>,
    troubles: Vec<Trouble>,
    events: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    what: String,
    why: String,
}

pub(super) async fn run(shell: &mut Shell, args: &StatusArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let seen = look(&connection, shell.globals.namespace.as_deref()).await?;
    let summary = summed_up(&seen, moment::now());
    let text = match args.output {
        Format::Table | Format::Wide => for_people(&summary, shell.out.colour),
        Format::Json => to_json(&for_programs(&seen, &summary))?,
        Format::Yaml => yaml(&for_programs(&seen, &summary))?,
        Format::Name => {
            return Err(Failure::usage("the status is printed as table, json or yaml"));
        }
    };
    shell.out.text(&text)?;
    Ok(if summary.troubles.is_empty() { Exit::Ok } else { Exit::Failed })
}

async fn look(connection: &Connection, namespace: Option<&str>) -> Result<Seen, Failure> {
    let all = async |kind: &str| {
        let resource = catalogue::known(kind);
        let path = resource.collection(namespace);
        let list = selection::list(connection, &path, &Query::default(), JSON, CHUNK_SIZE).await?;
        Ok::<_, Failure>(selection::items(&resource, list))
    };
    let events = async {
        let resource = catalogue::known("Event");
        let query = Query::default().with("limit", EVENTS_LISTED_MAX);
        let list = connection.get(&query.after(&resource.collection(namespace))).await?;
        Ok::<_, Failure>(super::events::newest_last(selection::items(&resource, list)))
    };
    let (sites, nodes, apps, events) =
        futures::try_join!(all("Site"), all("Node"), all("App"), events)?;
    let (loops, version) =
        futures::join!(connection.get("/tombolo/loops"), connection.get("/version"));
    let version = version.ok().and_then(|it| it["gitVersion"].as_str().map(str::to_owned));
    Ok(Seen {
        server: connection.server.trim_end_matches('/').to_owned(),
        version: version.unwrap_or_else(|| "of unknown version".to_owned()),
        loops: loops.ok(),
        sites,
        nodes,
        apps,
        events,
    })
}

fn summed_up(seen: &Seen, now: Timestamp) -> Summary {
    let mut troubles = Vec::new();
    let mut lines = vec![("Server", format!("{}, {}", seen.server, seen.version))];
    if let Some(board) = &seen.loops {
        let loops = board["loops"].as_array().map_or(&[][..], Vec::as_slice);
        let ill = loops.iter().filter(|one| one["well"] != true);
        let ill: Vec<&str> = ill.filter_map(|one| one["name"].as_str()).collect();
        lines.push(("Loops", counted(loops.len() - ill.len(), loops.len(), "well")));
        troubles.extend(ill.iter().map(|name| Trouble {
            what: format!("loop {}", harmless(name)),
            why: "it is dead or late; `tombolo loops` says more".to_owned(),
        }));
    }
    for (word, kind, objects) in [("Sites", "site", &seen.sites), ("Nodes", "node", &seen.nodes)] {
        // What nobody has joined yet is no trouble: it was only written down.
        let (heard, silent): (Vec<&Value>, Vec<&Value>) =
            objects.iter().partition(|one| condition(one, "Ready").is_some());
        let unready: Vec<&&Value> = heard.iter().filter(|one| !is_ready(one)).collect();
        let mut said = counted(heard.len() - unready.len(), objects.len(), "ready");
        if !silent.is_empty() {
            said.push_str(&format!(", {} that no machine has joined yet", silent.len()));
        }
        lines.push((word, said));
        troubles.extend(unready.iter().map(|one| Trouble {
            what: format!("{kind}/{}", harmless(name_of(one))),
            why: complaint(one),
        }));
    }
    lines.push(("Apps", by_phase(&seen.apps)));
    troubles.extend(seen.apps.iter().filter(|app| is_in_trouble(app)).map(|app| Trouble {
        what: match namespace_of(app) {
            "default" | "" => format!("app/{}", harmless(name_of(app))),
            other => format!("app/{} -n {}", harmless(name_of(app)), harmless(other)),
        },
        why: format!("{}: {}", phase(app), complaint(app)),
    }));
    let last = seen.events.len().saturating_sub(EVENTS_MAX);
    let events = seen.events[last..].iter().map(|event| happened(event, now)).collect();
    Summary { lines, troubles, events }
}

/// `3, all ready`, `4, 3 ready`, `none`.
fn counted(good: usize, all: usize, word: &str) -> String {
    match (good, all) {
        (_, 0) => "none".to_owned(),
        (good, all) if good == all => format!("{all}, all {word}"),
        (good, all) => format!("{all}, {good} {word}"),
    }
}

fn by_phase(apps: &[Value]) -> String {
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for app in apps {
        *phases.entry(phase(app)).or_default() += 1;
    }
    let counts: Vec<String> =
        phases.iter().map(|(phase, count)| format!("{count} {}", harmless(phase))).collect();
    match apps.len() {
        0 => "none".to_owned(),
        all => format!("{all}, {}", counts.join(", ")),
    }
}

fn phase(app: &Value) -> &str {
    app["status"]["phase"].as_str().unwrap_or("Pending")
}

fn is_in_trouble(app: &Value) -> bool {
    matches!(phase(app), "Degraded" | "Unplaceable")
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Its first cause, in the words of whoever found it.
fn complaint(object: &Value) -> String {
    let said = object["status"]["message"].as_str();
    let of = |kind| condition(object, kind).and_then(|found| found["message"].as_str());
    let why = said.or_else(|| of("Degraded")).or_else(|| of("Ready"));
    harmless(why.filter(|text| !text.is_empty()).unwrap_or("no reason is known"))
}

fn happened(event: &Value, now: Timestamp) -> String {
    let text = |value: &Value| harmless(value.as_str().unwrap_or_default());
    let about = &event["involvedObject"];
    format!(
        "{:>5} ago  {}/{}  {}: {}",
        moment::age(super::events::seen_at(event), now),
        text(&about["kind"]).to_lowercase(),
        text(&about["name"]),
        text(&event["reason"]),
        text(&event["message"]),
    )
}

fn for_people(summary: &Summary, colour: bool) -> String {
    let mut text = String::new();
    for (word, said) in &summary.lines {
        text.push_str(&format!("{word:<8}{said}\n"));
    }
    if !summary.troubles.is_empty() {
        text.push_str(&format!("\n{}\n", painted(Paint::Red, "Trouble", colour)));
        for one in summary.troubles.iter().take(TROUBLES_MAX) {
            text.push_str(&format!("  {}  {}\n", one.what, one.why));
        }
        if let Some(more) = summary.troubles.len().checked_sub(TROUBLES_MAX).filter(|it| *it > 0) {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    if !summary.events.is_empty() {
        text.push_str("\nLast events\n");
        for event in &summary.events {
            text.push_str(&format!("  {event}\n"));
        }
    }
    text
}

fn for_programs(seen: &Seen, summary: &Summary) -> Value {
    let ready = |objects: &[Value]| {
        let ready = objects.iter().filter(|one| is_ready(one)).count();
        json!({"all": objects.len(), "ready": ready})
    };
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for app in &seen.apps {
        *phases.entry(phase(app)).or_default() += 1;
    }
    let troubles: Vec<Value> =
        summary.troubles.iter().map(|one| json!({"what": one.what, "why": one.why})).collect();
    json!({
        "server": seen.server, "version": seen.version, "loops": seen.loops,
        "sites": ready(&seen.sites), "nodes": ready(&seen.nodes), "apps": phases,
        "trouble": troubles,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn object(name: &str, status: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "default"}, "status": status})
    }

    fn ready(value: &str, message: &str) -> Value {
        json!({"conditions": [{"type": "Ready", "status": value, "message": message}]})
    }

    fn seen() -> Seen {
        let event = json!({"involvedObject": {"kind": "App", "name": "shop"},
            "lastTimestamp": "1970-01-01T00:00:10Z", "reason": "Placed", "message": "web/0 on crane"});
        Seen {
            server: "https://127.0.0.1:7070".to_owned(),
            version: "0.1.0".to_owned(),
            loops: Some(
                json!({"loops": [{"name": "a", "well": true}, {"name": "b", "well": true}]}),
            ),
            sites: vec![object("north", ready("True", ""))],
            nodes: vec![
                object("planned", json!({})),
                object("crane", ready("True", "")),
                object("dock", ready("False", "no heartbeat for 50 s")),
            ],
            apps: vec![
                object("shop", json!({"phase": "Running"})),
                object(
                    "lab",
                    json!({"phase": "Degraded", "message": "web/0: tcp port 80 is taken"}),
                ),
                object("new", json!({})),
            ],
            events: vec![event],
        }
    }

    #[test]
    fn everything_is_on_one_screen_and_trouble_has_its_cause() {
        let now = Timestamp::from_second(60).expect("a time");
        expect![[r#"
            Server  https://127.0.0.1:7070, 0.1.0
            Loops   2, all well
            Sites   1, all ready
            Nodes   3, 1 ready, 1 that no machine has joined yet
            Apps    3, 1 Degraded, 1 Pending, 1 Running

            Trouble
              node/dock  no heartbeat for 50 s
              app/lab  Degraded: web/0: tcp port 80 is taken

            Last events
                50s ago  app/shop  Placed: web/0 on crane
        "#]]
        .assert_eq(&for_people(&summed_up(&seen(), now), false));
    }

    #[test]
    fn an_empty_server_is_well() {
        let seen = Seen { server: "s".to_owned(), version: "v".to_owned(), ..Seen::default() };
        let summary = summed_up(&seen, Timestamp::UNIX_EPOCH);
        assert!(summary.troubles.is_empty());
        expect![[r#"
            Server  s, v
            Sites   none
            Nodes   none
            Apps    none
        "#]]
        .assert_eq(&for_people(&summary, true));
    }
}
