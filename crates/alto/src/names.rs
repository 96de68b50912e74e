//! Names of PIDs and of resources (RFC 7285, 10.1 and 10.2).

use std::fmt;

/// Longer names are none.
const LETTERS_MOST: usize = 64;

/// What cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(pub String);

impl fmt::Display for BadName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:?} is no name: one to 64 letters, digits, and any of `-:@_` are allowed",
            self.0
        )
    }
}

impl std::error::Error for BadName {}

/// Whether the letters are those that a name can have. The dot is kept for extensions.
fn is_name(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-:@_".contains(letter);
    !text.is_empty() && text.len() <= LETTERS_MOST && text.chars().all(allowed)
}

macro_rules! name {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<$name, BadName> {
                let text = text.into();
                if is_name(&text) { Ok($name(text)) } else { Err(BadName(text)) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A group of addresses that are as good as one another: with us, a site.
    Pid
}

name! {
    /// A document that a directory lists.
    ResourceId
}
