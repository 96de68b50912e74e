//! Aggregations. Series are put into groups once; then each column of a group is calculated.

use std::collections::HashMap;

use super::binary::present;
use super::numbers::{Mean, Sum, Variance, quantile};
use super::{ABSENT, Error, Evaluator, Grid, Line, failed, is_absent};
use crate::labels::{Labels, NAME};
use crate::promql::ast::{Aggregate, Expr};
use crate::promql::format::{format_plain, format_short};
use crate::promql::token::Aggregation;

/// The lines of a group, in the order in which they came.
struct Group {
    labels: Labels,
    lines: Vec<Line>,
}

impl Evaluator<'_> {
    pub(super) fn aggregate(&self, aggregate: &Aggregate, grid: &Grid) -> Result<Vec<Line>, Error> {
        if aggregate.op == Aggregation::CountValues {
            return self.count_values(aggregate, grid);
        }
        let parameter = match &aggregate.parameter {
            Some(parameter) => self.eval_scalar(parameter, grid)?,
            None => Vec::new(),
        };
        let lines = self.eval(&aggregate.expr, grid)?;
        let groups = groups_of(aggregate, lines);
        match aggregate.op {
            Aggregation::Topk | Aggregation::Bottomk | Aggregation::Limitk => {
                self.best(aggregate, groups, &parameter, grid)
            }
            Aggregation::LimitRatio => self.limit_ratio(aggregate, groups, &parameter),
            _ => {
                if aggregate.op == Aggregation::Quantile {
                    let place = aggregate.parameter.as_ref().map_or(aggregate.place, Expr::place);
                    parameter.iter().for_each(|q| self.check_quantile(*q, place));
                }
                Ok(present(
                    groups
                        .into_iter()
                        .map(|group| reduce(aggregate.op, &group, &parameter, grid))
                        .collect(),
                ))
            }
        }
    }

    fn best(
        &self,
        aggregate: &Aggregate,
        mut groups: Vec<Group>,
        parameter: &[f64],
        grid: &Grid,
    ) -> Result<Vec<Line>, Error> {
        if parameter.iter().any(|k| k.is_nan()) {
            return failed("Parameter value is NaN");
        }
        let most = parameter.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most < 1.0 {
            return Ok(Vec::new());
        }
        let least = parameter.iter().copied().fold(f64::INFINITY, f64::min);
        if least <= -9_223_372_036_854_775_808.0 {
            return failed(format!("Scalar value {} underflows int64", format_short(least)));
        }
        if most >= 9_223_372_036_854_775_807.0 {
            return failed(format!("Scalar value {} overflows int64", format_short(most)));
        }
        let mut out = Vec::new();
        for group in &mut groups {
            let mut order = Vec::new();
            let mut kept: Vec<Vec<bool>> = vec![vec![false; grid.count]; group.lines.len()];
            for number in 0..grid.count {
                let k = (parameter[number].max(0.0) as usize).min(group.lines.len());
                order = chosen(aggregate.op, &group.lines, number, k);
                for line in &order {
                    kept[*line][number] = true;
                }
            }
            for (line, kept) in group.lines.iter_mut().zip(&kept) {
                for (value, kept) in line.values.iter_mut().zip(kept) {
                    if !kept {
                        *value = ABSENT;
                    }
                }
            }
            if grid.count == 1 {
                // The best comes first.
                out.extend(order.into_iter().map(|line| group.lines[line].clone()));
            } else {
                out.append(&mut group.lines);
            }
        }
        Ok(present(out))
    }

    fn limit_ratio(
        &self,
        aggregate: &Aggregate,
        groups: Vec<Group>,
        parameter: &[f64],
    ) -> Result<Vec<Line>, Error> {
        if parameter.iter().any(|ratio| ratio.is_nan()) {
            return failed("Ratio value is NaN");
        }
        let place = aggregate.parameter.as_ref().map_or(aggregate.place, Expr::place);
        for (worst, cap) in [
            (parameter.iter().copied().fold(f64::NEG_INFINITY, f64::max), 1.0),
            (parameter.iter().copied().fold(f64::INFINITY, f64::min), -1.0),
        ] {
            if worst * cap > 1.0 {
                let text = "ratio value should be between -1 and 1";
                self.warn(place, &format!("{text}, got {}, capping to {cap}", format_short(worst)));
            }
        }
        let mut lines: Vec<Line> = groups.into_iter().flat_map(|group| group.lines).collect();
        for line in &mut lines {
            // Where a series lies between 0 and 1 depends on its labels alone.
            let lot = line.labels.hash64() as f64 / u64::MAX as f64;
            for (value, ratio) in line.values.iter_mut().zip(parameter) {
                let ratio = ratio.clamp(-1.0, 1.0);
                let stays = ratio >= 0.0 && lot < ratio || ratio < 0.0 && lot >= 1.0 + ratio;
                if !stays {
                    *value = ABSENT;
                }
            }
        }
        Ok(present(lines))
    }

    fn count_values(&self, aggregate: &Aggregate, grid: &Grid) -> Result<Vec<Line>, Error> {
        let Some(Expr::Text { value: label, .. }) = aggregate.parameter.as_ref().map(Expr::bare)
        else {
            return failed("count_values wants the name of a label");
        };
        if label.is_empty() {
            return failed("invalid label name \"\"");
        }
        let mut counted: Vec<Line> = Vec::new();
        let mut places: HashMap<Labels, usize> = HashMap::new();
        for line in self.eval(&aggregate.expr, grid)? {
            for (number, value) in line.values.iter().enumerate() {
                if is_absent(*value) {
                    continue;
                }
                let labels = line.labels.with(label, &format_plain(*value));
                let mut labels = group_labels(aggregate, &labels, Some(label));
                if aggregate.without {
                    labels = labels.without(|name| name == NAME);
                }
                let place = match places.get(&labels) {
                    Some(place) => *place,
                    None => {
                        // Every other value makes a line of its own, as long as the whole grid.
                        self.budget.take_steps(grid.count as u64)?;
                        let values = vec![ABSENT; grid.count];
                        counted.push(Line { labels: labels.clone(), drop_name: false, values });
                        places.insert(labels, counted.len() - 1);
                        counted.len() - 1
                    }
                };
                let count = &mut counted[place].values[number];
                *count = if is_absent(*count) { 1.0 } else { *count + 1.0 };
            }
        }
        self.distinct(counted)
    }
}

fn groups_of(aggregate: &Aggregate, lines: Vec<Line>) -> Vec<Group> {
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for line in lines {
        let labels = group_labels(aggregate, &line.labels, None);
        let place = *places.entry(labels).or_insert_with_key(|labels| {
            groups.push(Group { labels: labels.clone(), lines: Vec::new() });
            groups.len() - 1
        });
        groups[place].lines.push(line);
    }
    groups
}

fn group_labels(aggregate: &Aggregate, labels: &Labels, also: Option<&str>) -> Labels {
    let listed = |name: &str| aggregate.grouping.iter().any(|label| label == name);
    if aggregate.without {
        labels.without(|name| name == NAME || listed(name))
    } else {
        labels.without(|name| !listed(name) && also != Some(name))
    }
}

/// One line of a whole group.
fn reduce(op: Aggregation, group: &Group, parameter: &[f64], grid: &Grid) -> Line {
    let drop_name = group.lines.iter().any(|line| line.drop_name);
    let values = match op {
        Aggregation::Sum => {
            fold(group, grid, Sum::default(), |sum, value| sum.add(value), Sum::total)
        }
        Aggregation::Avg => {
            fold(group, grid, Mean::default(), |mean, value| mean.add(value), Mean::total)
        }
        Aggregation::Count => fold(group, grid, 0.0, |count, _| *count += 1.0, |count| count),
        Aggregation::Group => fold(group, grid, (), |(), _| (), |()| 1.0),
        Aggregation::Min => fold(
            group,
            grid,
            f64::NAN,
            |best, value| {
                if *best > value || best.is_nan() {
                    *best = value;
                }
            },
            |best| best,
        ),
        Aggregation::Max => fold(
            group,
            grid,
            f64::NAN,
            |best, value| {
                if *best < value || best.is_nan() {
                    *best = value;
                }
            },
            |best| best,
        ),
        Aggregation::Stdvar => {
            fold(group, grid, Variance::default(), |v, value| v.add(value), Variance::total)
        }
        Aggregation::Stddev => {
            fold(group, grid, Variance::default(), |v, value| v.add(value), |v| v.total().sqrt())
        }
        Aggregation::Quantile => quantiles(group, parameter, grid),
        Aggregation::Topk
        | Aggregation::Bottomk
        | Aggregation::CountValues
        | Aggregation::Limitk
        | Aggregation::LimitRatio => Vec::new(),
    };
    Line { labels: group.labels.clone(), drop_name, values }
}

/// Line by line, so that memory is read from front to back.
fn fold<S: Copy>(
    group: &Group,
    grid: &Grid,
    start: S,
    add: impl Fn(&mut S, f64),
    end: impl Fn(S) -> f64,
) -> Vec<f64> {
    let mut states = vec![(false, start); grid.count];
    for line in &group.lines {
        for ((seen, state), value) in states.iter_mut().zip(&line.values) {
            if !is_absent(*value) {
                *seen = true;
                add(state, *value);
            }
        }
    }
    states.into_iter().map(|(seen, state)| if seen { end(state) } else { ABSENT }).collect()
}

fn quantiles(group: &Group, parameter: &[f64], grid: &Grid) -> Vec<f64> {
    let mut values = Vec::with_capacity(group.lines.len());
    let of_step = |number: usize| {
        values.clear();
        let column = group.lines.iter().map(|line| line.values[number]);
        values.extend(column.filter(|value| !is_absent(*value)));
        if values.is_empty() { ABSENT } else { quantile(parameter[number], &mut values) }
    };
    (0..grid.count).map(of_step).collect()
}

/// Which lines are chosen at a step, the best first.
fn chosen(op: Aggregation, lines: &[Line], number: usize, k: usize) -> Vec<usize> {
    let column = lines.iter().map(|line| line.values[number]).enumerate();
    let there = column.filter(|(_, value)| !is_absent(*value));
    if op == Aggregation::Limitk {
        return there.take(k).map(|(line, _)| line).collect();
    }
    // A heap with the least of the chosen on top, as Prometheus keeps it: which of equal values are
    // chosen depends on how the heap is kept.
    let sign = if op == Aggregation::Topk { 1.0 } else { -1.0 };
    let mut heap: Vec<(usize, f64)> = Vec::with_capacity(k);
    for (line, value) in there {
        let value = value * sign;
        if heap.len() < k {
            heap.push((line, value));
            sift_up(&mut heap);
        } else if k > 0 && (heap[0].1 < value || heap[0].1.is_nan() && !value.is_nan()) {
            heap[0] = (line, value);
            sift_down(&mut heap);
        }
    }
    heap.sort_by(|a, b| match (a.1.is_nan(), b.1.is_nan()) {
        (false, false) => b.1.total_cmp(&a.1).then(std::cmp::Ordering::Equal),
        (a, b) => a.cmp(&b),
    });
    heap.into_iter().map(|(line, _)| line).collect()
}

fn less(heap: &[(usize, f64)], a: usize, b: usize) -> bool {
    heap[a].1.is_nan() || heap[a].1 < heap[b].1
}

fn sift_up(heap: &mut [(usize, f64)]) {
    let mut child = heap.len() - 1;
    while child > 0 {
        let parent = (child - 1) / 2;
        if !less(heap, child, parent) {
            return;
        }
        heap.swap(child, parent);
        child = parent;
    }
}

fn sift_down(heap: &mut [(usize, f64)]) {
    let mut parent = 0;
    loop {
        let left = 2 * parent + 1;
        if left >= heap.len() {
            return;
        }
        let right = left + 1;
        let child = if right < heap.len() && less(heap, right, left) { right } else { left };
        if !less(heap, child, parent) {
            return;
        }
        heap.swap(parent, child);
        parent = child;
    }
}
