//! A set of small numbers, one bit each: which nodes are still in question. Used by
//! [`crate::filter`].

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// All numbers below `len`.
    pub(crate) fn full(len: usize) -> Bits {
        let mut words = vec![u64::MAX; len.div_ceil(64)];
        if let (Some(last), rest @ 1..) = (words.last_mut(), len % 64) {
            *last = (1 << rest) - 1;
        }
        Bits { words }
    }

    pub(crate) fn none(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(64)] }
    }

    pub(crate) fn insert(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// Keeps what is in both.
    pub(crate) fn and(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Adds what is in the other.
    pub(crate) fn or(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Keeps the numbers for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        for (base, word) in (0u32..).step_by(64).zip(&mut self.words) {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if !keep(base + bit) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).step_by(64).zip(&self.words).flat_map(|(base, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(base + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_exactly_what_was_kept() {
        for len in [0usize, 1, 63, 64, 65, 130] {
            let mut bits = Bits::full(len);
            assert_eq!(bits.iter().count(), len);
            bits.retain(|number| number % 3 == 0);
            let expected: Vec<u32> =
                (0..u32::try_from(len).unwrap()).filter(|n| n % 3 == 0).collect();
            assert_eq!(bits.iter().collect::<Vec<_>>(), expected);
            assert!(!bits.contains(1));
            bits.insert(64);
            assert_eq!(bits.contains(64), len > 64);
            bits.remove(64);
            assert!(!bits.contains(64));
            assert_eq!(bits.count(), expected.iter().filter(|n| **n != 64).count());
            let mut odd = Bits::full(len);
            odd.retain(|number| number % 2 == 1);
            let mut both = bits.clone();
            both.and(&odd);
            assert!(both.iter().all(|n| n % 6 == 3));
            odd.or(&bits);
            assert_eq!(odd.count(), bits.count() + len / 2 - both.count());
        }
    }
}
