//! The errand of a command: runs it inside the instance, and passes on what it reads and writes. A client
//! that goes away takes the command along. Called by [`super::carry`]; start at [`carry`].

use futures::stream::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tombolo_driver::{ExecRequest, ExecSession, Exit, Source, TerminalSize};
use tombolo_model::errand::{Channel, ExecOptions, Size, broken, ended};
use tombolo_model::phrase::with_causes;

use super::line::{Gone, Incoming, Line, Outgoing};
use super::{instances, refusal};
use crate::converge::Drivers;

pub(super) async fn carry(line: Line, drivers: &Drivers, assignment: &str, options: ExecOptions) {
    let Line { to, mut from } = line;
    let input = options.input;
    let session = match begin(drivers, assignment, options).await {
        Ok(session) => session,
        Err(refusal) => {
            to.refuse(refusal).await;
            drop(to);
            return from.end().await;
        }
    };
    if to.ready().await.is_err() {
        return;
    }
    let ExecSession { input: mut writer, output, resize, exit } = session;
    if !input {
        // The command reads the end at once; an error means that it does not read at all.
        _ = writer.shutdown().await;
    }
    let reads = async {
        let mut writer = Some(writer).filter(|_| input);
        loop {
            let Ok(frame) = from.next().await else { return };
            match frame.channel {
                Channel::Input => write(&mut writer, &frame.payload).await,
                Channel::Close => close(&mut writer).await,
                Channel::Resize => {
                    // The last size must arrive. An error means that there is no terminal.
                    if let Ok(size) = serde_json::from_slice::<Size>(&frame.payload) {
                        _ = resize.send(terminal(size)).await;
                    }
                }
                Channel::Output
                | Channel::ErrorOutput
                | Channel::Status
                | Channel::Opening
                | Channel::Alive => (),
            }
        }
    };
    let writes = async {
        let mut output = output;
        while let Some(piece) = output.next().await {
            let Ok(piece) = piece else { break };
            let channel = match piece.source {
                Source::Stdout => Channel::Output,
                Source::Stderr => Channel::ErrorOutput,
            };
            to.send(channel, &piece.bytes).await?;
        }
        let status = match exit.await {
            Ok(exit) => ended(code(&exit)),
            Err(error) => broken(error.reason(), &with_causes(&error)),
        };
        to.ended(status).await;
        Ok::<(), Gone>(())
    };
    tokio::select! {
        () = reads => return,
        () = to.keep_alive() => return,
        _ = writes => (),
    }
    finish(to, from).await;
}

async fn finish(to: Outgoing, from: Incoming) {
    drop(to);
    from.end().await;
}

async fn begin(
    drivers: &Drivers,
    assignment: &str,
    options: ExecOptions,
) -> Result<ExecSession, tombolo_model::errand::Refusal> {
    let found = instances::serving(drivers, assignment).await?;
    let request = ExecRequest {
        command: options.command,
        terminal: options.terminal.map(terminal),
        part: options.part,
    };
    found.driver.exec(&found.instance.id, request).await.map_err(|error| refusal(&error))
}

type Writer = std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>;

/// A command that has closed its input is not bothered again.
async fn write(writer: &mut Option<Writer>, bytes: &[u8]) {
    let Some(open) = writer else { return };
    let written = async {
        open.write_all(bytes).await?;
        open.flush().await
    };
    if written.await.is_err() {
        *writer = None;
    }
}

async fn close(writer: &mut Option<Writer>) {
    if let Some(mut open) = writer.take() {
        _ = open.shutdown().await;
    }
}

fn terminal(size: Size) -> TerminalSize {
    TerminalSize { columns: size.columns, rows: size.rows }
}

/// As a shell would say it: 128 and the number of a signal.
fn code(exit: &Exit) -> i32 {
    exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1)
}
