//! What must hold, and what to do when it does not: pure decisions over measured values.
//!
//! The way of a policy: [`template`] fills in its text, [`compile()`] makes a [`Rule`] of it, [`look`] asks a
//! store of samples, the [`Machine`] says what is violated and since when, and what is to be done about it,
//! [`arbiter`] settles what several policies want of one component, and [`remedy`] turns a step into a change
//! of an App. [`scale`] keeps the number of instances. [`live`] drives all of it while the system runs, and
//! [`backtest`] sends recorded samples through the very same machine.
//!
//! Nothing here knows a clock: times are milliseconds that somebody hands in.

pub mod alertmanager;
pub mod arbiter;
pub mod backtest;
mod compile;
pub mod elasticity;
pub mod icos;
pub mod live;
pub mod look;
mod machine;
mod problem;
pub mod remedy;
mod render;
pub mod scale;
mod subject;
pub mod template;
mod watched;

pub use compile::{Condition, Fact, Rule, Source, Trend, Verdict, compile};
pub use machine::{
    Act, Change, ChangeKind, Held, Machine, Memory, Outcome, Past, Phase, Stepped, Suggestion,
    Track, phase_word,
};
pub use problem::Problem;
pub use render::{Rendered, placeholders, render};
pub use subject::{Context, Levels, Target, Vocabulary, selector_list, selector_text, target};
pub use watched::Watched;
