//! Sites, agents that report, and what the loop makes of it, with made-up clocks.

use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_model::condition::{self, AS_DECLARED, READY};
use tombolo_model::link::MADE_BY_PROBES;
use tombolo_model::{ConditionStatus, FigureKind, keys};

use super::*;

/// A world that does what it is told, and agents that find what `delays` says.
#[derive(Default)]
struct Rig {
    observed: Observed,
    memory: Memory,
    second: u64,
    /// There and back in milliseconds, by who probes whom; nothing is lost.
    delays: BTreeMap<(String, String), Option<f64>>,
    events: Vec<String>,
    writes: BTreeMap<String, usize>,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Shared<T> {
    Shared::from(serde_json::from_value::<T>(value).unwrap())
}

impl Rig {
    /// One node a site, all of which answer probes.
    fn of(sites: &[&str]) -> Rig {
        let mut rig = Rig::default();
        for site in sites {
            rig.observed.sites.push(object(json!({
                "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site", "metadata": {"name": site},
                "spec": {"engine": "host", "probePort": 7072},
            })));
            rig.observed.nodes.push(object(json!({
                "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
                "metadata": {"name": format!("{site}1")}, "spec": {"site": site},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Heartbeat",
                    "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
            })));
        }
        rig
    }

    fn link(&mut self, name: &str, ends: [&str; 2], declared: Value) {
        let end = |name| json!({"kind": "Site", "name": name});
        let mut spec = declared;
        spec["ends"] = json!(ends.map(end));
        self.observed.links.push(object(json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Link", "metadata": {"name": name},
            "spec": spec,
        })));
    }

    fn delay(&mut self, one: &str, other: &str, rtt: Option<f64>) {
        for (from, to) in [(one, other), (other, one)] {
            self.delays.insert((format!("{from}1"), format!("{to}1")), rtt);
        }
    }

    fn time(&self) -> Time {
        Time(Timestamp::from_second(1_000_000 + i64::try_from(self.second).unwrap()).unwrap())
    }

    /// Agents report at once whatever they were asked for.
    fn report(&mut self) {
        let time = self.time();
        for (index, probing) in self.observed.probings.iter_mut().enumerate() {
            let own = probing.metadata.name.clone().unwrap();
            let found: Vec<Value> = probing
                .spec
                .peers
                .iter()
                .filter_map(|peer| {
                    let rtt = self.delays.get(&(own.clone(), peer.node.clone()))?;
                    Some(match rtt {
                        Some(rtt) => json!({"node": peer.node, "p50": format!("{rtt}ms"),
                            "p95": format!("{rtt}ms"), "jitter": "100us", "spread": "200us",
                            "probes": 20, "answered": 20, "age": "1s"}),
                        None => json!({"node": peer.node, "probes": 20, "answered": 10,
                            "lostInARow": 10}),
                    })
                })
                .collect();
            let status = json!({"address": format!("10.0.0.{index}:7072"), "measuredAt": time,
                "found": found});
            probing.status = Some(serde_json::from_value(status).unwrap());
        }
    }

    /// One look, a second after the last, and all that comes of it.
    fn look(&mut self) -> usize {
        self.second += 1;
        let now = Monotonic::from_start(Duration::from_secs(self.second));
        let memory = std::mem::take(&mut self.memory);
        let plan = plan(&self.observed, memory, now, &self.time());
        self.memory = plan.memory;
        let count = plan.actions.len();
        for action in plan.actions {
            self.carry_out(action);
        }
        count
    }

    fn carry_out(&mut self, action: Action) {
        let links = &mut self.observed.links;
        let is = |link: &Shared<Link>, name: &str| link.metadata.name.as_deref() == Some(name);
        match action {
            Action::Order { node, spec, .. } => {
                let probings = &mut self.observed.probings;
                let known = probings.iter_mut().find(|it| it.metadata.name.as_ref() == Some(&node));
                match known {
                    Some(known) => known.spec = *spec,
                    None => probings.push(Shared::from(Probing::new(&node, *spec))),
                }
            }
            Action::Withdraw { node } => {
                self.observed.probings.retain(|it| it.metadata.name.as_ref() != Some(&node));
            }
            Action::Make { link, spec } => {
                let mut made = Link::new(&link, *spec);
                let label = (keys::LABEL_MANAGED.to_owned(), MADE_BY_PROBES.to_owned());
                made.metadata.labels = Some(BTreeMap::from([label]));
                links.push(Shared::from(made));
            }
            Action::Remove { link } => links.retain(|it| !is(it, &link)),
            Action::Write { link, status, news, .. } => {
                *self.writes.entry(link.clone()).or_default() += 1;
                self.events
                    .extend(news.iter().map(|told| format!("{link}: {}", told.reason.word())));
                links.iter_mut().find(|it| is(it, &link)).unwrap().status = Some(*status);
            }
            Action::Judge { node, conditions, told, .. } => {
                self.events.push(format!("{node}: {}", told.reason.word()));
                let nodes = &mut self.observed.nodes;
                let node = nodes.iter_mut().find(|it| it.metadata.name.as_ref() == Some(&node));
                node.unwrap().status.get_or_insert_default().conditions = conditions;
            }
        }
    }

    /// Looks once a second, with a report every so many.
    fn run(&mut self, seconds: u64, report_every: u64) {
        for second in 0..seconds {
            if second % report_every == 0 {
                self.report();
            }
            self.look();
        }
    }

    fn status(&self, link: &str) -> LinkStatus {
        let found = self.observed.links.iter().find(|it| it.metadata.name.as_deref() == Some(link));
        found.unwrap().status.clone().unwrap_or_default()
    }

    fn latency(&self, link: &str) -> String {
        self.status(link).measured.latency.map(|it| it.to_string()).unwrap_or_default()
    }

    fn condition(&self, link: &str, kind: &str) -> Option<ConditionStatus> {
        condition::find(&self.status(link).conditions, kind).map(|found| found.status)
    }
}

#[test]
fn a_site_that_does_not_allow_it_is_neither_probed_nor_asked_to() {
    let mut rig = Rig::of(&["a", "b", "c"]);
    rig.observed.sites[2].spec.probe_port = None;
    rig.run(5, 1);
    let asked: Vec<&str> =
        rig.observed.probings.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
    assert_eq!(asked, ["a1", "b1"]);
    let peers = |at: usize| {
        let peers = &rig.observed.probings[at].spec.peers;
        peers.iter().map(|peer| peer.node.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((peers(0), peers(1)), (vec!["b1"], vec!["a1"]));
    rig.observed.sites[1].spec.probe_port = None;
    rig.look();
    assert_eq!(rig.observed.probings.len(), 1, "it was taken back");
    rig.look();
    assert!(rig.observed.probings[0].spec.peers.is_empty());
}

#[test]
fn what_is_measured_becomes_a_link_and_its_status() {
    let mut rig = Rig::of(&["a", "b"]);
    rig.delay("a", "b", Some(20.0));
    rig.run(5, 1);
    assert_eq!(rig.latency("a-to-b"), "10ms");
    let status = rig.status("a-to-b");
    assert_eq!((status.kind, status.samples), (Some(FigureKind::Measured), Some(40)));
    assert_eq!(rig.condition("a-to-b", READY), Some(ConditionStatus::True));
    assert_eq!(rig.look(), 0, "it is written");
    rig.observed.sites[1].spec.probe_port = None;
    rig.look();
    assert!(rig.observed.links.is_empty(), "what probes made goes with them");
}

#[test]
fn a_link_that_gets_worse_is_written_soon_and_once_and_a_quiet_one_hardly_ever() {
    let mut rig = Rig::of(&["a", "b"]);
    rig.link("ab", ["a", "b"], json!({}));
    rig.delay("a", "b", Some(20.0));
    rig.run(20, 5);
    assert_eq!(rig.writes["ab"], 1);
    rig.delay("a", "b", Some(160.0));
    rig.report();
    let worse = (1..).find(|_| {
        rig.look();
        rig.latency("ab") == "80ms"
    });
    assert!(worse.unwrap() <= 5, "{worse:?} s after the report");
    assert_eq!(rig.writes["ab"], 2);
    // An hour in which nothing happens.
    rig.run(3600, 300);
    assert!(rig.writes["ab"] <= 2 + 4, "{:?}", rig.writes);
    rig.delay("a", "b", Some(20.0));
    rig.run(120, 5);
    assert_eq!(rig.latency("ab"), "10ms");
}

#[test]
fn a_link_that_flaps_is_written_as_bad_as_it_gets_and_no_more_than_once_a_minute() {
    let mut rig = Rig::of(&["a", "b"]);
    rig.link("ab", ["a", "b"], json!({}));
    for flap in 0..120 {
        rig.delay("a", "b", Some(if flap % 2 == 0 { 20.0 } else { 160.0 }));
        rig.run(5, 5);
    }
    assert_eq!(rig.latency("ab"), "80ms");
    assert!(rig.writes["ab"] <= 10, "{:?} in ten minutes", rig.writes);
}

#[test]
fn the_word_of_the_operator_is_held_against_what_is_measured() {
    let mut rig = Rig::of(&["a", "b"]);
    rig.link("ab", ["a", "b"], json!({"latency": "10ms"}));
    rig.delay("a", "b", Some(20.0));
    rig.run(20, 5);
    assert_eq!(rig.condition("ab", AS_DECLARED), Some(ConditionStatus::True));
    assert!(rig.events.is_empty(), "{:?}", rig.events);
    rig.delay("a", "b", Some(60.0));
    rig.run(20, 5);
    assert_eq!(rig.condition("ab", AS_DECLARED), Some(ConditionStatus::False));
    assert_eq!(rig.events, ["ab: NotAsDeclared"]);
    let link = &rig.observed.links[0];
    assert_eq!(link.spec.declared.latency.unwrap().to_string(), "10ms", "it remains his word");
    assert_eq!(link.quality().latency.unwrap().to_string(), "30ms100us");
    rig.delay("a", "b", Some(20.0));
    rig.run(200, 5);
    assert_eq!(rig.condition("ab", AS_DECLARED), Some(ConditionStatus::True));
    assert_eq!(rig.observed.links[0].quality().latency.unwrap().to_string(), "10ms");
}

#[test]
fn a_cut_is_told_from_a_dead_machine_by_what_the_other_end_says() {
    let mut rig = Rig::of(&["a", "b"]);
    rig.delay("a", "b", Some(20.0));
    rig.run(5, 1);
    rig.delay("a", "b", None);
    rig.run(10, 5);
    assert_eq!(rig.condition("a-to-b", READY), Some(ConditionStatus::False));
    assert_eq!(rig.status("a-to-b").measured.failures, Some(1));
    assert_eq!(rig.events, ["a-to-b: ProbesLost"]);
    rig.delay("a", "b", Some(20.0));
    rig.run(100, 5);
    assert_eq!(rig.condition("a-to-b", READY), Some(ConditionStatus::True));

    // One end alone says so, and the other is dead.
    let mut rig = Rig::of(&["a", "b"]);
    rig.delay("a", "b", Some(20.0));
    rig.run(5, 1);
    rig.delays.insert(("a1".to_owned(), "b1".to_owned()), None);
    rig.run(30, 5);
    let status = rig.observed.nodes[1].status.as_mut().unwrap();
    status.conditions[0].status = ConditionStatus::False;
    rig.run(200, 5);
    assert_eq!(rig.condition("a-to-b", READY), Some(ConditionStatus::True), "nobody knows better");
    assert!(rig.events.is_empty(), "{:?}", rig.events);
}

#[test]
fn who_contradicts_all_its_peers_is_named_and_counts_no_more() {
    let sites = ["a", "b", "c", "d"];
    let mut rig = Rig::of(&sites);
    for (index, one) in sites.iter().enumerate() {
        for other in &sites[index + 1..] {
            rig.delay(one, other, Some(20.0));
        }
    }
    for other in ["a", "b", "d"] {
        rig.delays.insert(("c1".to_owned(), format!("{other}1")), Some(2.0));
    }
    rig.run(240, 5);
    assert!(rig.events.is_empty(), "its line may have changed: {:?}", rig.events);
    rig.run(160, 5);
    assert_eq!(rig.events, ["c1: DelaysDoubted"]);
    assert_eq!(rig.latency("a-to-c"), "10ms", "by the word of its peer");
    for other in ["a", "b", "d"] {
        rig.delays.insert(("c1".to_owned(), format!("{other}1")), Some(20.0));
    }
    rig.run(60, 5);
    assert_eq!(rig.events, ["c1: DelaysDoubted", "c1: DelaysBelieved"]);
}

#[test]
fn a_write_that_got_lost_is_made_again() {
    let mut rig = Rig::of(&["a", "b"]);
    rig.link("ab", ["a", "b"], json!({}));
    rig.delay("a", "b", Some(20.0));
    rig.run(5, 1);
    assert_eq!(rig.latency("ab"), "10ms");
    rig.observed.links[0].status = None;
    rig.run(15, 5);
    assert_eq!(rig.latency("ab"), "10ms");
    assert_eq!(rig.writes["ab"], 2);
}

proptest! {
    /// Carrying it out and looking again gives nothing, unless time brings something up.
    #[test]
    fn what_was_decided_stays_decided(delays in proptest::collection::vec(1.0..200.0f64, 10)) {
        let sites = ["a", "b", "c", "d", "e"];
        let mut rig = Rig::of(&sites);
        let mut delays = delays.into_iter();
        for (index, one) in sites.iter().enumerate() {
            for other in &sites[index + 1..] {
                let rtt = delays.next().map(|rtt| (rtt * 100.0).round() / 100.0);
                rig.delay(one, other, rtt);
            }
        }
        rig.run(30, 5);
        prop_assert_eq!(rig.look(), 0);
        prop_assert_eq!(rig.observed.links.len(), 10);
    }

    /// Whatever agents report, nobody is asked to probe more than the bound, and nothing panics.
    #[test]
    fn no_report_breaks_the_loop(
        reports in proptest::collection::vec((0..4usize, "[a-e]1", 0..100_000_000u64, 0..50u32), 0..60),
    ) {
        let mut rig = Rig::of(&["a", "b", "c", "d"]);
        rig.run(3, 1);
        for (at, peer, micros, count) in reports {
            let time = rig.time();
            if let Some(probing) = rig.observed.probings.get_mut(at) {
                let found = json!([{"node": peer, "p50": format!("{micros}us"), "probes": count,
                    "answered": count, "lostInARow": count % 7, "age": format!("{micros}us")}]);
                let status = json!({"address": "10.0.0.9:1", "measuredAt": time, "found": found});
                probing.status = Some(serde_json::from_value(status).unwrap());
            }
            rig.look();
        }
        for probing in &rig.observed.probings {
            prop_assert!(probing.spec.peers.len() <= tombolo_model::probing::PEERS_MAX);
        }
    }
}
