//! See the crate description; filled in by the commits that follow.
