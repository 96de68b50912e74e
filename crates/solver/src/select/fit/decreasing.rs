//! First-fit and best-fit decreasing: the hardest kinds first, each where it fits best, in several
//! orders. The best of them is where [`eject`](super::eject) starts.

use super::super::meter::Meter;
use super::kinds::Kinds;

/// A packing that is being made: who is where, and who is not yet anywhere.
#[derive(Clone)]
pub(super) struct Packed {
    /// `[node * dims + dimension]`
    pub left: Vec<u64>,
    /// By node: how many of each kind, `[node * kinds + kind]`.
    pub here: Vec<u16>,
    /// By kind: how many have no node.
    pub missing: Vec<usize>,
    /// By kind: the node of each member that is placed.
    at: Vec<Vec<usize>>,
}

impl Packed {
    /// Nobody is anywhere.
    pub(super) fn new(kinds: &Kinds) -> Packed {
        let count = kinds.kinds.len();
        Packed {
            left: kinds.left.clone(),
            here: vec![0; kinds.nodes() * count],
            missing: (0..count).map(|kind| kinds.count(kind)).collect(),
            at: vec![Vec::new(); count],
        }
    }

    /// By kind: the nodes of its members.
    pub(super) fn at(&self) -> &[Vec<usize>] {
        &self.at
    }

    pub(super) fn left(&self, kinds: &Kinds, node: usize) -> &[u64] {
        &self.left[node * kinds.dims..][..kinds.dims]
    }

    pub(super) fn fits(&self, kinds: &Kinds, node: usize, kind: usize) -> bool {
        let demand = &kinds.kinds[kind].demand;
        self.left(kinds, node).iter().zip(demand).all(|(left, demand)| left >= demand)
            && self.welcome(kinds, node, kind)
    }

    /// Nobody is there whom the kind avoids.
    pub(super) fn welcome(&self, kinds: &Kinds, node: usize, kind: usize) -> bool {
        let here = &self.here[node * kinds.kinds.len()..][..kinds.kinds.len()];
        kinds.kinds[kind].apart.iter().all(|other| here[*other] == 0)
    }

    pub(super) fn put(&mut self, kinds: &Kinds, node: usize, kind: usize) {
        let left = &mut self.left[node * kinds.dims..][..kinds.dims];
        for (left, demand) in left.iter_mut().zip(&kinds.kinds[kind].demand) {
            *left -= demand;
        }
        self.here[node * kinds.kinds.len() + kind] += 1;
        self.missing[kind] -= 1;
        self.at[kind].push(node);
    }

    pub(super) fn take(&mut self, kinds: &Kinds, node: usize, kind: usize) {
        let left = &mut self.left[node * kinds.dims..][..kinds.dims];
        for (left, demand) in left.iter_mut().zip(&kinds.kinds[kind].demand) {
            *left += demand;
        }
        self.here[node * kinds.kinds.len() + kind] -= 1;
        self.missing[kind] += 1;
        let found = self.at[kind].iter().position(|at| *at == node);
        self.at[kind].swap_remove(found.expect("only who is there can be taken away"));
    }
}

/// How nodes are compared for a kind.
#[derive(Clone, Copy)]
enum Rule {
    /// The first that has room.
    First,
    /// The one with the least left afterwards.
    Best,
    /// The one whose room is most like the demand (dot product).
    Alike,
}

/// The packing with the least missing, of several orders and rules.
pub(super) fn best(kinds: &Kinds, meter: &mut Meter<'_>) -> Packed {
    let by_largest = |kind: &usize| (kinds.kinds[*kind].size, 0);
    let sum = |kind: usize| kinds.kinds[kind].demand.iter().fold(0u64, |a, b| a.saturating_add(*b));
    let by_sum = |kind: &usize| (sum(*kind), 0);
    let few = |kind: usize| usize::MAX - kinds.kinds[kind].nodes.len();
    let by_choice = |kind: &usize| (few(*kind) as u64, kinds.kinds[*kind].size);
    let ordered = |key: &dyn Fn(&usize) -> (u64, u64)| {
        let mut order: Vec<usize> = (0..kinds.kinds.len()).collect();
        order.sort_by_key(|kind| (std::cmp::Reverse(key(kind)), *kind));
        order
    };
    let mut found: Option<(u64, Packed)> = None;
    // Which order and which rule win differs from problem to problem (Panigrahy and others,
    // *Heuristics for vector bin packing*, 2011), so all are tried and the best goes on.
    for order in [ordered(&by_largest), ordered(&by_sum), ordered(&by_choice)] {
        for rule in [Rule::Best, Rule::Alike, Rule::First] {
            let packed = pack(kinds, &order, rule, meter);
            let lack = lack(kinds, &packed);
            if found.as_ref().is_none_or(|(least, _)| lack < *least) {
                found = Some((lack, packed));
            }
            if lack == 0 || meter.over() {
                break;
            }
        }
    }
    found.map_or_else(|| Packed::new(kinds), |(_, packed)| packed)
}

/// The size of all that is missing.
fn lack(kinds: &Kinds, packed: &Packed) -> u64 {
    let each = kinds.kinds.iter().zip(&packed.missing);
    each.map(|(kind, missing)| kind.size.saturating_add(1).saturating_mul(*missing as u64)).sum()
}

fn pack(kinds: &Kinds, order: &[usize], rule: Rule, meter: &mut Meter<'_>) -> Packed {
    let mut packed = Packed::new(kinds);
    for kind in order {
        for _ in 0..kinds.count(*kind) {
            meter.spend(kinds.kinds[*kind].nodes.len() as u64);
            let free = kinds.kinds[*kind].nodes.iter().filter(|n| packed.fits(kinds, **n, *kind));
            let chosen = match rule {
                Rule::First => free.copied().next(),
                Rule::Best => free
                    .copied()
                    .min_by(|a, b| rest(kinds, &packed, *a).total_cmp(&rest(kinds, &packed, *b))),
                Rule::Alike => free.copied().max_by(|a, b| {
                    let alike = |node| alike(kinds, &packed, node, *kind);
                    alike(*a).total_cmp(&alike(*b)).then(b.cmp(a))
                }),
            };
            let Some(node) = chosen else { break };
            packed.put(kinds, node, *kind);
        }
    }
    packed
}

/// What is left of a node, as a share of what it had.
#[expect(clippy::cast_precision_loss, reason = "to compare nodes by")]
fn rest(kinds: &Kinds, packed: &Packed, node: usize) -> f64 {
    let had = &kinds.left[node * kinds.dims..][..kinds.dims];
    packed.left(kinds, node).iter().zip(had).map(|(l, h)| *l as f64 / (*h).max(1) as f64).sum()
}

#[expect(clippy::cast_precision_loss, reason = "to compare nodes by")]
fn alike(kinds: &Kinds, packed: &Packed, node: usize, kind: usize) -> f64 {
    let (mut dot, mut left_size, mut own_size) = (0.0, 0.0, 0.0);
    for (left, demand) in packed.left(kinds, node).iter().zip(&kinds.kinds[kind].demand) {
        let (left, demand) = (*left as f64, *demand as f64);
        dot += left * demand;
        left_size += left * left;
        own_size += demand * demand;
    }
    dot / (left_size * own_size).sqrt().max(1e-9)
}
