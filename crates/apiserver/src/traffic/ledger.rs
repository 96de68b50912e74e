//! What is held for whom: bodies that arrive, watches, answers that are not written yet. Pure;
//! [`crate::traffic`] keeps it behind a lock, and gives back what it took when its guards are dropped.
//!
//! Somebody who holds nothing is given something even when the whole is used up: it is those who hold
//! much who must wait. And what alone is larger than a bound is still given to somebody who holds
//! nothing, or it could never be had.

use std::collections::BTreeMap;

use super::flow::Flow;
use super::limits::{Bound, Limits};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Good {
    Bodies,
    BodyBytes,
    Watches,
    AnswerBytes,
    /// Requests of those who have not signed in, until their answers are written.
    Strangers,
}

/// The number of goods.
const GOODS: usize = 5;

/// When the bound in all is passed, those who hold nothing may pass it so many times more.
const OVERDRAFT: usize = 2;

/// A connection, by the order in which it came.
pub(crate) type ConnectionId = u64;

#[derive(Debug)]
pub(crate) struct Ledger {
    bounds: [Bound; GOODS],
    answer_bytes_per_connection: usize,
    in_all: [usize; GOODS],
    /// Only of those who hold something.
    flows: BTreeMap<Flow, [usize; GOODS]>,
    /// Bytes of answers.
    connections: BTreeMap<ConnectionId, usize>,
}

/// On whose account something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub flow: Flow,
    pub connection: ConnectionId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Ledger {
    pub(crate) fn new(limits: &Limits) -> Ledger {
        Ledger {
            bounds: [
                limits.bodies,
                limits.body_bytes,
                limits.watches,
                limits.answer_bytes,
                limits.strangers_asking,
            ],
            answer_bytes_per_connection: limits.answer_bytes_per_connection,
            in_all: [0; GOODS],
            flows: BTreeMap::new(),
            connections: BTreeMap::new(),
        }
    }

    pub(crate) fn take(
        &mut self,
        account: &Account,
        good: Good,
        amount: usize,
    ) -> Result<(), Full> {
        let row = good as usize;
        let bound = self.bounds[row];
        let own = self.flows.get(&account.flow).map_or(0, |held| held[row]);
        let in_all = self.in_all[row];
        let fits = |held: usize, bound: usize| held == 0 || held + amount <= bound;
        let in_all_max = if own == 0 { bound.in_all * OVERDRAFT } else { bound.in_all };
        if !fits(own, bound.per_flow) || !fits(in_all, in_all_max) {
            return Err(Full);
        }
        if good == Good::AnswerBytes {
            let held = self.connections.get(&account.connection).copied().unwrap_or(0);
            if !fits(held, self.answer_bytes_per_connection) {
                return Err(Full);
            }
            *self.connections.entry(account.connection).or_default() += amount;
        }
        self.in_all[row] += amount;
        self.flows.entry(account.flow.clone()).or_default()[row] += amount;
        Ok(())
    }

    /// Whether nothing is held for anybody.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.connections.is_empty()
    }

    pub(crate) fn give_back(&mut self, account: &Account, good: Good, amount: usize) {
        let row = good as usize;
        self.in_all[row] -= amount;
        if let Some(held) = self.flows.get_mut(&account.flow) {
            held[row] -= amount;
            if *held == [0; GOODS] {
                self.flows.remove(&account.flow);
            }
        }
        if good == Good::AnswerBytes
            && let Some(held) = self.connections.get_mut(&account.connection)
        {
            *held -= amount;
            if *held == 0 {
                self.connections.remove(&account.connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(&Limits {
            answer_bytes: Bound { per_flow: 100, in_all: 150 },
            answer_bytes_per_connection: 60,
            bodies: Bound { per_flow: 2, in_all: 3 },
            ..Limits::default()
        })
    }

    fn account(name: &str, connection: ConnectionId) -> Account {
        Account { flow: Flow::Subject(name.into()), connection }
    }

    /// Each step is `name connection amount`, and a minus gives back. Answers `+` or `-` for each.
    #[track_caller]
    fn check(steps: &[(&str, ConnectionId, i64)], expected: &str) {
        let mut ledger = ledger();
        let mut told = String::new();
        for (name, connection, amount) in steps {
            let account = account(name, *connection);
            let size = usize::try_from(amount.abs()).unwrap();
            if *amount < 0 {
                ledger.give_back(&account, Good::AnswerBytes, size);
                continue;
            }
            let taken = ledger.take(&account, Good::AnswerBytes, size).is_ok();
            told.push(if taken { '+' } else { '-' });
        }
        assert_eq!(told, expected);
    }

    #[test]
    fn a_flow_has_its_bound_over_all_its_connections() {
        check(&[("anna", 1, 50), ("anna", 2, 50), ("anna", 3, 1)], "++-");
        check(&[("anna", 1, 50), ("anna", 2, 50), ("anna", 1, -50), ("anna", 3, 50)], "+++");
    }

    #[test]
    fn a_connection_has_its_bound_over_all_its_flows() {
        check(&[("anna", 1, 50), ("bert", 1, 20), ("bert", 2, 20)], "+-+");
    }

    #[test]
    fn who_holds_nothing_is_given_something_when_the_whole_is_used_up() {
        check(
            &[("anna", 1, 90), ("bert", 2, 60), ("bert", 3, 10), ("cleo", 4, 90), ("dora", 5, 90)],
            "++-+-",
        );
    }

    #[test]
    fn what_is_larger_than_any_bound_is_had_by_who_holds_nothing() {
        check(&[("anna", 1, 900), ("anna", 2, 1), ("anna", 1, -900), ("bert", 1, 900)], "+-+");
    }

    #[test]
    fn bytes_that_were_refused_are_not_held() {
        let mut ledger = ledger();
        let anna = account("anna", 1);
        ledger.take(&anna, Good::AnswerBytes, 60).unwrap();
        for _ in 0..10 {
            assert_eq!(ledger.take(&anna, Good::AnswerBytes, 60), Err(Full));
        }
        ledger.give_back(&anna, Good::AnswerBytes, 60);
        assert_eq!(ledger.in_all, [0; GOODS]);
        assert!(ledger.flows.is_empty() && ledger.connections.is_empty());
    }

    #[test]
    fn goods_are_counted_apart() {
        let mut ledger = ledger();
        let anna = account("anna", 1);
        ledger.take(&anna, Good::AnswerBytes, 60).unwrap();
        ledger.take(&anna, Good::Bodies, 1).unwrap();
        ledger.take(&anna, Good::Bodies, 1).unwrap();
        assert_eq!(ledger.take(&anna, Good::Bodies, 1), Err(Full));
    }
}
