//! What a driver of many machines can do beside [`crate::Driver`]: say which machines there are. Its agent
//! stands for all of them and keeps a Node for each; what that takes is decided in
//! `tombolo_plan::machines`.

use std::fmt;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tombolo_model::node::Machine;

use crate::Result;

/// The machines of an engine that spreads over many, such as a cluster.
pub trait Machines: Send + Sync + fmt::Debug {
    /// Every machine that there is. A machine that is not among them is gone for good: a machine that is
    /// only down is listed as such, and an engine that cannot tell fails.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Machine>>>;

    /// Comes when something may have changed, as [`crate::Driver::events`] does.
    fn events(&self) -> BoxStream<'static, ()>;
}
