//! `tombolo port-forward`: ports of an instance at ports of this machine. Every connection is a
//! WebSocket of its own. Start at [`run`].

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tombolo_model::Assignment;

use super::instances::{self, Wanted};
use crate::{
    args::PortForwardArgs,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    output::{harmless, note},
    shell::Shell,
    websocket::{self, Message, Receiver, Sender},
};

const PROTOCOL: &str = "raw.tombolo.dev";
/// As much as is passed on at once.
const PIECE_BYTES: usize = 32 * 1024;
/// The server lets one client have twice as many, and there may be other commands.
const CONNECTIONS_MAX: usize = 64;
/// Nobody types more.
const PORTS_MAX: usize = 16;

pub(super) async fn run(shell: &mut Shell, args: &PortForwardArgs) -> Result<Exit, Failure> {
    let wanted = instances::parse(&args.what)?;
    let pairs = args.ports.iter().map(|text| parse(text)).collect::<Result<Vec<Pair>, _>>()?;
    if pairs.len() > PORTS_MAX {
        return Err(Failure::usage(format!("more than {PORTS_MAX} ports at once")));
    }
    let connection = shell.connect().await?;
    let found = instances::find(&connection, &wanted).await?;
    let assignment = instances::one(found, &wanted, "port-forward")?;
    let path = instances::path(&assignment);
    let mut listeners = Vec::new();
    for pair in pairs {
        let listener = listen(pair).await?;
        let address = listener.local_addr()?;
        shell.out.line(&format!("{address} -> {path} port {}", pair.remote))?;
        listeners.push((listener, pair.remote));
    }
    shell.out.flush()?;
    let way =
        Way { connection: &connection, wanted: &wanted, assignment: RefCell::new(assignment) };
    tokio::select! {
        () = serve(&way, &listeners) => (),
        _ = tokio::signal::ctrl_c() => (),
    }
    Ok(Exit::Ok)
}

/// A port here and a port there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    /// 0 is any free one.
    local: u16,
    remote: u16,
}

fn parse(text: &str) -> Result<Pair, Failure> {
    let wrong = || {
        Failure::usage(format!("`{text}` is not LOCAL:REMOTE"))
            .hint("for example 8080:80, 80 for the same port, or :80 for any free one")
    };
    let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let pair = match text.split_once(':') {
        None => Pair { local: port(text)?, remote: port(text)? },
        Some(("", remote)) => Pair { local: 0, remote: port(remote)? },
        Some((local, remote)) => Pair { local: port(local)?, remote: port(remote)? },
    };
    if pair.remote == 0 { Err(wrong()) } else { Ok(pair) }
}

async fn listen(pair: Pair) -> Result<TcpListener, Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, pair.local));
    TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!("cannot listen on {address}: {error}"))
            .hint(format!("choose another port: OTHER:{}, or :{0} for any free one", pair.remote))
    })
}

/// The way to the instance; another Assignment may take its place.
struct Way<'a> {
    connection: &'a Connection,
    wanted: &'a Wanted,
    assignment: RefCell<Assignment>,
}

/// Takes connections for ever.
async fn serve(way: &Way<'_>, listeners: &[(TcpListener, u16)]) {
    let mut open = FuturesUnordered::new();
    loop {
        let mut accepting: FuturesUnordered<_> = listeners
            .iter()
            .map(async |(listener, port)| (listener.accept().await, *port))
            .collect();
        let full = open.len() >= CONNECTIONS_MAX;
        tokio::select! {
            Some((accepted, port)) = accepting.next(), if !full => match accepted {
                Ok((stream, from)) => open.push(pass(way, stream, from, port)),
                Err(error) => note(&format!("cannot take a connection: {error}")),
            },
            Some(()) = open.next() => (),
        }
    }
}

/// One connection, from its first byte to its last.
async fn pass(way: &Way<'_>, stream: TcpStream, from: SocketAddr, port: u16) {
    // Somebody waits for each piece.
    _ = stream.set_nodelay(true);
    let (sender, receiver) = match way.open(port).await {
        Ok(socket) => socket,
        Err(failure) => {
            note(&format!("connection from {from} to port {port}: {}", harmless(&failure.message)));
            return;
        }
    };
    let (reader, writer) = stream.into_split();
    tokio::join!(outward(reader, sender), inward(receiver, writer));
}

impl Way<'_> {
    async fn open(&self, port: u16) -> Result<(Sender, Receiver), Failure> {
        match self.try_open(port).await {
            // The instance has moved, and another Assignment stands for it.
            Err(failure) if failure.exit == Exit::NotFound => {
                let found = instances::find(self.connection, self.wanted).await?;
                let found = instances::one(found, self.wanted, "port-forward")?;
                self.assignment.replace(found);
                self.try_open(port).await
            }
            opened => opened,
        }
    }

    async fn try_open(&self, port: u16) -> Result<(Sender, Receiver), Failure> {
        let path =
            instances::subresource(self.connection, &self.assignment.borrow(), "portforward");
        let query = Query::default().with("port", port.to_string());
        let opened = websocket::open(self.connection, &query.after(&path), PROTOCOL).await;
        opened.map_err(|failure| {
            instances::explained(failure, &self.assignment.borrow(), instances::HINT)
        })
    }
}

/// What is written here; an empty message is its end.
async fn outward(mut reader: OwnedReadHalf, mut sender: Sender) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = reader.read(&mut piece).await.unwrap_or(0);
        if !websocket::send(&mut sender, piece[..count].to_vec()).await || count == 0 {
            return;
        }
    }
}

async fn inward(mut receiver: Receiver, mut writer: OwnedWriteHalf) {
    while let Some(Ok(message)) = receiver.next().await {
        let written = match message {
            Message::Binary(bytes) if bytes.is_empty() => writer.shutdown().await,
            Message::Binary(bytes) => writer.write_all(&bytes).await,
            Message::Close(_) => break,
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        };
        if written.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_two_numbers_or_one_or_any() {
        let pair = |local, remote| Ok(Pair { local, remote });
        assert_eq!(parse("8080:80"), pair(8080, 80));
        assert_eq!(parse("80"), pair(80, 80));
        assert_eq!(parse(":80"), pair(0, 80));
        for wrong in ["", ":", "80:", "a:b", "80:0", "0", "70000", "1:2:3", "-1"] {
            assert_eq!(parse(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }
}
