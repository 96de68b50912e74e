//! The errand of a port: one connection to it, passed on byte by byte, each direction with an end of
//! its own. Called by [`super::carry`]; start at [`carry`].

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tombolo_driver::{BoxedConnection, Error, State};
use tombolo_model::errand::{Channel, Refusal, well};

use super::instances;
use super::line::Line;
use super::refusal;
use crate::converge::Drivers;

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
    let (mut reader, mut writer) = tokio::io::split(stream);
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
            // A side that does not read any more may still write; its own end is waited for.
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

async fn connect(
    drivers: &Drivers,
    assignment: &str,
    port: u16,
) -> Result<BoxedConnection, Refusal> {
    let found = instances::serving(drivers, assignment).await?;
    if !matches!(found.instance.state, State::Running(_) | State::Stopping(_)) {
        return Err(refusal(&Error::NotRunning { id: found.instance.id.clone() }));
    }
    found.driver.connect(&found.instance.id, port).await.map_err(|error| refusal(&error))
}
