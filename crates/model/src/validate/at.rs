//! Where in an object a check is. Nearly all of what is checked is right, so the way becomes a text
//! only when something is told. Used by the schema walk in [`super::structure`].

use crate::invalid::below;

/// A place below another one, `spec.components[0].name`, or one that is a text already.
#[derive(Clone, Copy, Debug)]
pub(super) enum At<'p> {
    Path(&'p str),
    Key(&'p At<'p>, &'p str),
    Index(&'p At<'p>, usize),
}

impl At<'_> {
    pub(super) fn key<'p>(&'p self, key: &'p str) -> At<'p> {
        At::Key(self, key)
    }

    pub(super) fn index(&self, index: usize) -> At<'_> {
        At::Index(self, index)
    }
}

impl From<At<'_>> for String {
    /// As deep as the object is, and that is bounded where it is read.
    fn from(at: At<'_>) -> String {
        match at {
            At::Path(path) => path.to_owned(),
            At::Key(parent, key) => below(&String::from(*parent), key),
            At::Index(parent, index) => format!("{}[{index}]", String::from(*parent)),
        }
    }
}
