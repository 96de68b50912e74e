//! A back-test as a picture of a few lines of text: values, when it did not hold, and the steps.

use super::{Report, ScalingReport};

/// Columns of a picture; as wide as most terminals.
const WIDTH: usize = 72;

const BARS: &[char] = &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What falls into one column.
#[derive(Clone, Copy, Default)]
struct Cell {
    value: Option<f64>,
    other: Option<f64>,
    marked: bool,
    acts: usize,
}

impl Report {
    /// The worst value at each time, `!` where the policy did not hold, and the number of steps.
    pub fn to_plot(&self) -> String {
        let worse = |a: f64, b: f64| if self.is_below { a.min(b) } else { a.max(b) };
        let mut cells = Cells::of(self.plot.iter().map(|(at, _, _)| *at));
        for (at, value, violated) in &self.plot {
            let cell = cells.at(*at);
            if !value.is_nan() {
                cell.value = Some(cell.value.map_or(*value, |known| worse(known, *value)));
            }
            cell.marked |= *violated > 0;
        }
        self.acts.iter().for_each(|act| cells.at(act.at_ms).acts += 1);
        let (bars, scale) = cells.bars(|cell| cell.value);
        let marks: String = cells.row(|cell| if cell.marked { '!' } else { ' ' });
        format!("value     {bars}  {scale}\nviolated  {marks}\nsteps     {}\n", cells.counts())
    }
}

impl ScalingReport {
    /// What was needed, what there would have been, and the number of steps.
    pub fn to_plot(&self) -> String {
        let most =
            |known: Option<f64>, more: f64| Some(known.map_or(more, |known| known.max(more)));
        let mut cells = Cells::of(self.points.iter().map(|point| point.at_ms));
        for point in &self.points {
            let cell = cells.at(point.at_ms);
            cell.value = most(cell.value, point.need);
            cell.other = most(cell.other, f64::from(point.supply));
            cell.marked |= point.supply < point.demand;
        }
        self.acts.iter().for_each(|(at, _, _, _)| cells.at(*at).acts += 1);
        let (needs, need_scale) = cells.bars(|cell| cell.value);
        let (supply, supply_scale) = cells.bars(|cell| cell.other);
        let marks: String = cells.row(|cell| if cell.marked { '!' } else { ' ' });
        format!(
            "needed    {needs}  {need_scale}\nthere     {supply}  {supply_scale}\ntoo few   {marks}\n\
             steps     {}\n",
            cells.counts()
        )
    }
}

struct Cells {
    from_ms: i64,
    width_ms: i64,
    cells: Vec<Cell>,
}

impl Cells {
    fn of(times: impl Iterator<Item = i64> + Clone) -> Self {
        let columns = times.clone().count().clamp(1, WIDTH);
        let from_ms = times.clone().min().unwrap_or_default();
        let to_ms = times.max().unwrap_or_default();
        let width_ms = ((to_ms - from_ms) / columns as i64 + 1).max(1);
        Self { from_ms, width_ms, cells: vec![Cell::default(); columns] }
    }

    fn at(&mut self, at_ms: i64) -> &mut Cell {
        let place = usize::try_from((at_ms - self.from_ms) / self.width_ms).unwrap_or_default();
        let last = self.cells.len() - 1;
        &mut self.cells[place.min(last)]
    }

    fn row(&self, of: impl Fn(&Cell) -> char) -> String {
        self.cells.iter().map(of).collect::<String>().trim_end().to_owned()
    }

    fn counts(&self) -> String {
        self.row(|cell| match u32::try_from(cell.acts) {
            Ok(0) => ' ',
            Ok(count) => char::from_digit(count, 10).unwrap_or('+'),
            Err(_) => '+',
        })
    }

    /// Bars between the least and the most, and these two as words.
    fn bars(&self, of: impl Fn(&Cell) -> Option<f64>) -> (String, String) {
        let known = || self.cells.iter().filter_map(&of);
        let least = known().fold(f64::INFINITY, f64::min);
        let most = known().fold(f64::NEG_INFINITY, f64::max);
        if least > most {
            return (String::new(), "nothing was measured".to_owned());
        }
        let bar = |value: f64| {
            let share = if most > least { (value - least) / (most - least) } else { 0.0 };
            let place = crate::scale::whole(share * (BARS.len() - 1) as f64 + 0.5) as usize;
            BARS[place.min(BARS.len() - 1)]
        };
        let bars: String = self.cells.iter().map(|cell| of(cell).map_or(' ', bar)).collect();
        (bars, format!("{least:.3} … {most:.3}"))
    }
}
