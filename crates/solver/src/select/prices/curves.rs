//! The rising costs of one node in a [`Dual`](super::super::dual::Dual). Instead of what it costs, a node may ask a
//! price for each unit of load and for each item of a group. What it earns by that is the convex conjugate of the cost,
//! as what it earns by its capacity, which costs nothing up to its end, is the price of all of it.

use super::super::crowd::Curve;
use super::super::ids::NodeRank;
use super::super::kernel::Kernel;
use super::super::state::State;

/// A step of the prices changes that of this much load as it changes that of one item of a group.
const LOAD_UNIT: f64 = 100.0;

pub(super) struct Curves {
    /// The load first, then every group.
    curves: Vec<Curve>,
    /// Of one unit of each. As long as none is more than the least that a unit costs, blocks pay what they cost alone.
    price: Vec<f64>,
}

/// What the favourites of all blocks take of a node.
#[derive(Default)]
pub(super) struct Taken {
    sums: Vec<f64>,
    /// What they would cost if each was alone.
    alone: f64,
}

impl Taken {
    pub(super) fn add(&mut self, takes: &[f64], alone: f64) {
        self.sums.resize(takes.len(), 0.0);
        self.sums.iter_mut().zip(takes).for_each(|(sum, take)| *sum += take);
        self.alone += alone;
    }
}

impl Curves {
    pub(super) fn new(
        kernel: &Kernel,
        state: &State<'_>,
        node: NodeRank,
        groups: &[u32],
    ) -> Curves {
        let frame = state.frame;
        let mut curves = vec![state.crowd.load_curve(frame, node)];
        for group in groups {
            let blocks = kernel.blocks.iter().flat_map(|number| &frame.blocks[*number].scatter);
            let most = blocks.filter(|(other, _)| other == group).map(|(_, weight)| weight).sum();
            curves.push(state.crowd.scatter_curve(frame, *group, node, most));
        }
        let price = vec![0.0; curves.len()];
        Curves { curves, price }
    }

    pub(super) fn is_priced(&self) -> bool {
        self.curves.iter().zip(&self.price).any(|(curve, price)| *price > curve.least())
    }

    /// How much the node earns.
    pub(super) fn earned(&self) -> f64 {
        self.curves.iter().zip(&self.price).map(|(curve, price)| curve.earned(*price)).sum()
    }

    /// What a block pays that takes so much of each.
    pub(super) fn fee(&self, takes: &[f64]) -> f64 {
        let fees = self.curves.iter().zip(&self.price).zip(takes);
        fees.map(|((curve, price), take)| price.max(curve.least()) * take).sum()
    }

    /// In which direction the prices should move: up where more is wanted than the node would offer.
    pub(super) fn slopes(&self, taken: &Taken) -> Vec<f64> {
        let sum = |at: usize| taken.sums.get(at).copied().unwrap_or(0.0);
        let cost: f64 = self.curves.iter().enumerate().map(|(at, c)| c.cost(sum(at))).sum();
        let is_dearer = cost > taken.alone + 0.5;
        if !is_dearer && !self.is_priced() {
            return vec![0.0; self.curves.len()];
        }
        let slope = |(at, (curve, price)): (usize, (&Curve, &f64))| {
            let price = price.max(curve.least());
            let (least, most) = (curve.offered_below(price), curve.offered(price));
            (sum(at) - sum(at).clamp(least, most)) / unit(at)
        };
        self.curves.iter().zip(&self.price).enumerate().map(slope).collect()
    }

    pub(super) fn change(&mut self, slopes: &[f64], length: f64) {
        let prices = self.curves.iter().zip(&mut self.price).zip(slopes).enumerate();
        for (at, ((curve, price), slope)) in prices {
            let from = price.max(curve.least());
            *price = (from + length * slope / unit(at)).clamp(curve.least(), curve.most());
        }
    }
}

fn unit(at: usize) -> f64 {
    if at == 0 { LOAD_UNIT } else { 1.0 }
}
