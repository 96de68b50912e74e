//! The selectors of list, watch and deletecollection: which objects a request is about.
//!
//! [`LabelSelector`] is `?labelSelector=`, [`FieldSelector`] is `?fieldSelector=`. The handlers
//! parse them once for a request and ask `matches` for every object.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, Requirement, Rule};

/// A longer selector is a mistake or an attack.
pub const SELECTOR_BYTES_MAX: usize = 16 * 1024;
/// Each requirement is looked at for each object.
pub const REQUIREMENTS_MAX: usize = 128;

/// Why a selector cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the {what} selector {selector:?} is wrong at character {at}: {problem}")]
    Syntax { what: &'static str, selector: String, at: usize, problem: String },
    #[error("the {what} selector has {bytes} bytes; at most {SELECTOR_BYTES_MAX} are allowed")]
    TooLong { what: &'static str, bytes: usize },
    #[error(
        "the field selector {selector:?} names the field {field:?}, which {kind} cannot be selected by{nearest}; these can be used: {allowed}"
    )]
    UnknownField {
        selector: String,
        field: String,
        kind: String,
        /// Empty, or ` (did you mean …?)`.
        nearest: String,
        allowed: String,
    },
}

fn check_length(what: &'static str, selector: &str) -> Result<(), Error> {
    if selector.len() > SELECTOR_BYTES_MAX {
        return Err(Error::TooLong { what, bytes: selector.len() });
    }
    Ok(())
}

/// The error at a place given in bytes; people count characters, from 1.
fn syntax(what: &'static str, selector: &str, position: usize, problem: String) -> Error {
    let at = selector.char_indices().take_while(|(start, _)| *start < position).count() + 1;
    Error::Syntax { what, selector: shown(selector), at, problem }
}

/// For a message: enough to recognise it by.
fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
