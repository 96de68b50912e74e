//! The loops, wired to a Kubernetes-style API: each looks, lets `tombolo-plan` decide, and acts.
//!
//! The API may be our own or a cluster's; a loop holds a `kube::Client` and cannot tell. Called by
//! `tombolo up` and `tombolo controller`. Start reading at [`leases`], the pattern of all loops.
//!
//! One process runs the loops. With several replicas on one cluster only a leader may; choosing it
//! is not here yet, so do not start two.

pub mod clock;
pub mod leases;
