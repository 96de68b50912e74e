//! A bound on what a [`Kernel`] can give, and the prices that make it a good one.
//!
//! Two things are relaxed. Zones: every pair of blocks would like to choose the zones of both on
//! its own; what a pair promises is moved, sweep by sweep, into the scores of its two blocks until
//! they agree (for chains and trees of blocks this leaves no gap). Nodes: every block would like to
//! have the best node for itself; where more is wanted than is left, the node gets a price, and
//! what is paid is part of the bound. Whatever the prices and the moves are, the sum of the
//! greatest scores is a bound; so arithmetic with rounding only makes it looser, not wrong, as long
//! as [`Dual::slack`] is added.

use std::collections::BTreeSet;

use super::frame::Place;
use super::ids::NodeRank;
use super::kernel::{Kernel, NEVER, dead, float};
use super::meter::Meter;
use super::prices::{Prices, overloaded};
use super::state::State;

/// Prices are not worth their time beyond this many places.
const PRICED_PLACES_MAX: usize = 60_000;
/// Sweeps end when one gains less than this share of the bound.
const GAIN_LEAST: f64 = 1e-6;

#[derive(Clone, Debug)]
pub(super) struct Dual {
    /// Where the spans of each block start in `score` and `top`.
    pub offsets: Vec<usize>,
    /// The greatest worth in each span, and what the pairs have moved there.
    pub score: Vec<f64>,
    /// The greatest worth in each span.
    pub top: Vec<f64>,
    /// Of each place of each block: its value less the traffic and the price of its node.
    pub worth: Vec<Vec<f64>>,
    /// What the nodes earn at their prices.
    pub paid: f64,
    /// Nodes that ask a price for their load instead of what it costs a block alone.
    pub priced: BTreeSet<NodeRank>,
    /// The greatest entry of the table of each pair.
    pub pair_max: Vec<f64>,
    pub bound: f64,
    /// More than all rounding together.
    pub slack: f64,
}

impl Dual {
    /// Changes the tables of the kernel along with its own scores, and sorts the places of each span
    /// by their worth. `goal` is an objective that is known to be within reach.
    pub(super) fn new(
        kernel: &mut Kernel,
        state: &State<'_>,
        goal: Option<f64>,
        rounds: usize,
        meter: &mut Meter<'_>,
    ) -> Dual {
        let mut dual = Dual::start(kernel);
        // Arc consistency first: what can be in no answer must not hold the bound up.
        dual.strike_out(kernel, meter);
        let mut best: Option<(Dual, Vec<Vec<f64>>)> = None;
        let mut prices: Option<Prices> = None;
        let mut step = 1.0;
        let mut stale = 0;
        // Block coordinate descent on the Lagrangian dual. A sweep (message passing) never raises
        // the bound; a change of prices (subgradient step) may, so the best multipliers seen are
        // kept aside.
        for round in 0..rounds {
            let before = dual.bound;
            dual.sweep(kernel, meter);
            dual.measure(kernel);
            match &best {
                Some((found, _)) if found.bound <= dual.bound => stale += 1,
                _ if prices.is_some() => {
                    stale = 0;
                    best = Some((dual.clone(), tables_of(kernel)));
                }
                _ => (),
            }
            // The bound is below the next whole objective: nothing better exists, and the kernel is
            // done.
            if goal.is_some_and(|goal| dual.bound < goal + 1.0 - dual.slack) || meter.over() {
                break;
            }
            // Held, Wolfe and Crowder: a bound that does not come down means that the step is too
            // long.
            if stale > 4 {
                step *= 0.5;
                stale = 0;
            }
            let small =
                kernel.domains.iter().map(|d| d.places.len()).sum::<usize>() <= PRICED_PLACES_MAX;
            let settled = round > 0 && before - dual.bound < GAIN_LEAST * dual.bound.abs();
            if small && prices.is_none() && overloaded(kernel, &dual, state) {
                best = Some((dual.clone(), tables_of(kernel)));
                prices = Some(Prices::new(kernel, state));
            }
            let priced = prices.as_mut().is_some_and(|prices| {
                // Polyak's step needs a guess of the optimum. Without a known answer we guess 2 %
                // below the bound, and never so close that the step vanishes.
                let reach = goal.unwrap_or(dual.bound * 0.98).min(dual.bound * 0.9999);
                let step = step * (dual.bound - reach).max(1.0);
                prices.change((kernel, state), &mut dual, step, meter)
            });
            // Nothing is overloaded and the sweeps have converged: further rounds would change
            // nothing.
            if !priced && (settled || kernel.pairs.is_empty()) {
                break;
            }
        }
        if let Some((found, tables)) = best
            && found.bound < dual.bound
        {
            dual = found;
            kernel.pairs.iter_mut().zip(tables).for_each(|(pair, table)| pair.table = table);
        }
        dual.sort(kernel);
        dual
    }

    /// A bound on a kernel whose places are worth what is left of them at prices from elsewhere: nothing here asks for
    /// more.
    pub(super) fn at_prices(kernel: &mut Kernel, rounds: usize, meter: &mut Meter<'_>) -> Dual {
        let mut dual = Dual::start(kernel);
        dual.strike_out(kernel, meter);
        for _ in 0..rounds {
            dual.sweep(kernel, meter);
        }
        dual.measure(kernel);
        dual
    }

    fn start(kernel: &Kernel) -> Dual {
        let mut dual = Dual {
            offsets: vec![0],
            score: Vec::new(),
            top: Vec::new(),
            worth: Vec::new(),
            paid: 0.0,
            priced: BTreeSet::new(),
            pair_max: vec![0.0; kernel.pairs.len()],
            bound: f64::MAX,
            slack: 0.0,
        };
        let mut size = 1.0;
        for domain in &kernel.domains {
            let mut worth = vec![0.0; domain.places.len()];
            for span in &domain.spans {
                let mut top = span.more;
                let here = span.start..span.end;
                for (worth, own) in worth[here.clone()].iter_mut().zip(&domain.worth[here]) {
                    *worth = float(own - span.cost);
                    top = top.max(*worth);
                    size += worth.abs();
                }
                dual.top.push(top);
            }
            dual.offsets.push(dual.top.len());
            dual.worth.push(worth);
        }
        let entries = kernel.pairs.iter().flat_map(|pair| &pair.table);
        size += entries.filter(|entry| !dead(**entry)).map(|entry| entry.abs()).sum::<f64>();
        // An f64 sum of n terms is off by less than n · 2⁻⁵³ of the sum of their sizes; 1e-11
        // leaves room for as many terms as a kernel can have.
        dual.slack = 1e-3 + 1e-11 * size;
        dual.score = dual.top.clone();
        dual
    }

    /// Strikes out every span that leaves a neighbour no span to go with, until none is left.
    fn strike_out(&mut self, kernel: &Kernel, meter: &mut Meter<'_>) {
        // In the manner of AC-1: as long as something was struck out, all pairs are looked at
        // again.
        let mut changed = kernel.pairs.iter().any(|pair| pair.table.iter().any(|e| dead(*e)));
        while changed {
            changed = false;
            for pair in &kernel.pairs {
                let (low, high) = (self.offsets[pair.a], self.offsets[pair.b]);
                let width = self.offsets[pair.b + 1] - high;
                meter.spend(pair.table.len() as u64 / 8);
                let mut met = vec![false; width];
                for (s, row) in pair.table.chunks_exact(width).enumerate() {
                    if dead(self.score[low + s]) {
                        continue;
                    }
                    let mut any = false;
                    for (t, entry) in row.iter().enumerate() {
                        if !dead(*entry) && !dead(self.score[high + t]) {
                            any = true;
                            met[t] = true;
                        }
                    }
                    if !any {
                        self.score[low + s] = NEVER;
                        changed = true;
                    }
                }
                for (score, met) in self.score[high..high + width].iter_mut().zip(met) {
                    if !met && !dead(*score) {
                        *score = NEVER;
                        changed = true;
                    }
                }
            }
        }
    }

    /// Lets every pair share what it promises between its two blocks.
    fn sweep(&mut self, kernel: &mut Kernel, meter: &mut Meter<'_>) {
        let mut high_best = Vec::new();
        for pair in &mut kernel.pairs {
            let (low, high) = (self.offsets[pair.a], self.offsets[pair.b]);
            let height = self.offsets[pair.a + 1] - low;
            let width = self.offsets[pair.b + 1] - high;
            meter.spend((height * width) as u64 / 4);
            high_best.clear();
            high_best.resize(width, NEVER);
            // Max-marginals of both ends in one pass over the table: what a span can reach together
            // with the best span of its neighbour.
            let (a, b) = (self.score[low..low + height].to_vec(), high);
            let mut a_after = a.clone();
            for (s, row) in pair.table.chunks_exact(width).enumerate() {
                let mut row_best = NEVER;
                let scores = &self.score[b..b + width];
                for ((entry, score), best) in row.iter().zip(scores).zip(&mut high_best) {
                    row_best = row_best.max(entry + score);
                    *best = f64::max(*best, entry + a[s]);
                }
                // Half of the max-marginal for each end. The table gives up what its ends receive,
                // so the sum of all three is the same function as before, and only its relaxation
                // gets tighter.
                let joint = (a[s] + row_best) / 2.0;
                a_after[s] = if dead(row_best) || dead(a[s]) { NEVER } else { joint };
            }
            for (score, best) in self.score[b..b + width].iter_mut().zip(&mut high_best) {
                let joint = (*score + *best) / 2.0;
                let after = if dead(*best) || dead(*score) { NEVER } else { joint };
                // From here on, what the table loses.
                *best = if dead(after) { 0.0 } else { after - *score };
                *score = after;
            }
            for (s, row) in pair.table.chunks_exact_mut(width).enumerate() {
                let moved = if dead(a_after[s]) { 0.0 } else { a_after[s] - a[s] };
                for (entry, best) in row.iter_mut().zip(&high_best) {
                    if !dead(*entry) {
                        *entry -= moved + best;
                    }
                }
                self.score[low + s] = a_after[s];
            }
        }
    }

    fn measure(&mut self, kernel: &Kernel) {
        // Each block and each pair takes its maximum without regard to the others: the relaxation.
        let mut bound = self.paid;
        for block in self.offsets.windows(2) {
            bound += self.score[block[0]..block[1]].iter().copied().fold(NEVER, f64::max);
        }
        for (number, pair) in kernel.pairs.iter().enumerate() {
            let width = self.offsets[pair.b + 1] - self.offsets[pair.b];
            let mut most = NEVER;
            for (s, row) in pair.table.chunks_exact(width).enumerate() {
                if !dead(self.score[self.offsets[pair.a] + s]) {
                    let alive = row.iter().zip(&self.score[self.offsets[pair.b]..]);
                    let alive = alive.filter(|(_, score)| !dead(**score));
                    most = alive.fold(most, |most, (entry, _)| most.max(*entry));
                }
            }
            self.pair_max[number] = most;
            bound += most;
        }
        self.bound = bound.max(NEVER);
    }

    /// The search takes the places of a span from the front.
    fn sort(&mut self, kernel: &mut Kernel) {
        if self.paid == 0.0 && self.priced.is_empty() {
            return;
        }
        for (domain, worth) in kernel.domains.iter_mut().zip(&mut self.worth) {
            let places = domain.places.iter().copied().zip(domain.worth.iter().copied());
            let mut sorted: Vec<(f64, (Place, i64))> = worth.iter().copied().zip(places).collect();
            for span in &domain.spans {
                sorted[span.start..span.end].sort_by(|a, b| b.0.total_cmp(&a.0));
            }
            *worth = sorted.iter().map(|(worth, _)| *worth).collect();
            (domain.places, domain.worth) = sorted.into_iter().map(|(_, place)| place).unzip();
        }
    }
}

fn tables_of(kernel: &Kernel) -> Vec<Vec<f64>> {
    kernel.pairs.iter().map(|pair| pair.table.clone()).collect()
}
