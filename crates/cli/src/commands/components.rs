//! `tombolo scale`, `restart` and `rebalance`: one field of some components of an App is changed, and nothing
//! else of it is touched.

use serde_json::{Value, json};

use super::history;
use crate::{
    args::{RebalanceArgs, RestartArgs, ScaleArgs},
    catalogue,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    moment,
    output::note,
    shell::Shell,
};

/// A field of some components, with its new value.
struct Change {
    app: String,
    /// All components if there are none.
    components: Vec<String>,
    field: &'static str,
    value: Value,
    /// As whom the server remembers it, so that a later conflict says where it comes from.
    manager: &'static str,
}

pub(super) async fn scale(shell: &mut Shell, args: &ScaleArgs) -> Result<Exit, Failure> {
    let wanted: Vec<(String, String, u32)> =
        args.what.iter().map(|word| parse_scale(word)).collect::<Result<_, _>>()?;
    let connection = shell.connect().await?;
    for (app, component, count) in wanted {
        let change = Change {
            app: app.clone(),
            components: vec![component.clone()],
            field: "replicas",
            value: count.into(),
            manager: "tombolo-scale",
        };
        let after = make(&connection, &change).await?;
        let done = if after.changed { "scaled to" } else { "has" };
        shell.out.line(&format!("{app}/{component} {done} {}", instances(count)))?;
    }
    Ok(Exit::Ok)
}

pub(super) async fn restart(shell: &mut Shell, args: &RestartArgs) -> Result<Exit, Failure> {
    let app = stamp(shell, &args.what, "restartedAt", "tombolo-restart").await?;
    shell.out.line(&format!("{} is being restarted", args.what))?;
    note(&format!("`tombolo rollout status {app}` waits for the end"));
    Ok(Exit::Ok)
}

pub(super) async fn rebalance(shell: &mut Shell, args: &RebalanceArgs) -> Result<Exit, Failure> {
    let app = stamp(shell, &args.what, "rebalancedAt", "tombolo-rebalance").await?;
    shell.out.line(&format!("{} may move to better places", args.what))?;
    note(&format!("`tombolo describe app {app}` says what moves and why"));
    Ok(Exit::Ok)
}

/// Writes the time into a field of the components of `APP` or `APP/COMPONENT`. Returns the App.
async fn stamp<'w>(
    shell: &mut Shell,
    what: &'w str,
    field: &'static str,
    manager: &'static str,
) -> Result<&'w str, Failure> {
    let (app, component) = match what.split_once('/') {
        Some((app, component)) => (app, Some(component)),
        None => (what, None),
    };
    if app.is_empty() || component.is_some_and(|name| name.is_empty() || name.contains('/')) {
        return Err(Failure::usage(format!("`{what}` is not APP or APP/COMPONENT")));
    }
    let connection = shell.connect().await?;
    let change = Change {
        app: app.to_owned(),
        components: component.map(str::to_owned).into_iter().collect(),
        field,
        value: moment::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
        manager,
    };
    make(&connection, &change).await?;
    Ok(app)
}

fn instances(count: u32) -> String {
    match count {
        1 => "1 instance".to_owned(),
        count => format!("{count} instances"),
    }
}

fn parse_scale(word: &str) -> Result<(String, String, u32), Failure> {
    let wrong = || {
        Failure::usage(format!("`{word}` is not APP/COMPONENT=N"))
            .hint("for example `tombolo scale shop/web=3`")
    };
    let (path, count) = word.split_once('=').ok_or_else(wrong)?;
    let (app, component) = path.split_once('/').ok_or_else(wrong)?;
    match app.is_empty() || component.is_empty() || component.contains('/') {
        true => Err(wrong()),
        false => Ok((app.to_owned(), component.to_owned(), count.parse().map_err(|_| wrong())?)),
    }
}

struct Made {
    changed: bool,
}

async fn make(connection: &Connection, change: &Change) -> Result<Made, Failure> {
    let path = catalogue::known("App").object(&connection.namespace, &change.app);
    let before = connection.get(&path).await?;
    let patch = patch(&before, change)?;
    let query = Query::default().with("fieldManager", change.manager);
    let after = connection.patch(&query.after(&path), &patch).await?;
    history::keep(connection, &before, &after).await;
    Ok(Made { changed: before["spec"] != after["spec"] })
}

/// A JSON patch. That each component still stands where it stood is tested by the server.
fn patch(app: &Value, change: &Change) -> Result<Value, Failure> {
    let components = app["spec"]["components"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
    for wanted in &change.components {
        if !names.contains(&wanted.as_str()) {
            let message = format!("app {} has no component {wanted:?}", change.app);
            let hint = format!("it has {}", names.join(", "));
            return Err(Failure::new(Exit::NotFound, message).hint(hint));
        }
    }
    let mut steps = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let meant = change.components.is_empty() || change.components.iter().any(|it| it == name);
        if meant {
            let at = format!("/spec/components/{index}");
            steps.push(json!({"op": "test", "path": format!("{at}/name"), "value": name}));
            let path = format!("{at}/{}", change.field);
            steps.push(json!({"op": "add", "path": path, "value": change.value}));
        }
    }
    Ok(Value::Array(steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_and_a_number_are_read() {
        assert_eq!(parse_scale("shop/web=3").ok(), Some(("shop".to_owned(), "web".to_owned(), 3)));
        for wrong in ["shop/web", "shop=3", "shop/=3", "shop/web=-1", "shop/web/0=3", "/web=1"] {
            assert_eq!(
                parse_scale(wrong).map_err(|failure| failure.exit),
                Err(Exit::Usage),
                "{wrong}"
            );
        }
    }

    fn change(components: &[&str]) -> Change {
        Change {
            app: "shop".to_owned(),
            components: components.iter().map(|name| (*name).to_owned()).collect(),
            field: "replicas",
            value: 3.into(),
            manager: "tombolo-scale",
        }
    }

    #[test]
    fn only_the_component_that_is_meant_is_changed() {
        let app = json!({"spec": {"components": [{"name": "web"}, {"name": "store"}]}});
        let one = patch(&app, &change(&["store"])).expect("it is there");
        assert_eq!(
            one,
            json!([
                {"op": "test", "path": "/spec/components/1/name", "value": "store"},
                {"op": "add", "path": "/spec/components/1/replicas", "value": 3},
            ])
        );
        let all = patch(&app, &change(&[])).expect("all are there");
        assert_eq!(all.as_array().map(Vec::len), Some(4));
        let missing = patch(&app, &change(&["wab"])).expect_err("there is none");
        assert_eq!(missing.hint.as_deref(), Some("it has web, store"));
    }
}
