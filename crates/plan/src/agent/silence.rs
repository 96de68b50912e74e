//! What an agent makes of the server's silence: since when it is cut off, and whether its orders are still
//! to be believed when the server is back. Called by `tombolo_agent::work` before each look; start at
//! [`Silence::listen`].

use std::time::Duration;

use crate::Monotonic;
use crate::instances::Authority;

/// What one look leaves for the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// When the question was sent that the server answered last.
    heard: Option<Monotonic>,
    /// The server was silent for too long, is back, and has not listed the orders since.
    returned: bool,
}

/// What the agent knows of the server now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Since when nothing was heard; nothing if that is not long ago.
    pub cut_off_since: Option<Monotonic>,
    /// When the agent counts as cut off if nothing is heard meanwhile: what is to stop then must stop
    /// before another is started elsewhere.
    pub silent_at: Option<Monotonic>,
    /// Nothing was heard since the agent started, or nothing was listed since a silence.
    pub unheard: bool,
}

/// What follows from what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orders {
    /// They are as good as before.
    Stand,
    /// What has ended during the silence may run elsewhere, and begins here again only when the server
    /// has listed it anew: ask for a list, and believe nothing before.
    ListAnew,
}

impl Silence {
    /// Takes note of when the server was last heard. `deadlines` says whether something here ends by
    /// itself during a silence; without that a silence changes nothing.
    pub fn listen(
        &mut self,
        heard: Option<Monotonic>,
        silent_after: Duration,
        deadlines: Deadlines,
        authority: Authority,
    ) -> Orders {
        let before = std::mem::replace(&mut self.heard, heard);
        let (Some(before), Some(now)) = (before, heard) else { return Orders::Stand };
        if now.since(before) >= silent_after && deadlines == Deadlines::Some {
            self.returned = true;
            return Orders::ListAnew;
        }
        self.returned = self.returned && authority == Authority::Doubtful;
        Orders::Stand
    }

    pub fn word(&self, silent_after: Duration, now: Monotonic) -> Word {
        let heard = self.heard.unwrap_or_default();
        let silent_at = heard + silent_after;
        Word {
            cut_off_since: (now >= silent_at).then_some(heard),
            silent_at: (now < silent_at).then_some(silent_at),
            unheard: self.heard.is_none() || self.returned,
        }
    }
}

/// Whether instances here are to end when the server is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    None,
    Some,
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const SILENT_AFTER: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(seconds))
    }

    /// Each line is `SECOND`, then `heard N` for an answer to what was asked at N, or `list` for a list of
    /// the orders, or nothing.
    #[track_caller]
    fn check(deadlines: Deadlines, steps: &[&str], expect: Expect) {
        let (mut silence, mut heard, mut authority) = (Silence::default(), None, Authority::Fresh);
        let mut text = String::new();
        for step in steps {
            let words: Vec<&str> = step.split_whitespace().collect();
            let now: u64 = words[0].parse().unwrap();
            match words[1..] {
                ["heard", asked] => heard = Some(at(asked.parse().unwrap())),
                ["list"] => authority = Authority::Fresh,
                _ => (),
            }
            let orders = silence.listen(heard, SILENT_AFTER, deadlines, authority);
            if orders == Orders::ListAnew {
                authority = Authority::Doubtful;
            }
            let Word { cut_off_since, silent_at, unheard } = silence.word(SILENT_AFTER, at(now));
            let cut_off = cut_off_since.map_or(String::new(), |at| format!(", cut off since {at}"));
            let silent = silent_at.map_or(String::new(), |at| format!(", silent at {at}"));
            let unheard = if unheard { ", unheard" } else { "" };
            text.push_str(&format!("{step}: {orders:?}{cut_off}{silent}{unheard}\n"));
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn who_was_never_heard_is_silent_from_the_start_of_the_agent() {
        check(
            Deadlines::Some,
            &["0", "29", "30", "40 heard 39"],
            expect![[r"
                0: Stand, silent at 30s, unheard
                29: Stand, silent at 30s, unheard
                30: Stand, cut off since 0ns, unheard
                40 heard 39: Stand, silent at 69s
            "]],
        );
    }

    #[test]
    fn after_a_silence_the_orders_are_asked_for_and_believed_when_they_are_listed() {
        check(
            Deadlines::Some,
            &["1 heard 0", "40", "50 heard 49", "60 heard 59", "61 list", "62 heard 61"],
            expect![[r"
                1 heard 0: Stand, silent at 30s
                40: Stand, cut off since 0ns
                50 heard 49: ListAnew, silent at 79s, unheard
                60 heard 59: Stand, silent at 89s, unheard
                61 list: Stand, silent at 89s
                62 heard 61: Stand, silent at 91s
            "]],
        );
    }

    #[test]
    fn where_nothing_ends_by_itself_a_silence_leaves_the_orders_as_they_are() {
        check(
            Deadlines::None,
            &["1 heard 0", "50 heard 49"],
            expect![[r"
                1 heard 0: Stand, silent at 30s
                50 heard 49: Stand, silent at 79s
            "]],
        );
    }
}
