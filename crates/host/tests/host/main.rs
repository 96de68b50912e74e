//! Whole machines, made of files: what they are, how safe they are, and how others see them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod fixture;
mod machines;
mod real;
mod security;
mod skip;
