//! What is answered, probed and told, against real sockets of this machine and a server that does not exist.

use tombolo_network::track::IN_A_ROW;

use super::*;

fn nobody() -> Connection {
    let refuse = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is no server"))
    });
    let wire = tower::service_fn(|_| async { Err(std::io::Error::other("there is no server")) });
    Connection::fixed(kube::Client::new(refuse, "default"), connection::Wire::new(wire))
}

fn work() -> Work {
    Work::new(nobody(), "a".to_owned(), Clock::start())
}

fn order(port: Option<u16>, peers: &[(&str, SocketAddr)]) -> Option<Order> {
    let peer = |(node, address): &(&str, SocketAddr)| ProbePeer {
        node: (*node).to_owned(),
        address: address.to_string(),
        site: "north".to_owned(),
        matter: None,
    };
    Some(Order { port, peers: peers.iter().map(peer).collect() })
}

#[tokio::test]
async fn it_answers_only_where_it_is_told_to_and_only_while_it_is() {
    let mut work = work();
    work.look("127.0.0.1");
    assert_eq!(work.answering.address(), None, "nobody has asked for it");
    work.take_order(order(Some(0), &[]));
    work.look("127.0.0.1");
    let address = work.answering.address().unwrap();
    assert_eq!(address.ip(), IpAddr::from([127, 0, 0, 1]), "no wildcard address");
    let mut prober = Prober::open(address, Mode::Open, 1).await.unwrap();
    assert_eq!(prober.delays(1, ONE_BY_ONE).await.unwrap().echo, Echo::Answered);
    work.take_order(order(None, &[]));
    work.look("127.0.0.1");
    assert_eq!(work.answering.address(), None);

    work.take_order(order(Some(0), &[]));
    work.look("192.0.2.7");
    assert_eq!(work.answering.address(), None);
    let problem = work.answering.problem().unwrap();
    assert!(problem.contains("192.0.2.7"), "{problem}");
}

#[tokio::test]
async fn what_is_asked_for_is_probed_and_becomes_a_report() {
    let reflector = Reflected::start().await;
    let mut work = work();
    work.take_order(order(None, &[("b", reflector.address)]));
    while work.peers["b"].track.seen(work.now()).answered < IN_A_ROW {
        work.look("127.0.0.1");
        let probed = tokio::time::timeout(LOOK_EVERY, work.probes.join_next()).await;
        if let Ok(Some(probed)) = probed {
            work.probed(probed.ok());
        }
    }
    let seen = work.peers.iter().map(|(name, known)| (name.clone(), known.track.seen(work.now())));
    let report = report(&Said::default(), &seen.collect(), |_| false);
    let found: Vec<Found> = serde_json::from_value(report["status"]["found"].clone()).unwrap();
    assert_eq!((found.len(), found[0].node.as_str(), found[0].answered), (1, "b", IN_A_ROW));
    assert!(found[0].p50.is_some() && found[0].spread.is_some(), "{report}");
    work.take_order(order(None, &[]));
    assert!(work.peers.is_empty(), "nobody asks for it any more");
}

/// Another node.
struct Reflected {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Reflected {
    async fn start() -> Reflected {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let reflector = tombolo_probe::Reflector::bind(any, Mode::Open).await.unwrap();
        let address = reflector.address().unwrap();
        let task = tokio::spawn(async move { reflector.run().await.unwrap() });
        Reflected { address, task }
    }
}

impl Drop for Reflected {
    fn drop(&mut self) {
        self.task.abort();
    }
}
