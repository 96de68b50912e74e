//! Two machines with one identity: a data folder that was copied, or a disk that was cloned.
//!
//! Every start of an agent has an instance id of its own and writes it into the Lease of its node.
//! A new id is taken as a restart, at once: an agent that was killed must not wait. But if the one
//! that was taken over from is heard again, both are alive, and so there are two. The first stays,
//! the newcomer is put under quarantine. The apiserver asks [`Seats::beat`] at every heartbeat.

/// More restarts than this between two heartbeats do not happen.
const SEATS_MAX: usize = 8;

/// The instances of one node in the order in which they were first heard; the last one holds it.
/// Lost with the process, and found again within two heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    order: Vec<String>,
}

/// What a heartbeat means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// From the instance that holds the node.
    Kept,
    /// From a new instance, which holds the node now; its predecessor is thought dead.
    Taken { from: Option<String> },
    /// From a predecessor, which is not dead. It holds the node again; the newcomer must go.
    Cloned { original: String, newcomer: String },
}

impl Seats {
    pub fn beat(&mut self, instance: &str) -> Beat {
        let Some(seat) = self.order.iter().position(|known| known == instance) else {
            let from = self.order.last().cloned();
            if self.order.len() == SEATS_MAX {
                self.order.remove(0);
            }
            self.order.push(instance.to_owned());
            return Beat::Taken { from };
        };
        match self.order.split_off(seat + 1).pop() {
            None => Beat::Kept,
            Some(newcomer) => Beat::Cloned { original: instance.to_owned(), newcomer },
        }
    }

    /// It has left in good order, and the instance that comes next is not taken for its clone.
    pub fn release(&mut self) {
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// The heartbeats in their order; `-` is a good-bye.
    #[track_caller]
    fn check(beats: &str, expect: Expect) {
        let mut seats = Seats::default();
        let lines: Vec<String> = beats
            .split_whitespace()
            .map(|instance| {
                if instance == "-" {
                    seats.release();
                    return "released".to_owned();
                }
                match seats.beat(instance) {
                    Beat::Kept => format!("{instance} kept"),
                    Beat::Taken { from } => format!("{instance} took over from {from:?}"),
                    Beat::Cloned { original, newcomer } => {
                        format!("{newcomer} is a clone of {original}")
                    }
                }
            })
            .collect();
        expect.assert_eq(&lines.join("; "));
    }

    #[test]
    fn a_restart_is_no_clone() {
        check("a a", expect!["a took over from None; a kept"]);
        check(
            "a b b c c",
            expect![[
                r#"a took over from None; b took over from Some("a"); b kept; c took over from Some("b"); c kept"#
            ]],
        );
    }

    #[test]
    fn the_first_is_heard_again_and_the_newcomer_must_go() {
        check(
            "a b a a",
            expect![[
                r#"a took over from None; b took over from Some("a"); b is a clone of a; a kept"#
            ]],
        );
        check(
            "a b c b b",
            expect![[
                r#"a took over from None; b took over from Some("a"); c took over from Some("b"); c is a clone of b; b kept"#
            ]],
        );
    }

    #[test]
    fn of_three_at_once_only_the_first_stays() {
        check(
            "a b c a b a",
            expect![[
                r#"a took over from None; b took over from Some("a"); c took over from Some("b"); c is a clone of a; b took over from Some("a"); b is a clone of a"#
            ]],
        );
    }

    #[test]
    fn whoever_leaves_in_good_order_is_no_original() {
        check(
            "a - b a",
            expect![[
                r#"a took over from None; released; b took over from None; a took over from Some("b")"#
            ]],
        );
    }

    #[test]
    fn memory_stays_small() {
        let mut seats = Seats::default();
        for start in 0..1000 {
            seats.beat(&start.to_string());
        }
        assert_eq!(seats.order.len(), SEATS_MAX);
    }
}
