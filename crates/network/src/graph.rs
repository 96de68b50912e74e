//! The network as a graph: degrees, lengths of ways, betweenness, the best way and ways that share no link. For
//! CODECO's node metrics, for ALTO's `/best` and `/all`, and for people. Start at [`Graph::new`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Costs are added up along a way; more would overflow, and is nonsense in any unit that we have.
const COST_MOST: u64 = 1 << 40;

/// Places with links between them, each with a cost in some unit.
#[derive(Clone, Debug)]
pub struct Graph<P> {
    places: Vec<P>,
    index: BTreeMap<P, usize>,
    /// By place: where its links lead, and at what cost. At most one to each.
    out: Vec<BTreeMap<usize, u64>>,
}

/// A way from place to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way<P> {
    pub places: Vec<P>,
    pub cost: u64,
}

/// What a place is to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// How many others it is linked to.
    pub degree: u32,
    /// Mean number of links to those that can be reached; 0 if there are none.
    pub path_length: f64,
    /// The share of all pairs of others whose best ways lead through it, between 0 and 1.
    pub betweenness: f64,
}

impl<P: Ord + Clone> Graph<P> {
    /// Links lead one way; who has one that leads both ways says so twice. Of several between the same places
    /// the cheapest counts. A link from a place to itself is left out.
    pub fn new(
        places: impl IntoIterator<Item = P>,
        links: impl IntoIterator<Item = (P, P, u64)>,
    ) -> Graph<P> {
        let mut graph = Graph { places: Vec::new(), index: BTreeMap::new(), out: Vec::new() };
        for place in places {
            graph.place(place);
        }
        for (from, to, cost) in links {
            let (from, to) = (graph.place(from), graph.place(to));
            if from != to {
                let kept = graph.out[from].entry(to).or_insert(cost);
                *kept = cost.min(*kept).min(COST_MOST);
            }
        }
        graph
    }

    fn place(&mut self, place: P) -> usize {
        let next = self.places.len();
        let index = *self.index.entry(place.clone()).or_insert(next);
        if index == next {
            self.places.push(place);
            self.out.push(BTreeMap::new());
        }
        index
    }

    /// The cheapest way; of equally cheap ones the one with fewer links.
    pub fn best(&self, from: &P, to: &P) -> Option<Way<P>> {
        let (from, to) = (*self.index.get(from)?, *self.index.get(to)?);
        let tree = self.tree(from, |cost| cost);
        tree.reached[to]?;
        Some(self.way(&tree.back(to)))
    }

    /// The cheapest ways from one place to all others that can be reached.
    pub fn ways_from(&self, from: &P) -> BTreeMap<P, Way<P>> {
        let Some(&from) = self.index.get(from) else { return BTreeMap::new() };
        let tree = self.tree(from, |cost| cost);
        let reached = (0..self.places.len()).filter(|to| tree.reached[*to].is_some());
        reached.map(|to| (self.places[to].clone(), self.way(&tree.back(to)))).collect()
    }

    /// Ways of which no two share a link, as many as there are and at most `most`, together as cheap as that many can
    /// be. Taking the cheapest away again and again would find fewer, where the cheapest blocks two others.
    pub fn disjoint(&self, from: &P, to: &P, most: usize) -> Vec<Way<P>> {
        let ends = (self.index.get(from), self.index.get(to));
        let (Some(&from), Some(&to)) = ends else { return Vec::new() };
        if from == to {
            return Vec::new();
        }
        // Links in use; a further way may lead back over one, which takes it out of use again.
        let mut used: BTreeMap<(usize, usize), ()> = BTreeMap::new();
        for _ in 0..most {
            let Some(way) = self.further(from, to, &used) else { break };
            for pair in way.windows(2) {
                if used.remove(&(pair[1], pair[0])).is_none() {
                    used.insert((pair[0], pair[1]), ());
                }
            }
        }
        let mut ways = Vec::new();
        while let Some(way) = take_way(from, to, &mut used) {
            ways.push(self.way(&way));
        }
        ways.sort_by_key(|way| (way.cost, way.places.len()));
        ways
    }

    /// The cheapest way on top of those in use (Bellman and Ford, since leading back is worth something).
    fn further(
        &self,
        from: usize,
        to: usize,
        used: &BTreeMap<(usize, usize), ()>,
    ) -> Option<Vec<usize>> {
        let mut costs: Vec<Option<i64>> = vec![None; self.places.len()];
        let mut before = vec![from; self.places.len()];
        costs[from] = Some(0);
        for _ in 0..self.places.len() {
            let mut changed = false;
            for (a, links) in self.out.iter().enumerate() {
                for (&b, &cost) in links {
                    let cost = i64::try_from(cost).ok()?;
                    let (a, b, cost) = match used.contains_key(&(a, b)) {
                        true => (b, a, -cost),
                        false => (a, b, cost),
                    };
                    let Some(so_far) = costs[a] else { continue };
                    if costs[b].is_none_or(|known| so_far + cost < known) {
                        (costs[b], before[b]) = (Some(so_far + cost), a);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        costs[to]?;
        let mut way = vec![to];
        while way.last() != Some(&from) && way.len() <= self.places.len() {
            way.push(before[*way.last()?]);
        }
        way.reverse();
        Some(way)
    }

    /// What each place is to the others (Brandes, 2001): all ways count, not one of several equals.
    pub fn standings(&self) -> BTreeMap<P, Standing> {
        let many = self.places.len();
        let mut through = vec![0.0; many];
        let lengths: Vec<f64> = (0..many).map(|start| self.mean_links(start)).collect();
        for start in 0..many {
            let tree = self.tree(start, |cost| cost);
            let mut share = vec![0.0; many];
            for &place in tree.order.iter().rev() {
                for &before in &tree.before[place] {
                    share[before] += tree.ways[before] / tree.ways[place] * (1.0 + share[place]);
                }
                if place != start {
                    through[place] += share[place];
                }
            }
        }
        let others = (0..many).skip(1).fold(0.0, |others, _| others + 1.0);
        let pairs: f64 = others * (others - 1.0);
        let standing = |index: usize| Standing {
            degree: u32::try_from(self.neighbours(index)).unwrap_or(u32::MAX),
            path_length: lengths[index],
            betweenness: if pairs > 0.0 { through[index] / pairs } else { 0.0 },
        };
        self.index.iter().map(|(place, index)| (place.clone(), standing(*index))).collect()
    }

    fn neighbours(&self, index: usize) -> usize {
        let back = |other: &usize| self.out[*other].contains_key(&index);
        let only_back = (0..self.places.len()).filter(back);
        only_back.filter(|other| !self.out[index].contains_key(other)).count()
            + self.out[index].len()
    }

    fn mean_links(&self, start: usize) -> f64 {
        let reached = self.tree(start, |_| 1).reached;
        let (sum, many) = reached.iter().flatten().fold((0.0, -1.0), |(sum, many), reached| {
            (sum + f64::from(u32::try_from(reached.cost).unwrap_or(u32::MAX)), many + 1.0)
        });
        if many > 0.0 { sum / many } else { 0.0 }
    }

    fn way(&self, places: &[usize]) -> Way<P> {
        let costs = places.windows(2).filter_map(|pair| self.out[pair[0]].get(&pair[1]));
        let cost = costs.sum();
        Way { places: places.iter().map(|index| self.places[*index].clone()).collect(), cost }
    }

    /// Dijkstra from one place, with all best predecessors.
    fn tree(&self, start: usize, cost_of: impl Fn(u64) -> u64) -> Tree {
        let many = self.places.len();
        let mut tree = Tree {
            reached: vec![None; many],
            before: vec![Vec::new(); many],
            ways: vec![0.0; many],
            order: Vec::new(),
        };
        tree.reached[start] = Some(Reached { cost: 0, links: 0 });
        tree.ways[start] = 1.0;
        let mut settled = vec![false; many];
        let mut queue = BinaryHeap::from([Reverse((Reached { cost: 0, links: 0 }, start))]);
        while let Some(Reverse((reached, place))) = queue.pop() {
            if std::mem::replace(&mut settled[place], true) {
                continue;
            }
            tree.order.push(place);
            for (&next, &cost) in &self.out[place] {
                let step = Reached { cost: reached.cost + cost_of(cost), links: reached.links + 1 };
                if tree.reached[next].is_none_or(|known| step < known) {
                    tree.reached[next] = Some(step);
                    tree.before[next] = vec![place];
                    tree.ways[next] = tree.ways[place];
                    queue.push(Reverse((step, next)));
                } else if tree.reached[next] == Some(step) && !settled[next] {
                    tree.before[next].push(place);
                    tree.ways[next] += tree.ways[place];
                }
            }
        }
        tree
    }
}

/// How far a place is: first by cost, then by links, so that links without cost make no circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reached {
    cost: u64,
    links: u32,
}

struct Tree {
    reached: Vec<Option<Reached>>,
    before: Vec<Vec<usize>>,
    /// How many best ways there are.
    ways: Vec<f64>,
    order: Vec<usize>,
}

impl Tree {
    /// The places on the way to one that was reached.
    fn back(&self, to: usize) -> Vec<usize> {
        let mut places = vec![to];
        let mut at = to;
        while let Some(before) = self.before[at].first() {
            at = *before;
            places.push(at);
        }
        places.reverse();
        places
    }
}

/// Takes one way out of links that hold several, the shortest first.
fn take_way(from: usize, to: usize, used: &mut BTreeMap<(usize, usize), ()>) -> Option<Vec<usize>> {
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(place) = queue.pop_front() {
        for ((_, next), ()) in used.range((place, 0)..=(place, usize::MAX)) {
            if *next != from && !before.contains_key(next) {
                before.insert(*next, place);
                queue.push_back(*next);
            }
        }
    }
    let mut way = vec![to];
    while way.last() != Some(&from) {
        way.push(*before.get(way.last()?)?);
    }
    way.reverse();
    for pair in way.windows(2) {
        used.remove(&(pair[0], pair[1]));
    }
    Some(way)
}

#[cfg(test)]
mod tests;
