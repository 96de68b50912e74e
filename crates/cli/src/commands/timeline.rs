//! `tombolo timeline`, `suggestions`, `accept` and `dismiss`: what policies did, what they would do, and what a person says to
//! it. All of it is in the statuses of Policies.

use jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_model::keys::{ANNOTATION_ACCEPT, ANNOTATION_DISMISS};

use super::selection::{name_of, namespace_of};
use crate::{
    args::{AcceptArgs, DismissArgs, SuggestionsArgs, TimelineArgs},
    catalogue,
    connection::Connection,
    failure::{Exit, Failure},
    moment,
    output::{Format, harmless, object, table::Grid},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &TimelineArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let now = moment::now();
    let policies = policies(&connection).await?;
    let mut steps = steps(&policies, args.about.as_deref());
    if let Some(since) = args.since {
        let young = |step: &Value| {
            let at: Option<Timestamp> = step["at"].as_str().and_then(|at| at.parse().ok());
            at.is_none_or(|at| now.duration_since(at).unsigned_abs() <= since)
        };
        steps.retain(young);
    }
    print(shell, args.output, &steps, |steps| {
        let mut grid =
            Grid::new(&["AGE", "POLICY", "SUBJECT", "ACTION", "STATE", "WHY", "WHAT CAME OF IT"]);
        for step in steps {
            let age = moment::age(step["at"].as_str().unwrap_or_default(), now);
            let mut row = vec![age];
            let keys = ["policy", "subject", "action", "state", "message", "outcome"];
            row.extend(keys.iter().map(|key| text(&step[*key])));
            grid.rows.push(row);
        }
        grid
    })
}

pub(super) async fn suggestions(
    shell: &mut Shell,
    args: &SuggestionsArgs,
) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let policies = policies(&connection).await?;
    let all = of_each(&policies, "suggestions");
    print(shell, args.output, &all, |all| {
        let mut grid = Grid::new(&["ID", "POLICY", "SUBJECT", "ACTION", "VALUE", "LIMIT", "UNTIL"]);
        for one in all {
            let keys = ["id", "policy", "subject", "action", "value", "threshold", "expires"];
            grid.rows.push(keys.iter().map(|key| text(&one[*key])).collect());
        }
        grid
    })
}

pub(super) async fn accept(shell: &mut Shell, args: &AcceptArgs) -> Result<Exit, Failure> {
    answer(shell, &args.id, ANNOTATION_ACCEPT).await
}

pub(super) async fn dismiss(shell: &mut Shell, args: &DismissArgs) -> Result<Exit, Failure> {
    answer(shell, &args.id, ANNOTATION_DISMISS).await
}

/// The answer is written on the policy, where the loop finds it.
async fn answer(shell: &mut Shell, id: &str, key: &str) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let policies = policies(&connection).await?;
    let is_its = |policy: &&Value| {
        let own = policy["status"]["suggestions"].as_array();
        own.is_some_and(|own| own.iter().any(|one| one["id"] == id))
    };
    let Some(policy) = policies.iter().find(is_its) else {
        let message = format!("there is no suggestion {id} in namespace {}", connection.namespace);
        return Err(Failure::new(Exit::NotFound, message).hint(
            "`tombolo suggestions` lists them; one that nobody answers is void after an hour",
        ));
    };
    let before = policy["metadata"]["annotations"][key].as_str().unwrap_or_default();
    let ids: Vec<&str> = before.split(',').filter(|one| !one.is_empty() && *one != id).collect();
    let ids = ids.into_iter().chain([id]).collect::<Vec<&str>>().join(",");
    let change = json!({"metadata": {
        "resourceVersion": policy["metadata"]["resourceVersion"], "annotations": {key: ids},
    }});
    let path = catalogue::known("Policy").object(namespace_of(policy), name_of(policy));
    connection.merge(&path, &change).await?;
    let word = if key == ANNOTATION_ACCEPT { "accepted" } else { "dismissed" };
    shell.out.line(&format!("suggestion {id} of policy/{} {word}", name_of(policy)))?;
    Ok(Exit::Ok)
}

async fn policies(connection: &Connection) -> Result<Vec<Value>, Failure> {
    let path = catalogue::known("Policy").collection(Some(&connection.namespace));
    let mut list = connection.get(&path).await?;
    let items = list["items"].as_array_mut().map(std::mem::take);
    Ok(items.unwrap_or_default())
}

/// What is in the statuses below a key, each with the name of its policy.
fn of_each(policies: &[Value], key: &str) -> Vec<Value> {
    let each = policies.iter().flat_map(|policy| {
        let own = policy["status"][key].as_array().map_or(&[][..], Vec::as_slice);
        own.iter().map(|one| {
            let mut one = one.clone();
            one["policy"] = json!(name_of(policy));
            one
        })
    });
    each.collect()
}

/// Steps of all policies, the oldest first.
fn steps(policies: &[Value], about: Option<&str>) -> Vec<Value> {
    let mut steps = of_each(policies, "steps");
    if let Some(about) = about {
        steps.retain(|step| ["app", "node", "policy"].iter().any(|key| step[*key] == about));
    }
    steps.sort_by_key(|step| step["at"].as_str().unwrap_or_default().to_owned());
    steps
}

/// What an App is told first: its policies that are violated, a line each.
pub(super) async fn violations(connection: &Connection, app: &str) -> Vec<String> {
    // Whoever may read Apps may read Policies; who may not is told the rest.
    let policies = policies(connection).await.unwrap_or_default();
    let mut lines = Vec::new();
    for policy in &policies {
        let own = policy["status"]["violations"].as_array().map_or(&[][..], Vec::as_slice);
        let subject = format!("app/{app}");
        let within = format!("{subject}/");
        let is_its = |one: &&Value| {
            let of = one["subject"].as_str().unwrap_or_default();
            of == subject || of.starts_with(&within)
        };
        for one in own.iter().filter(is_its) {
            let name = harmless(name_of(policy));
            lines.push(format!(
                "{} violates policy {name}: {}",
                text(&one["subject"]),
                text(&one["message"])
            ));
            let steps = policy["status"]["steps"].as_array().map_or(&[][..], Vec::as_slice);
            let last = steps.iter().rev().find(|step| step["subject"] == one["subject"]);
            lines.push(match last {
                Some(step) => format!(
                    "  {} was {}: {}",
                    text(&step["action"]),
                    text(&step["state"]),
                    text(&step["message"])
                ),
                None => "  nothing was done about it".to_owned(),
            });
        }
    }
    lines
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => harmless(text),
        other => other.to_string(),
    }
}

fn print(
    shell: &mut Shell,
    output: Format,
    all: &[Value],
    grid: impl Fn(&[Value]) -> Grid,
) -> Result<Exit, Failure> {
    let value = json!(all);
    match output {
        Format::Json => shell.out.text(&object::json(&value)?)?,
        Format::Yaml => shell.out.text(&object::yaml(&value)?)?,
        Format::Table | Format::Wide => {
            let text = grid(all).to_coloured_text(shell.out.colour);
            shell.out.text(&text)?;
        }
        Format::Name => return Err(Failure::usage("this is printed as table, yaml or json")),
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, steps: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "ns"}, "status": {"steps": steps}})
    }

    #[test]
    fn steps_of_all_policies_come_in_the_order_of_time() {
        let quick = policy(
            "quick",
            &json!([
                {"id": "2", "at": "2026-01-01T00:00:02Z", "app": "shop"},
                {"id": "4", "at": "2026-01-01T00:00:04Z", "app": "other"},
            ]),
        );
        let safe =
            policy("safe", &json!([{"id": "3", "at": "2026-01-01T00:00:03Z", "node": "n1"}]));
        let policies = [quick, safe];
        let ids = |about: Option<&str>| -> Vec<String> {
            steps(&policies, about).iter().map(|step| text(&step["id"])).collect()
        };
        assert_eq!(ids(None), ["2", "3", "4"]);
        assert_eq!(ids(Some("shop")), ["2"]);
        assert_eq!(ids(Some("n1")), ["3"]);
        assert_eq!(ids(Some("quick")), ["2", "4"]);
    }
}
