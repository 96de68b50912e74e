//! Devices one by one. A device goes by several names and a graphics processor by its memory, so that
//! two who ask in different words may mean the same one; counts by name would give it to both.

use super::Amounts;

/// Of a node what is attached to it; of an instance what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attached<'a> {
    /// The memory of each graphics processor, the least first.
    pub gpus: Vec<u64>,
    /// The names of each device.
    pub shelf: Vec<Vec<&'a str>>,
    /// By which names devices of the shelf were given away. Which of them, nobody knows.
    pub held: Vec<&'a str>,
}

impl<'a> Attached<'a> {
    /// So many graphics processors with so much memory each.
    pub(super) fn asked(gpu: u64, memory: u64) -> Option<Box<Attached<'a>>> {
        let count = usize::try_from(gpu).unwrap_or(usize::MAX).min(1024);
        let gpus = vec![memory; count];
        (count > 0).then(|| Box::new(Attached { gpus, ..Attached::default() }))
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.shelf.iter().flatten().any(|known| *known == name)
    }

    pub(super) fn without(&self, used: &Amounts<'_>) -> Attached<'a> {
        let mut left = self.clone();
        let asked = used.attached.as_ref().map_or(&[][..], |asked| &asked.gpus);
        for memory in asked.iter().rev() {
            // Who needs little gets the least that will do.
            if let Some(at) = left.gpus.iter().position(|has| has >= memory) {
                left.gpus.remove(at);
            }
        }
        for (name, count) in &used.devices {
            let known = self.shelf.iter().flatten().find(|known| *known == name);
            let count = usize::try_from(*count).unwrap_or(usize::MAX).min(self.shelf.len() + 1);
            left.held.extend(known.into_iter().flat_map(|name| vec![*name; count]));
        }
        left
    }

    /// How many devices that go by any of the names can still be given away.
    pub(super) fn left(&self, names: &[&str]) -> u64 {
        let mut taken: Vec<Option<usize>> = vec![None; self.shelf.len()];
        let mut asked: Vec<Vec<&str>> = self.held.iter().map(|name| vec![*name]).collect();
        for number in 0..asked.len() {
            if !self.give(number, &asked, &mut taken, &mut vec![false; self.shelf.len()]) {
                return 0;
            }
        }
        let mut count = 0;
        loop {
            asked.push(names.to_vec());
            let number = asked.len() - 1;
            if !self.give(number, &asked, &mut taken, &mut vec![false; self.shelf.len()]) {
                return count;
            }
            count += 1;
        }
    }

    /// Gives one more its device; others may have to take another one that they also like.
    fn give(
        &self,
        number: usize,
        asked: &[Vec<&str>],
        taken: &mut Vec<Option<usize>>,
        seen: &mut Vec<bool>,
    ) -> bool {
        for (device, names) in self.shelf.iter().enumerate() {
            if seen[device] || !names.iter().any(|name| asked[number].contains(name)) {
                continue;
            }
            seen[device] = true;
            let free = match taken[device] {
                None => true,
                Some(other) => self.give(other, asked, taken, seen),
            };
            if free {
                taken[device] = Some(number);
                return true;
            }
        }
        false
    }
}
