//! What a query of metrics gave, for people: a table, lines of values, or a drawing. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;
use tombolo_series::is_plain_name;

use crate::output::table::Grid;
use crate::output::{Paint, harmless, painted};

/// Dots of a character of Braille.
const DOTS_WIDE: usize = 2;
const DOTS_HIGH: usize = 4;

/// Characters of a drawing. Wider ones do not fit beside their scale on every terminal.
const WIDE: usize = 72;
const HIGH: usize = 16;

/// A drawing of more series says nothing.
const DRAWN_MAX: usize = 12;

/// Colours that series take in turn.
const PAINTS: [Paint; 4] = [Paint::Green, Paint::Cyan, Paint::Yellow, Paint::Red];

/// A series and its values.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    series: String,
    values: Vec<(i64, f64)>,
}

/// What a query gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Whether each series has values over time, and not one of a moment.
    over_time: bool,
}

impl Rows {
    /// Reads the `data` of an answer of Prometheus' API.
    pub(super) fn of(data: &Value) -> Rows {
        let result = &data["result"];
        let kind = data["resultType"].as_str().unwrap_or_default();
        let over_time = kind == "matrix";
        let rows = match kind {
            "vector" | "matrix" => {
                result.as_array().into_iter().flatten().map(|one| row(one, over_time)).collect()
            }
            _ => vec![Row { series: String::new(), values: pair(result).into_iter().collect() }],
        };
        Rows { rows, over_time }
    }

    pub(super) fn table(&self) -> String {
        if !self.over_time {
            let mut grid = Grid::new(&["SERIES", "VALUE"]);
            for row in &self.rows {
                let value =
                    row.values.first().map_or_else(String::new, |(_, value)| number(*value));
                grid.rows.push(vec![named(&row.series), value]);
            }
            return grid.to_text();
        }
        let mut grid = Grid::new(&["SERIES", "VALUES", "FIRST", "LEAST", "MOST", "LAST"]);
        for row in &self.rows {
            let values = || row.values.iter().map(|(_, value)| *value);
            let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
            grid.rows.push(vec![
                named(&row.series),
                row.values.len().to_string(),
                of(values().next()),
                of(values().filter(|value| !value.is_nan()).reduce(f64::min)),
                of(values().filter(|value| !value.is_nan()).reduce(f64::max)),
                of(values().next_back()),
            ]);
        }
        grid.to_text()
    }

    pub(super) fn csv(&self) -> String {
        let mut out = String::from("series,time,value\n");
        for row in &self.rows {
            let series = row.series.replace('"', "\"\"");
            for (at_ms, value) in &row.values {
                let _ = writeln!(out, "\"{series}\",{},{}", seconds(*at_ms), number(*value));
            }
        }
        out
    }

    pub(super) fn plot(&self, colour: bool) -> String {
        if self.over_time { self.lines(colour) } else { self.bars() }
    }

    /// A bar for each series.
    fn bars(&self) -> String {
        let of = |row: &Row| row.values.first().map_or(f64::NAN, |(_, value)| *value);
        let most = self.rows.iter().map(|row| of(row).abs()).filter(|value| value.is_finite());
        let most = most.fold(0.0, f64::max);
        let mut grid = Grid::new(&["SERIES", "VALUE", ""]);
        for row in &self.rows {
            let value = of(row);
            let share = if most > 0.0 && value.is_finite() { value.abs() / most } else { 0.0 };
            grid.rows.push(vec![
                named(&row.series),
                number(value),
                "█".repeat(place(share, WIDE / 2 + 1)),
            ]);
        }
        grid.to_text()
    }

    /// All series over time, in one field of dots.
    fn lines(&self, colour: bool) -> String {
        let drawn = &self.rows[..self.rows.len().min(DRAWN_MAX)];
        let all = || drawn.iter().flat_map(|row| &row.values);
        let values = || all().map(|(_, value)| *value).filter(|value| value.is_finite());
        let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max))
        else {
            return "nothing to draw\n".to_owned();
        };
        let from = all().map(|(at, _)| *at).min().unwrap_or_default();
        let to = all().map(|(at, _)| *at).max().unwrap_or_default();
        let mut field = Field::new();
        for (number, row) in drawn.iter().enumerate() {
            for (at, value) in row.values.iter().filter(|(_, value)| value.is_finite()) {
                let across = share(*at as f64, from as f64, to as f64);
                field.dot(across, share(*value, least, most), number);
            }
        }
        let mut out = field.text(least, most, colour);
        let (from, to) = (clock(from), clock(to));
        let gap = (Field::MARGIN + WIDE).saturating_sub(Field::MARGIN + from.len() + to.len());
        let _ = writeln!(out, "{}{from}{}{to}", " ".repeat(Field::MARGIN), " ".repeat(gap));
        for (number, row) in drawn.iter().enumerate() {
            let mark = painted(PAINTS[number % PAINTS.len()], "──", colour);
            let _ = writeln!(out, "{mark} {}", named(&row.series));
        }
        if self.rows.len() > drawn.len() {
            let _ = writeln!(out, "and {} more, not drawn", self.rows.len() - drawn.len());
        }
        out
    }
}

/// Where a value lies between two others, from 0 to 1.
fn share(value: f64, least: f64, most: f64) -> f64 {
    if most > least { (value - least) / (most - least) } else { 0.5 }
}

/// A share of so many places, from 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is from 0 to 1, and places are few"
)]
fn place(share: f64, places: usize) -> usize {
    let last = places.saturating_sub(1);
    ((share * last as f64).round() as usize).min(last)
}

/// A field of dots, each character of it with the series that came last.
struct Field {
    dots: Vec<u8>,
    series: Vec<usize>,
}

impl Field {
    /// What the scale takes.
    const MARGIN: usize = 12;

    fn new() -> Field {
        Field { dots: vec![0; WIDE * HIGH], series: vec![0; WIDE * HIGH] }
    }

    fn dot(&mut self, across: f64, up: f64, series: usize) {
        let (x, y) = (place(across, WIDE * DOTS_WIDE), place(1.0 - up, HIGH * DOTS_HIGH));
        let cell = y / DOTS_HIGH * WIDE + x / DOTS_WIDE;
        // The dots of Braille are numbered down the left, down the right, and then the lowest two.
        let bit = match (x % DOTS_WIDE, y % DOTS_HIGH) {
            (0, 3) => 6,
            (_, 3) => 7,
            (0, row) => row,
            (_, row) => row + 3,
        };
        self.dots[cell] |= 1 << bit;
        self.series[cell] = series;
    }

    fn text(&self, least: f64, most: f64, colour: bool) -> String {
        let mut out = String::new();
        for row in 0..HIGH {
            let scale = match row {
                0 => number(most),
                row if row == HIGH - 1 => number(least),
                _ => String::new(),
            };
            let scale: String = scale.chars().take(Field::MARGIN - 2).collect();
            let _ = write!(out, "{scale:>width$} ┤", width = Field::MARGIN - 2);
            for cell in row * WIDE..(row + 1) * WIDE {
                let braille = char::from_u32(0x2800 + u32::from(self.dots[cell]));
                let braille = braille.filter(|_| self.dots[cell] > 0).unwrap_or(' ');
                match self.dots[cell] {
                    0 => out.push(' '),
                    _ => out.push_str(&painted(
                        PAINTS[self.series[cell] % PAINTS.len()],
                        &braille.to_string(),
                        colour,
                    )),
                }
            }
            while out.ends_with(' ') {
                out.pop();
            }
            out.push('\n');
        }
        out
    }
}

fn row(one: &Value, over_time: bool) -> Row {
    let values = match over_time {
        true => one["values"].as_array().into_iter().flatten().filter_map(pair).collect(),
        false => pair(&one["value"]).into_iter().collect(),
    };
    Row { series: series(&one["metric"]), values }
}

fn pair(pair: &Value) -> Option<(i64, f64)> {
    let at_ms = seconds_to_ms(&pair[0].to_string())?;
    let value = match pair[1].as_str()? {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        text => text.parse().unwrap_or(f64::NAN),
    };
    Some((at_ms, value))
}

/// As one would write the series: `up{job="a"}`.
fn series(metric: &Value) -> String {
    let mut name = String::new();
    let mut labels = Vec::new();
    for (label, value) in metric.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        match label.as_str() {
            "__name__" => value.clone_into(&mut name),
            label if is_plain_name(label) => labels.push(format!("{label}={value:?}")),
            label => labels.push(format!("{label:?}={value:?}")),
        }
    }
    if labels.is_empty() { name } else { format!("{name}{{{}}}", labels.join(", ")) }
}

fn named(series: &str) -> String {
    if series.is_empty() { "{}".to_owned() } else { harmless(series) }
}

fn number(value: f64) -> String {
    tombolo_series::promql::format_value(value)
}

fn clock(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms);
    at.map_or_else(|_| seconds(at_ms), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// Milliseconds as seconds, without what a float would add.
pub(super) fn seconds(ms: i64) -> String {
    let (sign, size) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    match size % 1000 {
        0 => format!("{sign}{}", size / 1000),
        rest => format!("{sign}{}.{rest:03}", size / 1000),
    }
}

/// The other way round.
#[expect(clippy::cast_possible_truncation, reason = "it is far from the bounds")]
pub(super) fn seconds_to_ms(text: &str) -> Option<i64> {
    let seconds = text.parse::<f64>().ok()?;
    (seconds.abs() < 9e12).then(|| (seconds * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_moment_is_a_line_for_each_series() {
        let data = json!({"resultType": "vector", "result": [
            {"metric": {"__name__": "up", "job": "a"}, "value": [5, "1"]},
            {"metric": {}, "value": [5, "NaN"]},
        ]});
        let rows = Rows::of(&data);
        expect![[r#"
            SERIES        VALUE
            up{job="a"}   1
            {}            NaN
        "#]]
        .assert_eq(&rows.table());
        expect![[r#"
            series,time,value
            "up{job=""a""}",5,1
            "",5,NaN
        "#]]
        .assert_eq(&rows.csv());
    }

    #[test]
    fn values_over_time_are_summed_up_and_drawn() {
        let values: Vec<Value> =
            (0..60).map(|n| json!([1_700_000_000 + n * 15, (n * 2).to_string()])).collect();
        let data =
            json!({"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": values}]});
        let rows = Rows::of(&data);
        assert!(rows.table().contains("{a=\"b\"}   60       0       0       118    118"));
        let plot = rows.plot(false);
        let lines: Vec<&str> = plot.lines().collect();
        assert_eq!(lines.len(), HIGH + 2);
        assert!(lines[0].starts_with("       118 ┤") && lines[0].ends_with('⠈'), "{plot}");
        assert!(lines[HIGH - 1].starts_with("         0 ┤⡀"), "{plot}");
        assert!(lines[HIGH].contains("2023-11-14 22:13:20Z"), "{plot}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let data = json!({"resultType": "matrix", "result": []});
        assert_eq!(Rows::of(&data).plot(true), "nothing to draw\n");
    }

    #[test]
    fn seconds_are_written_as_they_are() {
        assert_eq!((seconds(1500).as_str(), seconds(-20).as_str()), ("1.500", "-0.020"));
        assert_eq!(seconds_to_ms("1700000000.123"), Some(1_700_000_000_123));
    }
}
