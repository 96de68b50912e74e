//! `tombolo bench feasible`: problems that have an answer, and how many of them are called impossible, which none may be.
//! Then some that may have none: whatever is called impossible is tried in full. Both are made and judged as documents,
//! by code that shares nothing with the matchmaker's. Start reading at [`run`].

mod judge;
mod make;

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_model::{App, Link, Node, Site};
use tombolo_placement::plan::{AppPlan, Outcome};
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, plan};

use crate::numbers::rounded;
use crate::placement::on_processor;
use judge::{Judge, Tried};
use make::{Dice, Kind, Made, Size, made};

pub(crate) const PROBLEMS_USUAL: usize = 2_000;
const LARGE: Size = Size { nodes: 20, instances: 40 };
const SMALL: Size = Size { nodes: 12, instances: 12 };
/// A choice that is tried takes about a microsecond.
const TRIED_MAX: u64 = 20_000_000;

/// What became of the problems of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    problems: usize,
    placed: usize,
    gave_up: usize,
    /// Called impossible, which none of them is.
    impossible: usize,
    /// Placed, and something that the documents ask for is not kept; of the first, what.
    broken: usize,
    first_broken: Option<String>,
    seconds_worst: f64,
}

/// What was called impossible, and whether it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Verified {
    problems: usize,
    placed: usize,
    broken: usize,
    gave_up: usize,
    impossible: usize,
    verified: usize,
    /// There is an answer.
    contradicted: usize,
    /// Trying everything would take too long.
    unknown: usize,
}

/// So many problems that have an answer, and half as many small ones that may have none.
pub(crate) fn run(problems: usize) -> anyhow::Result<Value> {
    let each = problems.div_ceil(Kind::ALL.len());
    let mut rows = Vec::new();
    let mut verified = Verified::default();
    for kind in Kind::ALL {
        let row = with_answers(kind, each)?;
        rows.push(json!({
            "kind": kind.name(), "problems": row.problems, "placed": row.placed, "gave_up": row.gave_up,
            "impossible": row.impossible, "broken": row.broken,
            "first_broken": row.first_broken, "seconds_worst": rounded(row.seconds_worst),
        }));
        verify(kind, each.div_ceil(2), &mut verified)?;
    }
    let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    Ok(json!({
        "bench": "feasible", "problems": sum("problems"), "placed": sum("placed"), "gave_up": sum("gave_up"),
        "false_impossible": sum("impossible"), "broken": sum("broken"), "by_kind": rows,
        "small": {
            "problems": verified.problems, "placed": verified.placed, "broken": verified.broken,
            "gave_up": verified.gave_up, "impossible": verified.impossible, "verified": verified.verified,
            "contradicted": verified.contradicted, "unknown": verified.unknown,
        },
    }))
}

fn with_answers(kind: Kind, count: usize) -> anyhow::Result<Row> {
    let mut row = Row::default();
    for seed in (0..).take(count) {
        let made = made(kind, LARGE, seed);
        let judge = Judge::of(&made)?;
        if let Some(broken) = judge.broken(&made.answer) {
            anyhow::bail!("{} {seed} is not what it should be: {broken}", kind.name());
        }
        let (found, time) = planned(&made)?;
        row.problems += 1;
        row.seconds_worst = row.seconds_worst.max(time.as_secs_f64());
        match told(&found, &judge)? {
            Told::Placed => row.placed += 1,
            Told::Broken(says) => {
                row.broken += 1;
                row.first_broken.get_or_insert(format!("{seed}: {says}"));
            }
            Told::GaveUp => row.gave_up += 1,
            Told::Impossible => row.impossible += 1,
        }
    }
    Ok(row)
}

fn verify(kind: Kind, count: usize, row: &mut Verified) -> anyhow::Result<()> {
    for seed in (0..).take(count) {
        let made = worse(made(kind, SMALL, seed), seed);
        let judge = Judge::of(&made)?;
        row.problems += 1;
        match told(&planned(&made)?.0, &judge)? {
            Told::Placed => row.placed += 1,
            Told::Broken(_) => row.broken += 1,
            Told::GaveUp => row.gave_up += 1,
            Told::Impossible => {
                row.impossible += 1;
                match judge.try_everything(TRIED_MAX) {
                    Tried::None => row.verified += 1,
                    Tried::Exists => row.contradicted += 1,
                    Tried::Unknown => row.unknown += 1,
                }
            }
        }
    }
    Ok(())
}

/// With a little more asked for than the answer has.
fn worse(mut made: Made, seed: u64) -> Made {
    let mut dice = Dice::new(seed ^ 0xdead_beef);
    let Some(components) = made.app["spec"]["components"].as_array_mut() else { return made };
    for _ in 0..1 + dice.below(2) {
        let which = dice.below(components.len());
        let more = (1 + dice.below(6)).to_string();
        components[which]["needs"]["cpu"] = json!(more);
    }
    made
}

enum Told {
    Placed,
    Broken(String),
    GaveUp,
    Impossible,
}

/// What the plan says, and whether its places keep what is asked for.
fn told(found: &AppPlan, judge: &Judge<'_>) -> anyhow::Result<Told> {
    if found.outcome != Outcome::Placed {
        let is_open = found.unplaced.iter().all(|one| one.gave_up_after.is_some());
        return Ok(if is_open { Told::GaveUp } else { Told::Impossible });
    }
    let mut places = vec![Vec::new(); judge.components.len()];
    for one in &found.instances {
        let at = &one.placement;
        let component = judge.components.iter().position(|asks| asks.name == at.component);
        let node = judge.nodes.iter().position(|has| Some(has.name) == at.node.as_deref());
        places[component.context("a component")?].push(node.context("a node")?);
    }
    for (asks, at) in judge.components.iter().zip(&places) {
        anyhow::ensure!(asks.replicas == at.len(), "{} is placed whole", asks.name);
    }
    Ok(judge.broken(&places).map_or(Told::Placed, Told::Broken))
}

fn planned(made: &Made) -> anyhow::Result<(AppPlan, Duration)> {
    let sites: Vec<Site> = read(&made.sites)?;
    let nodes: Vec<Node> = read(&made.nodes)?;
    let links: Vec<Link> = read(&made.links)?;
    let app: App = serde_json::from_value(made.app.clone())?;
    let before = on_processor();
    let (continuum, troubles) = Continuum::of(&sites, &nodes, &links);
    anyhow::ensure!(troubles.is_empty(), "{troubles:?}");
    let planned = plan(&continuum, &[app], &[], &Options::default(), &Limits::default())?;
    let time = on_processor().saturating_sub(before);
    let troubles = &planned.troubles;
    anyhow::ensure!(troubles.is_empty(), "{troubles:?}");
    Ok((planned.apps.into_iter().next().context("one App, one plan")?, time))
}

fn read<T: serde::de::DeserializeOwned>(documents: &[Value]) -> serde_json::Result<Vec<T>> {
    documents.iter().cloned().map(serde_json::from_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Size = Size { nodes: 7, instances: 9 };

    #[test]
    fn what_has_an_answer_is_never_called_impossible_and_what_is_placed_keeps_all_rules() {
        let mut placed = 0;
        for kind in Kind::ALL {
            for seed in 0..40 {
                let made = made(kind, FEW, seed);
                let judge = Judge::of(&made).unwrap();
                assert_eq!(judge.broken(&made.answer), None, "{kind:?} {seed}");
                match told(&planned(&made).unwrap().0, &judge).unwrap() {
                    Told::Placed => placed += 1,
                    Told::GaveUp => (),
                    Told::Broken(says) => panic!("{kind:?} {seed}: {says}"),
                    Told::Impossible => panic!("{kind:?} {seed}: called impossible"),
                }
            }
        }
        assert!(placed >= 190, "{placed} of 200");
    }

    #[test]
    fn what_is_called_impossible_is() {
        let mut row = Verified::default();
        for kind in Kind::ALL {
            for seed in 0..40 {
                let made = worse(made(kind, FEW, seed), seed);
                let judge = Judge::of(&made).unwrap();
                let found = planned(&made).unwrap().0;
                if let Told::Impossible = told(&found, &judge).unwrap() {
                    row.impossible += 1;
                    let tried = judge.try_everything(2_000_000);
                    assert_ne!(tried, Tried::Exists, "{kind:?} {seed}: {found:?}");
                    row.verified += usize::from(tried == Tried::None);
                }
            }
        }
        assert!(row.verified > 20, "{row:?}");
    }

    /// A judge that cannot find faults proves nothing.
    #[test]
    fn the_judge_sees_what_is_broken() {
        let mut seen = 0;
        for kind in Kind::ALL {
            for seed in 0..40 {
                let made = made(kind, FEW, seed);
                let judge = Judge::of(&made).unwrap();
                let mut places = made.answer.clone();
                // Everybody moves on by one node.
                let nodes = judge.nodes.len();
                places.iter_mut().flatten().for_each(|node| *node = (*node + 1) % nodes);
                seen += usize::from(judge.broken(&places).is_some());
            }
        }
        assert!(seen > 150, "{seen} of 200");
    }
}
