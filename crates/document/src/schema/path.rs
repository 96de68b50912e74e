//! Where a finding is, such as `spec.components[0].name`.
//!
//! A path is a chain of borrowed steps on the stack of whoever walks a value, so that walking
//! costs nothing and only a finding pays for its text.

use std::fmt;

#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// A path that was already text, or empty for the object itself.
    Text(&'a str),
    Field(&'a Path<'a>, &'a str),
    /// A key of a map, always in brackets: `properties[spec]`.
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub const ROOT: Path<'static> = Path::Text("");

    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    fn is_empty(&self) -> bool {
        matches!(self, Path::Text(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Text(text) => f.write_str(text),
            Path::Key(parent, name) => write!(f, "{parent}[{name}]"),
            Path::Field(parent, name) if !reads_as_field(name) => write!(f, "{parent}[{name}]"),
            Path::Field(parent, name) if parent.is_empty() => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Keys of labels and files have dots and slashes in them; after a dot they would mislead.
fn reads_as_field(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-$".contains(c))
}
