//! What the Kubernetes protocol says about a resource as JSON, without a server: what its
//! schema asks of it, what a patch or an apply makes of it and who owns which field then, how it is
//! selected and how a path finds something in it.
//!
//! `apiserver` calls it for every request. Start reading at [`schema`], then [`apply`].

pub mod apply;
pub mod jsonpath;
pub mod number;
pub mod patch;
pub mod protobuf;
pub mod schema;
pub mod selector;
