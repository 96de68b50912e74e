//! What is held for a client counts for as long as it is held, and no longer.

use super::*;

/// The second frame of a body may come much later than the first.
#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_body_is_counted() {
    let body_bytes = Bound { per_flow: 3000, in_all: 100_000 };
    let world = World::start(Limits { body_bytes, ..Limits::default() }).await;
    // What is no object is refused with 400, once all of it has arrived.
    for (frames, expected) in [([2000, 900], 400), ([2000, 2000], 429)] {
        let mut sender = world.connect().await.ready().await.unwrap();
        let request = ask("POST", MAPS, Some(&token(1)));
        let (answer, mut body) = sender.send_request(request, false).unwrap();
        for (number, bytes) in frames.into_iter().enumerate() {
            body.send_data(Bytes::from(vec![b' '; bytes]), number == 1).unwrap();
        }
        let answer = timeout(PATIENCE, answer).await.expect("it answers").unwrap();
        assert_eq!(answer.status(), expected, "{frames:?}");
    }
    world.until_nothing_is_held().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_counts_until_it_ends_and_holds_no_seat() {
    let limits = Limits {
        users: Share { seats: 1, waiting: 8, waiting_per_flow: 8 },
        reads: 1,
        watches: Bound { per_flow: 2, in_all: 100 },
        ..Limits::default()
    };
    let world = World::start(limits).await;
    let path = format!("{MAPS}?watch=true");
    let mut sender = world.connect().await;
    let mut watches = Vec::new();
    for _ in 0..2 {
        sender = sender.ready().await.unwrap();
        let (answer, _) = sender.send_request(ask("GET", &path, Some(&token(1))), true).unwrap();
        let answer = timeout(PATIENCE, answer).await.expect("it answers").unwrap();
        assert_eq!(answer.status(), 200);
        watches.push(answer);
    }
    assert_eq!(world.code(MAPS, Some(&token(1))).await, 200, "the seat is free");
    assert_eq!(world.code(&path, Some(&token(1))).await, 429, "a third");
    assert_eq!(world.code(&path, Some(&token(2))).await, 200, "another user");
    watches.pop();
    let again = async { while world.code(&path, Some(&token(1))).await != 200 {} };
    timeout(PATIENCE, again).await.expect("the end of one makes room");
}

/// When there is no room for another client, the oldest connection of the one that has most must go.
#[tokio::test]
async fn a_connection_that_makes_room_for_another_is_told_to_end() {
    let traffic = Traffic::new(Limits { known: 2, known_per_subject: 2, ..Limits::default() });
    let subject = |name: &str| Flow::Subject(name.into());
    let arrive = |name: &str| {
        let (connection, evicted) = traffic.connect([10, 0, 0, 1].into());
        connection.vouch(&subject(name)).unwrap();
        (connection, evicted)
    };
    let (_first, mut first_is_told) = arrive("anna");
    let (_second, mut second_is_told) = arrive("anna");
    assert_eq!(first_is_told.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    let (_third, mut third_is_told) = arrive("bert");
    assert_eq!(first_is_told.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    for others in [&mut second_is_told, &mut third_is_told] {
        assert_eq!(others.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }
}

/// Nobody reads their answers; some of them show a token that is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_too_many_requests_of_strangers_ends_and_no_other() {
    let strangers_asking = Bound { per_flow: 40, in_all: 100 };
    let world = World::start(Limits { strangers_asking, ..Limits::default() }).await;
    let nobodys = token(99);
    for shown in [None, Some(&nobodys)] {
        let stream = TcpStream::connect(world.address).await.unwrap();
        let mut reads_nothing = h2::client::Builder::new();
        let greeted = reads_nothing.initial_window_size(0).handshake::<_, Bytes>(stream).await;
        let (mut sender, connection) = greeted.unwrap();
        let connection = tokio::spawn(connection);
        let mut answers = Vec::new();
        for _ in 0..40 {
            sender = sender.ready().await.unwrap();
            let (answer, _) = sender.send_request(ask("GET", "/readyz", shown), true).unwrap();
            answers.push(timeout(PATIENCE, answer).await.expect("it answers").unwrap());
        }
        assert_eq!(world.code("/readyz", None).await, 200, "another connection of that address");
        sender = sender.ready().await.unwrap();
        let one_more = sender.send_request(ask("GET", "/readyz", shown), true).unwrap();
        timeout(PATIENCE, connection).await.expect("it ends").unwrap().ok();
        // The refusal may still have come through.
        if let Ok(answer) = one_more.0.await {
            assert_eq!(answer.status(), 429);
        }
        world.until_nothing_is_held().await;
        drop(answers);
    }
}
