//! The words of Tombolo: its kinds, the quantities and names in them, what makes them valid, and
//! their schemas. Everything else stands on this crate, so it knows no clock, no file, no network
//! and no randomness; what depends on time takes the time as a value.
//!
//! Start with [`App`] and [`component::Component`]; [`validate`] says what is wrong with an
//! object, [`schema::crds`] describes the kinds to an API server and [`schema::json_schema`] to
//! an editor.

#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column of a kind has a type of its own; the lint takes them for one list"
)]

pub mod app;
pub mod assignment;
pub mod characteristics;
pub mod component;
pub mod condition;
mod copy_on_write;
pub mod errand;
pub mod event;
pub mod explanation;
pub mod id;
pub mod invalid;
pub mod jointoken;
pub mod keys;
pub mod link;
mod named;
pub mod names;
pub mod needs;
pub mod node;
pub mod phrase;
pub mod policy;
pub mod ports;
pub mod privilege;
pub mod probing;
pub mod quantity;
pub mod reason;
pub mod run;
pub mod scaling;
pub mod schema;
pub mod site;
pub mod suggest;
pub mod trouble;
pub mod validate;

pub use app::{App, AppPhase, AppSpec, AppStatus};
pub use assignment::{Assignment, AssignmentSpec, AssignmentStatus};
pub use condition::{Condition, ConditionStatus};
pub use copy_on_write::Shared;
pub use id::{AppId, InstanceKey};
pub use invalid::{Invalid, Problem};
pub use jointoken::{JoinToken, JoinTokenSpec, JoinTokenStatus};
pub use link::{FigureKind, Link, LinkSpec, LinkStatus};
pub use node::{Node, NodeSpec, NodeStatus};
pub use policy::{Policy, PolicySpec, PolicyStatus};
pub use privilege::Privilege;
pub use probing::{Probing, ProbingSpec, ProbingStatus};
pub use quantity::{Arch, BitRate, Bytes, Cpu, Duration, Level};
pub use reason::{Blame, Reason};
pub use schema::{crds, json_schema, kind_names};
pub use site::{Engine, Site, SiteSpec, SiteStatus};
pub use trouble::{About, Trouble, TroubleKind};
