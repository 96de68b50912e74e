//! `tombolo rollout`: follows a change of an App, lists what it was before, and takes a change back.

use serde_json::{Value, json};

use super::{
    history::{self, History},
    selection::{name_of, namespace_of},
    wait::{self, Goal, Step, Subject},
};
use crate::{
    args::RolloutCommand,
    catalogue,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    moment,
    output::{harmless, note, object::yaml, table::Grid},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, command: &RolloutCommand) -> Result<Exit, Failure> {
    match command {
        RolloutCommand::Status { app, timeout } => {
            let connection = shell.connect().await?;
            let resource = catalogue::known("App");
            let namespace = connection.namespace.clone();
            let subject =
                Subject { resource: &resource, namespace: &namespace, name: app, uid: None };
            let steps = ["status", "phase"].map(|key| Step::Key(key.to_owned()));
            let goal = Goal::Field { path: steps.to_vec(), value: Some("Running".to_owned()) };
            wait::until(&connection, &subject, &goal, *timeout).await?;
            let found = connection.get(&resource.object(&namespace, app)).await?;
            let ready = found["status"]["ready"].as_str().unwrap_or("all");
            shell.out.line(&format!(
                "app/{app} runs as generation {}: {ready} instances are up",
                found["metadata"]["generation"]
            ))?;
        }
        RolloutCommand::History { app, generation } => {
            let connection = shell.connect().await?;
            let (found, history) = look(&connection, app).await?;
            let text = match generation {
                None => listed(&found, &history),
                Some(generation) => yaml(&file(&found, spec_of(&found, &history, *generation)?))?,
            };
            shell.out.text(&text)?;
            if generation.is_none() && history.is_empty() {
                note("there are no earlier versions: this shell has not changed it yet");
            }
        }
        RolloutCommand::Undo { app, to_generation } => {
            let connection = shell.connect().await?;
            let (found, history) = look(&connection, app).await?;
            let generation = match to_generation {
                Some(generation) => *generation,
                None => latest_other(&found, &history).ok_or_else(|| {
                    Failure::new(Exit::NotFound, format!("no earlier version of app {app} is kept"))
                        .hint("only versions that a command of this shell replaced are kept")
                })?,
            };
            let spec = spec_of(&found, &history, generation)?;
            if *spec == found["spec"] {
                shell.out.line(&format!("app/{app} is what it was as generation {generation}"))?;
                return Ok(Exit::Ok);
            }
            undo(&connection, &found, spec).await?;
            shell.out.line(&format!("app/{app} is back to generation {generation}"))?;
            note(&format!("`tombolo rollout status {app}` waits until it runs"));
        }
    }
    Ok(Exit::Ok)
}

async fn look(connection: &Connection, app: &str) -> Result<(Value, History), Failure> {
    let path = catalogue::known("App").object(&connection.namespace, app);
    let found = connection.get(&path).await?;
    let history = history::read(connection, &connection.namespace, app).await?;
    Ok((found, history))
}

/// How often a lost race is run again.
const PUTS_MAX: u32 = 10;

/// As `tombolo apply` would of the file of that time, so that the next apply finds its own fields. What
/// others have added since goes as well.
async fn undo(connection: &Connection, found: &Value, spec: &Value) -> Result<(), Failure> {
    let path = catalogue::known("App").object(namespace_of(found), name_of(found));
    let query = Query::default().with("fieldManager", "tombolo").with("force", "true");
    let mut after = connection.apply(&query.after(&path), &file(found, spec)).await?;
    let query = Query::default().with("fieldManager", "tombolo-rollout").after(&path);
    let mut tries = PUTS_MAX;
    while tries > 0 && after["spec"] != *spec {
        let generation = generation_of(&after);
        after["spec"] = spec.clone();
        (after, tries) = match connection.put(&query, &after).await {
            // What has come meanwhile is a status: the server tells of an App all the time.
            Err(failure) if failure.exit == Exit::Conflict && tries > 1 => {
                let now = connection.get(&path).await?;
                if generation_of(&now) != generation {
                    return Err(failure);
                }
                (now, tries - 1)
            }
            put => (put?, 0),
        };
    }
    history::keep(connection, found, &after).await;
    Ok(())
}

fn file(app: &Value, spec: &Value) -> Value {
    let metadata = json!({"name": name_of(app), "namespace": namespace_of(app)});
    json!({"apiVersion": app["apiVersion"], "kind": "App", "metadata": metadata, "spec": spec})
}

fn generation_of(app: &Value) -> i64 {
    app["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// The latest that was something else.
fn latest_other(app: &Value, history: &History) -> Option<i64> {
    let earlier = history.range(..generation_of(app)).rev();
    earlier.filter(|(_, kept)| kept.spec != app["spec"]).map(|(generation, _)| *generation).next()
}

fn spec_of<'a>(
    app: &'a Value,
    history: &'a History,
    generation: i64,
) -> Result<&'a Value, Failure> {
    if generation == generation_of(app) {
        return Ok(&app["spec"]);
    }
    history.get(&generation).map(|kept| &kept.spec).ok_or_else(|| {
        let message = format!("generation {generation} of app {} is not kept", name_of(app));
        Failure::new(Exit::NotFound, message).hint(match history.is_empty() {
            true => "only versions that a command of this shell replaced are kept".to_owned(),
            false => {
                let all: Vec<String> = history.keys().map(i64::to_string).collect();
                format!("these are: {}", all.join(", "))
            }
        })
    })
}

fn listed(app: &Value, history: &History) -> String {
    let now = moment::now();
    let mut grid = Grid::new(&["GENERATION", "REPLACED", "COMPONENTS"]);
    for (generation, kept) in history.range(..generation_of(app)) {
        let age = format!("{} ago", moment::age(&kept.replaced_at, now));
        grid.rows.push(vec![generation.to_string(), age, components(&kept.spec)]);
    }
    let own = vec![generation_of(app).to_string(), "-".to_owned(), components(&app["spec"])];
    grid.rows.push(own);
    grid.to_text()
}

/// `web×2 nginx:1.27, store×1 /usr/bin/store`.
fn components(spec: &Value) -> String {
    let all = spec["components"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |component: &Value| {
        let run = &component["run"][0];
        let command = || run["process"]["command"][0].as_str();
        let what = run["container"]["image"].as_str().or_else(command).unwrap_or_default();
        let name = component["name"].as_str().unwrap_or_default();
        let count = component["replicas"].as_u64().unwrap_or(1);
        harmless(format!("{name}×{count} {what}").trim_end())
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::history::Kept;
    use super::*;

    fn app(generation: i64, image: &str) -> Value {
        json!({"apiVersion": "v", "metadata": {"name": "shop", "generation": generation},
            "spec": spec(image)})
    }

    fn spec(image: &str) -> Value {
        json!({"components": [{"name": "web", "run": [{"container": {"image": image}}]}]})
    }

    fn kept(image: &str) -> Kept {
        Kept { spec: spec(image), replaced_at: String::new() }
    }

    #[test]
    fn the_latest_that_was_something_else_comes_back() {
        let history = History::from([(1, kept("a")), (2, kept("b")), (3, kept("c"))]);
        assert_eq!(latest_other(&app(4, "c"), &history), Some(2), "3 was the same");
        assert_eq!(latest_other(&app(4, "d"), &history), Some(3));
        assert_eq!(latest_other(&app(1, "a"), &history), None);
        assert_eq!(latest_other(&app(4, "d"), &History::new()), None);
    }

    #[test]
    fn whoever_names_what_is_not_kept_is_told_what_is() {
        let history = History::from([(1, kept("a")), (2, kept("b"))]);
        let app = app(4, "d");
        assert_eq!(spec_of(&app, &history, 2).ok(), Some(&spec("b")));
        assert_eq!(spec_of(&app, &history, 4).ok(), Some(&spec("d")));
        let failure = spec_of(&app, &history, 3).expect_err("it is not kept");
        assert_eq!(failure.hint.as_deref(), Some("these are: 1, 2"));
        assert_eq!(components(&spec("nginx:1")), "web×1 nginx:1");
    }
}
