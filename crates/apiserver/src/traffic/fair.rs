//! The fair queue before the seats of one level. Pure: [`crate::traffic`] holds it behind a lock and
//! wakes those whose turn it is.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996): each request has a start tag, the later of the
//! virtual time and the finish tag of its flow's previous request; its finish tag is its width later.
//! The smallest start tag is served next, and the virtual time is that of the request served last. So
//! flows that want seats get the same share of them, whatever the length of their queues.

use std::collections::BTreeMap;

use super::flow::Flow;
use super::limits::Share;

/// A request that waits. In the order in which they are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    start: u64,
    number: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has its seats.
    Start,
    /// It waits, and `dropped` does no more: its flow had the longest queue of a full level. `started`
    /// have seats now, it itself perhaps among them: its turn may be before that of a wide request, for
    /// which there is no room yet.
    Wait {
        ticket: Ticket,
        dropped: Option<Ticket>,
        started: Vec<Ticket>,
    },
    Refuse,
}

#[derive(Debug)]
pub(crate) struct Fair {
    share: Share,
    /// Requests of one flow that have seats at once.
    at_once_per_flow: usize,
    seats_used: usize,
    virtual_time: u64,
    next_number: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Only of flows that hold or want something: their number is bounded by that of the requests.
    flows: BTreeMap<Flow, Line>,
}

#[derive(Debug)]
struct Waiting {
    flow: Flow,
    width: usize,
}

#[derive(Debug, Default)]
struct Line {
    waiting: usize,
    under_way: usize,
    /// The finish tag of the flow's last request.
    finish: u64,
}

impl Fair {
    pub(crate) fn new(share: Share) -> Fair {
        Fair {
            share,
            at_once_per_flow: usize::MAX,
            seats_used: 0,
            virtual_time: 0,
            next_number: 0,
            waiting: BTreeMap::new(),
            flows: BTreeMap::new(),
        }
    }

    /// One seat for each flow, for what may take a minute: a seat that nobody gives back meanwhile is not to
    /// be had by any order of those who wait, so that one flow must not have them all.
    pub(crate) fn one_for_each(share: Share) -> Fair {
        Fair { at_once_per_flow: 1, ..Fair::new(share) }
    }

    /// How many seats a request of this width takes: never more than there are, or it would wait for ever.
    pub(crate) fn seats_of(&self, width: usize) -> usize {
        width.clamp(1, self.share.seats)
    }

    pub(crate) fn arrive(&mut self, flow: &Flow, width: usize) -> Verdict {
        let width = self.seats_of(width);
        let has_its_own = self.has_its_own(flow);
        if self.waiting.is_empty() && !has_its_own && self.seats_used + width <= self.share.seats {
            let ticket = self.tag(flow, width);
            self.virtual_time = ticket.start;
            self.seats_used += width;
            self.line(flow).under_way += 1;
            return Verdict::Start;
        }
        let own = self.flows.get(flow).map_or(0, |line| line.waiting);
        if own >= self.share.waiting_per_flow {
            return Verdict::Refuse;
        }
        let mut dropped = None;
        if self.waiting.len() >= self.share.waiting {
            dropped = self.drop_newest_of_the_longest(own);
            if dropped.is_none() {
                return Verdict::Refuse;
            }
        }
        let ticket = self.tag(flow, width);
        self.line(flow).waiting += 1;
        self.waiting.insert(ticket, Waiting { flow: flow.clone(), width });
        Verdict::Wait { ticket, dropped, started: self.start() }
    }

    /// A request of `flow` is done; those who have seats now.
    pub(crate) fn leave(&mut self, flow: &Flow, width: usize) -> Vec<Ticket> {
        self.seats_used -= self.seats_of(width);
        self.line(flow).under_way -= 1;
        self.forget_if_idle(flow);
        self.start()
    }

    /// A request waits no longer, because its client went away or its time is up. Those who have seats
    /// now: a wide request may have stood before narrower ones.
    pub(crate) fn give_up(&mut self, ticket: Ticket) -> Vec<Ticket> {
        self.remove(ticket);
        self.start()
    }

    fn start(&mut self) -> Vec<Ticket> {
        let mut started = Vec::new();
        // A wide request that does not fit yet is not overtaken, or it would never have its turn.
        while let Some((ticket, width)) = self.next()
            && self.seats_used + width <= self.share.seats
            && let Some(Waiting { flow, width }) = self.waiting.remove(&ticket)
        {
            self.virtual_time = self.virtual_time.max(ticket.start);
            self.seats_used += width;
            let line = self.line(&flow);
            line.waiting -= 1;
            line.under_way += 1;
            started.push(ticket);
        }
        started
    }

    /// The first who waits for a seat and not for the end of another request of its own.
    fn next(&self) -> Option<(Ticket, usize)> {
        let mut waiting =
            self.waiting.iter().filter(|(_, waiting)| !self.has_its_own(&waiting.flow));
        waiting.next().map(|(ticket, waiting)| (*ticket, waiting.width))
    }

    fn has_its_own(&self, flow: &Flow) -> bool {
        self.flows.get(flow).is_some_and(|line| line.under_way >= self.at_once_per_flow)
    }

    fn tag(&mut self, flow: &Flow, width: usize) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        let virtual_time = self.virtual_time;
        let line = self.line(flow);
        let start = virtual_time.max(line.finish);
        line.finish = start + width as u64;
        Ticket { start, number }
    }

    /// Longest queue drop (McKenney 1990): the flow with most waiting requests, if it has more than the
    /// newcomer's, loses its newest.
    fn drop_newest_of_the_longest(&mut self, own: usize) -> Option<Ticket> {
        let (longest, _) = self
            .flows
            .iter()
            .filter(|(_, line)| line.waiting > own)
            .max_by_key(|(_, line)| line.waiting)?;
        let newest = self.waiting.iter().rev().find(|(_, waiting)| waiting.flow == *longest);
        let ticket = *newest?.0;
        self.remove(ticket);
        Some(ticket)
    }

    fn remove(&mut self, ticket: Ticket) {
        let Some(Waiting { flow, width }) = self.waiting.remove(&ticket) else { return };
        let line = self.line(&flow);
        line.waiting -= 1;
        // What it did not use is not held against its flow.
        line.finish = line.finish.saturating_sub(width as u64);
        self.forget_if_idle(&flow);
    }

    fn line(&mut self, flow: &Flow) -> &mut Line {
        if !self.flows.contains_key(flow) {
            self.flows.insert(flow.clone(), Line::default());
        }
        self.flows.get_mut(flow).expect("inserted a line ago")
    }

    fn forget_if_idle(&mut self, flow: &Flow) {
        if self.flows.get(flow).is_some_and(|line| line.waiting == 0 && line.under_way == 0) {
            self.flows.remove(flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn flow(name: &str) -> Flow {
        Flow::Subject(name.into())
    }

    /// Two seats, eight places to wait, six of them for one flow. `anna*3` brings three requests, `anna:2`
    /// one that is two seats wide, `-anna` ends one of anna's. Tells what becomes of each.
    #[track_caller]
    fn check(steps: &[&str], expect: Expect) {
        let share = Share { seats: 2, waiting: 8, waiting_per_flow: 6 };
        check_in(Fair::new(share), steps, expect);
    }

    #[track_caller]
    fn check_in(mut fair: Fair, steps: &[&str], expect: Expect) {
        let mut told = String::new();
        let mut owners = BTreeMap::new();
        let mut widths: BTreeMap<Flow, Vec<usize>> = BTreeMap::new();
        for step in steps {
            told += &format!("{step}:");
            if let Some(name) = step.strip_prefix('-') {
                let width = widths.get_mut(&flow(name)).and_then(Vec::pop).unwrap();
                for ticket in fair.leave(&flow(name), width) {
                    let (name, width): (&str, usize) = owners.remove(&ticket).unwrap();
                    widths.entry(flow(name)).or_default().push(width);
                    told += &format!(" {name} starts");
                }
            } else {
                let (name, count) = step.split_once('*').unwrap_or((step, "1"));
                let (name, width) = name.split_once(':').unwrap_or((name, "1"));
                let width: usize = width.parse().unwrap();
                for _ in 0..count.parse().unwrap() {
                    match fair.arrive(&flow(name), width) {
                        Verdict::Start => {
                            widths.entry(flow(name)).or_default().push(width);
                            told += " starts";
                        }
                        Verdict::Refuse => told += " refused",
                        Verdict::Wait { ticket, dropped, started } => {
                            owners.insert(ticket, (name, width));
                            told += " waits";
                            if let Some((name, _)) = dropped.map(|it| owners.remove(&it).unwrap()) {
                                told += &format!(" ({name} dropped)");
                            }
                            for ticket in started {
                                let (name, width) = owners.remove(&ticket).unwrap();
                                widths.entry(flow(name)).or_default().push(width);
                                told += &format!(" ({name} starts)");
                            }
                        }
                    }
                }
            }
            told += "\n";
        }
        expect.assert_eq(&told);
    }

    #[test]
    fn a_flow_with_one_request_waits_for_one_turn_however_many_others_brought() {
        check(
            &["flood*7", "anna", "-flood", "-flood", "-flood"],
            expect![[r#"
                flood*7: starts starts waits waits waits waits waits
                anna: waits
                -flood: anna starts
                -flood: flood starts
                -flood: flood starts
            "#]],
        );
    }

    #[test]
    fn flows_that_both_want_more_take_turns() {
        check(
            &["anna*4", "bert*2", "-anna", "-anna", "-bert", "-anna"],
            expect![[r#"
                anna*4: starts starts waits waits
                bert*2: waits waits
                -anna: bert starts
                -anna: anna starts
                -bert: bert starts
                -anna: anna starts
            "#]],
        );
    }

    #[test]
    fn where_each_has_one_seat_a_loop_of_one_client_keeps_no_other_waiting() {
        let fair = Fair::one_for_each(Share { seats: 2, waiting: 8, waiting_per_flow: 6 });
        check_in(
            fair,
            &["loop*3", "anna", "bert*2", "-loop", "-anna", "-bert", "-loop", "-bert", "-loop"],
            expect![[r#"
                loop*3: starts waits waits
                anna: waits (anna starts)
                bert*2: waits waits
                -loop: bert starts
                -anna: loop starts
                -bert: bert starts
                -loop: loop starts
                -bert:
                -loop:
            "#]],
        );
    }

    #[test]
    fn past_its_own_queue_a_flow_is_refused_and_others_are_not() {
        check(
            &["flood*10", "anna"],
            expect![[r#"
                flood*10: starts starts waits waits waits waits waits waits refused refused
                anna: waits
            "#]],
        );
    }

    #[test]
    fn when_the_level_is_full_the_longest_queue_loses_its_newest() {
        check(
            &["flood*8", "anna*2", "bert", "anna"],
            expect![[r#"
                flood*8: starts starts waits waits waits waits waits waits
                anna*2: waits waits
                bert: waits (flood dropped)
                anna: waits (flood dropped)
            "#]],
        );
    }

    #[test]
    fn a_wide_request_is_not_overtaken_for_ever_and_costs_its_flow_more() {
        check(
            &["anna", "list:2", "anna", "-anna", "-list"],
            expect![[r#"
                anna: starts
                list:2: waits
                anna: waits
                -anna: list starts
                -list: anna starts
            "#]],
        );
        check(
            &["list:9", "anna"],
            expect![[r#"
                list:9: starts
                anna: waits
            "#]],
        );
    }

    #[test]
    fn who_gives_up_makes_room_for_those_behind() {
        let mut fair = Fair::new(Share { seats: 2, waiting: 8, waiting_per_flow: 6 });
        assert_eq!(fair.arrive(&flow("anna"), 1), Verdict::Start);
        let Verdict::Wait { ticket: wide, .. } = fair.arrive(&flow("list"), 2) else {
            panic!("there is no room for it");
        };
        let Verdict::Wait { ticket: narrow, .. } = fair.arrive(&flow("bert"), 1) else {
            panic!("it does not overtake");
        };
        assert_eq!(fair.give_up(wide), [narrow]);
        assert_eq!(fair.leave(&flow("anna"), 1), []);
        assert_eq!(fair.leave(&flow("bert"), 1), []);
        assert!(fair.flows.is_empty(), "nothing is kept of those who left");
    }

    proptest! {
        /// Whatever comes and goes: seats are never overbooked, nobody waits beside a free seat of their
        /// width, bounds are kept, and in the end nothing is left.
        #[test]
        fn seats_are_neither_overbooked_nor_left_empty(
            one_for_each in proptest::bool::ANY,
            steps in proptest::collection::vec((0_u8..5, 1_usize..6, 0_u8..3), 0..200),
        ) {
            let share = Share { seats: 4, waiting: 10, waiting_per_flow: 5 };
            let mut fair = if one_for_each { Fair::one_for_each(share) } else { Fair::new(share) };
            let mut under_way: Vec<(Flow, usize)> = Vec::new();
            let mut waiting: BTreeMap<Ticket, (Flow, usize)> = BTreeMap::new();
            for (who, width, what) in steps {
                let who = flow(&who.to_string());
                let started = match what {
                    0 | 1 => match fair.arrive(&who, width) {
                        Verdict::Start => { under_way.push((who, width)); vec![] }
                        Verdict::Refuse => vec![],
                        Verdict::Wait { ticket, dropped, started } => {
                            waiting.insert(ticket, (who, width));
                            if let Some(dropped) = dropped {
                                prop_assert!(waiting.remove(&dropped).is_some());
                            }
                            started
                        }
                    },
                    _ if width < 3 && !waiting.is_empty() => {
                        let (ticket, _) = waiting.pop_first().unwrap();
                        fair.give_up(ticket)
                    }
                    _ => match under_way.pop() {
                        Some((flow, width)) => fair.leave(&flow, width),
                        None => vec![],
                    },
                };
                for ticket in started {
                    under_way.push(waiting.remove(&ticket).unwrap());
                }
                let used: usize = under_way.iter().map(|(_, width)| fair.seats_of(*width)).sum();
                prop_assert_eq!(used, fair.seats_used);
                prop_assert!(used <= share.seats);
                prop_assert!(waiting.len() <= share.waiting);
                prop_assert_eq!(waiting.len(), fair.waiting.len());
                let has_one = |flow: &Flow| under_way.iter().any(|(other, _)| other == flow);
                let mut may = waiting.values().filter(|(flow, _)| !one_for_each || !has_one(flow));
                let next = may.next().map(|(_, width)| fair.seats_of(*width));
                let flows: std::collections::BTreeSet<&Flow> =
                    under_way.iter().map(|(flow, _)| flow).collect();
                prop_assert!(!one_for_each || flows.len() == under_way.len());
                prop_assert!(next.is_none_or(|next| used + next > share.seats));
            }
            while let Some((ticket, _)) = waiting.pop_first() {
                for started in fair.give_up(ticket) {
                    under_way.push(waiting.remove(&started).unwrap());
                }
            }
            for (flow, width) in under_way {
                prop_assert_eq!(fair.leave(&flow, width), []);
            }
            prop_assert!(fair.flows.is_empty() && fair.seats_used == 0);
        }
    }
}
