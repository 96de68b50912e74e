//! `tombolo describe`: one object in full, for people.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tombolo_model::{Assignment, component::Reach};
use tombolo_plan::reach;

use super::{
    events,
    selection::{self, CHUNK_SIZE},
};
use crate::{
    args::DescribeArgs,
    catalogue::{self, Resource},
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    moment,
    output::{
        harmless, note,
        object::yaml,
        table::{Grid, cell},
    },
    shell::Shell,
    target,
};

pub(super) async fn run(shell: &mut Shell, args: &DescribeArgs) -> Result<Exit, Failure> {
    let targets = target::parse(&args.what)?;
    let connection = shell.connect().await?;
    let mut first = true;
    for target in &targets {
        args.selection.refuse_with_names(&target.names)?;
        let resource = connection.resource(&target.kind).await?;
        for object in find(&connection, args, &resource, &target.names).await? {
            let name = selection::name_of(&object);
            let namespace = selection::namespace_of(&object);
            // Somebody who may see the object but not its events still sees the object.
            let events = events::of(&connection, &resource.kind, name, namespace).await.ok();
            if !first {
                shell.out.line("")?;
            }
            first = false;
            let ports = open_ports(&connection, &object).await;
            let ports = ports.as_ref().filter(|ports| !ports.rows.is_empty());
            shell.out.text(&description(&object, ports, events.as_deref(), moment::now())?)?;
        }
    }
    if first {
        note("nothing found");
    }
    Ok(Exit::Ok)
}

async fn find(
    connection: &Connection,
    args: &DescribeArgs,
    resource: &Resource,
    names: &[String],
) -> Result<Vec<Value>, Failure> {
    if names.is_empty() {
        let path = args.selection.collection(resource, connection);
        let query = args.selection.query();
        let list = selection::list(connection, &path, &query, JSON, CHUNK_SIZE).await?;
        return Ok(selection::items(resource, list));
    }
    let mut objects = Vec::new();
    for name in names {
        objects.push(connection.get(&resource.object(&connection.namespace, name)).await?);
    }
    Ok(objects)
}

/// The ports of the instances of an App or on a Node, and how far each is open. Somebody who may not
/// see the Assignments still sees the object.
async fn open_ports(connection: &Connection, object: &Value) -> Option<Grid> {
    let name = selection::name_of(object);
    let (namespace, field) = match object["kind"].as_str()? {
        "App" => (Some(selection::namespace_of(object)), "spec.app"),
        "Node" => (None, "spec.node"),
        _ => return None,
    };
    let assignments = catalogue::known("Assignment");
    let query = Query::default().with("fieldSelector", format!("{field}={name}"));
    let path = assignments.collection(namespace);
    let list = selection::list(connection, &path, &query, JSON, CHUNK_SIZE).await.ok()?;
    Some(port_grid(selection::items(&assignments, list)))
}

/// Those that are open furthest come first.
fn port_grid(assignments: Vec<Value>) -> Grid {
    let mut rows: Vec<(Reverse<Reach>, Vec<String>)> = Vec::new();
    for assignment in assignments {
        let Ok(assignment) = serde_json::from_value::<Assignment>(assignment) else { continue };
        let spec = &assignment.spec;
        for port in assignment.status.iter().flat_map(|status| &status.ports) {
            let from = reach::of(port);
            let at = reach::opens_at(port);
            rows.push((
                Reverse(from),
                vec![
                    format!("{}/{}", port.port, port.protocol),
                    from.to_string(),
                    harmless(&at.unwrap_or_else(|| "-".to_owned())),
                    harmless(spec.node.as_deref().unwrap_or(&spec.site)),
                    harmless(&format!("{}/{}/{}", spec.app, spec.component, spec.replica)),
                ],
            ));
        }
    }
    rows.sort();
    let mut grid = Grid::new(&["PORT", "OPEN TO", "AT", "NODE", "INSTANCE"]);
    grid.rows = rows.into_iter().map(|(_, row)| row).collect();
    grid
}

/// The whole text. `events` is `None` if they could not be had.
fn description(
    object: &Value,
    ports: Option<&Grid>,
    events: Option<&[Value]>,
    now: Timestamp,
) -> Result<String, Failure> {
    let mut text = head(object, now);
    let empty = Map::new();
    for (key, value) in object.as_object().unwrap_or(&empty) {
        match key.as_str() {
            "apiVersion" | "kind" | "metadata" | "status" => (),
            "data" | "stringData" if object["kind"] == "Secret" => {
                text.push_str(&sizes(key, value));
            }
            _ => text.push_str(&section(key, value)?),
        }
    }
    let mut status = object["status"].clone();
    let conditions = status.as_object_mut().and_then(|status| status.remove("conditions"));
    if status.as_object().is_some_and(|status| !status.is_empty()) {
        text.push_str(&section("status", &status)?);
    }
    if let Some(conditions) = conditions {
        text.push_str("Conditions:\n");
        text.push_str(&indented(&condition_grid(&conditions, now).to_text()));
    }
    if let Some(ports) = ports {
        text.push_str("Open ports:\n");
        text.push_str(&indented(&ports.to_text()));
    }
    match events {
        None => text.push_str("Events:  <not readable>\n"),
        Some([]) => text.push_str("Events:  <none>\n"),
        Some(events) => {
            text.push_str("Events:\n");
            text.push_str(&indented(&events::grid(events, false, now).to_text()));
        }
    }
    Ok(text)
}

fn head(object: &Value, now: Timestamp) -> String {
    let metadata = &object["metadata"];
    let mut lines: Vec<(&str, String)> = vec![("Name", cell(&metadata["name"]))];
    if let Some(namespace) = metadata["namespace"].as_str() {
        lines.push(("Namespace", harmless(namespace)));
    }
    lines.push(("Kind", format!("{} ({})", cell(&object["kind"]), cell(&object["apiVersion"]))));
    lines.push(("Labels", pairs(&metadata["labels"])));
    lines.push(("Annotations", pairs(&metadata["annotations"])));
    if let Some(created) = metadata["creationTimestamp"].as_str() {
        let age = moment::age(created, now);
        lines.push(("Created", format!("{} ({age} ago)", harmless(created))));
    }
    if let Some(deleted) = metadata["deletionTimestamp"].as_str() {
        let age = moment::age(deleted, now);
        lines.push(("Deleting", format!("since {} ({age} ago)", harmless(deleted))));
    }
    for (title, list) in [("Finalizers", &metadata["finalizers"])] {
        if let Some(list) = list.as_array() {
            lines.push((title, list.iter().map(cell).collect::<Vec<_>>().join(", ")));
        }
    }
    if let Some(owners) = metadata["ownerReferences"].as_array() {
        let owner = |one: &Value| format!("{}/{}", cell(&one["kind"]), cell(&one["name"]));
        lines.push(("Owned by", owners.iter().map(owner).collect::<Vec<_>>().join(", ")));
    }
    if let Some(generation) = metadata["generation"].as_i64() {
        let seen = match object["status"]["observedGeneration"].as_i64() {
            Some(observed) if observed < generation => format!(" (acted upon: {observed})"),
            Some(_) | None => String::new(),
        };
        lines.push(("Generation", format!("{generation}{seen}")));
    }
    lines.iter().map(|(title, value)| aligned(title, value)).collect()
}

/// Values of several lines hang under the first.
fn aligned(title: &str, value: &str) -> String {
    let hanging = value.replace('\n', &format!("\n{:13}", ""));
    format!("{:13}{hanging}\n", format!("{title}:"))
}

fn pairs(map: &Value) -> String {
    let Some(map) = map.as_object().filter(|map| !map.is_empty()) else {
        return "<none>".to_owned();
    };
    let lines: Vec<String> =
        map.iter().map(|(key, value)| format!("{}={}", harmless(key), cell(value))).collect();
    lines.join("\n")
}

fn section(key: &str, value: &Value) -> Result<String, Failure> {
    let title = title(key);
    Ok(match value {
        Value::Object(map) if map.is_empty() => String::new(),
        Value::Object(_) | Value::Array(_) => {
            format!("{title}:\n{}", indented(&yaml(value)?))
        }
        scalar => aligned(&title, &cell(scalar)),
    })
}

fn title(key: &str) -> String {
    let mut letters = key.chars();
    match letters.next() {
        Some(first) => harmless(&first.to_uppercase().chain(letters).collect::<String>()),
        None => String::new(),
    }
}

/// Of a secret, only how long each part is.
fn sizes(key: &str, data: &Value) -> String {
    let mut text = format!("{}:\n", title(key));
    for (name, value) in data.as_object().unwrap_or(&Map::new()) {
        let bytes = value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4);
        text.push_str(&format!("  {}: {bytes} bytes\n", harmless(name)));
    }
    text
}

fn condition_grid(conditions: &Value, now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions.as_array().map_or(&[][..], Vec::as_slice) {
        grid.rows.push(vec![
            cell(&condition["type"]),
            cell(&condition["status"]),
            cell(&condition["reason"]),
            moment::age(condition["lastTransitionTime"].as_str().unwrap_or_default(), now),
            cell(&condition["message"]),
        ]);
    }
    grid
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {}\n", harmless(line))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_app_is_described_from_name_to_events() {
        let app = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
            "metadata": {"name": "web", "namespace": "default", "generation": 3,
                "creationTimestamp": "1970-01-01T00:00:00Z", "labels": {"a": "b", "tier": "web"},
                "finalizers": ["x/y"], "managedFields": [{}],
                "ownerReferences": [{"kind": "Site", "name": "s"}]},
            "spec": {"components": [{"name": "front", "image": "nginx"}]},
            "status": {"phase": "Placing", "observedGeneration": 2, "conditions": [
                {"type": "Ready", "status": "False", "reason": "Placing",
                 "lastTransitionTime": "1970-01-01T00:01:00Z", "message": "no node yet"}]},
        });
        let event = json!({"lastTimestamp": "1970-01-01T00:01:00Z", "type": "Normal",
            "reason": "Seen", "involvedObject": {"kind": "App", "name": "web"}, "message": "hello"});
        let now = Timestamp::from_second(90).expect("a valid time");
        let assignment = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment", "metadata": {"name": "a"},
            "spec": {"app": "web", "component": "front", "replica": 0, "site": "s", "node": "crane",
                "engine": "docker", "run": {}},
            "status": {"restarts": 0, "ports": [
                {"port": 81, "published": 20081, "reach": "loopback", "on": "127.0.0.1"},
                {"port": 9},
                {"port": 443, "published": 443, "reach": "public"},
                {"port": 80, "protocol": "http", "published": 20080, "reach": "node", "on": "::1"}]},
        });
        let ports = port_grid(vec![assignment]);
        let text = description(&app, Some(&ports), Some(&[event]), now).expect("printable");
        expect![[r#"
            Name:        web
            Namespace:   default
            Kind:        App (tombolo.dev/v1alpha1)
            Labels:      a=b
                         tier=web
            Annotations: <none>
            Created:     1970-01-01T00:00:00Z (90s ago)
            Finalizers:  x/y
            Owned by:    Site/s
            Generation:  3 (acted upon: 2)
            Spec:
              components:
              - image: nginx
                name: front
            Status:
              observedGeneration: 2
              phase: Placing
            Conditions:
              TYPE    STATUS   REASON    SINCE   MESSAGE
              Ready   False    Placing   30s     no node yet
            Open ports:
              PORT      OPEN TO    AT                NODE    INSTANCE
              443/tcp   public     *:443             crane   web/front/0
              80/http   node       [::1]:20080       crane   web/front/0
              81/tcp    loopback   127.0.0.1:20081   crane   web/front/0
              9/tcp     loopback   -                 crane   web/front/0
            Events:
              LAST SEEN   TYPE     REASON   OBJECT    MESSAGE
              30s         Normal   Seen     app/web   hello
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn a_secret_shows_no_secret() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "type": "Opaque", "data": {"password": "aHVudGVyMg=="}});
        let text = description(&secret, None, None, Timestamp::UNIX_EPOCH).expect("printable");
        expect![[r#"
            Name:        s
            Kind:        Secret (v1)
            Labels:      <none>
            Annotations: <none>
            Data:
              password: 7 bytes
            Type:        Opaque
            Events:  <not readable>
        "#]]
        .assert_eq(&text);
    }
}
