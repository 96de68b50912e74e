//! What the parser stumbled over, in words for people, with the mend where the mistake is a known
//! one. Called by the tree builder for every document that does not parse.

use granit_parser::{ErrorKind, ScanError};

use crate::lines::{Lines, offset};
use crate::mapping;
use crate::node::{Key, Span};
use crate::problem::Problem;

mod words;

/// How far before the place where the parser gave up the mistake may lie.
const LINES_LOOKED_AT: u32 = 3;

pub(crate) fn problem(error: &ScanError, text: &str, lines: &Lines<'_>) -> Problem {
    let marker = error.marker();
    let at = match marker.byte_offset() {
        Some(bytes) => offset(bytes.min(text.len())),
        None => lines.byte(marker.line(), marker.col()),
    };
    let line = lines.position(at).line;
    use ErrorKind as Kind;
    match error.kind() {
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabAtBlockScalarStart
        | Kind::TabInIndentation
        | Kind::TabInPlainScalar
        | Kind::InvalidBlockEntryWhitespace
        | Kind::InvalidMappingValueWhitespace => tab(at, text, lines),
        Kind::RecursionLimitExceeded => {
            Problem::error("too-deep", here(at, text), "too many levels within each other")
        }
        Kind::UnknownAnchor => {
            let message = "the alias has no anchor before it in this document";
            Problem::error("unknown-alias", word(at, text), message).expecting(
                "\"&name\" at the value that is meant, above this line; \
                     a text that begins with \"*\" goes in quotes",
            )
        }
        kind => near(line, lines).unwrap_or_else(|| plain(kind, at, text, line, lines)),
    }
}

fn plain(kind: &ErrorKind, at: u32, text: &str, line: u32, lines: &Lines<'_>) -> Problem {
    use ErrorKind as Kind;
    if let Kind::UnexpectedCharacter { character } = kind {
        return unexpected(*character, at, text, line, lines);
    }
    // Where a key was expected and a dash stands, the dash is what is wrong.
    let is_entry = lines.line(line).is_some_and(|line| line.trim_start().starts_with("- "));
    let (message, expected) = match kind {
        Kind::ExpectedBlockMappingKey if is_entry => words::of(&Kind::BlockSequenceEntryNotAllowed),
        kind => words::of(kind),
    };
    let problem = Problem::error("syntax", here(at, text), message).expecting(expected);
    match kind {
        Kind::MissingAnchorOrAliasName | Kind::MappingKeyNotAllowed => {
            quoted_rest(problem, at, line, lines)
        }
        Kind::CommentNotSeparated => problem.mended_by(Span::new(at, at), " "),
        Kind::FlowMappingValueAdjacentCollection => {
            problem.mended_by(Span::new(at + 1, at + 1), " ")
        }
        Kind::InvalidTrailingSingleQuotedScalar
        | Kind::InvalidTrailingDoubleQuotedScalar
        | Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape => quoted_again(problem, line, lines),
        _ => problem,
    }
}

/// `@` or `%` before a text, or a character that no text may have.
fn unexpected(character: char, at: u32, text: &str, line: u32, lines: &Lines<'_>) -> Problem {
    let span = here(at, text);
    if matches!(character, ' '..='~') {
        let message = format!("a plain text cannot begin with {character:?}");
        let problem = Problem::error("syntax", span, message).expecting("the text in quotes");
        return quoted_rest(problem, at, line, lines);
    }
    let code = u32::from(character);
    let message = format!("the character U+{code:04X} cannot stand in a text");
    let expected = format!("the text without it, or \"\\u{code:04X}\" within double quotes");
    Problem::error("syntax", span, message).expecting(expected)
}
fn tab(at: u32, text: &str, lines: &Lines<'_>) -> Problem {
    // The parser may have stopped right behind the tab, or at the beginning of the text that it ends.
    let (before, rest) = text.split_at_checked(at as usize).unwrap_or_default();
    let blanks = before.len() - before.trim_end_matches(['\t', ' ']).len();
    let at = match before[before.len() - blanks..].find('\t') {
        Some(tab) => at - offset(blanks) + offset(tab),
        None => at + offset(rest.find('\t').unwrap_or(0)),
    };
    let number = lines.position(at).line;
    let start = lines.start(number).unwrap_or(at);
    let line = lines.line(number).unwrap_or_default();
    let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
    let message = "a tab stands where only blanks may";
    let expected = "blanks; YAML does not indent with tabs";
    match indentation.find('\t') {
        Some(first) => {
            let tabs = Span::new(start + offset(first), start + offset(indentation.len()));
            let whole = Span::new(start, start + offset(indentation.len()));
            let blanks = indentation.replace('\t', "  ");
            Problem::error("tab", tabs, message).expecting(expected).mended_by(whole, blanks)
        }
        None => {
            let rest = text.get(at as usize..).unwrap_or_default();
            let tabs = rest.len() - rest.trim_start_matches(['\t', ' ']).len();
            let problem = Problem::error("tab", here(at, text), message).expecting(expected);
            problem.mended_by(Span::new(at, at + offset(tabs)), " ")
        }
    }
}

/// The known mistakes, looked for from the line of the error upwards.
fn near(line: u32, lines: &Lines<'_>) -> Option<Problem> {
    let from = line.saturating_sub(LINES_LOOKED_AT).max(1);
    let numbers = (from..=line).rev();
    let mut looked_at = numbers.filter_map(|number| {
        let text = lines.line(number)?;
        let start = lines.start(number)? + offset(text.len() - text.trim_start().len());
        Some((number, start, text.trim()))
    });
    looked_at.find_map(|(number, start, text)| {
        dash_without_blank(start, text)
            .or_else(|| open_bracket(start, text).filter(|_| !closes(number + 1..=line, lines)))
            .or_else(|| (number == line).then(|| colon_in_value(start, text)).flatten())
            .or_else(|| colon_without_blank(start, text))
    })
}

/// Whether one of these lines has a closing bracket; then one above may well be open.
fn closes(mut numbers: std::ops::RangeInclusive<u32>, lines: &Lines<'_>) -> bool {
    numbers.is_empty()
        || numbers.any(|number| lines.line(number).unwrap_or_default().contains([']', '}']))
}

/// `ports: [80, 443`
fn open_bracket(start: u32, line: &str) -> Option<Problem> {
    if line.starts_with('#') || line.contains(['"', '\'']) {
        return None;
    }
    let (opening, what, closing) = match (line.rfind('['), line.rfind('{')) {
        (Some(at), brace) if brace.is_none_or(|brace| brace < at) => {
            (at, "a list in brackets", ']')
        }
        (_, Some(at)) => (at, "a mapping in braces", '}'),
        (_, None) => return None,
    };
    // A bracket at the end of its line is meant to go on below.
    if line[opening..].contains(closing) || line.len() == opening + 1 {
        return None;
    }
    let at = start + offset(opening);
    let end = start + offset(line.trim_end_matches(',').len());
    let span = Span::new(at, at + 1);
    let message = format!("{what} does not end");
    let problem =
        Problem::error("syntax", span, message).expecting(format!("{:?}", closing.to_string()));
    Some(problem.mended_by(Span::new(end, end), closing.to_string()))
}

/// `-name: x`
fn dash_without_blank(start: u32, line: &str) -> Option<Problem> {
    let (key, _) = line.split_once(':')?;
    if !mapping::is_entry_without_blank(key) || key.contains(char::is_whitespace) {
        return None;
    }
    let span = Span::new(start, start + offset(key.len()));
    Some(mapping::missing_blank(&Key::new(key, span)))
}

/// `key:value`
fn colon_without_blank(start: u32, line: &str) -> Option<Problem> {
    let entry = line.strip_prefix("- ").unwrap_or(line);
    let skipped = offset(line.len() - entry.len());
    let (key, rest) = entry.split_once(':')?;
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    if key.is_empty() || !key.chars().all(is_word) || entry.contains(": ") {
        return None;
    }
    // A web address or a port mapping has its colon without a blank on purpose.
    if rest.is_empty() || rest.starts_with("//") || rest.starts_with(char::is_whitespace) {
        return None;
    }
    let colon = start + skipped + offset(key.len());
    let message = format!("{entry:?} is read as one text, because a blank is missing after \":\"");
    Some(
        Problem::error("missing-blank", Span::new(colon, colon + 1), message)
            .expecting("\"key: value\"")
            .mended_by(Span::new(colon + 1, colon + 1), " "),
    )
}

/// `description: note: this`
fn colon_in_value(start: u32, line: &str) -> Option<Problem> {
    let (key, value) = line.split_once(": ")?;
    let value_start = start + offset(key.len()) + 2;
    let lead = offset(value.len() - value.trim_start().len());
    let value = value.trim();
    if !value.contains(": ") && !value.ends_with(':') {
        return None;
    }
    if value.starts_with(['"', '\'', '{', '[', '|', '>', '&', '*', '!']) || value.contains(" #") {
        return None;
    }
    if key.contains(['{', '[']) {
        return None;
    }
    let span = Span::new(value_start + lead, value_start + lead + offset(value.len()));
    let quoted = format!("'{}'", value.replace('\'', "''"));
    Some(
        Problem::error("unquoted-colon", span, "a plain text must not have \": \" in it")
            .expecting("the text in quotes")
            .mended_by(span, quoted),
    )
}

/// Offers the rest of the line in quotes.
fn quoted_rest(problem: Problem, at: u32, line: u32, lines: &Lines<'_>) -> Problem {
    let (Some(start), Some(text)) = (lines.start(line), lines.line(line)) else { return problem };
    let Some(rest) = text.get((at - start) as usize..) else { return problem };
    let rest = rest.trim_end();
    // Within braces over several lines, what stands behind a comma is no part of the text.
    if rest.is_empty() || rest.contains(['#', '\'', ',', '{', '[', ']', '}']) {
        return problem;
    }
    let span = Span::new(at, at + offset(rest.len()));
    problem.mended_by(span, format!("'{rest}'"))
}

/// Offers the quoted value of the line in single quotes, which know no escapes: `'it''s'` for
/// `'it's'`, and `'C:\dir'` for `"C:\dir"`.
fn quoted_again(problem: Problem, line: u32, lines: &Lines<'_>) -> Problem {
    let (Some(start), Some(text)) = (lines.start(line), lines.line(line)) else { return problem };
    let Some(opening) = text.find(['\'', '"']) else { return problem };
    let value = text[opening..].trim_end();
    let quote = &value[..1];
    let inner = value[1..].strip_suffix(quote).unwrap_or_default();
    let has_escapes = match quote {
        "'" => inner.contains("''"),
        _ => has_escapes(inner),
    };
    // Then it is more than one value, or the first one is a key.
    let mut behind_quotes = inner.split(['\'', '"']).skip(1);
    let has_more = inner.contains(['#', ',', '[', ']', '{', '}'])
        || behind_quotes.any(|rest| rest.trim_start().starts_with(':'));
    if inner.is_empty() || has_escapes || has_more {
        return problem;
    }
    let at = start + offset(opening);
    let span = Span::new(at, at + offset(value.len()));
    problem.mended_by(span, format!("'{}'", inner.replace('\'', "''")))
}

/// Whether a backslash in double quotes means something, which it would not in single ones.
fn has_escapes(inner: &str) -> bool {
    let mut behind_backslashes = inner.split('\\').skip(1);
    behind_backslashes.any(|rest| {
        let has_digits = |count: usize| {
            let digits = rest.get(1..=count);
            digits.is_some_and(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()))
        };
        match rest.chars().next() {
            // Another backslash, or the quote that ends the line.
            None => true,
            Some('x') => has_digits(2),
            Some('u') => has_digits(4),
            Some('U') => has_digits(8),
            Some(letter) => "0abtnvfre \t\"/N_LP".contains(letter),
        }
    })
}

/// The one character at a place.
fn here(at: u32, text: &str) -> Span {
    let length =
        text.get(at as usize..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    Span::new(at, at + offset(length))
}

fn word(at: u32, text: &str) -> Span {
    let rest = text.get(at as usize..).unwrap_or_default();
    let end = rest.find(|letter: char| letter.is_whitespace() || ",]}".contains(letter));
    Span::new(at, at + offset(end.unwrap_or(rest.len())))
}

#[cfg(test)]
mod tests;
