//! The errand of a port: one connection to it, passed on byte by byte, each direction with an end of
//! its own. Called by [`super::carry`]; start at [`carry`].

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tombolo_driver::{Error, State};
use tombolo_model::Reason;
use tombolo_model::errand::{Channel, Refusal, well};

use super::instances::{self, Found};
use super::line::Line;
use super::refusal;
use crate::converge::Drivers;

/// Nothing that listens on this machine takes longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// As much as is passed on at once.
const PIECE_BYTES: usize = 32 * 1024;

pub(super) async fn carry(line: Line, drivers: &Drivers, assignment: &str, port: u16) {
    let Line { to, mut from } = line;
    let stream = match connect(drivers, assignment, port).await {
        Ok(stream) => stream,
        Err(refusal) => {
            to.refuse(refusal).await;
            drop(to);
            return from.end().await;
        }
    };
    if to.ready().await.is_err() {
        return;
    }
    let (mut reader, mut writer) = stream.into_split();
    let inward = async {
        loop {
            let Ok(frame) = from.next().await else { return };
            let written = match frame.channel {
                Channel::Input => writer.write_all(&frame.payload).await,
                Channel::Close => writer.shutdown().await,
                Channel::Output
                | Channel::ErrorOutput
                | Channel::Status
                | Channel::Resize
                | Channel::Opening
                | Channel::Alive => Ok(()),
            };
            // One that does not read any more may still write; its end tells.
            _ = written;
        }
    };
    let outward = async {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match reader.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    if to.send(Channel::Output, &piece[..count]).await.is_err() {
                        return;
                    }
                }
            }
        }
        _ = to.send(Channel::Close, &[Channel::Output.number()]).await;
        to.ended(well()).await;
    };
    tokio::select! {
        () = inward => return,
        () = to.keep_alive() => return,
        () = outward => (),
    }
    drop(to);
    from.end().await;
}

async fn connect(drivers: &Drivers, assignment: &str, port: u16) -> Result<TcpStream, Refusal> {
    let found = instances::serving(drivers, assignment).await?;
    if !matches!(found.instance.state, State::Running(_) | State::Stopping(_)) {
        return Err(refusal(&Error::NotRunning { id: found.instance.id.clone() }));
    }
    let address = found.driver.connect(&found.instance.id, port).await;
    let address = address.map_err(|error| match error {
        Error::Invalid { .. } => no_such_port(&found, port),
        other => refusal(&other),
    })?;
    match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => {
            // Somebody waits for each piece.
            _ = stream.set_nodelay(true);
            Ok(stream)
        }
        Ok(Err(error)) => Err(refused(port, &error.to_string())),
        Err(_) => Err(refused(port, "it does not take the connection")),
    }
}

fn refused(port: u16, why: &str) -> Refusal {
    let blanks = [("port", port.to_string()), ("why", why.to_owned())];
    Refusal::new(Reason::ConnectionRefused, Reason::ConnectionRefused.says(&blanks))
}

fn no_such_port(found: &Found, port: u16) -> Refusal {
    let ports: Vec<String> = match &found.instance.state {
        State::Running(running) | State::Stopping(running) => {
            running.ports.iter().map(|published| published.port.to_string()).collect()
        }
        State::Starting { .. } | State::Exited(_) | State::Failed(_) => Vec::new(),
    };
    let has = match ports.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", ports.join(", ")),
    };
    let blanks = [("port", port.to_string()), ("has", has)];
    Refusal::new(Reason::NoSuchPort, Reason::NoSuchPort.says(&blanks))
}
