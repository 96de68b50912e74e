//! etcd as the peer: started from the machine's own package, written to over its gRPC interface.
//!
//! The one message that is needed is written by hand: a gRPC client would weigh more than the
//! rest of the benchmark.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// How long it may take to come up.
const START_TIME_MAX: Duration = Duration::from_secs(15);
/// Streams of one connection share its flow control; several connections keep that out of the way.
const CONNECTIONS: usize = 8;

pub(crate) struct Etcd {
    process: Child,
    port: u16,
}

impl Etcd {
    /// `None` when the machine has no etcd.
    pub(crate) async fn start(dir: &Path) -> anyhow::Result<Option<Etcd>> {
        let (port, peer_port) = (free_port()?, free_port()?);
        let client = format!("http://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let spawned = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--quota-backend-bytes", "8589934592"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = match spawned {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("cannot start etcd"),
        };
        let etcd = Etcd { process, port };
        let deadline = Instant::now() + START_TIME_MAX;
        loop {
            if let Ok(mut sender) = etcd.connect().await
                && put(&mut sender, "ready", b"1").await.is_ok()
            {
                return Ok(Some(etcd));
            }
            if Instant::now() > deadline {
                bail!("etcd did not come up within {START_TIME_MAX:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Durable puts a second with so many writers, each waiting for its answer.
    pub(crate) async fn puts_per_second(
        &self,
        writers: usize,
        time: Duration,
        value_bytes: usize,
    ) -> anyhow::Result<f64> {
        let mut senders = Vec::new();
        for _ in 0..CONNECTIONS {
            senders.push(self.connect().await?);
        }
        let started = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let mut sender = senders[writer % CONNECTIONS].clone();
                let value = vec![b'x'; value_bytes];
                tokio::spawn(async move {
                    let mut done = 0_u32;
                    while started.elapsed() < time {
                        put(&mut sender, &format!("bench/{writer}/{done}"), &value).await?;
                        done += 1;
                    }
                    anyhow::Ok(done)
                })
            })
            .collect();
        let mut total = 0;
        for task in tasks {
            total += task.await??;
        }
        Ok(f64::from(total) / started.elapsed().as_secs_f64())
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It holds nothing that is wanted any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn put(sender: &mut SendRequest<Full<Bytes>>, key: &str, value: &[u8]) -> anyhow::Result<()> {
    let request = Request::post("http://127.0.0.1/etcdserverpb.KV/Put")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(put_message(key.as_bytes(), value)))?;
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let headers = response.headers().clone();
    let body = response.into_body().collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = trailers.get("grpc-status").or_else(|| headers.get("grpc-status"));
    match status.and_then(|status| status.to_str().ok()) {
        Some("0") => Ok(()),
        found => bail!("etcd refused a put: gRPC status {found:?}"),
    }
}

/// A gRPC frame around `PutRequest { key = 1, value = 2 }`.
fn put_message(key: &[u8], value: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(key.len() + value.len() + 16);
    for (tag, field) in [(0x0a, key), (0x12, value)] {
        message.put_u8(tag);
        let mut length = field.len();
        while length >= 0x80 {
            message.put_u8(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        message.put_u8(u8::try_from(length).expect("less than 0x80"));
        message.put_slice(field);
    }
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("a few KiB"));
    frame.put_slice(&message);
    frame.freeze()
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
