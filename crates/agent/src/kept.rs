//! Keeps going what works beside the loop of [`crate::work`]: feeds, errands, what is told of the
//! machine. Whatever of it panics, or ends, is started again after a rest that grows, and the Node has
//! an Event about it. Start at [`Keeper::keep`].

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tombolo_model::Reason;
use tombolo_model::event::Tone;
use tombolo_plan::supervision::Record;

use crate::clock::Clock;
use crate::connection::Connection;
use crate::report::Told;
use crate::tell;

/// Cheap to clone: each of what is kept has its own.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    pub(crate) clock: Clock,
    pub(crate) connection: Connection,
    /// The name of our Node; an agent of a whole site has none, and tells its log alone.
    pub(crate) node: Option<String>,
}

impl Keeper {
    /// Lets it live again and again; never ends.
    pub(crate) async fn keep<F>(self, name: &'static str, make: impl Fn() -> F)
    where
        F: Future<Output = ()>,
    {
        let mut record = Record::new(self.clock.now());
        loop {
            let began = self.clock.now();
            // What a panic leaves half done is dropped with it, but for channels, which stay whole.
            let lived = AssertUnwindSafe(async { make().await }).catch_unwind().await;
            let why = match &lived {
                Ok(()) => "it ended by itself".to_owned(),
                Err(panic) => format!("it panicked: {}", said(&**panic)),
            };
            let now = self.clock.now();
            record.note_life(began, now);
            let until = record.note_death(why.clone(), now);
            let rest = until.since(now);
            tracing::error!(name, why, ?rest, "a part of the agent has died; it starts again");
            self.tell(name, why).await;
            self.clock.sleep_until(until).await;
        }
    }

    async fn tell(&self, name: &str, why: String) {
        let (tone, reason) = (Tone::Warning, Reason::LoopDied);
        let message = reason.says(&[("loop", name.to_owned()), ("why", why)]);
        let told = Told { tone, reason, message };
        if let Some(node) = &self.node {
            tell::of_node_named(&self.connection.client(), node, &told).await;
        }
    }
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
