//! What waits to be sent, the oldest first, and what was let go of because there was too much: [`Ledger`].
//! The messages themselves lie elsewhere, in memory or in files; here are their numbers.

use std::collections::VecDeque;

/// A message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Later messages have greater numbers.
    pub number: u64,
    pub bytes: u64,
    pub samples: u64,
}

#[derive(Clone, Debug)]
pub struct Ledger {
    bytes_max: u64,
    waiting: VecDeque<Piece>,
    bytes: u64,
    samples: u64,
    dropped: u64,
    next: u64,
}

impl Ledger {
    /// With what an earlier run has left, in any order. Returns what is too much of that.
    pub fn open(bytes_max: u64, mut found: Vec<Piece>) -> (Ledger, Vec<Piece>) {
        found.sort_by_key(|piece| piece.number);
        let mut ledger = Ledger {
            bytes_max,
            waiting: VecDeque::new(),
            bytes: 0,
            samples: 0,
            dropped: 0,
            next: found.last().map_or(0, |piece| piece.number + 1),
        };
        let too_much = found.into_iter().flat_map(|piece| ledger.put(piece)).collect();
        (ledger, too_much)
    }

    /// Puts a new message behind all others. Returns its number, and what has to go for it: the oldest,
    /// or itself if it is more than may wait at all.
    pub fn add(&mut self, bytes: u64, samples: u64) -> (u64, Vec<Piece>) {
        let number = self.next;
        self.next += 1;
        (number, self.put(Piece { number, bytes, samples }))
    }

    fn put(&mut self, piece: Piece) -> Vec<Piece> {
        self.waiting.push_back(piece);
        self.bytes += piece.bytes;
        self.samples += piece.samples;
        let mut gone = Vec::new();
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.samples -= oldest.samples;
            self.dropped += oldest.samples;
            gone.push(oldest);
        }
        gone
    }

    /// What is to be sent next.
    pub fn oldest(&self) -> Option<Piece> {
        self.waiting.front().copied()
    }

    /// It was sent, or nobody wants it. It may have been dropped meanwhile.
    pub fn done(&mut self, number: u64) -> Option<Piece> {
        let at = self.waiting.iter().position(|piece| piece.number == number)?;
        let piece = self.waiting.remove(at)?;
        self.bytes -= piece.bytes;
        self.samples -= piece.samples;
        Some(piece)
    }

    /// It cannot be read any more: its samples are lost.
    pub fn lost(&mut self, number: u64) {
        if let Some(piece) = self.done(number) {
            self.dropped += piece.samples;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Samples that were let go of.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(pieces: &[Piece]) -> Vec<u64> {
        pieces.iter().map(|piece| piece.number).collect()
    }

    #[test]
    fn the_oldest_go_first_and_are_counted() {
        let (mut ledger, _) = Ledger::open(100, Vec::new());
        assert_eq!(ledger.add(60, 6), (0, vec![]));
        assert_eq!(ledger.add(40, 4), (1, vec![]));
        let (number, gone) = ledger.add(10, 1);
        assert_eq!((number, numbers(&gone)), (2, vec![0]));
        assert_eq!((ledger.bytes(), ledger.samples(), ledger.dropped()), (50, 5, 6));
        assert_eq!(ledger.oldest().map(|piece| piece.number), Some(1));
    }

    #[test]
    fn a_message_that_is_more_than_may_wait_goes_itself() {
        let (mut ledger, _) = Ledger::open(100, Vec::new());
        ledger.add(50, 5);
        assert_eq!(numbers(&ledger.add(101, 10).1), [0, 1]);
        assert_eq!((ledger.oldest(), ledger.dropped()), (None, 15));
    }

    #[test]
    fn what_an_earlier_run_left_is_first_and_no_number_is_used_twice() {
        let piece = |number| Piece { number, bytes: 40, samples: 4 };
        let (mut ledger, gone) = Ledger::open(100, vec![piece(9), piece(3), piece(7)]);
        assert_eq!(numbers(&gone), [3]);
        assert_eq!(ledger.oldest(), Some(piece(7)));
        assert_eq!(ledger.add(1, 1).0, 10);
    }

    #[test]
    fn what_was_dropped_while_it_was_sent_is_not_subtracted_twice() {
        let (mut ledger, _) = Ledger::open(100, Vec::new());
        let (sending, _) = ledger.add(100, 5);
        ledger.add(100, 5);
        assert_eq!(ledger.done(sending), None);
        assert_eq!((ledger.bytes(), ledger.samples()), (100, 5));
        ledger.lost(1);
        assert_eq!((ledger.bytes(), ledger.dropped()), (0, 10));
    }

    proptest! {
        #[test]
        fn nothing_is_forgotten_without_being_counted(steps in prop::collection::vec((1..60_u64, any::<bool>()), 0..200)) {
            let (mut ledger, _) = Ledger::open(100, Vec::new());
            let (mut added, mut sent) = (0, 0);
            for (bytes, send) in steps {
                ledger.add(bytes, bytes);
                added += bytes;
                if send && let Some(oldest) = ledger.oldest() {
                    ledger.done(oldest.number);
                    sent += oldest.samples;
                }
                prop_assert!(ledger.bytes() <= 100);
                prop_assert_eq!(added, sent + ledger.samples() + ledger.dropped());
            }
        }
    }
}
