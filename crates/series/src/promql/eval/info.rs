//! `info`: adds the labels of info series (`target_info` by default) to the series of the same instance and job.

use std::collections::HashMap;

use super::binary::present;
use super::select::Aim;
use super::{ABSENT, Error, Evaluator, Grid, Line, failed, is_absent, merge};
use crate::labels::{Labels, NAME};
use crate::matcher::{Matcher, Op};
use crate::promql::ast::{At, Call, Expr, Extension, Kind, Length, Moved, Selector};
use crate::promql::token::Place;

const IDENTIFYING: [&str; 2] = ["instance", "job"];

impl Evaluator<'_> {
    pub(super) fn info(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let base = self.eval(&call.arguments[0], grid)?;
        let asked: Vec<Matcher> = match call.arguments.get(1) {
            Some(Expr::Vector(selector)) => selector.matchers.clone(),
            Some(_) | None => vec![Matcher::equal(NAME, "target_info")],
        };
        let (names, data): (Vec<Matcher>, Vec<Matcher>) =
            asked.into_iter().partition(|matcher| *matcher.name == *NAME);
        let names = effective_names(names)?;
        let is_info =
            |labels: &Labels| names.iter().all(|matcher| matcher.matches(labels.get(NAME)));
        let infos = self.info_lines(&call.arguments[0], &base, &names, &data, grid)?;
        let mut of_identity: HashMap<Labels, Vec<&Line>> = HashMap::new();
        for line in &infos {
            of_identity.entry(identity(&line.labels)).or_default().push(line);
        }
        let mut out = Vec::new();
        for line in base {
            if is_info(&line.labels) {
                out.push(line);
                continue;
            }
            let id = identity(&line.labels);
            let candidates = of_identity.get(&id).map(Vec::as_slice).unwrap_or_default();
            enrich(&line, if id.is_empty() { &[] } else { candidates }, &data, grid, &mut out)?;
        }
        merge(present(out))
    }

    /// Info series with, at each step, when their sample was taken.
    fn info_lines(
        &self,
        argument: &Expr,
        base: &[Line],
        names: &[Matcher],
        data: &[Matcher],
        grid: &Grid,
    ) -> Result<Vec<Line>, Error> {
        if base.iter().all(|line| identity(&line.labels).is_empty()) {
            return Ok(Vec::new());
        }
        let moved = self.shared_reference(argument)?;
        let matchers = names.iter().chain(data).cloned().collect();
        let selector = Selector {
            name: None,
            matchers,
            moved,
            extension: Extension::None,
            place: Place::default(),
        };
        self.select_with(&selector, grid, |sample| sample.at_ms as f64)
    }

    /// The time that all parts of an expression look at. Where they look at different ones, it is that of
    /// the step.
    fn shared_reference(&self, expr: &Expr) -> Result<Moved, Error> {
        let mut references = Vec::new();
        let all_select = self.collect_references(expr, Aim::default(), &mut references)?;
        let Some((first, rest)) = references.split_first() else { return Ok(Moved::default()) };
        if !all_select || rest.iter().any(|other| other != first) {
            return Ok(Moved::default());
        }
        let offset = Length::Seconds(first.offset_ms as f64 / 1000.0);
        Ok(match first.at_ms {
            Some(ms) => Moved { offset: None, at: Some(At::Time { ms }) },
            None => Moved { offset: Some(offset), at: None },
        })
    }

    /// Whether every part that is a vector comes from a selector.
    fn collect_references(
        &self,
        expr: &Expr,
        outer: Aim,
        out: &mut Vec<Aim>,
    ) -> Result<bool, Error> {
        if !matches!(expr.kind(), Kind::Vector | Kind::Matrix) {
            return Ok(true);
        }
        Ok(match expr {
            Expr::Vector(selector) => {
                out.push(self.inner_aim(&selector.moved, outer)?);
                true
            }
            Expr::Matrix(matrix) => {
                out.push(self.inner_aim(&matrix.selector.moved, outer)?);
                true
            }
            Expr::Subquery(subquery) => {
                let aim = self.inner_aim(&subquery.moved, outer)?;
                self.collect_references(&subquery.expr, aim, out)?
            }
            Expr::Aggregate(aggregate) => self.collect_references(&aggregate.expr, outer, out)?,
            Expr::Binary(binary) => {
                let left = self.collect_references(&binary.left, outer, out)?;
                self.collect_references(&binary.right, outer, out)? && left
            }
            Expr::Call(call) => {
                let vectors: Vec<&Expr> = call
                    .arguments
                    .iter()
                    .filter(|argument| matches!(argument.kind(), Kind::Vector | Kind::Matrix))
                    .take(if call.function.name == "info" { 1 } else { usize::MAX })
                    .collect();
                let mut all = !vectors.is_empty();
                for argument in vectors {
                    all &= self.collect_references(argument, outer, out)?;
                }
                all
            }
            Expr::Paren { expr, .. } | Expr::Negative { expr, .. } => {
                self.collect_references(expr, outer, out)?
            }
            Expr::Number { .. } | Expr::Text { .. } => true,
        })
    }

    /// Offsets add up, until a time is named: then what stands further out moves nothing.
    fn inner_aim(&self, moved: &Moved, outer: Aim) -> Result<Aim, Error> {
        let offset_ms = self.offset_ms(moved)?;
        Ok(match moved.at {
            Some(at) => Aim { offset_ms: 0, at_ms: Some(self.at_ms(at) - offset_ms) },
            None => Aim {
                offset_ms: outer.at_ms.map_or(outer.offset_ms + offset_ms, |_| 0),
                at_ms: outer.at_ms.map(|at| at - offset_ms),
            },
        })
    }
}

/// What is meant by conditions on the name: all that is asked for, or all info metrics that are not ruled out.
fn effective_names(mut names: Vec<Matcher>) -> Result<Vec<Matcher>, Error> {
    if names.is_empty() {
        names.push(Matcher::equal(NAME, "target_info"));
    } else if names.iter().all(Matcher::is_negative) {
        let any = Matcher::new(NAME, Op::Matches, ".+_info");
        names.push(any.map_err(|bad| Error::Evaluation(bad.to_string()))?);
    }
    Ok(names)
}

fn identity(labels: &Labels) -> Labels {
    labels.without(|name| !IDENTIFYING.contains(&name))
}

/// Adds the labels of the info series that are there at each step.
fn enrich(
    line: &Line,
    candidates: &[&Line],
    data: &[Matcher],
    grid: &Grid,
    out: &mut Vec<Line>,
) -> Result<(), Error> {
    let needed = data.iter().any(|matcher| !matcher.matches(""));
    let mut places: HashMap<Vec<usize>, Option<usize>> = HashMap::new();
    for (number, value) in line.values.iter().enumerate() {
        if is_absent(*value) {
            continue;
        }
        let chosen = newest(candidates, number)?;
        let place = match places.get(&chosen) {
            Some(place) => *place,
            None if chosen.is_empty() && needed => None,
            None => {
                let labels = added(&line.labels, &chosen, candidates, data)?;
                out.push(Line {
                    labels,
                    drop_name: line.drop_name,
                    values: vec![ABSENT; grid.count],
                });
                Some(out.len() - 1)
            }
        };
        places.insert(chosen, place);
        if let Some(place) = place {
            out[place].values[number] = *value;
        }
    }
    Ok(())
}

/// Of each metric the series that was seen last.
fn newest(candidates: &[&Line], number: usize) -> Result<Vec<usize>, Error> {
    let mut chosen: Vec<usize> = Vec::new();
    for (candidate, info) in candidates.iter().enumerate() {
        let at = info.values[number];
        if is_absent(at) {
            continue;
        }
        let name = info.labels.get(NAME);
        match chosen.iter_mut().find(|other| candidates[**other].labels.get(NAME) == name) {
            None => chosen.push(candidate),
            Some(other) => {
                let there = candidates[*other].values[number];
                if at > there {
                    *other = candidate;
                } else if (at - there).abs() < f64::EPSILON {
                    let (a, b) = (&candidates[*other].labels, &info.labels);
                    return failed(format!(
                        "found duplicate series for info metric: existing {a} @ {there}, new {b} @ {at}"
                    ));
                }
            }
        }
    }
    Ok(chosen)
}

fn added(
    base: &Labels,
    chosen: &[usize],
    candidates: &[&Line],
    data: &[Matcher],
) -> Result<Labels, Error> {
    let mut more = Labels::empty();
    for (name, value) in chosen.iter().flat_map(|info| candidates[*info].labels.iter()) {
        let wanted = data.is_empty() || data.iter().any(|matcher| *matcher.name == *name);
        if name == NAME || !wanted {
            continue;
        }
        let there = more.get(name);
        if !there.is_empty() && there != value {
            return failed(format!("conflicting label: {name}"));
        }
        if base.get(name).is_empty() {
            more = more.with(name, value);
        }
    }
    Ok(more.iter().fold(base.clone(), |labels, (name, value)| labels.with(name, value)))
}
