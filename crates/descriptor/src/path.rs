//! The way from the top of a document to a value, in the document's own words. Cheap to extend and
//! to copy; it becomes text only when somebody is told about it.

use std::fmt;
use std::rc::Rc;

/// `spec.components[0].tls.name`
#[derive(Clone, Debug, Default)]
pub(crate) struct Path<'a>(Option<Rc<Step<'a>>>);

#[derive(Debug)]
struct Step<'a> {
    before: Path<'a>,
    last: Last<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Last<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The top of a document.
    pub(crate) fn root() -> Path<'a> {
        Path(None)
    }

    pub(crate) fn key(&self, key: &'a str) -> Path<'a> {
        self.then(Last::Key(key))
    }

    pub(crate) fn index(&self, index: usize) -> Path<'a> {
        self.then(Last::Index(index))
    }

    fn then(&self, last: Last<'a>) -> Path<'a> {
        Path(Some(Rc::new(Step { before: self.clone(), last })))
    }
}

impl fmt::Display for Path<'_> {
    /// As deep as the document is, and that is bounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(step) = &self.0 else { return Ok(()) };
        step.before.fmt(f)?;
        let is_first = step.before.0.is_none();
        match step.last {
            Last::Index(index) => write!(f, "[{index}]"),
            Last::Key(key) if is_plain(key) && is_first => f.write_str(key),
            Last::Key(key) if is_plain(key) => write!(f, ".{key}"),
            Last::Key(key) => write!(f, "[{}]", cut(key)),
        }
    }
}

/// A key of a free mapping is data and may hold anything; one that is no plain word goes in
/// brackets.
fn is_plain(key: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    !key.is_empty() && key.len() <= SHOWN_CHARS_MAX && key.chars().all(plain)
}

/// More of a key would drown the message that it stands in.
const SHOWN_CHARS_MAX: usize = 80;

/// A text of bounded length, with a mark where it was cut.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How messages quote what was found: cut to a readable length.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", cut(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_like_the_way_people_write_it() {
        let path = Path::root().key("spec").key("components").index(0).key("tls-name");
        assert_eq!(path.to_string(), "spec.components[0].tls-name");
        assert_eq!(
            Path::root().key("a").key("app.kubernetes.io/name").to_string(),
            "a[app.kubernetes.io/name]"
        );
        assert_eq!(Path::root().index(2).key("a").to_string(), "[2].a");
    }
}
