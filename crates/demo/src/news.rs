//! What was seen of the demo, and what of it is news to whoever watches. Plain values; called by
//! [`crate::show`], start at [`news`].

use std::collections::BTreeMap;
use std::time::Instant;

use tombolo_model::condition::{APPLIED, READY, find, is_true};
use tombolo_model::{App, AppPhase, Assignment, Node};

use crate::sites::SITES;

/// Of the reasons for a place, so much fits a line.
const REASON_CHARS_MAX: usize = 160;

/// One look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    /// By name.
    pub(crate) nodes: BTreeMap<String, Machine>,
    /// By component.
    pub(crate) parts: BTreeMap<String, Part>,
    pub(crate) phase: Option<AppPhase>,
    pub(crate) message: Option<String>,
    /// The public address of the dashboard.
    pub(crate) dashboard: Option<String>,
    /// Since when not everything runs that did.
    pub(crate) troubled_since: Option<Instant>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) site: String,
    pub(crate) ready: bool,
    pub(crate) cpu: Option<String>,
    pub(crate) memory: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) site: String,
    pub(crate) node: String,
    pub(crate) ready: bool,
    pub(crate) reason: String,
}

impl Sight {
    pub(crate) fn of(nodes: &[Node], app: Option<&App>) -> Sight {
        let status = app.and_then(|app| app.status.clone()).unwrap_or_default();
        let parts = status.placements.into_iter().map(|at| {
            let reason = at.decision.and_then(|decision| decision.reason).unwrap_or_default();
            let node = at.node.unwrap_or_default();
            (at.component, Part { site: at.site, node, ready: at.ready, reason })
        });
        let public = status.endpoints.into_iter().find(|endpoint| endpoint.public);
        Sight {
            nodes: nodes.iter().map(machine).collect(),
            parts: parts.collect(),
            phase: status.phase,
            message: status.message,
            dashboard: public.map(|endpoint| endpoint.url),
            troubled_since: None,
        }
    }

    /// Whether every site is there, with a machine of which it is known what it has.
    pub(crate) fn all_sites_ready(&self) -> bool {
        SITES.iter().all(|site| {
            let machine = self.nodes.get(site.node);
            machine.is_some_and(|machine| machine.ready && machine.cpu.is_some())
        })
    }

    pub(crate) fn runs(&self) -> bool {
        self.phase == Some(AppPhase::Running)
            && self.dashboard.is_some()
            && self.parts.values().all(|part| part.ready)
    }
}

fn machine(node: &Node) -> (String, Machine) {
    let status = node.status.clone().unwrap_or_default();
    let has = status.allocatable.unwrap_or_default();
    let machine = Machine {
        site: node.spec.site.clone(),
        ready: is_true(&status.conditions, READY),
        cpu: has.cpu.map(|cpu| cpu.to_string()),
        memory: has.memory.map(|memory| memory.to_string()),
    };
    (node.metadata.name.clone().unwrap_or_default(), machine)
}

/// What is new, a line each; and the sight as the next look is to be compared with it.
pub(crate) fn news(before: Sight, mut now: Sight, at: Instant) -> (Sight, Vec<String>) {
    let mut lines = Vec::new();
    for (name, machine) in &now.nodes {
        let was = before.nodes.get(name);
        let place = format!("{name} ({})", machine.site);
        match (was.is_some_and(|was| was.ready && was.cpu.is_some()), machine.ready) {
            (false, true) if machine.cpu.is_some() => lines.push(arrival(&place, machine)),
            (true, false) => lines.push(format!("  {place} has fallen silent")),
            (false, true | false) | (true, true) => (),
        }
    }
    for (name, part) in &now.parts {
        let was = before.parts.get(name);
        let place = format!("{} ({})", part.node, part.site);
        if let Some(was) = was.filter(|was| was.node != part.node) {
            let reason: String = part.reason.chars().take(REASON_CHARS_MAX).collect();
            lines.push(format!("  {name} moves from {} to {place}: {reason}", was.node));
        }
        let was_up = was.is_some_and(|was| was.ready && was.node == part.node);
        if part.ready && !was_up {
            lines.push(format!("  {name:<10} runs on {place}"));
        }
    }
    now.troubled_since = match (before.runs(), now.runs()) {
        (true, false) => Some(at),
        (false, false) => before.troubled_since,
        (true, true) => None,
        (false, true) => {
            if let (Some(since), Some(address)) = (before.troubled_since, &now.dashboard) {
                let seconds = at.saturating_duration_since(since).as_secs_f64();
                lines.push(format!(
                    "  all parts run again after {seconds:.1} s; the dashboard is at {address}"
                ));
            }
            None
        }
    };
    (now, lines)
}

fn arrival(place: &str, machine: &Machine) -> String {
    let cpu = machine.cpu.as_deref().unwrap_or("?");
    let memory = machine.memory.as_deref().unwrap_or("?");
    format!("  {place:<20} is ready: {cpu} CPUs, {memory}")
}

/// What the engines say that they could not do, each once.
pub(crate) fn notes(assignments: &[Assignment]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for assignment in assignments {
        let conditions = assignment.status.iter().flat_map(|status| &status.conditions);
        let conditions: Vec<_> = conditions.cloned().collect();
        let message = find(&conditions, APPLIED).map(|applied| applied.message.clone());
        // First what was done, then what could not be.
        for note in message.unwrap_or_default().split("; ").skip(1) {
            if !notes.iter().any(|known| known == note) {
                notes.push(note.to_owned());
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::{Expect, expect};

    use super::*;

    /// `line-1:up` is a machine of the far edge, `camera@line-1:up` a part that it runs.
    fn sight(words: &str) -> Sight {
        let mut sight = Sight { phase: Some(AppPhase::Running), ..Sight::default() };
        for word in words.split_whitespace() {
            let (subject, state) = word.split_once(':').unwrap();
            let ready = state == "up";
            match subject.split_once('@') {
                Some((component, node)) => {
                    let part = Part {
                        site: "edge".into(),
                        node: node.into(),
                        ready,
                        reason: "it has room".into(),
                    };
                    sight.parts.insert(component.into(), part);
                    if ready && component == "dashboard" {
                        sight.dashboard = Some(format!("http://{node}"));
                    }
                }
                None => {
                    let machine = Machine {
                        site: "edge".into(),
                        ready,
                        cpu: Some("1".into()),
                        memory: Some("2Gi".into()),
                    };
                    sight.nodes.insert(subject.into(), machine);
                }
            }
        }
        sight
    }

    /// The looks, a second apart; what is told after each.
    #[track_caller]
    fn check(looks: &[&str], expect: Expect) {
        let start = Instant::now();
        let (mut before, mut told) = (Sight::default(), String::new());
        for (second, look) in looks.iter().enumerate() {
            let at = start + Duration::from_secs(second as u64);
            let (after, lines) = news(before, sight(look), at);
            lines.iter().for_each(|line| told.push_str(&format!("{second}{line}\n")));
            before = after;
        }
        expect.assert_eq(&told);
    }

    #[test]
    fn tells_each_thing_once_from_the_first_node_to_the_recovery() {
        check(
            &[
                "",
                "a:down",
                "a:up b:up",
                "a:up b:up dashboard@a:down",
                "a:up b:up dashboard@a:up",
                "a:up b:up dashboard@a:up",
                "a:down b:up dashboard@a:down",
                "a:down b:up dashboard@b:down",
                "a:down b:up dashboard@b:up",
                "a:up b:up dashboard@b:up",
            ],
            expect![[r#"
                2  a (edge)             is ready: 1 CPUs, 2Gi
                2  b (edge)             is ready: 1 CPUs, 2Gi
                4  dashboard  runs on a (edge)
                6  a (edge) has fallen silent
                7  dashboard moves from a to b (edge): it has room
                8  dashboard  runs on b (edge)
                8  all parts run again after 2.0 s; the dashboard is at http://b
                9  a (edge)             is ready: 1 CPUs, 2Gi
            "#]],
        );
    }
}
