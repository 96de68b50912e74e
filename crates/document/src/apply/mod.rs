//! Server-side apply and managed fields: which manager owns which field of an object, and what an
//! apply makes of it. Pure: objects and the time come in, the new object goes out.
//!
//! Start at [`apply`] and [`update`]. They stand on [`FieldSet`] (the places somebody owns), on
//! [`extract`] (the places of an object, and where two objects differ) and on `merge` (the new
//! object). What is one piece and what is shared item by item, the schema says.

mod conflict;
mod element;
mod entry;
pub mod extract;
mod fields;
mod last_applied;
mod managed;
mod merge;
mod name;
mod reconcile;
mod shape;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use conflict::{Conflict, message};
pub use element::{ElementError, Json, PathElement};
pub use entry::{ANCIENT, Entry, EntryError, Operation, UPDATE_ENTRIES_MAX, decode, encode};
pub use fields::{DEPTH_MAX, FieldSet, FieldsError};
pub use managed::{ApplyError, BEFORE_FIRST_APPLY, Manager, OnConflict, apply, update};
pub use name::{MANAGER_NAME_LENGTH_MAX, NameError, check_manager_name, manager_of_user_agent};
