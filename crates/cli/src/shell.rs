//! What every command of the shell gets: the global options, a place to print, and the
//! connection to the server when it asks for one.

use std::time::Duration;

use crate::{args::Globals, connection::Connection, failure::Failure, output::Out};

#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) globals: Globals,
    pub(crate) out: Out,
}

impl Shell {
    pub(crate) fn new(globals: Globals) -> Shell {
        Shell { globals, out: Out::stdout() }
    }

    /// Opens the connection. Commands that work offline never call this, so they need neither
    /// a kubeconfig nor a server.
    ///
    /// A namespace that was named has to be there: in one that is not, nothing would be found, and nobody
    /// would say why.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let connection = self.connect_anywhere().await?;
        if self.globals.namespace.is_some() {
            connection.require_namespace().await?;
        }
        Ok(connection)
    }

    /// For commands that may make the namespace, or that wait for nothing to be there.
    pub(crate) async fn connect_anywhere(&self) -> Result<Connection, Failure> {
        Connection::open(&self.globals).await
    }

    /// Like [`Shell::connect`], but for a question whose answer is not worth waiting for.
    pub(crate) async fn connect_within(&self, limit: Duration) -> Result<Connection, Failure> {
        let globals = Globals { request_timeout: limit, ..self.globals.clone() };
        Connection::open(&globals).await
    }
}

/// One thread is enough for a shell, and starts faster than many.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))
}
