//! Probes between network namespaces of a real kernel: delay, loss on one way, bandwidths that differ, a cut, a peer
//! that is not there.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it measured"
)]

mod relay;
#[expect(dead_code, reason = "no other program is needed here")]
mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinHandle;
use tombolo_network::stamp::{Key, Mode};
use tombolo_probe::{Delays, Echo, Prober, Reflector};

use relay::Relay;
use support::Net;

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const EVERY: Duration = Duration::from_millis(10);

/// A reflector that ends with this value.
struct Running {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn reflect(net: &Net, name: &str, address: Ipv4Addr, mode: Mode) -> Running {
    let reflector = Reflector::new(net.tokio_socket(name, address), mode);
    let address = reflector.address().unwrap();
    let task = tokio::spawn(async move { reflector.run().await.unwrap() });
    Running { address, task }
}

async fn prober(net: &Net, peer: SocketAddr, mode: Mode) -> Prober {
    Prober::over(net.tokio_socket("a", LEFT), peer, mode, 7).await.unwrap()
}

/// The last of a few tries in which `good` is so; fails if none is.
async fn measured(prober: &mut Prober, probes: u32, good: impl Fn(&Delays) -> bool) -> Delays {
    let mut last = None;
    for _ in 0..10 {
        let delays = prober.delays(probes, EVERY).await.unwrap();
        if good(&delays) {
            return delays;
        }
        last = Some(delays);
    }
    panic!("not in any of ten tries: {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_is_measured_within_a_twentieth() {
    let Some(net) = Net::row("delay", &["a", "m", "b"]) else { return };
    let far = Ipv4Addr::new(10, 77, 1, 2);
    for (there, back) in [(20, 20), (5, 1), (1, 60)] {
        let reflector = reflect(&net, "b", far, Mode::Open);
        let delay = |ms| Duration::from_millis(ms);
        let near = net.socket("m", RIGHT);
        let beyond = net.socket("m", Ipv4Addr::new(10, 77, 1, 1));
        let relay = Relay::start(near, beyond, reflector.address, delay(there), delay(back));
        let mut prober = prober(&net, relay.address, Mode::Open).await;
        // The least, because a busy machine wakes whoever waits too late, here, at the relay and at the other end,
        // and the median is of the machine then.
        let within = |delays: &Delays| {
            let found = delays.summary.delays.unwrap().least;
            let p50 = delays.summary.delays.unwrap().p50;
            let truth = relay.held();
            println!("{there} and {back} ms: {found:?} measured, {truth:?} held, p50 {p50:?}");
            found.abs_diff(truth) <= (truth / 20).max(Duration::from_micros(200))
        };
        let delays = measured(&mut prober, 50, within).await;
        assert_eq!((delays.echo, delays.summary.loss), (Echo::Answered, 0.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_is_counted_and_told_apart_by_way() {
    let Some(net) = Net::row("loss", &["a", "b"]) else { return };
    let every_fifth =
        "iptables -A INPUT -p udp -m statistic --mode nth --every 5 --packet 2 -j DROP";
    for (where_lost, lost_there) in [("b", 20), ("a", 0)] {
        let reflector = reflect(&net, "b", RIGHT, Mode::Open);
        let mut prober = prober(&net, reflector.address, Mode::Open).await;
        if !net.tries(where_lost, every_fifth) {
            support::skip("loss_is_counted_and_told_apart_by_way", "no iptables with `statistic`");
            return;
        }
        let delays = prober.delays(100, EVERY).await.unwrap();
        assert_eq!((delays.summary.probes, delays.summary.answered), (100, 80), "{where_lost}");
        // The last five are not all known to have arrived.
        let told = delays.lost_there.unwrap();
        assert!((lost_there.max(1) - 1..=lost_there).contains(&told), "{where_lost}: {told}");
        net.run(where_lost, "iptables -F INPUT");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bandwidth_is_measured_within_fifteen_percent_each_way() {
    let Some(net) = Net::row("bandwidth", &["a", "b"]) else { return };
    let reflector = reflect(&net, "b", RIGHT, Mode::Open);
    let mut prober = prober(&net, reflector.address, Mode::Open).await;
    for (there, back) in [(20.0, 5.0), (8.0, 8.0)] {
        for (name, link, mbit) in [("a", "r0", there), ("b", "l0", back)] {
            let shape = format!(
                "tc qdisc replace dev {link} root tbf rate {mbit}mbit burst 16kb latency 2s"
            );
            net.run(name, &shape);
        }
        let within = |found: f64, truth: f64| (found / (truth * 1e6) - 1.0).abs() < 0.15;
        let mut good = false;
        for _ in 0..10 {
            let train = prober.train(64).await.unwrap();
            let (Some(out), Some(home)) = (train.there, train.back) else { continue };
            let (out, home) = (out.bits_per_second, home.bits_per_second);
            println!(
                "{there} and {back} Mbit/s: {out:.0} and {home:.0} by {} octets",
                train.octets
            );
            good |= within(out, there) && within(home, back);
            assert!(train.octets <= 2 * 64 * 1500, "{}", train.octets);
            if good {
                break;
            }
        }
        assert!(good, "not within fifteen percent in any of ten trains");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_a_missing_agent_and_an_answer_are_told_apart() {
    let Some(net) = Net::row("cut", &["a", "b"]) else { return };
    let reflector = reflect(&net, "b", RIGHT, Mode::Open);
    let address = reflector.address;
    let mut prober = prober(&net, address, Mode::Open).await;
    let lives =
        |delays: &Delays| delays.echo == Echo::Answered && delays.summary.lost_in_a_row == 0;
    measured(&mut prober, 5, lives).await;
    net.run("b", "ip link set l0 down");
    let cut = prober.delays(3, EVERY).await.unwrap();
    assert_eq!((cut.echo, cut.summary.lost_in_a_row), (Echo::Silent, 3));
    net.run("b", "ip link set l0 up");
    measured(&mut prober, 5, lives).await;
    drop(reflector);
    let gone = measured(&mut prober, 3, |delays| delays.echo == Echo::Refused).await;
    assert!(gone.summary.lost_in_a_row >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_another_secret_is_not_answered() {
    let Some(net) = Net::row("secret", &["a", "b"]) else { return };
    let mode = |secret: &[u8]| Mode::Authenticated(Key::new(secret));
    let reflector = reflect(&net, "b", RIGHT, mode(b"one"));
    let mut knows = prober(&net, reflector.address, mode(b"one")).await;
    measured(&mut knows, 3, |delays| delays.echo == Echo::Answered).await;
    let mut guesses = prober(&net, reflector.address, mode(b"two")).await;
    let delays = guesses.delays(3, EVERY).await.unwrap();
    assert_eq!((delays.echo, delays.summary.answered), (Echo::Silent, 0));
}
