//! What answers the probes of others: one socket, on the address at which this machine is reached, for as long as the
//! site allows it. Looked after by [`super::Work`]; start at [`Answering::look`].

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinHandle;
use tombolo_network::stamp::Mode;
use tombolo_probe::Reflector;

use super::own;

/// A port that another program has may become free.
const RETRY_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Answering {
    running: Option<Running>,
    /// Where the machine was reached and which port was asked for.
    asked: Option<(String, u16)>,
    problem: Option<String>,
    rests_until: Duration,
}

/// Ends with this value.
#[derive(Debug)]
struct Running {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Answering {
    /// Answers on this port from now on, or on none.
    pub(super) fn look(&mut self, port: Option<u16>, place: &str, now: Duration) {
        let asked = port.map(|port| (place.to_owned(), port));
        let has_ended = self.running.as_ref().is_some_and(|running| running.task.is_finished());
        if has_ended {
            self.running = None;
        }
        if asked != self.asked {
            (self.running, self.problem, self.rests_until) = (None, None, Duration::ZERO);
            self.asked = asked;
        }
        let Some((place, port)) = self.asked.as_ref().filter(|_| self.running.is_none()) else {
            return;
        };
        if now < self.rests_until {
            return;
        }
        self.rests_until = now + RETRY_AFTER;
        match begin(place, *port) {
            Ok(running) => (self.running, self.problem) = (Some(running), None),
            Err(problem) => self.problem = Some(problem),
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(|running| running.address)
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Comes when the socket has failed.
    pub(super) async fn ended(&mut self) {
        match &mut self.running {
            // How it ended is in its own log line.
            Some(running) if !running.task.is_finished() => _ = (&mut running.task).await,
            Some(_) | None => pending().await,
        }
    }
}

fn begin(place: &str, port: u16) -> Result<Running, String> {
    let address = own(place, port)?;
    let refused = |error: std::io::Error| format!("cannot answer probes on {address}: {error}");
    let socket = std::net::UdpSocket::bind(address).map_err(refused)?;
    socket.set_nonblocking(true).map_err(refused)?;
    let socket = tokio::net::UdpSocket::from_std(socket).map_err(refused)?;
    let reflector = Reflector::new(socket, Mode::Open);
    let address = reflector.address().map_err(refused)?;
    let task = tokio::spawn(async move {
        if let Err(error) = reflector.run().await {
            tracing::warn!(%error, %address, "probes are answered no more");
        }
    });
    Ok(Running { address, task })
}
