//! `tombolo exec`: a command inside an instance, with what it reads and writes. Start at [`run`].

use std::io::{self, IsTerminal as _, Read as _};

use futures::StreamExt as _;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tombolo_model::Assignment;
use tombolo_model::errand::{self, Channel, Size};

use super::instances;
use crate::{
    args::ExecArgs,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    output::note,
    shell::Shell,
    terminal::{self, RawMode},
    websocket::{self, Message, Receiver, Sender},
};

const PROTOCOLS: &str = "v5.channel.k8s.io, v4.channel.k8s.io";
/// As much as is passed on at once.
const PIECE_BYTES: usize = 16 * 1024;
/// Pieces of the input that wait for the network.
const PIECES_AHEAD: usize = 4;
pub(super) const CODE_NOT_FOUND: i32 = 127;

pub(super) async fn run(shell: &mut Shell, args: &ExecArgs) -> Result<Exit, Failure> {
    let wanted = instances::parse(&args.what)?;
    let connection = shell.connect().await?;
    let found = instances::find(&connection, &wanted).await?;
    let assignment = instances::one(found, &wanted, "exec")?;
    let tty = args.tty && io::stdin().is_terminal();
    if args.tty && !tty {
        note("stdin is not a terminal, so the command gets none");
    }
    let opening = Opening {
        command: &args.command.iter().map(String::as_str).collect::<Vec<_>>(),
        stdin: args.stdin,
        terminal: tty.then(terminal::size),
        part: args.part.as_deref(),
    };
    let (sender, receiver) = open(&connection, &assignment, &opening).await?;
    let raw = match tty {
        true => Some(RawMode::enter()?),
        false => None,
    };
    let input = args.stdin.then(read_input);
    let resized = tty.then(|| signal(SignalKind::window_change()).ok()).flatten();
    let ended =
        converse(sender, receiver, input, resized, async |channel, bytes: &[u8]| match channel {
            Channel::Output => print(io::stdout(), bytes),
            _ => print(io::stderr(), bytes),
        })
        .await;
    drop(raw);
    let Ended { code, silent } = ended?;
    if code == CODE_NOT_FOUND && silent {
        let (command, path) = (&args.command[0], instances::path(&assignment));
        note(&format!("error: there is no command {command:?} in {path}"));
    }
    Ok(Exit::Command(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// A command that is to run in an instance.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    pub(super) command: &'a [&'a str],
    pub(super) stdin: bool,
    /// With a terminal, and its size if it has one.
    pub(super) terminal: Option<Option<Size>>,
    pub(super) part: Option<&'a str>,
}

/// Starts it.
pub(super) async fn open(
    connection: &Connection,
    assignment: &Assignment,
    opening: &Opening<'_>,
) -> Result<(Sender, Receiver), Failure> {
    let path = query(opening).after(&instances::subresource(connection, assignment, "exec"));
    let opened = websocket::open(connection, &path, PROTOCOLS).await;
    opened.map_err(|failure| instances::explained(failure, assignment, instances::HINT))
}

fn query(opening: &Opening<'_>) -> Query {
    let flag = |set: bool| set.then_some("true");
    let (tty, size) = (opening.terminal.is_some(), opening.terminal.flatten());
    let mut query = Query::default()
        .with_some("stdin", flag(opening.stdin))
        .with_some("tty", flag(tty))
        .with("stdout", "true")
        .with_some("stderr", flag(!tty))
        .with_some("columns", size.map(|size| size.columns.to_string()).as_deref())
        .with_some("rows", size.map(|size| size.rows.to_string()).as_deref())
        .with_some("container", opening.part);
    for word in opening.command {
        query = query.with("command", *word);
    }
    query
}

/// How the command ended, and whether it never wrote anything.
pub(super) struct Ended {
    pub(super) code: i32,
    silent: bool,
}

/// Both directions at once: a command that writes before it has read everything must not be held up.
pub(super) async fn converse(
    sender: Sender,
    receiver: Receiver,
    input: Option<mpsc::Receiver<Vec<u8>>>,
    resized: Option<Signal>,
    see: impl AsyncFnMut(Channel, &[u8]) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let sends = async {
        send_all(sender, input, resized).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = receive_all(receiver, see) => ended,
        () = sends => Err(Failure::failed("the input ended the command")),
    }
}

async fn send_all(
    mut sender: Sender,
    mut input: Option<mpsc::Receiver<Vec<u8>>>,
    mut resized: Option<Signal>,
) {
    loop {
        let message = tokio::select! {
            bytes = next(&mut input) => match bytes {
                Some(bytes) => message(Channel::Input, &bytes),
                None => {
                    input = None;
                    message(Channel::Close, &[Channel::Input.number()])
                }
            },
            () = changed(&mut resized) => match terminal::size() {
                Some(size) => {
                    message(Channel::Resize, &serde_json::to_vec(&size).unwrap_or_default())
                }
                None => continue,
            },
        };
        if !websocket::send(&mut sender, message).await {
            return;
        }
    }
}

/// Never, if there is no input or it has ended.
async fn next(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

async fn changed(resized: &mut Option<Signal>) {
    match resized {
        Some(resized) => _ = resized.recv().await,
        None => std::future::pending().await,
    }
}

/// A thread of its own, which nobody waits for: a read from a terminal cannot be taken back.
fn read_input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = io::stdin().read(&mut piece) {
            if sender.blocking_send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn receive_all(
    mut receiver: Receiver,
    mut see: impl AsyncFnMut(Channel, &[u8]) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let mut silent = true;
    while let Some(Ok(received)) = receiver.next().await {
        let bytes = match &received {
            Message::Binary(bytes) => bytes,
            Message::Close(_) => break,
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        let Some((number, payload)) = bytes.split_first() else { continue };
        match Channel::of(*number) {
            Some(channel @ (Channel::Output | Channel::ErrorOutput)) => {
                silent = false;
                see(channel, payload).await?;
            }
            Some(Channel::Status) => {
                let status: Value = serde_json::from_slice(payload).unwrap_or_default();
                let code = errand::code(&status);
                let lost = |why| {
                    Failure::new(Exit::Unreachable, format!("the command was cut off: {why}"))
                };
                return code.map(|code| Ended { code, silent }).map_err(lost);
            }
            Some(
                Channel::Input
                | Channel::Resize
                | Channel::Opening
                | Channel::Alive
                | Channel::Close,
            )
            | None => (),
        }
    }
    Err(Failure::new(Exit::Unreachable, "the connection broke before the command had ended"))
}

fn print(mut to: impl io::Write, bytes: &[u8]) -> Result<(), Failure> {
    to.write_all(bytes)?;
    Ok(to.flush()?)
}

fn message(channel: Channel, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![channel.number()];
    message.extend_from_slice(payload);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_stay_apart() {
        let opening =
            Opening { command: &["sh", "-c", "echo a&b"], stdin: true, terminal: None, part: None };
        assert_eq!(
            query(&opening).after("/x"),
            "/x?stdin=true&stdout=true&stderr=true&command=sh&command=-c&command=echo%20a%26b"
        );
    }
}
