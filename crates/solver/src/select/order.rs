//! What [`Frame`](super::frame::Frame) is made with: names in order, sets that were joined, numbers
//! for pairs of zones, and the range of costs.

use super::ids::ZoneRank;

/// How a list of names is ordered, both ways.
pub(super) struct Order {
    pub given: Vec<u32>,
    pub rank: Vec<u32>,
}

impl Order {
    pub(super) fn of<K: Ord>(len: usize, key: impl Fn(usize) -> K) -> Order {
        let mut given: Vec<u32> = (0..narrow(len)).collect();
        if !(1..len).all(|index| key(index - 1) <= key(index)) {
            given.sort_by_key(|index| key(*index as usize));
        }
        let mut rank = vec![0; len];
        for (position, index) in (0u32..).zip(&given) {
            rank[*index as usize] = position;
        }
        Order { given, rank }
    }
}

/// [`Problem::validate`] has seen to it that everything is counted in `u32`.
pub(super) fn narrow(len: usize) -> u32 {
    u32::try_from(len).expect("a valid problem counts in u32")
}

/// A number for every pair of zones, to be read along the rows or along the columns.
#[derive(Debug)]
pub(super) struct Square<T> {
    rows: Vec<T>,
    /// `None` if they are the same as the rows, as they are where no link is one-way.
    columns: Option<Vec<T>>,
    zones: usize,
}

impl<T: Copy + PartialEq> Square<T> {
    /// `rows` is `[from * zones + to]`.
    pub(super) fn new(rows: Vec<T>, zones: usize) -> Square<T> {
        let even = (0..zones).all(|a| (0..a).all(|b| rows[a * zones + b] == rows[b * zones + a]));
        let columns = (!even)
            .then(|| (0..zones * zones).map(|at| rows[at % zones * zones + at / zones]).collect());
        Square { rows, columns, zones }
    }

    pub(super) fn at(&self, from: ZoneRank, to: ZoneRank) -> T {
        self.rows[from.at() * self.zones + to.at()]
    }

    /// From one zone to each.
    pub(super) fn from(&self, zone: ZoneRank) -> &[T] {
        &self.rows[zone.at() * self.zones..][..self.zones]
    }

    /// From each zone to one.
    pub(super) fn to(&self, zone: ZoneRank) -> &[T] {
        let columns = self.columns.as_ref().unwrap_or(&self.rows);
        &columns[zone.at() * self.zones..][..self.zones]
    }
}

/// The least and the greatest cost from a zone, to a zone, and of all.
#[derive(Debug)]
pub(super) struct CostRange {
    pub from: Vec<(i64, i64)>,
    pub to: Vec<(i64, i64)>,
    pub any: (i64, i64),
}

impl CostRange {
    pub(super) fn new(cost: &[i64], zones: usize) -> CostRange {
        let none = (i64::MAX, i64::MIN);
        let (mut from, mut to) = (vec![none; zones], vec![none; zones]);
        let widen = |range: &mut (i64, i64), cost: i64| {
            *range = (range.0.min(cost), range.1.max(cost));
        };
        for (from, row) in from.iter_mut().zip(cost.chunks(zones.max(1))) {
            for (to, cost) in to.iter_mut().zip(row) {
                widen(from, *cost);
                widen(to, *cost);
            }
        }
        let least = from.iter().map(|range| range.0).min().unwrap_or(0);
        let most = from.iter().map(|range| range.1).max().unwrap_or(0);
        CostRange { from, to, any: (least, most) }
    }
}

/// The leader of a set.
pub(super) fn find(leader: &mut [u32], of: u32) -> u32 {
    let mut root = of;
    while leader[root as usize] != root {
        leader[root as usize] = leader[leader[root as usize] as usize];
        root = leader[root as usize];
    }
    root
}

/// The least becomes the leader.
pub(super) fn join(leader: &mut [u32], members: impl Iterator<Item = u32>) {
    let mut last = None;
    for member in members {
        let root = find(leader, member);
        let root = match last {
            Some(other) if other != root => {
                leader[root.max(other) as usize] = root.min(other);
                root.min(other)
            }
            _ => root,
        };
        last = Some(root);
    }
}
