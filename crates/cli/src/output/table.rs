//! Columns for people: padded with spaces, no borders, so that `awk` and eyes both like them.

use serde_json::Value;

use crate::output::{Paint, harmless, painted};

const GAP: usize = 3;

/// A header and rows of as many cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(header: &[&str]) -> Grid {
        Grid { header: header.iter().map(|cell| (*cell).to_owned()).collect(), rows: Vec::new() }
    }

    /// The width of each column: that of its widest cell.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| width(cell)).collect();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate().take(widths.len()) {
                widths[column] = widths[column].max(width(cell));
            }
        }
        widths
    }

    pub(crate) fn to_text(&self) -> String {
        self.to_coloured_text(false)
    }

    /// With the words that say how something fares in their colours, if colour is wanted.
    pub(crate) fn to_coloured_text(&self, colour: bool) -> String {
        let widths = self.widths();
        let mut text = line(&self.header, &widths);
        let fares: Vec<bool> =
            self.header.iter().map(|name| STANDINGS.contains(&name.as_str())).collect();
        for row in &self.rows {
            let mut plain = line(row, &widths);
            if colour {
                plain = in_colours(&plain, row, &widths, &fares);
            }
            text.push_str(&plain);
        }
        text
    }
}

/// One line of cells; the last is not padded. Cells wider than their column push the rest.
pub(crate) fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (column, cell) in cells.iter().enumerate() {
        text.push_str(cell);
        if column + 1 < cells.len() {
            let padding = widths.get(column).copied().unwrap_or(0).saturating_sub(width(cell));
            text.extend(std::iter::repeat_n(' ', padding + GAP));
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The first of these columns says it of an object that is being deleted.
const STANDS_IN: [&str; 4] = ["Phase", "Status", "Available", "Ready"];
const TERMINATING: &str = "Terminating";

/// Columns that say how something fares.
const STANDINGS: [&str; 5] = ["AVAILABLE", "PHASE", "READY", "STATE", "STATUS"];

/// What stands in such a column, and its colour.
const WORDS: &[(Paint, &[&str])] = &[
    (Paint::Green, &["Running", "True", "Active", "Idle", "Serving"]),
    (Paint::Red, &["Degraded", "Unplaceable", "False", "Dead", "Late"]),
    (Paint::Yellow, &["Pending", "Placing", "Deploying", "Stopped", "Unknown", "Terminating"]),
];

/// The line with escapes in it, which take no room: the padding was counted without them.
fn in_colours(plain: &str, row: &[String], widths: &[usize], fares: &[bool]) -> String {
    let mut text = String::with_capacity(plain.len());
    let mut rest = plain;
    for (column, cell) in row.iter().enumerate() {
        let Some(after) = rest.strip_prefix(cell.as_str()) else { break };
        let word = WORDS.iter().find(|(_, words)| words.contains(&cell.as_str()));
        match word.filter(|_| fares.get(column).copied().unwrap_or(false)) {
            Some((paint, _)) => text.push_str(&painted(*paint, cell, true)),
            None => text.push_str(cell),
        }
        let room =
            widths.get(column).map_or(0, |width| (width + GAP).saturating_sub(self::width(cell)));
        let gap = after.len().min(room);
        text.push_str(&after[..gap]);
        rest = &after[gap..];
    }
    text.push_str(rest);
    text
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// Which of a server's columns are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Those of priority 0.
    Usual,
    All,
}

/// What stands in front of the name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prefix<'a> {
    /// A NAMESPACE column, for lists over all of them.
    pub(crate) namespace: bool,
    /// `app/` before the names, when several kinds are listed together.
    pub(crate) label: Option<&'a str>,
}

/// Reads a server's `Table`; anything else counts as objects and shows name and creation time.
pub(crate) fn from_server(answer: &Value, columns: Columns, prefix: Prefix<'_>) -> Grid {
    match answer["kind"].as_str() {
        Some("Table") => from_table(answer, columns, prefix),
        _ => from_objects(answer, prefix),
    }
}

/// A server names the columns only in the first table of a watch: fills them in from `known`,
/// or learns them.
pub(crate) fn complete_columns(table: &mut Value, known: &mut Value) {
    if table["kind"] != "Table" {
        return;
    }
    match array(&table["columnDefinitions"]).is_empty() {
        true => table["columnDefinitions"] = known.clone(),
        false => known.clone_from(&table["columnDefinitions"]),
    }
}

fn from_table(table: &Value, columns: Columns, prefix: Prefix<'_>) -> Grid {
    let definitions = array(&table["columnDefinitions"]);
    let shown: Vec<usize> = (0..definitions.len())
        .filter(|index| {
            columns == Columns::All || definitions[*index]["priority"].as_i64().unwrap_or(0) == 0
        })
        .collect();
    let mut header: Vec<String> = Vec::new();
    header.extend(prefix.namespace.then(|| "NAMESPACE".to_owned()));
    header.extend(shown.iter().map(|index| heading(&definitions[*index])));
    let row = |row: &Value| {
        let metadata = &row["object"]["metadata"];
        let mut cells: Vec<String> = Vec::new();
        cells.extend(prefix.namespace.then(|| cell(&metadata["namespace"])));
        let is_going = metadata["deletionTimestamp"].is_string();
        let named = |index: usize| definitions[index]["name"].as_str().unwrap_or_default();
        let standing = shown.iter().copied().find(|index| STANDS_IN.contains(&named(*index)));
        cells.extend(shown.iter().map(|index| match is_going && standing == Some(*index) {
            // What the object said of itself last is about a time that is over.
            true => TERMINATING.to_owned(),
            false => size_for_people(told(row, definitions, *index)),
        }));
        let name = usize::from(prefix.namespace);
        if let (Some(label), Some(name)) = (prefix.label, cells.get_mut(name)) {
            name.insert_str(0, label);
        }
        cells
    };
    Grid { header, rows: array(&table["rows"]).iter().map(row).collect() }
}

/// Of a message that stands in for a reason, as much as leaves room for the other columns.
const SAID_CHARS_MAX: usize = 48;

/// A cell as people read it: in place of a reason that only repeats the phase stands the beginning of the message.
fn told(row: &Value, definitions: &[Value], index: usize) -> String {
    let value = &row["cells"][index];
    let column = |name: &str| definitions.iter().position(|one| one["name"] == name);
    let repeats = definitions[index]["name"] == "Reason"
        && column("Phase").is_some_and(|phase| row["cells"][phase] == *value);
    let message = column("Message").map(|message| cell(&row["cells"][message]));
    match (repeats, message) {
        (false, _) => cell(value),
        (true, None) => cell(&Value::Null),
        (true, Some(message)) => {
            let first = message.split(';').next().unwrap_or_default();
            match first.char_indices().nth(SAID_CHARS_MAX) {
                Some((end, _)) => format!("{}…", first[..end].trim_end()),
                None => first.to_owned(),
            }
        }
    }
}

/// `24684096Ki` as `23.5Gi`; whatever is no such size stays. Cut and not rounded: nobody is to read of
/// more than there is.
fn size_for_people(cell: String) -> String {
    const UNITS: [&str; 5] = ["Ki", "Mi", "Gi", "Ti", "Pi"];
    let found = UNITS.iter().enumerate().find_map(|(unit, name)| {
        let digits =
            cell.strip_suffix(name).filter(|text| text.bytes().all(|it| it.is_ascii_digit()));
        Some((unit, digits?.parse::<u64>().ok()?))
    });
    let Some((mut unit, mut amount)) = found.filter(|(_, amount)| *amount >= 1024) else {
        return cell;
    };
    let mut rest = 0;
    while amount >= 1024 && unit + 1 < UNITS.len() {
        (rest, amount, unit) = (amount % 1024, amount / 1024, unit + 1);
    }
    match rest * 10 / 1024 {
        0 => format!("{amount}{}", UNITS[unit]),
        tenths => format!("{amount}.{tenths}{}", UNITS[unit]),
    }
}

fn heading(definition: &Value) -> String {
    harmless(&definition["name"].as_str().unwrap_or_default().to_uppercase())
}

fn from_objects(answer: &Value, prefix: Prefix<'_>) -> Grid {
    let objects = match answer["items"].as_array() {
        Some(items) => items.iter().collect(),
        None => vec![answer],
    };
    let mut grid = Grid::default();
    grid.header.extend(prefix.namespace.then(|| "NAMESPACE".to_owned()));
    grid.header.extend(["NAME".to_owned(), "CREATED".to_owned()]);
    for object in objects {
        let metadata = &object["metadata"];
        let mut cells: Vec<String> = Vec::new();
        cells.extend(prefix.namespace.then(|| cell(&metadata["namespace"])));
        cells.push(format!("{}{}", prefix.label.unwrap_or_default(), cell(&metadata["name"])));
        cells.push(cell(&metadata["creationTimestamp"]));
        grid.rows.push(cells);
    }
    grid
}

/// A value as it stands in a table.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) if text.is_empty() => "<none>".to_owned(),
        Value::String(text) => harmless(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            harmless(&value.to_string())
        }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn table() -> Value {
        json!({"kind": "Table",
        "columnDefinitions": [
            {"name": "Name", "type": "string", "priority": 0},
            {"name": "Phase", "type": "string", "priority": 0},
            {"name": "Where", "type": "string", "priority": 1},
            {"name": "Age", "type": "date"},
        ],
        "rows": [
            {"cells": ["web", "Running", "berlin", "5m"],
             "object": {"metadata": {"name": "web", "namespace": "default"}}},
            {"cells": ["database", null, "", 7],
             "object": {"metadata": {"name": "database", "namespace": "shop"}}},
        ]})
    }

    #[track_caller]
    fn check(answer: &Value, columns: Columns, prefix: Prefix<'_>, expect: Expect) {
        expect.assert_eq(&from_server(answer, columns, prefix).to_text());
    }

    #[test]
    fn the_servers_columns_are_padded_and_the_wide_ones_left_out() {
        check(
            &table(),
            Columns::Usual,
            Prefix::default(),
            expect![[r#"
            NAME       PHASE     AGE
            web        Running   5m
            database   <none>    7
        "#]],
        );
        check(
            &table(),
            Columns::All,
            Prefix::default(),
            expect![[r#"
            NAME       PHASE     WHERE    AGE
            web        Running   berlin   5m
            database   <none>    <none>   7
        "#]],
        );
    }

    #[test]
    fn colours_take_no_room_and_mark_only_how_something_fares() {
        let grid = from_server(&table(), Columns::All, Prefix::default());
        let coloured = grid.to_coloured_text(true);
        assert!(coloured.contains("web        \x1b[32mRunning\x1b[0m   berlin"), "{coloured:?}");
        let plain = coloured.replace("\x1b[32m", "").replace("\x1b[0m", "");
        assert_eq!(plain, grid.to_text());
        let mut named_so = table();
        named_so["rows"][0]["cells"][0] = json!("Running");
        named_so["rows"][0]["cells"][1] = json!("<none>");
        let grid = from_server(&named_so, Columns::All, Prefix::default());
        assert_eq!(grid.to_coloured_text(true), grid.to_text(), "a name is no phase");
    }

    #[test]
    fn what_is_being_deleted_says_so_and_a_reason_says_more_than_the_phase() {
        let mut table = table();
        table["columnDefinitions"][2] = json!({"name": "Reason", "type": "string"});
        table["rows"][0]["cells"][1] = json!("Unplaceable");
        table["rows"][0]["cells"][2] = json!("Unplaceable");
        table["rows"][1]["cells"][2] = json!("CrashLoop");
        table["rows"][1]["object"]["metadata"]["deletionTimestamp"] = json!("2026-06-01T00:00:00Z");
        check(
            &table,
            Columns::Usual,
            Prefix::default(),
            expect![[r#"
            NAME       PHASE         REASON      AGE
            web        Unplaceable   <none>      5m
            database   Terminating   CrashLoop   7
        "#]],
        );
        let message = json!({"name": "Message", "type": "string", "priority": 1});
        table["columnDefinitions"].as_array_mut().expect("columns").push(message);
        let said = json!("web/0 has no place: needs 4000 cpu; the only node, vm, has 2");
        let rows = table["rows"].as_array_mut().expect("rows");
        rows.iter_mut()
            .for_each(|row| row["cells"].as_array_mut().expect("cells").push(said.clone()));
        let grid = from_server(&table, Columns::Usual, Prefix::default()).to_text();
        assert!(grid.contains("Unplaceable   web/0 has no place: needs 4000 cpu   "), "{grid}");
    }

    #[test]
    fn columns_are_named_once_and_hold_for_the_whole_watch() {
        let mut known = Value::Null;
        complete_columns(&mut table(), &mut known);
        for columns in [json!(null), json!([])] {
            let mut later = table();
            later["columnDefinitions"] = columns;
            complete_columns(&mut later, &mut known);
            assert_eq!(later, table());
        }
        let mut object = json!({"kind": "App"});
        complete_columns(&mut object, &mut known);
        assert_eq!(object, json!({"kind": "App"}));
    }

    #[test]
    fn the_namespace_and_the_kind_come_in_front() {
        let prefix = Prefix { namespace: true, label: Some("app/") };
        check(
            &table(),
            Columns::Usual,
            prefix,
            expect![[r#"
            NAMESPACE   NAME           PHASE     AGE
            default     app/web        Running   5m
            shop        app/database   <none>    7
        "#]],
        );
    }

    #[test]
    fn objects_and_malformed_tables_are_shown_as_far_as_they_go() {
        let list = json!({"items": [{"metadata": {"name": "a\u{1b}[0m"}}]});
        check(
            &list,
            Columns::Usual,
            Prefix::default(),
            expect![[r#"
            NAME         CREATED
            a\u{1b}[0m   <none>
        "#]],
        );
        let odd = json!({"kind": "Table", "columnDefinitions": [{"name": "Name"}], "rows": [{}]});
        check(
            &odd,
            Columns::Usual,
            Prefix::default(),
            expect![[r#"
            NAME
            <none>
        "#]],
        );
    }

    #[test]
    fn sizes_are_for_people() {
        let check = |given: &str, expected: &str| {
            assert_eq!(size_for_people(given.to_owned()), expected);
        };
        check("24684096Ki", "23.5Gi");
        check("8388608Ki", "8Gi");
        check("1536Mi", "1.5Gi");
        check("512Mi", "512Mi");
        check("1023Ki", "1023Ki");
        check("2", "2");
        check("Ki", "Ki");
        check("web-2048Ki", "web-2048Ki");
        check("99999999999999999999Ki", "99999999999999999999Ki");
    }
}
