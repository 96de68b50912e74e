//! Tests of [`super::plan`], told as stories: what is seen at which second, and what happens.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// Tells a story and compares everything that the loop does in it.
///
/// `"10 node a@alps v2 /20"` says: from second 10 on, node `a` of site `alps` is seen with version
/// 2 of a Lease of 20 s (40 if not said); `-` for the version: no Lease; `released`: given up.
/// `at:h` says that it is reached at `h`, `reaches:b` and `misses:b` that it does or does not reach
/// its sibling. `of-site` says that the agent of the whole site speaks for it, and `down:why` that this
/// agent says it is down.
/// `ready` or `notready` at the end is a condition that was there before the story began. The loop
/// looks at every line and whenever the plan asks to be woken; `"50 asleep"` keeps it from looking
/// until then; `"50 restart"` makes it forget; `"50 end"` lets time pass until then.
#[track_caller]
fn check(story: &[&str], expect: Expect) {
    let mut teller = Teller::default();
    for line in story {
        teller.tell(line);
    }
    expect.assert_eq(&teller.heard);
}

#[derive(Default)]
struct Teller {
    now: Monotonic,
    wake_at: Monotonic,
    observed: Observed,
    memory: Memory,
    heard: String,
}

impl Teller {
    fn tell(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let until = at(words[0].parse().expect("a line starts with its second"));
        if words[1] != "asleep" {
            while self.wake_at < until {
                self.now = self.wake_at.max(self.now);
                self.look();
            }
        }
        self.now = until;
        match words[1] {
            "asleep" | "end" => (),
            "restart" => self.memory = Memory::default(),
            _ => self.see(&words[1..]),
        }
        self.look();
    }

    fn see(&mut self, words: &[&str]) {
        let (subject, mut member) = parse(words);
        if let Some(before) = self.observed.get(&subject) {
            member.ready = before.ready;
            member.reason.clone_from(&before.reason);
            let probe = before.lease.as_ref().and_then(|lease| lease.probe.clone());
            if let Some(lease) = &mut member.lease {
                lease.probe = probe;
            }
        }
        self.observed.insert(subject, member);
    }

    fn look(&mut self) {
        let plan = plan(&self.observed, &self.memory, self.now);
        assert!(plan.wake_at > self.now, "a plan that wakes at once would spin");
        for action in &plan.actions {
            let seconds = self.now.since_start().as_secs();
            self.heard.push_str(&format!("{seconds}: {action} [{}]\n", action.why.reason()));
        }
        for ask in &plan.asks {
            self.heard.push_str(&format!("{}: {ask}\n", self.now.since_start().as_secs()));
        }
        carry_out(&plan, &mut self.observed);
        self.memory = plan.memory;
        self.wake_at = plan.wake_at;
    }
}

fn carry_out(plan: &Plan, observed: &mut Observed) {
    for action in &plan.actions {
        let member = observed.get_mut(&action.subject).expect("a plan is about what was seen");
        member.ready = Some(action.why.ready());
        member.reason = Some(action.why.reason().word().to_owned());
    }
    for ask in &plan.asks {
        let subject = Subject { kind: Kind::Node, name: ask.node.clone() };
        let lease = observed.get_mut(&subject).and_then(|member| member.lease.as_mut());
        let lease = lease.expect("only who has a Lease is asked");
        lease.probe.clone_from(&ask.probe);
        // As an API would: every write is a new version.
        lease.version.push('+');
    }
}

fn parse(words: &[&str]) -> (Subject, Member) {
    let kind = match words[0] {
        "site" => Kind::Site,
        "node" => Kind::Node,
        other => panic!("{other} is neither site nor node"),
    };
    let (name, site) = match words[1].split_once('@') {
        Some((name, site)) => (name, Some(site.to_owned())),
        None => (words[1], None),
    };
    let seconds = words.iter().find_map(|word| word.strip_prefix('/'));
    let said = |prefix: &str| words.iter().find_map(|word| word.strip_prefix(prefix));
    let answers = [("reaches:", true), ("misses:", false)].into_iter();
    let answers = answers.filter_map(|(word, reached)| Some((said(word)?.to_owned(), reached)));
    let lease = match words[2] {
        "-" => None,
        version => Some(Lease {
            version: version.to_owned(),
            renewed: version.to_owned(),
            probe: None,
            answers: answers.collect(),
            duration_seconds: seconds.map(|seconds| seconds.parse().expect("seconds")),
            holder: match version {
                "released" => Holder::Released,
                _ => Holder::Named(format!("agent-{name}")),
            },
        }),
    };
    let ready = match *words.last().expect("a line has words") {
        "ready" => Some(true),
        "notready" => Some(false),
        _ => None,
    };
    let address = said("at:").map(str::to_owned);
    let down = said("down:").map(str::to_owned);
    let voice = match words.contains(&"of-site") {
        true => Voice::OfSite { down },
        false => Voice::Own,
    };
    let member = Member { ready, reason: None, address, site, voice, lease };
    (Subject { kind, name: name.to_owned() }, member)
}

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_start(Duration::from_secs(seconds))
}

#[test]
fn a_node_is_ready_while_its_lease_is_renewed_and_not_after() {
    check(
        &["0 node a v1", "30 node a v2", "60 node a v3", "200 end"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            100: Node a becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn a_renewal_makes_it_ready_again() {
    check(
        &["0 node a v1 /10", "60 node a v2 /10", "65 end"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            10: Node a becomes NotReady: no heartbeat for 10 s, lease lasts 10 s [HeartbeatLost]
            60: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
        "#]],
    );
}

#[test]
fn a_lease_of_no_length_or_of_years_is_taken_at_a_sane_one() {
    check(
        &["0 node long v1 /4294967295", "0 node none v1 /0", "90000 end"],
        expect![[r#"
            0: Node long becomes Ready: heartbeat from agent-long [Heartbeat]
            0: Node none becomes Ready: heartbeat from agent-none [Heartbeat]
            40: Node none becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
            86400: Node long becomes NotReady: no heartbeat for 86400 s, lease lasts 86400 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn a_node_that_never_had_a_lease_is_given_one_lease_of_time() {
    check(
        &["0 node a -", "39 end", "100 end"],
        expect![[r#"
            40: Node a becomes NotReady: has never sent a heartbeat [NeverHeard]
        "#]],
    );
    check(
        &["0 node a -", "30 node a v1", "60 end"],
        expect![[r#"
            30: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
        "#]],
    );
}

#[test]
fn after_a_restart_everyone_has_a_full_lease_of_grace() {
    check(
        &["0 node a v1 ready", "35 restart", "74 end", "80 end"],
        expect![[r#"
            75: Node a becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn a_lease_found_at_the_start_does_not_overrule_a_not_ready() {
    check(
        &["0 node a v1 notready", "30 node a v2"],
        expect![[r#"
            30: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
        "#]],
    );
    check(&["0 node a v1 notready", "90 end"], expect![[""]]);
}

#[test]
fn time_in_which_nobody_looked_is_not_held_against_anyone() {
    // Two minutes stopped: only the ten seconds that a look may usually take count.
    check(
        &["0 node a v1", "120 asleep", "140 node a v2"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
        "#]],
    );
    check(
        &["0 node a v1", "120 asleep", "200 end"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            150: Node a becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn giving_up_the_lease_counts_at_once() {
    check(
        &["0 node a v1", "7 node a released", "90 node a v3"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            7: Node a becomes NotReady: its agent has signed off, as at a shutdown [Released]
            90: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
        "#]],
    );
}

#[test]
fn a_deleted_lease_lasts_as_long_as_it_would_have() {
    check(
        &["0 node a v1 /20", "10 node a -", "30 end"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            20: Node a becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn the_lease_of_a_site_speaks_for_all_its_nodes() {
    check(
        &[
            "0 site alps v1 /20",
            "0 node a@alps - of-site",
            "0 node b@alps - of-site",
            "0 node c@jura - /20",
            "15 site alps v2 /20",
            "60 site alps v3 /20",
            "61 end",
        ],
        expect![[r#"
            0: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            0: Node a becomes Ready: heartbeat from agent-alps [Heartbeat]
            0: Node b becomes Ready: heartbeat from agent-alps [Heartbeat]
            35: Site alps becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
            35: Node a becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
            35: Node b becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
            40: Node c becomes NotReady: has never sent a heartbeat [NeverHeard]
            60: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            60: Node a becomes Ready: heartbeat from agent-alps [Heartbeat]
            60: Node b becomes Ready: heartbeat from agent-alps [Heartbeat]
        "#]],
    );
}

#[test]
fn one_node_of_a_site_may_be_down_while_the_site_is_heard() {
    check(
        &[
            "0 site alps v1 /20",
            "0 node a@alps - of-site",
            "0 node b@alps - of-site down:unplugged",
            "10 node b@alps - of-site",
            "12 node a@alps - of-site down:burnt",
            "60 end",
        ],
        expect![[r#"
            0: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            0: Node a becomes Ready: heartbeat from agent-alps [Heartbeat]
            0: Node b becomes NotReady: the agent of its site says that it is down: unplugged [SaidDown]
            20: Site alps becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
            20: Node a becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn a_node_that_comes_later_is_ready_with_its_site_and_leaves_with_it() {
    check(
        &[
            "0 site alps v1 /20",
            "15 site alps v2 /20",
            "16 node late@alps - of-site",
            "20 site alps released",
            "25 end",
        ],
        expect![[r#"
            0: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            16: Node late becomes Ready: heartbeat from agent-alps [Heartbeat]
            20: Site alps becomes NotReady: its agent has signed off, as at a shutdown [Released]
            20: Node late becomes NotReady: its agent has signed off, as at a shutdown [Released]
        "#]],
    );
    check(
        &["0 site alps -", "0 node a@alps - of-site", "60 end"],
        expect![[r#"
        40: Site alps becomes NotReady: 0 of 1 nodes ready [NoNodeReady]
        40: Node a becomes NotReady: has never sent a heartbeat [NeverHeard]
    "#]],
    );
}

#[test]
fn an_old_lease_of_a_node_counts_for_nothing_beside_that_of_its_site() {
    check(
        &["0 site alps v1 /20", "0 node a@alps v1 of-site", "15 node a@alps v2 of-site", "30 end"],
        expect![[r#"
            0: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            0: Node a becomes Ready: heartbeat from agent-alps [Heartbeat]
            20: Site alps becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
            20: Node a becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
        "#]],
    );
    // A restart of the loop: the Lease of the site may be old, and does not overrule a NotReady.
    check(
        &["0 site alps v1 /20 notready", "0 node a@alps - of-site notready", "5 site alps v2 /20"],
        expect![[r#"
            5: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            5: Node a becomes Ready: heartbeat from agent-alps [Heartbeat]
        "#]],
    );
}

#[test]
fn a_site_with_a_lease_stands_for_itself() {
    check(
        &["0 site alps v1 /90", "0 node a@alps v1 /10", "50 end"],
        expect![[r#"
            0: Site alps becomes Ready: heartbeat from agent-alps [Heartbeat]
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            10: Node a becomes NotReady: no heartbeat for 10 s, lease lasts 10 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn a_site_without_a_lease_follows_its_nodes() {
    check(
        &[
            "0 node a@alps v1 /20",
            "0 node b@alps v1",
            "0 node c@coast v1",
            "0 site alps -",
            "70 end",
            "80 node b@alps v2",
        ],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            0: Node b becomes Ready: heartbeat from agent-b [Heartbeat]
            0: Node c becomes Ready: heartbeat from agent-c [Heartbeat]
            0: Site alps becomes Ready: 2 of 2 nodes ready [NodesReady]
            20: Node a becomes NotReady: no heartbeat for 20 s, lease lasts 20 s [HeartbeatLost]
            40: Site alps becomes NotReady: 0 of 2 nodes ready [NoNodeReady]
            40: Node b becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
            40: Node c becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
            80: Site alps becomes Ready: 1 of 2 nodes ready [NodesReady]
            80: Node b becomes Ready: heartbeat from agent-b [Heartbeat]
        "#]],
    );
}

#[test]
fn a_site_waits_for_nodes_that_are_not_judged_yet() {
    check(
        &["0 node a@alps -", "0 site alps -", "60 end"],
        expect![[r#"
            40: Site alps becomes NotReady: 0 of 1 nodes ready [NoNodeReady]
            40: Node a becomes NotReady: has never sent a heartbeat [NeverHeard]
        "#]],
    );
}

#[test]
fn a_silent_link_is_told_from_a_silent_node_by_a_sibling() {
    check(
        &[
            "0 node a@alps v1 at:host-a",
            "0 node b@alps v1",
            "30 node b@alps v2",
            "50 node b@alps v3",
            "55 node b@alps v4 reaches:a",
            "60 node b@alps v5 misses:a",
            "61 node a@alps v2 at:host-a",
            "70 end",
        ],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            0: Node b becomes Ready: heartbeat from agent-b [Heartbeat]
            40: Node a becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
            40: ask Node b whether it reaches a=host-a
            55: Node a becomes NotReady: no heartbeat for 55 s, but b still reaches the machine: its link or its agent is down [LinkSilent]
            60: Node a becomes NotReady: no heartbeat for 60 s, and b does not reach the machine either [NodeSilent]
            61: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            61: ask Node b no longer
        "#]],
    );
}

#[test]
fn a_question_is_no_sign_of_life_of_whoever_is_asked() {
    check(
        &["0 node a@alps v1 at:host-a", "0 node b@alps v1 at:host-b /60", "90 end"],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            0: Node b becomes Ready: heartbeat from agent-b [Heartbeat]
            40: Node a becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
            40: ask Node b whether it reaches a=host-a
            60: Node b becomes NotReady: no heartbeat for 60 s, lease lasts 60 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn only_siblings_are_asked_and_only_about_whom_they_can_find() {
    check(
        &[
            "0 node a@alps v1 at:host-a",
            "0 node b@sea v1",
            "0 node c@sea v1",
            "39 node b@sea v2",
            "45 end",
        ],
        expect![[r#"
            0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]
            0: Node b becomes Ready: heartbeat from agent-b [Heartbeat]
            0: Node c becomes Ready: heartbeat from agent-c [Heartbeat]
            40: Node a becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
            40: Node c becomes NotReady: no heartbeat for 40 s, lease lasts 40 s [HeartbeatLost]
        "#]],
    );
}

#[test]
fn whoever_is_gone_is_forgotten() {
    let mut observed = Observed::from([parse(&["node", "a", "v1"])]);
    let first = plan(&observed, &Memory::default(), at(0));
    observed.clear();
    let second = plan(&observed, &first.memory, at(1));
    assert_eq!(second.memory.heard, BTreeMap::new());
}

/// The version of a Lease and the seconds that it lasts.
type Shown = (u8, Option<u32>);

/// Looks of a made-up loop: how long after the last one, and what each of six members shows.
fn looks() -> impl Strategy<Value = Vec<(u64, Vec<Shown>)>> {
    let member = (0_u8..6, prop_oneof![Just(None), (0_u32..60).prop_map(Some)]);
    prop::collection::vec((0_u64..90, prop::collection::vec(member, 6)), 1..30)
}

/// Members 0 to 2 are sites, 3 to 5 nodes of the first two; version 0 is no Lease, 1 a given up one.
fn world(members: &[Shown], before: &Observed) -> Observed {
    members
        .iter()
        .enumerate()
        .map(|(index, (version, duration_seconds))| {
            let (kind, site) = match index {
                0..=2 => (Kind::Site, None),
                _ => (Kind::Node, Some((index % 2).to_string())),
            };
            let subject = Subject { kind, name: (index % 3).to_string() };
            let lease = (*version > 0).then(|| Lease {
                version: version.to_string(),
                duration_seconds: *duration_seconds,
                holder: if *version == 1 { Holder::Released } else { Holder::Unnamed },
                renewed: version.to_string(),
                probe: None,
                answers: BTreeMap::from([("0".to_owned(), *version > 3)]),
            });
            // One of them has the agent of its site, and is now and then down.
            let voice = match index {
                5 => Voice::OfSite { down: (*version > 4).then(|| "unplugged".to_owned()) },
                _ => Voice::Own,
            };
            let known = before.get(&subject);
            let ready = known.and_then(|member| member.ready);
            let reason = known.and_then(|member| member.reason.clone());
            (
                subject,
                Member { ready, reason, address: Some("host".to_owned()), site, voice, lease },
            )
        })
        .collect()
}

proptest! {
    #[test]
    fn planning_again_after_carrying_out_yields_nothing(looks in looks()) {
        let (mut now, mut memory, mut observed) = (at(0), Memory::default(), Observed::new());
        for (pause, members) in looks {
            now = now + Duration::from_secs(pause);
            observed = world(&members, &observed);
            // Whoever is found to be alive may be asked, and whoever is asked may know an answer.
            for _ in 0..3 {
                let next = plan(&observed, &memory, now);
                carry_out(&next, &mut observed);
                memory = next.memory;
            }
            let last = plan(&observed, &memory, now);
            memory = last.memory.clone();
            let again = plan(&observed, &memory, now);
            for quiet in [&last, &again] {
                prop_assert_eq!(&quiet.actions, &vec![]);
                prop_assert_eq!(&quiet.asks, &vec![]);
            }
            prop_assert_eq!(&again.memory, &last.memory);
            prop_assert!(again.wake_at > now);
        }
    }

    #[test]
    fn whoever_renews_in_time_is_never_called_silent(
        pauses in prop::collection::vec(0_u64..40, 1..60),
    ) {
        let mut teller = Teller::default();
        let mut second = 0;
        for (version, pause) in pauses.iter().enumerate() {
            second += pause;
            teller.tell(&format!("{second} node a v{version}"));
        }
        prop_assert_eq!(teller.heard, "0: Node a becomes Ready: heartbeat from agent-a [Heartbeat]\n"
            .replacen('0', &pauses[0].to_string(), 1));
    }
}
