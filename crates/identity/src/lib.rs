//! Who someone is and what they may do: certificate authority, tokens, roles, the one table.
//!
//! Start reading at [`subject`], then [`access`], whose table decides everything. [`home`] is what
//! a first start writes to disk, [`joining`] how a machine comes in. Nothing here knows HTTP: the
//! apiserver asks, and words the answer.

pub mod access;
pub mod authority;
pub mod clones;
mod error;
pub mod home;
pub mod joining;
pub mod nonce;
pub mod remit;
pub mod request;
pub mod subject;
pub mod tls;
pub mod token;

pub use access::{Attributes, Denied, Permit, Verb, authorize};
pub use authority::Authority;
pub use error::Error;
pub use home::{Home, write_secret};
pub use remit::Remit;
pub use subject::{EXTRA_NAMESPACE, ROLE_PREFIX, Role, Subject, Via};
pub use token::{AccessToken, Token, TokenHash};
