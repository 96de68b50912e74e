//! With somebody else's STAMP at the other end, both ways, open and with a secret: stamp-suite, which
//! `scripts/stamp-suite.sh` builds.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it skips"
)]

#[expect(dead_code, reason = "these tests need no namespaces")]
mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tombolo_network::stamp::{Key, Mode};
use tombolo_probe::{Echo, Prober, Reflector};

const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const EVERY: Duration = Duration::from_millis(10);
/// Programs start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn secret() -> Mode {
    let octet = |at: usize| u8::from_str_radix(&SECRET[at..at + 2], 16).unwrap();
    let octets: Vec<u8> = (0..SECRET.len()).step_by(2).map(octet).collect();
    Mode::Authenticated(Key::new(&octets))
}

fn command(program: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(more).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Arguments of the outside program for a mode.
fn mode(mode: &Mode) -> &'static [&'static str] {
    match mode {
        Mode::Open => &[],
        Mode::Authenticated(_) => &["--auth-mode", "A", "--hmac-key", SECRET, "--verify-tlv-hmac"],
    }
}

/// What stands behind `"name":` in a line of JSON, if it is a number.
fn number(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()?.parse().ok()
}

/// Their sender to our reflector: all answered, and the sender finds nothing wrong.
async fn their_sender(program: PathBuf, ours: Mode) {
    let reflector = Reflector::bind((Ipv4Addr::LOCALHOST, 0).into(), ours.clone()).await.unwrap();
    let port = reflector.address().unwrap().port().to_string();
    let counts = reflector.counts();
    let task = tokio::spawn(reflector.run());
    let mut command = command(&program, &["--remote-addr", "127.0.0.1", "--remote-port", &port]);
    command.args(["--count", "20", "--send-delay", "10ms", "--timeout", "5"]);
    command.args(["--output-format", "json"]).args(mode(&ours));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    task.abort();
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{line}");
    for (name, expected) in [
        ("packets_sent", 20.0),
        ("packets_received", 20.0),
        ("unknown_replies", 0.0),
        ("duplicate_replies", 0.0),
        ("rejected_replies", 0.0),
    ] {
        assert_eq!(number(&line, name), Some(expected), "{name} in {line}");
    }
    assert_eq!((counts.answered(), counts.refused()), (20, 0));
}

/// A program that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Our prober to their reflector: all answered, and a train of long packets comes back as long.
async fn their_reflector(program: PathBuf, ours: Mode, more: &[&str]) {
    let free = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: SocketAddr = free.local_addr().unwrap();
    drop(free);
    let port = address.port().to_string();
    let listen = ["--is-reflector", "--local-addr", "127.0.0.1", "--local-port", &port];
    let mut command = command(&program, &listen);
    let _running =
        Running(command.args(mode(&ours)).args(more).stdout(Stdio::null()).spawn().unwrap());
    let mut prober = Prober::open(address, ours.clone(), 9).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    while prober.delays(1, EVERY).await.unwrap().echo != Echo::Answered {
        assert!(Instant::now() < deadline, "their reflector does not answer");
    }
    // A new one, whose window holds none of the packets that nobody listened to.
    let mut prober = Prober::open(address, ours, 10).await.unwrap();
    let delays = prober.delays(20, EVERY).await.unwrap();
    assert_eq!(
        (delays.echo, delays.summary.answered, delays.summary.loss),
        (Echo::Answered, 20, 0.0)
    );
    // Their reflector, or the socket of a busy machine, may drop some of a train.
    let train = prober.train(16).await.unwrap();
    assert_eq!(train.echo, Echo::Answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn their_sender_takes_our_answers() {
    let Some(program) = support::stamp_suite("their_sender_takes_our_answers") else { return };
    for ours in [Mode::Open, secret()] {
        their_sender(program.clone(), ours).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn we_take_the_answers_of_their_reflector() {
    let test = "we_take_the_answers_of_their_reflector";
    let Some(program) = support::stamp_suite(test) else { return };
    for ours in [Mode::Open, secret()] {
        their_reflector(program.clone(), ours.clone(), &[]).await;
        their_reflector(program.clone(), ours, &["--stateful-reflector"]).await;
    }
}
