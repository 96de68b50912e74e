//! The links of a way. There are a million ways between a thousand sites, and most cross few links:
//! those are kept in place, without a piece of memory for each.

use std::ops::{Deref, DerefMut};

/// More of them than this lie elsewhere.
const FEW: usize = 7;

/// Numbers of links, in the order of travel.
#[derive(Clone, Debug)]
pub struct Hops(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Few(u8, [u32; FEW]),
    Many(Box<[u32]>),
}

impl Deref for Hops {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match &self.0 {
            Kept::Few(count, links) => &links[..usize::from(*count)],
            Kept::Many(links) => links,
        }
    }
}

impl DerefMut for Hops {
    fn deref_mut(&mut self) -> &mut [u32] {
        match &mut self.0 {
            Kept::Few(count, links) => &mut links[..usize::from(*count)],
            Kept::Many(links) => links,
        }
    }
}

impl From<&[u32]> for Hops {
    fn from(links: &[u32]) -> Hops {
        match (links.len() <= FEW, u8::try_from(links.len())) {
            (true, Ok(count)) => {
                let mut few = [0; FEW];
                few[..links.len()].copy_from_slice(links);
                Hops(Kept::Few(count, few))
            }
            (_, _) => Hops(Kept::Many(links.into())),
        }
    }
}

impl Default for Hops {
    fn default() -> Hops {
        Hops(Kept::Few(0, [0; FEW]))
    }
}

impl PartialEq for Hops {
    fn eq(&self, other: &Hops) -> bool {
        **self == **other
    }
}

impl Eq for Hops {}

impl FromIterator<u32> for Hops {
    fn from_iter<I: IntoIterator<Item = u32>>(links: I) -> Hops {
        let links: Vec<u32> = links.into_iter().collect();
        Hops::from(links.as_slice())
    }
}

impl<'h> IntoIterator for &'h Hops {
    type Item = &'h u32;
    type IntoIter = std::slice::Iter<'h, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_it_was_given_however_much_it_is() {
        for count in 0..20 {
            let links: Vec<u32> = (0..count).collect();
            let mut hops: Hops = links.iter().copied().collect();
            assert_eq!(*hops, *links);
            assert_eq!(hops, Hops::from(links.as_slice()));
            hops.iter_mut().for_each(|link| *link += 1);
            assert!(hops.iter().copied().eq(1..=count));
        }
    }
}
