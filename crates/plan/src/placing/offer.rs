//! Better places that nobody has to take. Nothing that runs well moves by itself; what a plan of everything would
//! gain is offered, and whoever wants it says so (`rebalancedAt` of a component). Called in the background by
//! `tombolo_controller::placing`; start reading at [`offers`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::{AppId, Reason};
use tombolo_placement::plan::{AppPlan, Outcome, Step, Why};
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, Scope};

use super::{Basis, Memory, News, Observed};

/// What an App has to gain, in points, before anybody is told of it. Each move has earned its own price then.
const WORTH: f64 = 10.0;
/// Of so many Apps it is found out what they would gain by themselves; each costs a search. The others get their
/// turn when these have moved.
const APPS_MAX: usize = 8;
/// More moves than this are counted and not named.
const NAMED_MAX: usize = 6;

/// What is told of one App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Index into [`Observed::apps`].
    pub app: usize,
    /// The same moves are the same offer, whatever they gain by now.
    pub moves: String,
    pub news: News,
}

/// Plans everything anew, and then each App that would gain by itself, as it would be done: so what is offered is what
/// comes of it.
pub fn offers(
    observed: &Observed,
    memory: &Memory,
    now: crate::Monotonic,
    limits: &Limits<'_>,
) -> Vec<Offer> {
    let Basis { running, options } = Basis::of(observed, memory, now);
    let (continuum, _) = Continuum::of(&observed.sites, &observed.nodes, &observed.links);
    let plan = |options: &Options| {
        let planned =
            tombolo_placement::plan(&continuum, &observed.apps, &running, options, limits);
        planned.map(|planned| planned.apps).unwrap_or_default()
    };
    let all = plan(&Options { scope: Scope::All, ..options.clone() });
    let mut gaining: Vec<(Reverse<i64>, AppId)> = all
        .iter()
        .filter_map(|app| Some((Reverse(rounded(gained(app)?)), app.app.clone())))
        .collect();
    gaining.sort();
    let mut offers = Vec::new();
    for (_, id) in gaining.into_iter().take(APPS_MAX) {
        let changed = BTreeSet::from([id.clone()]);
        let own = plan(&Options { scope: Scope::Pending, changed, ..options.clone() });
        let Some(app) = own.iter().find(|app| app.app == id) else { continue };
        if let Some(points) = gained(app).filter(|points| *points >= WORTH) {
            let moves = moves(app);
            let blanks = [("points", rounded(points).to_string()), ("moves", moves.clone())];
            let message = Reason::BetterPlaces.says(&blanks);
            let news = News { bad: false, reason: Reason::BetterPlaces, message };
            offers.push(Offer { app: app.index, moves, news });
        }
    }
    offers
}

/// What its moves gain, in points; nothing if it has something to do anyway, or has no reason to move.
fn gained(app: &AppPlan) -> Option<f64> {
    if app.outcome != Outcome::Placed {
        return None;
    }
    let mut sum = 0.0;
    let mut moves = false;
    for one in &app.instances {
        match &one.step {
            Step::Stay | Step::Wait => (),
            Step::Move { why: Why::Gains(points), .. } => {
                sum += points;
                moves = true;
            }
            Step::Move { why: Why::Yields, .. } => moves = true,
            Step::Start | Step::Move { why: Why::Must(_) | Why::MakesRoom, .. } => return None,
        }
    }
    moves.then_some(sum)
}

/// `web/0 from a1 to b1, web/1 from a1 to b2`.
fn moves(app: &AppPlan) -> String {
    let mut named: BTreeMap<(&str, u32), String> = BTreeMap::new();
    for one in &app.instances {
        let at = &one.placement;
        if let (Step::Move { from, .. }, Some(to)) = (&one.step, &at.node) {
            let says = format!("{}/{} from {from} to {to}", at.component, at.replica);
            named.insert((&at.component, at.replica), says);
        }
    }
    let count = named.len();
    let mut said: Vec<String> = named.into_values().take(NAMED_MAX).collect();
    if count > NAMED_MAX {
        said.push(format!("and {} more", count - NAMED_MAX));
    }
    said.join(", ")
}

#[expect(clippy::cast_possible_truncation, reason = "points for people")]
fn rounded(points: f64) -> i64 {
    points.round() as i64
}
