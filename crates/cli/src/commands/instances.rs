//! Which instances are meant by `APP[/COMPONENT[/REPLICA]]`: for `logs`, `exec` and `port-forward`.
//! Start at [`find`]; what is chosen and how a mistake is explained is pure.

use tombolo_model::condition::{self, ConditionStatus};
use tombolo_model::{App, Assignment};

use super::selection::{self, CHUNK_SIZE};
use crate::{
    catalogue,
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    output::note,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) app: String,
    pub(super) component: Option<String>,
    pub(super) replica: Option<u32>,
}

pub(super) fn parse(word: &str) -> Result<Wanted, Failure> {
    let wrong = || {
        Failure::usage(format!("`{word}` is not APP, APP/COMPONENT or APP/COMPONENT/REPLICA"))
            .hint("for example `shop`, `shop/web` or `shop/web/0`")
    };
    let parts: Vec<&str> = word.split('/').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(wrong());
    }
    let own = |text: &str| text.to_owned();
    match parts.as_slice() {
        [app] => Ok(Wanted { app: own(app), component: None, replica: None }),
        [app, component] => {
            Ok(Wanted { app: own(app), component: Some(own(component)), replica: None })
        }
        [app, component, replica] => {
            let replica = Some(replica.parse().map_err(|_| wrong())?);
            Ok(Wanted { app: own(app), component: Some(own(component)), replica })
        }
        _ => Err(wrong()),
    }
}

/// What a look for instances came to.
pub(super) enum Look {
    /// By component and number; at least one.
    Found(Vec<Assignment>),
    /// The App wants them, and they are still to come.
    NotYet(Failure),
}

/// The instances that are meant, if there are any now.
pub(super) async fn find(
    connection: &Connection,
    wanted: &Wanted,
) -> Result<Vec<Assignment>, Failure> {
    match look(connection, wanted).await? {
        Look::Found(found) => Ok(found),
        Look::NotYet(failure) => Err(failure),
    }
}

pub(super) async fn look(connection: &Connection, wanted: &Wanted) -> Result<Look, Failure> {
    let all = of_app(connection, &wanted.app).await?;
    let meant: Vec<Assignment> = all.iter().filter(|one| wanted.means(one)).cloned().collect();
    if !meant.is_empty() {
        return Ok(Look::Found(meant));
    }
    let path = catalogue::known("App").object(&connection.namespace, &wanted.app);
    let app = connection.find(&path).await?;
    let app = app.and_then(|app| serde_json::from_value::<App>(app).ok());
    match never(wanted, &all, app.as_ref()) {
        Some(failure) if app.is_none() && all.is_empty() => {
            Err(connection.elsewhere(&path, failure).await)
        }
        Some(failure) => Err(failure),
        None => Ok(Look::NotYet(not_yet(wanted, app.as_ref()))),
    }
}

/// All instances of an App.
pub(super) async fn of_app(connection: &Connection, app: &str) -> Result<Vec<Assignment>, Failure> {
    let resource = catalogue::known("Assignment");
    let path = resource.collection(Some(&connection.namespace));
    let query = Query::default().with("fieldSelector", format!("spec.app={app}"));
    let list = selection::list(connection, &path, &query, JSON, CHUNK_SIZE).await?;
    let mut found: Vec<Assignment> = selection::items(&resource, list)
        .into_iter()
        .filter_map(|item| serde_json::from_value(item).ok())
        .collect();
    found.sort_by_key(|one| {
        (one.spec.component.clone(), one.spec.replica, one.metadata.name.clone())
    });
    Ok(found)
}

/// The one that is meant, for commands that take no more. Of several of one component, one that is up.
pub(super) fn one(
    mut found: Vec<Assignment>,
    wanted: &Wanted,
    command: &str,
) -> Result<Assignment, Failure> {
    // One that is on its way out has made room for another.
    if found.iter().any(|one| one.metadata.deletion_timestamp.is_none()) {
        found.retain(|one| one.metadata.deletion_timestamp.is_none());
    }
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    let names: Vec<String> = found
        .iter()
        .map(|one| match place(one) {
            Some(node) => format!("{} on {node}", path(one)),
            None => path(one),
        })
        .collect();
    let what = match &wanted.component {
        Some(component) => format!("{}/{component}", wanted.app),
        None => wanted.app.clone(),
    };
    let first = found.first().map(path).unwrap_or_default();
    let is_one_component =
        found.windows(2).all(|two| two[0].spec.component == two[1].spec.component);
    // Copies of one program: any of them will do, the best first.
    if wanted.replica.is_none() && is_one_component && !found.is_empty() {
        let up = found.iter().position(is_up).unwrap_or_default();
        let chosen = found.remove(up);
        note(&format!("{what} has {} instances; this is {}", names.len(), names[up]));
        return Ok(chosen);
    }
    Err(Failure::usage(format!("{what} has {} instances: {}", found.len(), names.join(", ")))
        .hint(format!("say which one: tombolo {command} {first} …")))
}

fn is_up(assignment: &Assignment) -> bool {
    let status = assignment.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let available = condition::find(conditions, condition::AVAILABLE);
    available.is_some_and(|available| available.status == ConditionStatus::True)
}

impl Wanted {
    pub(super) fn means(&self, assignment: &Assignment) -> bool {
        let spec = &assignment.spec;
        self.component.as_ref().is_none_or(|component| *component == spec.component)
            && self.replica.is_none_or(|replica| replica == spec.replica)
    }
}

/// `web-0`, as it stands before its lines.
pub(super) fn label(assignment: &Assignment) -> String {
    format!("{}-{}", assignment.spec.component, assignment.spec.replica)
}

/// `shop/web/0`, as it is typed.
pub(super) fn path(assignment: &Assignment) -> String {
    let spec = &assignment.spec;
    format!("{}/{}/{}", spec.app, spec.component, spec.replica)
}

pub(super) fn name(assignment: &Assignment) -> &str {
    assignment.metadata.name.as_deref().unwrap_or_default()
}

/// The path of a subresource on the server.
pub(super) fn subresource(connection: &Connection, assignment: &Assignment, what: &str) -> String {
    let object = catalogue::known("Assignment").object(&connection.namespace, name(assignment));
    format!("{object}/{what}")
}

fn place(assignment: &Assignment) -> Option<&str> {
    let agent = assignment.status.as_ref().and_then(|status| status.agent.as_deref());
    assignment.spec.node.as_deref().or(agent)
}

/// What the server answers when there is no instance to ask.
pub(super) const STATUS_NOT_RUNNING: u16 = 409;

/// A failure with what the agent says about why it does not run, and where else to look.
pub(super) fn explained(failure: Failure, assignment: &Assignment, hint: &str) -> Failure {
    if failure.status != STATUS_NOT_RUNNING {
        return failure;
    }
    let path = path(assignment);
    let why = complaint(assignment).unwrap_or_else(|| failure.message.clone());
    let message = format!("{path} is not running: {}", why.trim_end_matches('.'));
    Failure { message, ..failure }.hint(hint)
}

/// For commands that need it to run.
pub(super) const HINT: &str =
    "`tombolo logs` shows how its last run ended, `tombolo events` what happened";
/// For its log.
pub(super) const HINT_OF_LOGS: &str =
    "`tombolo why` says what keeps it, `tombolo events` what happened";

/// Why it does not run, in the words of its agent; nothing if nobody says.
fn complaint(assignment: &Assignment) -> Option<String> {
    let status = assignment.status.as_ref()?;
    let condition = |kind: &str, value: &str| {
        let found = status.conditions.iter().find(|one| one.kind == kind)?;
        let said = (found.status.as_str() == value).then(|| found.message.clone());
        said.filter(|message| !message.is_empty())
    };
    condition("Degraded", "True").or_else(|| condition("Available", "False"))
}

/// Why there is nothing that could be meant, unless it is still to come.
fn never(wanted: &Wanted, all: &[Assignment], app: Option<&App>) -> Option<Failure> {
    let Wanted { app: name, component, replica } = wanted;
    let not_found = |message: String, hint: &str| {
        Some(Failure::new(Exit::NotFound, message).hint(hint.to_owned()))
    };
    let mut components: Vec<&str> = match app {
        Some(app) => app.spec.components.iter().map(|own| own.name.as_str()).collect(),
        None => all.iter().map(|one| one.spec.component.as_str()).collect(),
    };
    components.dedup();
    if app.is_none() && all.is_empty() {
        return not_found(format!("there is no app {name:?}"), "`tombolo get apps` lists them");
    }
    if let Some(component) = component
        && !components.contains(&component.as_str())
    {
        let hint = format!("it has {}", components.join(", "));
        return not_found(format!("app {name} has no component {component:?}"), &hint);
    }
    let what = component.as_ref().map_or(name.clone(), |component| format!("{name}/{component}"));
    let same = |one: &&Assignment| component.as_deref().is_none_or(|own| own == one.spec.component);
    let replicas: Vec<String> =
        all.iter().filter(same).map(|one| one.spec.replica.to_string()).collect();
    if let (Some(replica), false) = (replica, replicas.is_empty()) {
        let hint = format!("it has {}", replicas.join(", "));
        return not_found(format!("{what} has no instance {replica}"), &hint);
    }
    None
}

fn not_yet(wanted: &Wanted, app: Option<&App>) -> Failure {
    let what = match &wanted.component {
        Some(component) => format!("{}/{component}", wanted.app),
        None => wanted.app.clone(),
    };
    let status = app.and_then(|app| app.status.as_ref());
    let said =
        status.and_then(|status| status.message.as_deref()).unwrap_or("it is not placed yet");
    let message = format!("{what} runs nowhere yet: {}", said.trim_end_matches('.'));
    Failure::new(Exit::NotFound, message).hint(format!("`tombolo why {what}` says more"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    /// `web/0@crane` is instance 0 of `web` on node `crane`.
    fn assignments(texts: &[&str]) -> Vec<Assignment> {
        let read = |text: &&str| {
            let (path, node) = text.split_once('@').unwrap();
            let (component, replica) = path.split_once('/').unwrap();
            serde_json::from_value(json!({
                "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
                "metadata": {"name": format!("shop-{component}-{replica}")},
                "spec": {"app": "shop", "component": component,
                    "replica": replica.parse::<u32>().unwrap(), "site": "north", "node": node,
                    "engine": "host", "run": {"process": {"command": ["true"]}}},
            }))
            .unwrap()
        };
        texts.iter().map(read).collect()
    }

    fn text(failure: &Failure) -> String {
        let hint = failure.hint.as_deref().unwrap_or_default();
        format!("{}: {}\n{hint}", failure.exit.code(), failure.message)
    }

    #[track_caller]
    fn check_none(word: &str, all: &[&str], expect: Expect) {
        let wanted = parse(word).unwrap();
        let failure = never(&wanted, &assignments(all), None);
        expect.assert_eq(&text(&failure.unwrap_or_else(|| not_yet(&wanted, None))));
    }

    #[test]
    fn an_instance_is_named_by_app_component_and_number() {
        let wanted = parse("shop/web/2").unwrap();
        assert_eq!((wanted.component.as_deref(), wanted.replica), (Some("web"), Some(2)));
        assert_eq!(parse("shop").unwrap().component, None);
        for wrong in ["", "/", "shop/", "shop/web/x", "shop/web/-1", "a/b/0/c"] {
            assert_eq!(parse(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn whoever_means_nothing_is_told_what_there_is() {
        check_none(
            "shop/web",
            &[],
            expect![[r#"
            3: there is no app "shop"
            `tombolo get apps` lists them"#]],
        );
        check_none(
            "shop/wab",
            &["web/0@crane", "web/1@dock", "store/0@dock"],
            expect![[r#"
            3: app shop has no component "wab"
            it has web, store"#]],
        );
        check_none(
            "shop/web/7",
            &["web/0@crane", "web/1@dock"],
            expect![[r#"
            3: shop/web has no instance 7
            it has 0, 1"#]],
        );
    }

    #[test]
    fn several_instances_are_listed_with_how_to_choose() {
        let found = assignments(&["store/0@crane", "web/1@dock"]);
        let failure = one(found, &parse("shop").unwrap(), "exec").unwrap_err();
        expect![[r#"
            2: shop has 2 instances: shop/store/0 on crane, shop/web/1 on dock
            say which one: tombolo exec shop/store/0 …"#]]
        .assert_eq(&text(&failure));
        let mut copies = assignments(&["web/0@crane", "web/1@dock"]);
        let up = json!({"conditions": [{"type": "Available", "status": "True", "reason": "Running",
            "message": "", "lastTransitionTime": "2026-06-01T00:00:00Z"}]});
        copies[1].status = serde_json::from_value(up).unwrap();
        let chosen = one(copies, &parse("shop/web").unwrap(), "exec").unwrap();
        assert_eq!(path(&chosen), "shop/web/1", "one that is up");
        let found = assignments(&["web/1@dock"]);
        assert_eq!(path(&one(found, &parse("shop").unwrap(), "exec").unwrap()), "shop/web/1");
    }
}
