//! A way to a server that counts what goes over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// IPv4 and TCP with time stamps, of the segment and of its acknowledgement. Small segments come one
/// by one, so that each read here is one.
const HEADERS_BYTES: u64 = 2 * (20 + 32);

/// What has passed so far, in both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    bytes: Arc<AtomicU64>,
    segments: Arc<AtomicU64>,
}

impl Traffic {
    /// What the two ends have said to each other, TLS included.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The same with the headers of TCP and IP, as a mobile network counts it.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.payload_bytes() + self.segments.load(Ordering::Relaxed) * HEADERS_BYTES
    }
}

/// Passes on to `server` whatever comes; says where.
pub(crate) async fn start(server: String) -> anyhow::Result<(String, Traffic)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let traffic = Traffic::default();
    let counted = traffic.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let (server, counted) = (server.clone(), counted.clone());
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(&server).await else { return };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                // When one side has closed, the other has nothing more to say.
                tokio::select! {
                    () = pass(near_in, far_out, &counted) => (),
                    () = pass(far_in, near_out, &counted) => (),
                }
            });
        }
    });
    Ok((address, traffic))
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    traffic: &Traffic,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        traffic.bytes.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
        traffic.segments.fetch_add(1, Ordering::Relaxed);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
