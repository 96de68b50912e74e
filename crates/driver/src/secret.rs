//! Bytes that must not be seen in a log. Made by the agent from Secrets, opened by the drivers at
//! the last moment.

use std::fmt;

/// A value that may be secret: resolved environment variables and files are held in it, whether
/// they came from a Secret or not, so that nobody has to know which ones did.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(bytes.into())
    }

    /// The bytes themselves. The caller answers for where they go.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not even the length: of a short password it tells a lot.
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_not_seen_in_debug_output() {
        assert_eq!(format!("{:?}", Some(Secret::from("hunter2"))), "Some(Secret(hidden))");
    }
}
