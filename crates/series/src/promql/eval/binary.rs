//! Operators between two sides. Which series belong together is found once; then whole columns are
//! calculated. Only where several series of one side share a match does each step have to look who is there.

use std::collections::HashMap;

use super::{ABSENT, Error, Evaluator, Grid, Line, failed, is_absent, scalar};
use crate::labels::{Labels, NAME};
use crate::promql::ast::{Binary, Kind, Matching, Side};
use crate::promql::token::Op;

impl Evaluator<'_> {
    pub(super) fn binary(&self, binary: &Binary, grid: &Grid) -> Result<Vec<Line>, Error> {
        match (binary.left.kind(), binary.right.kind()) {
            (Kind::Scalar, Kind::Scalar) => {
                let left = self.eval_scalar(&binary.left, grid)?;
                let right = self.eval_scalar(&binary.right, grid)?;
                let pairs = left.iter().zip(&right);
                Ok(vec![scalar(pairs.map(|(l, r)| of_scalars(binary.op, *l, *r)).collect())])
            }
            (Kind::Scalar, _) => {
                let numbers = self.eval_scalar(&binary.left, grid)?;
                self.with_scalar(binary, self.eval(&binary.right, grid)?, &numbers, Scalar::Left)
            }
            (_, Kind::Scalar) => {
                let numbers = self.eval_scalar(&binary.right, grid)?;
                self.with_scalar(binary, self.eval(&binary.left, grid)?, &numbers, Scalar::Right)
            }
            (_, _) => {
                let left = self.eval(&binary.left, grid)?;
                let right = self.eval(&binary.right, grid)?;
                if binary.op.is_set() {
                    return self.set(binary, left, right, grid);
                }
                self.matched(binary, &left, &right, grid)
            }
        }
    }

    fn with_scalar(
        &self,
        binary: &Binary,
        mut lines: Vec<Line>,
        numbers: &[f64],
        side: Scalar,
    ) -> Result<Vec<Line>, Error> {
        let op = binary.op;
        for line in &mut lines {
            for (value, number) in line.values.iter_mut().zip(numbers) {
                if is_absent(*value) {
                    continue;
                }
                let (result, kept) = match side {
                    Scalar::Left => of_values(op, *number, *value),
                    Scalar::Right => of_values(op, *value, *number),
                };
                *value = match (binary.returns_bool, kept) {
                    (true, kept) => f64::from(u8::from(kept)),
                    (false, false) => ABSENT,
                    // What is compared stays, on whichever side it stood.
                    (false, true) if op.is_comparison() => *value,
                    (false, true) => result,
                };
            }
            if op.changes_metric() || binary.returns_bool {
                self.drop_name(line);
            }
        }
        self.trim_hint(binary);
        self.distinct(present(lines))
    }

    fn trim_hint(&self, binary: &Binary) {
        if matches!(binary.op, Op::TrimLower | Op::TrimUpper) {
            let sign = binary.op.sign();
            let text = "incompatible sample types encountered for binary operator";
            self.inform(binary.place, &format!("{text} {sign:?}: float {sign} float"));
        }
    }

    fn set(
        &self,
        binary: &Binary,
        mut left: Vec<Line>,
        mut right: Vec<Line>,
        grid: &Grid,
    ) -> Result<Vec<Line>, Error> {
        let matches = Matches::of(&binary.matching, &left, &right);
        let (judged, judges) = match binary.op {
            Op::Or => (&mut right, presence(&left, &matches.left, matches.count, grid)),
            _ => (&mut left, presence(&right, &matches.right, matches.count, grid)),
        };
        let groups = if binary.op == Op::Or { &matches.right } else { &matches.left };
        let stays = binary.op == Op::And;
        for (line, group) in judged.iter_mut().zip(groups) {
            for (value, there) in line.values.iter_mut().zip(&judges[*group]) {
                if *there != stays {
                    *value = ABSENT;
                }
            }
        }
        if binary.op != Op::Or {
            return Ok(present(left));
        }
        left.extend(right);
        // Series of both sides with the same labels are one, where they do not overlap.
        self.distinct(present(left))
    }

    fn matched(
        &self,
        binary: &Binary,
        left: &[Line],
        right: &[Line],
        grid: &Grid,
    ) -> Result<Vec<Line>, Error> {
        let matching = &binary.matching;
        let swapped = matching.side == Side::OneToMany;
        // `many` has several series for one of `one`, if either has.
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let matches = Matches::of(matching, many, one);
        // Prometheus swaps the sides for `group_right`, and not what fills them.
        let (fill_one, fill_many) = (matching.fill_right, matching.fill_left);
        let mut ones: Vec<Vec<&Line>> = vec![Vec::new(); matches.count];
        for (line, group) in one.iter().zip(&matches.right) {
            ones[*group].push(line);
        }
        let mut manies: Vec<Vec<(usize, &Line)>> = vec![Vec::new(); matches.count];
        for (number, (line, group)) in many.iter().zip(&matches.left).enumerate() {
            manies[*group].push((number, line));
        }
        let mut out = Vec::new();
        let filled = fill_one.is_some() || fill_many.is_some();
        let active = active(many, one, filled, grid);
        for (manies, ones) in manies.iter().zip(&ones) {
            let active = &active;
            let group = Group { binary, grid, manies, ones, fill_one, fill_many, swapped, active };
            self.budget.take_steps(((manies.len() + ones.len()) * grid.count) as u64)?;
            self.match_group(&group, &mut out)?;
        }
        self.trim_hint(binary);
        // In the order of the side with many.
        out.sort_by_key(|(order, _)| *order);
        let lines = out.into_iter().map(|(_, line)| line).collect();
        self.distinct(present(lines))
    }

    /// All series of one match.
    fn match_group(
        &self,
        group: &Group<'_, '_>,
        out: &mut Vec<(usize, Line)>,
    ) -> Result<(), Error> {
        let (binary, grid) = (group.binary, group.grid);
        group.refuse_ambiguous()?;
        let matching = &binary.matching;
        let first = out.len();
        for (order, many) in group.manies {
            // A series of the other side for each time; most often there is one.
            for one in group.ones {
                let labels = self.result_labels(binary, &many.labels, &one.labels);
                let pairs = many.values.iter().zip(&one.values);
                let values = pairs.map(|(m, o)| {
                    if is_absent(*m) || is_absent(*o) { ABSENT } else { group.value(*m, *o) }
                });
                let values = values.collect();
                let line = Line { labels, drop_name: binary.returns_bool, values };
                out.push((*order, line));
            }
            if let Some(fill) = group.fill_one {
                let there =
                    |number: usize| group.ones.iter().any(|one| !is_absent(one.values[number]));
                let values = many.values.iter().enumerate().map(|(number, value)| {
                    if is_absent(*value) || there(number) {
                        ABSENT
                    } else {
                        group.value(*value, fill)
                    }
                });
                let values = values.collect();
                let labels =
                    self.result_labels(binary, &many.labels, &match_labels(&many.labels, matching));
                let line = Line { labels, drop_name: binary.returns_bool, values };
                out.push((*order, line));
            }
        }
        if let Some(fill) = group.fill_many {
            for one in group.ones {
                let there = |number: usize| {
                    group.manies.iter().any(|(_, many)| !is_absent(many.values[number]))
                };
                let values = one.values.iter().enumerate().map(|(number, value)| {
                    if is_absent(*value) || there(number) {
                        ABSENT
                    } else {
                        group.value(fill, *value)
                    }
                });
                let values = values.collect();
                let labels =
                    self.result_labels(binary, &match_labels(&one.labels, matching), &one.labels);
                out.push((usize::MAX, Line { labels, drop_name: binary.returns_bool, values }));
            }
        }
        refuse_equal(matching, &out[first..], grid, group)
    }

    /// The labels of what two series give.
    fn result_labels(&self, binary: &Binary, many: &Labels, one: &Labels) -> Labels {
        let matching = &binary.matching;
        let drops = binary.returns_bool && !self.options.delayed_name_removal;
        let mut labels = many.clone();
        if drops || binary.op.changes_metric() {
            labels = labels.without_name();
        }
        if matching.side == Side::OneToOne {
            let listed = |name: &str| matching.labels.iter().any(|label| label == name);
            labels = labels.without(|name| listed(name) != matching.on);
        }
        for label in &matching.include {
            labels = labels.with(label, one.get(label));
        }
        labels
    }
}

#[derive(Clone, Copy)]
enum Scalar {
    Left,
    Right,
}

struct Group<'a, 'l> {
    binary: &'a Binary,
    grid: &'a Grid,
    manies: &'a [(usize, &'l Line)],
    ones: &'a [&'l Line],
    fill_one: Option<f64>,
    fill_many: Option<f64>,
    swapped: bool,
    active: &'a [bool],
}

impl Group<'_, '_> {
    fn value(&self, many: f64, one: f64) -> f64 {
        let (left, right) = if self.swapped { (one, many) } else { (many, one) };
        let (value, kept) = of_values(self.binary.op, left, right);
        match (self.binary.returns_bool, kept) {
            (true, kept) => f64::from(u8::from(kept)),
            (false, true) => value,
            (false, false) => ABSENT,
        }
    }

    /// At no step may there be two on the side that is to have one.
    fn refuse_ambiguous(&self) -> Result<(), Error> {
        if self.ones.len() < 2 {
            return Ok(());
        }
        for number in (0..self.grid.count).filter(|number| self.active[*number]) {
            let mut there = self.ones.iter().filter(|one| !is_absent(one.values[number]));
            if let (Some(first), Some(second)) = (there.next(), there.next()) {
                let matching = &self.binary.matching;
                let side = if self.swapped { "left" } else { "right" };
                let (a, b) = (first.labels.to_string(), second.labels.to_string());
                let (a, b) = if a < b { (a, b) } else { (b, a) };
                return failed(format!(
                    "found duplicate series for the match group {} on the {side} hand-side of the operation: \
                     [{a}, {b}];many-to-many matching not allowed: matching labels must be unique on one side",
                    match_labels(&first.labels, matching)
                ));
            }
        }
        Ok(())
    }
}

/// The steps at which anything is calculated: where one side has nothing at all, nothing is refused either.
fn active(many: &[Line], one: &[Line], filled: bool, grid: &Grid) -> Vec<bool> {
    if filled {
        return vec![true; grid.count];
    }
    let there = |lines: &[Line]| {
        let group = vec![0; lines.len()];
        presence(lines, &group, 1, grid).pop().unwrap_or_default()
    };
    there(many).into_iter().zip(there(one)).map(|(many, one)| many && one).collect()
}

/// Two results of one match must differ in their labels; with one series on each side there is one.
fn refuse_equal(
    matching: &Matching,
    out: &[(usize, Line)],
    grid: &Grid,
    group: &Group<'_, '_>,
) -> Result<(), Error> {
    if group.manies.len() < 2 {
        return Ok(());
    }
    let one_there = |number: usize| {
        group.fill_one.is_some() || group.ones.iter().any(|one| !is_absent(one.values[number]))
    };
    if matching.side == Side::OneToOne {
        for number in 0..grid.count {
            let there =
                group.manies.iter().filter(|(_, many)| !is_absent(many.values[number])).count();
            if there > 1 && one_there(number) {
                return failed(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                );
            }
        }
        return Ok(());
    }
    // Results that a comparison leaves out count as well: who is there is what matters.
    let mut by_labels: HashMap<&Labels, Vec<usize>> = HashMap::new();
    for (order, line) in out {
        let orders = by_labels.entry(&line.labels).or_default();
        if !orders.contains(order) {
            orders.push(*order);
        }
    }
    for same in by_labels.values().filter(|same| same.len() > 1) {
        let lines: Vec<&Line> = group
            .manies
            .iter()
            .filter(|(order, _)| same.contains(order))
            .map(|(_, line)| *line)
            .collect();
        for number in 0..grid.count {
            let there = lines.iter().filter(|line| !is_absent(line.values[number])).count();
            if there > 1 && one_there(number) {
                return failed(
                    "multiple matches for labels: grouping labels must ensure unique matches",
                );
            }
        }
    }
    Ok(())
}

/// For each line of both sides, which match it belongs to.
struct Matches {
    left: Vec<usize>,
    right: Vec<usize>,
    count: usize,
}

impl Matches {
    fn of(matching: &Matching, left: &[Line], right: &[Line]) -> Self {
        let mut known: HashMap<Labels, usize> = HashMap::new();
        let mut number = |line: &Line| {
            let next = known.len();
            *known.entry(match_labels(&line.labels, matching)).or_insert(next)
        };
        let left = left.iter().map(&mut number).collect();
        let right = right.iter().map(&mut number).collect();
        Self { left, right, count: known.len() }
    }
}

/// The labels by which series belong together.
fn match_labels(labels: &Labels, matching: &Matching) -> Labels {
    let listed = |name: &str| matching.labels.iter().any(|label| label == name);
    if matching.on {
        labels.without(|name| !listed(name))
    } else {
        labels.without(|name| name == NAME || listed(name))
    }
}

/// For each match, the steps at which any of its lines has a value.
fn presence(lines: &[Line], groups: &[usize], count: usize, grid: &Grid) -> Vec<Vec<bool>> {
    let mut present = vec![vec![false; grid.count]; count];
    for (line, group) in lines.iter().zip(groups) {
        for (there, value) in present[*group].iter_mut().zip(&line.values) {
            *there |= !is_absent(*value);
        }
    }
    present
}

/// Without lines that have no value at any step.
pub(super) fn present(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| line.values.iter().any(|value| !is_absent(*value)));
    lines
}

fn of_scalars(op: Op, left: f64, right: f64) -> f64 {
    let (value, kept) = of_values(op, left, right);
    if op.is_comparison() { f64::from(u8::from(kept)) } else { value }
}

/// What the operator gives, and whether it is kept.
#[expect(clippy::float_cmp, reason = "PromQL compares floats exactly")]
fn of_values(op: Op, left: f64, right: f64) -> (f64, bool) {
    match op {
        Op::Add => (left + right, true),
        Op::Sub => (left - right, true),
        Op::Mul => (left * right, true),
        Op::Div => (left / right, true),
        Op::Mod => (left % right, true),
        Op::Pow => (left.powf(right), true),
        Op::Atan2 => (left.atan2(right), true),
        Op::Equal => (left, left == right),
        Op::NotEqual => (left, left != right),
        Op::Greater => (left, left > right),
        Op::Less => (left, left < right),
        Op::GreaterEqual => (left, left >= right),
        Op::LessEqual => (left, left <= right),
        // They cut native histograms, which a float is not.
        Op::TrimUpper | Op::TrimLower => (left, false),
        Op::And | Op::Or | Op::Unless => (left, true),
    }
}
