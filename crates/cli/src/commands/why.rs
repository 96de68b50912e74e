//! `tombolo why`: the reasons of the past, and what keeps a component off a node now.

use serde_json::{Value, json};
use tombolo_model::App;
use tombolo_model::app::{Decision, Placement, Unplaced};
use tombolo_model::explanation::{AppName, WHY_PATH, WhyAnswer, WhyComponent, WhyRequest};
use tombolo_plan::explaining;

use super::{placements, timeline, world};
use crate::{
    args::{SearchArgs, WhyArgs},
    connection::Connection,
    failure::{Exit, Failure},
    output::{Format, Paint, harmless, object::json as as_text, painted},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &WhyArgs) -> Result<Exit, Failure> {
    let (app, component) = match args.what.split_once('/') {
        Some((app, component)) => (app, Some(component)),
        None => (args.what.as_str(), None),
    };
    if !matches!(args.output, Format::Table | Format::Wide | Format::Json) {
        return Err(Failure::usage("reasons are printed as table or json"));
    }
    let connection = shell.connect().await?;
    match &args.node {
        None => past(shell, args, &connection, app, component).await,
        Some(node) => now(shell, args, &connection, (app, component, node)).await,
    }
}

async fn past(
    shell: &mut Shell,
    args: &WhyArgs,
    connection: &Connection,
    name: &str,
    component: Option<&str>,
) -> Result<Exit, Failure> {
    let resource = connection.resource("app").await?;
    let object = connection.get(&resource.object(&connection.namespace, name)).await?;
    let app = typed(name, object)?;
    known_component(&app, name, component)?;
    let status = app.status.unwrap_or_default();
    let asked = |own: &str| component.is_none_or(|component| component == own);
    let placements: Vec<&Placement> =
        status.placements.iter().filter(|at| asked(&at.component)).collect();
    let unplaced: Vec<&Unplaced> =
        status.unplaced.iter().filter(|one| asked(&one.component)).collect();
    if args.output == Format::Json {
        let value = json!({"app": name, "placements": placements, "unplaced": unplaced,
            "phase": status.phase, "message": status.message});
        shell.out.text(&as_text(&value)?)?;
        return Ok(Exit::Ok);
    }
    // First what somebody asked for and is not so.
    for line in timeline::violations(connection, name).await {
        shell.out.line(&painted(Paint::Red, &line, shell.out.colour))?;
    }
    let phase = status.phase.map_or("Pending", |phase| phase.as_str());
    let message = status.message.as_deref().unwrap_or("nobody has looked at it yet");
    shell.out.line(&format!("{}: {phase}, {}", harmless(name), harmless(message)))?;
    for at in &placements {
        let text = placement(at, shell.out.colour);
        shell.out.text(&text)?;
    }
    for one in &unplaced {
        let is_it = |at: &&&Placement| at.component == one.component && at.replica == one.replica;
        let has = match (placements.iter().find(is_it), one.gave_up_after) {
            (Some(_), None) => "runs there for now, and has no place as it is wanted",
            (Some(_), Some(_)) => "runs there for now, and waits for a place as it is wanted",
            (None, None) => "has no place",
            (None, Some(_)) => "waits for a place",
        };
        let line = format!("{}/{} {has}:", one.component, one.replica);
        shell.out.line(&painted(Paint::Red, &harmless(&line), shell.out.colour))?;
        for reason in one.reasons.iter().chain(&one.suggestion) {
            shell.out.line(&format!("  {}", harmless(reason)))?;
        }
    }
    Ok(Exit::Ok)
}

fn known_component(app: &App, name: &str, component: Option<&str>) -> Result<(), Failure> {
    let Some(component) = component else { return Ok(()) };
    if app.spec.components.iter().any(|own| own.name == component) {
        return Ok(());
    }
    let names: Vec<&str> = app.spec.components.iter().map(|own| own.name.as_str()).collect();
    Err(Failure::new(Exit::NotFound, format!("app {name} has no component {component:?}"))
        .hint(format!("it has {}", names.join(", "))))
}

fn placement(at: &Placement, colour: bool) -> String {
    let node = at.node.as_deref().unwrap_or("any node");
    let line = format!("{}/{} on {node} of {}", at.component, at.replica, at.site);
    let mut text = format!("{}\n", painted(Paint::Green, &harmless(&line), colour));
    let decision = at.decision.clone().unwrap_or_default();
    let Decision { reason, score, terms, alternatives } = decision;
    text.push_str(&format!("  {}\n", harmless(reason.as_deref().unwrap_or("no reason is kept"))));
    if let Some(score) = score {
        text.push_str(&format!("  score {score}: {}\n", placements::terms(&terms)));
    }
    for other in alternatives {
        let node = other.node.unwrap_or(other.site);
        let behind = other.behind.map(behind).unwrap_or_default();
        let reason = other.reason.unwrap_or_default();
        text.push_str(&format!("  not {}:{behind} {}\n", harmless(&node), harmless(&reason)));
    }
    text
}

/// One that scores more by itself would cost the others more than that.
fn behind(points: f64) -> String {
    match points < 0.0 {
        true => format!(" {} better by itself, but", -points),
        false => format!(" {points} behind:"),
    }
}

async fn now(
    shell: &mut Shell,
    args: &WhyArgs,
    connection: &Connection,
    (name, component, node): (&str, Option<&str>, &str),
) -> Result<Exit, Failure> {
    let resource = connection.resource("app").await?;
    let found = connection.find(&resource.object(&connection.namespace, name)).await?;
    let app = AppName { namespace: connection.namespace.clone(), name: name.to_owned() };
    let mut without_place = Vec::new();
    if let Some(found) = found {
        let app = typed(name, found)?;
        known_component(&app, name, component)?;
        let status = app.status.unwrap_or_default();
        without_place.extend(status.unplaced.into_iter().map(|one| one.component));
    }
    let request =
        WhyRequest { app, component: component.map(str::to_owned), node: node.to_owned() };
    let search = SearchArgs { time_limit: None, seed: 0 };
    let asked = world::ask::<WhyAnswer>(connection, WHY_PATH, &request, &search).await?;
    let answer = match asked {
        Some(answer) => answer,
        None => {
            let seen = world::look(connection).await?;
            explaining::why(&seen, &request).map_err(|trouble| world::as_failure(&trouble))?
        }
    };
    if args.output == Format::Json {
        let all = serde_json::to_value(&answer.components)
            .map_err(|error| Failure::failed(format!("cannot write this: {error}")))?;
        shell.out.text(&as_text(&all)?)?;
        return Ok(Exit::Ok);
    }
    for found in &answer.components {
        let text = verdict(found, shell.out.colour);
        shell.out.text(&text)?;
        if found.failing.is_empty() && without_place.contains(&found.component) {
            // What is asked is about this component alone.
            let line = format!("  with the others of {name} it has no place: tombolo why {name}");
            shell.out.line(&line)?;
        }
    }
    Ok(Exit::Ok)
}

fn typed(name: &str, object: Value) -> Result<App, Failure> {
    serde_json::from_value(object)
        .map_err(|error| Failure::failed(format!("app {name} of the server: {error}")))
}

fn verdict(found: &WhyComponent, colour: bool) -> String {
    let (component, node) = (&found.component, &found.node);
    let runs_there = found.instead.iter().any(|other| other.node == *node);
    let mut text = match (found.failing.is_empty(), runs_there) {
        (true, true) => format!("{component} runs on {node}\n"),
        (true, false) => {
            format!("{component} could run on {node} by itself: it meets every need\n")
        }
        (false, _) => {
            let line = format!("{component} cannot run on {node}:");
            format!("{}\n", painted(Paint::Red, &line, colour))
        }
    };
    for failing in &found.failing {
        text.push_str(&format!("  {}\n", harmless(failing)));
    }
    if let Some(struck) = &found.struck {
        text.push_str(&format!("  {}\n", harmless(struck)));
    }
    text.push_str(&format!("  score {}: {}\n", found.score, placements::terms(&found.terms)));
    for other in found.instead.iter().filter(|other| other.node != *node) {
        text.push_str(&format!("  it runs on {}, score {}\n", harmless(&other.node), other.score));
    }
    text
}
