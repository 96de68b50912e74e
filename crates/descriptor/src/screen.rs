//! A line of a text as it looks on a screen: tabs as blanks, wide characters two columns wide,
//! control characters made harmless, and long lines cut around what matters. Used by
//! [`crate::render`].

use std::ops::Range;

/// A tab is shown as so many blanks.
const TAB_COLUMNS: usize = 4;
/// Lines that are longer are cut; a terminal would break them and the underline with them.
const COLUMNS_MAX: usize = 110;
/// More of a line than can be visible before or behind a place, even in wide characters.
const BYTES_NEAR: usize = 1024;
/// What stays visible before the marked part of a line that is cut.
const COLUMNS_BEFORE: usize = 40;

/// A line and the columns that are to be underlined.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) line: String,
    /// Columns before the underline.
    pub(crate) before: usize,
    /// Columns of the underline, at least one.
    pub(crate) width: usize,
}

/// Lays out a line with a marked range of bytes. Only what may be seen of it is looked at: a text can
/// be one long line with many mistakes.
pub(crate) fn show(line: &str, marked: Range<usize>) -> Shown {
    let start = marked.start.min(line.len());
    let from = line.floor_char_boundary(start.saturating_sub(BYTES_NEAR));
    let to = line.ceil_char_boundary(start.saturating_add(BYTES_NEAR).min(line.len()));
    let near = start - from..marked.end.clamp(start, to.max(start)) - from;
    show_near(&line[from..to], near, from > 0)
}

fn show_near(line: &str, marked: Range<usize>, is_cut: bool) -> Shown {
    let columns_before: usize = columns(line.get(..marked.start).unwrap_or(line));
    let marked_columns: usize = columns(line.get(marked.clone()).unwrap_or_default());
    if columns(line) <= COLUMNS_MAX {
        let line = visible(line.trim_end());
        return Shown { line, before: columns_before, width: marked_columns.max(1) };
    }
    let skipped_target = columns_before.saturating_sub(COLUMNS_BEFORE);
    let mut shown = String::new();
    let mut skipped = 0;
    let mut taken = 0;
    for letter in line.chars() {
        if skipped < skipped_target {
            skipped += width(letter);
            continue;
        }
        if taken + width(letter) > COLUMNS_MAX {
            shown.push('…');
            break;
        }
        taken += width(letter);
        shown += &visible(letter.encode_utf8(&mut [0; 4]));
    }
    let lead = match skipped > 0 || is_cut {
        true => "…",
        false => "",
    };
    let before = columns_before - skipped.min(columns_before) + lead.chars().count();
    let room = (taken + lead.chars().count()).saturating_sub(before).max(1);
    Shown { line: format!("{lead}{shown}"), before, width: marked_columns.clamp(1, room) }
}

/// How many columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// A text without anything that would move the cursor or turn the direction of what follows.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\t' => shown.extend(std::iter::repeat_n(' ', TAB_COLUMNS)),
            letter if letter.is_control() || turns(letter) => shown.push('\u{fffd}'),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Whether a character changes the direction of writing: a line with one reads other than it is.
fn turns(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns of one character. Not all of Unicode: what is left out is one column wide and at worst
/// shifts an underline.
fn width(letter: char) -> usize {
    match u32::from(letter) {
        0x09 => TAB_COLUMNS,
        // Shown as a mark of its own.
        _ if turns(letter) => 1,
        // Marks that go on top of the character before them.
        0x0300..=0x036f | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        // East Asian scripts, full-width forms and pictographs.
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0x33ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xa000..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks `part` of a line and shows the underline below it.
    #[track_caller]
    fn check(line: &str, part: &str, expected: &str) {
        let start = line.find(part).unwrap();
        let Shown { line, before, width } = show(line, start..start + part.len());
        let shown = format!("{line}\n{}{}", " ".repeat(before), "^".repeat(width));
        assert_eq!(shown, expected);
    }

    #[test]
    fn underlines_below_wide_characters_and_tabs() {
        check("a: b", "b", "a: b\n   ^");
        check("\ta: b", "b", "    a: b\n       ^");
        check("名前: b", "b", "名前: b\n      ^");
        check("x: 名前", "名前", "x: 名前\n   ^^^^");
        check("e\u{301}: b", "b", "e\u{301}: b\n   ^");
    }

    #[test]
    fn cuts_long_lines_around_the_mark() {
        for length in [300, 5000] {
            let line = format!("{}MARK{}", "a".repeat(length), "b".repeat(length));
            let Shown { line, before, width } = show(&line, length..length + 4);
            assert_eq!(line.chars().count(), COLUMNS_MAX + 2);
            assert_eq!(line.chars().skip(before).take(width).collect::<String>(), "MARK");
        }
        let start = format!("MARK{}", "b".repeat(300));
        let Shown { line, before, width } = show(&start, 0..4);
        assert_eq!((line.starts_with("MARKb"), before, width), (true, 0, 4));
        let Shown { width, .. } = show(&start, 0..300);
        assert_eq!(width, COLUMNS_MAX);
    }

    #[test]
    fn lets_nothing_move_the_cursor() {
        assert_eq!(visible("a\u{1b}[31mb\r"), "a\u{fffd}[31mb\u{fffd}");
    }

    #[test]
    fn lets_nothing_turn_the_direction_of_a_line() {
        assert_eq!(visible("a\u{202e}b\u{2066}\u{200f}"), "a\u{fffd}b\u{fffd}\u{fffd}");
        check("a\u{200f}\u{202e}: b", "b", "a\u{fffd}\u{fffd}: b\n     ^");
    }
}
