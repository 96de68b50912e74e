//! What is wrong with the input, in a sentence. Returned by everything that reads Sites, Nodes,
//! Links and Apps; nothing here panics on what people write.

use std::fmt;

/// One thing that is wrong with the input. The rest of the input is used all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// What it is about, such as `node edge-7` or `app shop/web`.
    pub about: String,
    /// What is wrong, a clause.
    pub says: String,
}

impl Trouble {
    pub(crate) fn new(about: impl Into<String>, says: impl Into<String>) -> Trouble {
        Trouble { about: about.into(), says: says.into() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.says)
    }
}
