//! The way of one agent to the server, which can be shut: whoever is behind it is cut off, and lives.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    is_open: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Door {
    pub(crate) async fn to(server: &str) -> Door {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_open, open) = watch::channel(true);
        let server = server.to_owned();
        let serving = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, server.clone(), open.clone()));
            }
        });
        Door { address, is_open, serving }
    }

    /// Ends all connections, and takes no new ones.
    pub(crate) fn shut(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }
}

async fn carry(mut near: TcpStream, server: String, mut open: watch::Receiver<bool>) {
    let carried = async {
        if let Ok(mut far) = TcpStream::connect(&server).await {
            // Either side may end it; that is what connections are like.
            drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
        }
    };
    tokio::select! {
        () = carried => (),
        _ = open.wait_for(|is_open| !is_open) => (),
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
