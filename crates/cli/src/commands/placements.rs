//! A plan, as it is printed: where everything goes and why, and what has no place. Called by `match`
//! and `plan`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_model::app::Unplaced;
use tombolo_model::explanation::{
    PlanAnswer, PlannedApp, PlannedInstance, PlannedOutcome, PlannedStep,
};

use crate::{
    failure::Failure,
    output::{self, Format, Paint, harmless, object, painted, table::Grid},
    shell::Shell,
};

/// Which columns are worth their room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    /// Nothing runs yet.
    Places,
    /// Something runs, and there is a step from here to there.
    Steps,
}

/// Whether its Apps are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// There is only one.
    Left,
    Shown,
}

impl Names {
    pub(super) fn of(apps: usize) -> Names {
        if apps > 1 { Names::Shown } else { Names::Left }
    }
}

pub(super) fn print(
    shell: &mut Shell,
    plan: &PlanAnswer,
    names: Names,
    columns: Columns,
    format: Format,
) -> Result<(), Failure> {
    match format {
        Format::Json => shell.out.text(&object::json(&as_json(plan, names, columns))?),
        Format::Table | Format::Wide => {
            let text = for_people(plan, names, columns, format, shell.out.colour);
            shell.out.text(&text)?;
            shell.out.flush()?;
            for line in &plan.notes {
                output::note(&format!("note: {}", harmless(line)));
            }
            if plan.apps.iter().any(|app| app.outcome == PlannedOutcome::Placed) {
                output::note(&quality(plan));
            }
            Ok(())
        }
        Format::Yaml | Format::Name => {
            Err(Failure::usage("a plan is printed as table, wide or json"))
        }
    }
}

/// The form that `match -o json` promises; several apps are told apart by one key more.
fn as_json(plan: &PlanAnswer, names: Names, columns: Columns) -> Value {
    let mut placements = Vec::new();
    let mut unplaced = Vec::new();
    for app in &plan.apps {
        let named = |mut value: Value, list: &mut Vec<Value>| {
            if names == Names::Shown {
                value["app"] = json!(app.app);
            }
            list.push(value);
        };
        for instance in &app.instances {
            named(placement(instance, columns), &mut placements);
        }
        for missing in &app.unplaced {
            named(
                json!({
                    "component": missing.component, "replica": missing.replica,
                    "reasons": missing.reasons, "suggestion": missing.suggestion,
                    "gaveUpAfter": missing.gave_up_after,
                }),
                &mut unplaced,
            );
        }
    }
    json!({
        "feasible": plan.feasible, "objective": plan.objective, "bound": plan.bound,
        "placements": placements, "unplaced": unplaced,
    })
}

fn placement(instance: &PlannedInstance, columns: Columns) -> Value {
    let at = &instance.placement;
    let decision = at.decision.as_ref();
    let mut value = json!({
        "component": at.component, "replica": at.replica, "site": at.site, "node": at.node,
        "engine": at.engine.map(|engine| engine.as_str()),
        "score": decision.and_then(|decision| decision.score),
        "terms": decision.map(|decision| decision.terms.clone()).unwrap_or_default(),
    });
    if columns == Columns::Steps {
        value["step"] = json!(step(instance));
    }
    value
}

fn step(instance: &PlannedInstance) -> String {
    match instance.step {
        PlannedStep::Start => "start".to_owned(),
        PlannedStep::Stay => "stay".to_owned(),
        PlannedStep::Move => {
            format!("move from {}", instance.from.as_deref().unwrap_or_default())
        }
        PlannedStep::Wait => "wait".to_owned(),
    }
}

fn for_people(
    plan: &PlanAnswer,
    names: Names,
    columns: Columns,
    format: Format,
    colour: bool,
) -> String {
    let mut header = vec!["COMPONENT", "REPLICA", "SITE", "NODE", "ENGINE", "SCORE"];
    if names == Names::Shown {
        header.insert(0, "APP");
    }
    if columns == Columns::Steps {
        header.push("STEP");
    }
    header.extend((format == Format::Wide).then_some("TERMS"));
    header.push("WHY");
    let mut grid = Grid::new(&header);
    for app in &plan.apps {
        for instance in &app.instances {
            grid.rows.push(row(app, instance, names, columns, format));
        }
    }
    let mut text = if grid.rows.is_empty() { String::new() } else { grid.to_text() };
    for app in plan.apps.iter().filter(|app| app.outcome != PlannedOutcome::Placed) {
        text.push_str(&without_place(app, names, colour));
    }
    text
}

fn row(
    app: &PlannedApp,
    instance: &PlannedInstance,
    names: Names,
    columns: Columns,
    format: Format,
) -> Vec<String> {
    let at = &instance.placement;
    let decision = at.decision.as_ref();
    let mut cells = Vec::new();
    cells.extend((names == Names::Shown).then(|| harmless(&app.app)));
    cells.extend([harmless(&at.component), at.replica.to_string(), harmless(&at.site)]);
    cells.push(at.node.as_deref().map_or_else(|| "<any>".to_owned(), harmless));
    cells.push(at.engine.map_or_else(|| "<none>".to_owned(), |engine| engine.to_string()));
    let score = decision.and_then(|decision| decision.score);
    cells.push(score.map_or_else(|| "-".to_owned(), |score| format!("{score:.1}")));
    cells.extend((columns == Columns::Steps).then(|| step(instance)));
    if format == Format::Wide {
        let terms = decision.map(|decision| terms(&decision.terms)).unwrap_or_default();
        cells.push(if terms.is_empty() { "-".to_owned() } else { terms });
    }
    let reason = decision.and_then(|decision| decision.reason.as_deref());
    cells.push(reason.map_or_else(|| "runs there".to_owned(), harmless));
    cells
}

/// `energy=61.5,performance=80`.
pub(super) fn terms(terms: &BTreeMap<String, f64>) -> String {
    let each: Vec<String> = terms.iter().map(|(name, score)| format!("{name}={score}")).collect();
    each.join(",")
}

/// Of instances with the same trouble, so many are named.
const NAMES_MAX: usize = 12;

/// Instances with the same trouble are told once.
fn without_place(app: &PlannedApp, names_shown: Names, colour: bool) -> String {
    let mut text = String::new();
    let mut told: Vec<(&Unplaced, Vec<String>)> = Vec::new();
    for one in &app.unplaced {
        let name = format!("{}/{}", one.component, one.replica);
        let alike = told
            .iter_mut()
            .find(|(known, _)| known.reasons == one.reasons && known.suggestion == one.suggestion);
        match alike {
            Some((_, names)) => names.push(name),
            None => told.push((one, vec![name])),
        }
    }
    for (one, mut names) in told {
        let Unplaced { reasons, suggestion, gave_up_after, .. } = one;
        let has = match (gave_up_after, names.len()) {
            (None, 1) => "has no place",
            (None, _) => "have no place",
            (Some(_), 1) => "waits for a place",
            (Some(_), _) => "wait for a place",
        };
        if names.len() > NAMES_MAX {
            let more = names.split_off(NAMES_MAX).len();
            names.push(format!("{more} more"));
        }
        let whose = match names_shown {
            Names::Shown => format!("{}: ", harmless(&app.app)),
            Names::Left => String::new(),
        };
        let line = format!("{whose}{} {has}:", harmless(&names.join(", ")));
        text.push_str(&format!("{}\n", painted(Paint::Red, &line, colour)));
        for reason in reasons {
            text.push_str(&format!("  {}\n", harmless(reason)));
        }
        if let Some(suggestion) = suggestion {
            let line = format!("  {}\n", harmless(suggestion));
            text.push_str(&painted(Paint::Cyan, &line, colour));
        }
    }
    if app.outcome == PlannedOutcome::Kept {
        text.push_str("what runs stays as it is\n");
    }
    text
}

/// How good the plan is, and how surely.
fn quality(plan: &PlanAnswer) -> String {
    let objective = plan.objective;
    if plan.optimal {
        return format!("objective {objective}, proven to be the best");
    }
    #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
    let gap = 100.0 * (plan.bound - objective) as f64 / (plan.bound.abs().max(1)) as f64;
    format!("objective {objective}, at most {gap:.1} % below the best ({})", plan.bound)
}
