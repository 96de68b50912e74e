//! Packets: what comes back is what was sent, and nothing that is received does harm.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const DAY: Duration = Duration::new(1_700_000_000, 250_000_000);

fn modes() -> [Mode; 2] {
    [Mode::Open, Mode::Authenticated(Key::new(b"a secret"))]
}

fn request() -> Request {
    Request {
        sequence: 7,
        sent: Timestamp::of_day(DAY),
        error: ErrorEstimate::UNKNOWN,
        session: 0xbeef,
    }
}

fn sight() -> Sight {
    Sight {
        received: Timestamp::of_day(DAY + Duration::from_millis(30)),
        sent: Timestamp::of_day(DAY + Duration::from_millis(31)),
        hops_left: 61,
        sequence: None,
    }
}

#[test]
fn an_open_request_has_its_fields_where_the_rfc_has_them() {
    let packet = request().encode(&Mode::Open, 0);
    assert_eq!(packet.len(), 44);
    assert_eq!(packet[..4], [0, 0, 0, 7]);
    // 1,700,000,000 s after 1970 are 3,908,988,800 s after 1900; a quarter second is 0x4000_0000.
    assert_eq!(packet[4..12], [0xe8, 0xfe, 0x6f, 0x80, 0x40, 0, 0, 0]);
    assert_eq!(packet[12..16], [0x20, 1, 0xbe, 0xef]);
    assert!(packet[16..].iter().all(|octet| *octet == 0));
}

#[test]
fn an_answer_repeats_the_request_and_says_for_how_long_it_was_held() {
    for mode in modes() {
        let mut packet = request().encode(&mode, 0);
        let length = packet.len();
        assert_eq!(reflect(&mode, &mut packet, &sight()), Ok(request()));
        assert_eq!(packet.len(), length);
        let answer = Answer::decode(&mode, &packet).unwrap();
        assert_eq!(answer.request, request());
        assert_eq!((answer.sequence, answer.session, answer.hops_left), (7, 0xbeef, 61));
        assert_eq!(answer.held(), Some(Duration::from_millis(1)));
        assert_eq!(answer.encode(&mode), packet);
    }
}

#[test]
fn a_clock_that_is_set_back_while_a_request_is_held_says_nothing() {
    let mut packet = request().encode(&Mode::Open, 0);
    let back = Sight { sent: Timestamp::of_day(DAY - Duration::from_secs(3600)), ..sight() };
    reflect(&Mode::Open, &mut packet, &back).unwrap();
    assert_eq!(Answer::decode(&Mode::Open, &packet).unwrap().held(), None);
}

#[test]
fn the_seconds_of_ntp_may_begin_anew_between_two_stamps() {
    let eve = Timestamp { bits: u64::MAX - 99, format: Format::Ntp };
    let later = Timestamp { bits: 1 << 31, format: Format::Ntp };
    let passed = later.since(eve).unwrap();
    assert!(passed > Duration::from_millis(499) && passed < Duration::from_millis(501));
    assert_eq!(eve.since(later), None);
}

#[test]
fn a_longer_packet_comes_back_as_long_with_its_padding_known() {
    for mode in modes() {
        let mut packet = request().encode(&mode, 1200);
        assert_eq!(packet.len(), 1200);
        reflect(&mode, &mut packet, &sight()).unwrap();
        assert_eq!(packet.len(), 1200);
        let options: Vec<Extension<'_>> = Extensions::of(&mode, &packet).collect();
        assert!(!options.is_empty());
        assert!(options.iter().all(|option| !option.is_unknown() && !option.is_forged()));
    }
}

#[test]
fn what_the_reflector_does_not_know_is_marked_and_comes_back() {
    let mut packet = request().encode(&Mode::Open, 0);
    packet.extend([0x80, 200, 0, 2, 1, 2, 0x80, 1, 0, 1, 9, 0, 5, 0xff, 0xff, 3]);
    reflect(&Mode::Open, &mut packet, &sight()).unwrap();
    // The first is unknown, the second known, the third longer than the packet.
    assert_eq!(packet[44..], [0x80, 200, 0, 2, 1, 2, 0, 1, 0, 1, 9, 0x40, 5, 0xff, 0xff, 3]);
}

#[test]
fn options_without_a_right_code_are_not_believed() {
    let mode = Mode::Authenticated(Key::new(b"a secret"));
    let mut packet = request().encode(&mode, 300);
    packet[200] ^= 1;
    reflect(&mode, &mut packet, &sight()).unwrap();
    let mut options = Extensions::of(&mode, &packet);
    assert!(options.all(|option| option.is_forged()));
}

#[test]
fn a_packet_of_another_secret_is_refused() {
    let [open, mode] = modes();
    let other = Mode::Authenticated(Key::new(b"another secret"));
    let mut packet = request().encode(&other, 0);
    assert_eq!(reflect(&mode, &mut packet, &sight()), Err(Refusal::Code));
    let short = Refusal::Short { found: 44, least: 112 };
    assert_eq!(Request::decode(&mode, &request().encode(&open, 0)), Err(short));
}

#[test]
fn sessions_count_apart_and_the_most_silent_is_forgotten() {
    let mut sessions = Sessions::new(2);
    let at = Duration::from_secs;
    assert_eq!(sessions.count("a", 1, at(0)), 0);
    assert_eq!(sessions.count("a", 1, at(1)), 1);
    assert_eq!(sessions.count("a", 2, at(2)), 0);
    assert_eq!(sessions.count("a", 1, at(3)), 2);
    assert_eq!(sessions.count("b", 1, at(4)), 0);
    assert_eq!(sessions.count("a", 1, at(5)), 3);
    assert_eq!(sessions.count("a", 2, at(6)), 0);
}

proptest! {
    #[test]
    fn whatever_is_received_is_answered_in_the_same_length_or_refused(
        packet in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        for mode in modes() {
            let mut answer = packet.clone();
            if reflect(&mode, &mut answer, &sight()).is_ok() {
                prop_assert_eq!(answer.len(), packet.len());
                prop_assert!(Answer::decode(&mode, &answer).is_ok());
            } else {
                prop_assert_eq!(&answer, &packet);
            }
            let _ = Answer::decode(&mode, &packet);
            let _ = Extensions::of(&mode, &packet).count();
        }
    }

    #[test]
    fn whatever_is_sent_can_be_read(sequence: u32, bits: u64, session: u16, length in 0..2000usize) {
        for mode in modes() {
            let sent = Timestamp { bits, format: Format::Ntp };
            let request = Request { sequence, sent, session, ..request() };
            let mut packet = request.encode(&mode, length);
            prop_assert!(packet.len() <= length.max(mode.length()));
            prop_assert_eq!(Request::decode(&mode, &packet), Ok(request));
            reflect(&mode, &mut packet, &sight()).unwrap();
            prop_assert_eq!(Answer::decode(&mode, &packet).unwrap().request, request);
        }
    }
}
