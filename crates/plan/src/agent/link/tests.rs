//! A certificate that holds from midnight for 25 hours, as the authority backdates it, and a day of bad
//! luck.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};

use super::*;

fn certificate(name: &str) -> Certificate<'_> {
    Certificate {
        name,
        begins: "2026-06-01T00:00:00Z".parse().unwrap(),
        expires: "2026-06-02T01:00:00Z".parse().unwrap(),
        labels: Labels::Known,
    }
}

fn rest_of(name: &str, now: &str) -> Option<Duration> {
    rest(&certificate(name), now.parse().unwrap())
}

#[test]
fn renews_at_two_thirds_of_the_life_and_a_little_before() {
    for name in ["n1", "n2", "gateway", ""] {
        let wait = rest_of(name, "2026-06-01T01:00:00Z").unwrap();
        let hours = wait.as_secs_f64() / 3600.0;
        assert!((13.0..15.7).contains(&hours), "{name}: {hours}");
        assert_eq!(rest_of(name, "2026-06-01T16:40:00Z"), None);
    }
}

#[test]
fn nodes_that_joined_together_do_not_come_together() {
    let wait = |number| rest_of(&format!("node-{number}"), "2026-06-01T01:00:00Z");
    let waits: BTreeSet<Option<Duration>> = (0..100).map(wait).collect();
    assert!(waits.len() >= 8, "{waits:?}");
}

#[test]
fn an_expired_certificate_is_renewed_at_once_however_old() {
    assert_eq!(rest_of("n1", "2026-06-02T02:00:00Z"), None);
    assert_eq!(rest_of("n1", "2031-06-02T02:00:00Z"), None);
}

#[test]
fn a_clock_before_the_beginning_does_not_renew_without_end() {
    assert!(rest_of("n1", "1970-01-01T00:00:00Z").is_some());
}

#[test]
fn tries_again_later_and_later() {
    assert_eq!(retry(0), RETRY_FIRST);
    assert_eq!(retry(1), RETRY_FIRST * 2);
    assert_eq!(retry(u32::MAX), RETRY_MOST);
}

#[test]
fn a_beat_with_news_comes_soon_and_none_later_than_the_certificate_wants() {
    let (beat, hour) = (Duration::from_secs(12), Duration::from_secs(3600));
    assert_eq!(next_beat(beat, hour, News::None), beat);
    assert_eq!(next_beat(beat, hour, News::Some), SOON);
    assert_eq!(next_beat(beat, Duration::from_secs(5), News::None), Duration::from_secs(5));
}

const YOUNG: &str = "2026-06-01T01:00:00Z";
const OLD: &str = "2026-06-01T20:00:00Z";
const EXPIRED: &str = "2026-06-02T02:00:00Z";

fn failure(word: &str) -> Failure {
    match word {
        "unreachable" => Failure::Unreachable,
        "answered" => Failure::Answered,
        "401" => Failure::NotTaken,
        "refused" => Failure::Refused,
        "quarantined" => Failure::Quarantined,
        "own" => Failure::OurOwn,
        other => panic!("{other}"),
    }
}

/// Each step is `WHAT CAME OF IT`: of a `beat`; of a `renewal`, if one is due by the certificate and by
/// what went before; of a `young`, `old`, `expired` or `labels` one, which is then asked about; of the
/// `lighthouse`; of a try to `join`.
#[track_caller]
fn check(addresses: usize, join_file: JoinFile, steps: &[&str], expect: Expect) {
    let mut link = Link::default();
    let means = Means { addresses, join_file, beat: Duration::from_secs(12) };
    let mut text = String::new();
    for step in steps {
        let (what, came) = step.split_once(' ').unwrap();
        let line = match (what, came) {
            ("beat", "well") => {
                link.beaten();
                "well".to_owned()
            }
            ("beat", came) => format!("{:?}", link.failed(failure(came), means)),
            ("lighthouse", "more") => format!("{:?}", link.told(Addresses::New, means)),
            ("lighthouse", _) => format!("{:?}", link.told(Addresses::Same, means)),
            ("join", "well") => format!("{:?}", link.joined(Joined::Yes)),
            ("join", _) => format!("{:?}", link.joined(Joined::No)),
            (age, came) => {
                let now = match age {
                    "old" => OLD,
                    "expired" => EXPIRED,
                    _ => YOUNG,
                };
                let labels = if age == "labels" { Labels::New } else { Labels::Known };
                let certificate = Certificate { labels, ..certificate("n1") };
                match link.renewal(&certificate, now.parse().unwrap()) {
                    Renewal::NotNow { .. } => "not now".to_owned(),
                    Renewal::Now(asked) => {
                        let result = if came == "well" { Ok(()) } else { Err(failure(came)) };
                        format!("{:?}", link.renewed(asked, result))
                    }
                }
            }
        };
        text.push_str(&format!("{step}: {line}, address {}\n", link.address(addresses)));
    }
    expect.assert_eq(&text);
}

#[test]
fn the_first_refusal_renews_at_once_and_a_refused_renewal_rests() {
    check(
        1,
        JoinFile::None,
        &["young well", "beat 401", "young refused", "beat 401", "young well"],
        expect![[r"
            young well: not now, address 0
            beat 401: Again { after: 0ns }, address 0
            young refused: Failed, address 0
            beat 401: Again { after: 60s }, address 0
            young well: GoOn(20s), address 0
        "]],
    );
    check(
        1,
        JoinFile::None,
        &["beat 401", "young well", "beat 401", "beat well", "young well"],
        expect![[r"
            beat 401: Again { after: 0ns }, address 0
            young well: GoOn(10s), address 0
            beat 401: Again { after: 60s }, address 0
            beat well: well, address 0
            young well: not now, address 0
        "]],
    );
}

#[test]
fn a_renewal_that_nobody_answers_is_tried_again_soon() {
    check(
        1,
        JoinFile::None,
        &["beat 401", "young unreachable", "beat 401", "young unreachable", "young well"],
        expect![[r"
            beat 401: Again { after: 0ns }, address 0
            young unreachable: GoOn(10s), address 0
            beat 401: Again { after: 3s }, address 0
            young unreachable: GoOn(20s), address 0
            young well: GoOn(20s), address 0
        "]],
    );
}

#[test]
fn silence_is_a_doubt_now_and_then() {
    let mut link = Link::default();
    let means = Means { addresses: 1, join_file: JoinFile::None, beat: Duration::from_secs(12) };
    let doubtful = (0..20).filter(|_| {
        let doubts = link.doubts_the_certificate();
        link.failed(Failure::Unreachable, means);
        doubts
    });
    assert_eq!(doubtful.collect::<Vec<i32>>(), [2, 8, 16]);
}

#[test]
fn an_old_certificate_goes_on_while_it_holds_and_an_expired_one_does_not() {
    check(
        1,
        JoinFile::None,
        &["old unreachable", "old answered", "old refused", "expired unreachable", "expired well"],
        expect![[r"
            old unreachable: GoOn(5s), address 0
            old answered: GoOn(5s), address 0
            old refused: Failed, address 0
            expired unreachable: Failed, address 0
            expired well: GoOn(5s), address 0
        "]],
    );
}

#[test]
fn labels_that_are_refused_are_given_up_and_those_that_nobody_hears_are_not() {
    check(
        1,
        JoinFile::None,
        &["labels unreachable", "labels refused", "labels quarantined"],
        expect![[r"
            labels unreachable: GoOn(5s), address 0
            labels refused: GiveUpLabels(5s), address 0
            labels quarantined: Failed, address 0
        "]],
    );
}

#[test]
fn who_is_refused_waits_or_joins_anew_if_it_can() {
    let steps = ["beat refused", "join well", "beat refused", "join refused", "beat quarantined"];
    check(
        1,
        JoinFile::None,
        &steps[..1],
        expect![[r"
            beat refused: Again { after: 60s }, address 0
        "]],
    );
    check(
        1,
        JoinFile::Given,
        &steps,
        expect![[r"
            beat refused: Join, address 0
            join well: Again { after: 0ns }, address 0
            beat refused: Join, address 0
            join refused: Again { after: 60s }, address 0
            beat quarantined: Again { after: 300s }, address 0
        "]],
    );
}

#[test]
fn all_addresses_are_tried_before_the_lighthouses_are_asked() {
    check(
        3,
        JoinFile::None,
        &[
            "beat unreachable",
            "beat answered",
            "beat unreachable",
            "lighthouse same",
            "beat unreachable",
            "beat unreachable",
            "beat unreachable",
            "lighthouse more",
            "beat well",
        ],
        expect![[r"
            beat unreachable: Dial { after: 3s }, address 1
            beat answered: Dial { after: 3s }, address 2
            beat unreachable: AskLighthouses, address 2
            lighthouse same: Dial { after: 3s }, address 0
            beat unreachable: Dial { after: 3s }, address 1
            beat unreachable: Dial { after: 3s }, address 2
            beat unreachable: AskLighthouses, address 2
            lighthouse more: Dial { after: 0ns }, address 0
            beat well: well, address 0
        "]],
    );
}

#[test]
fn a_single_server_that_answers_is_asked_again_on_the_same_connection() {
    check(
        1,
        JoinFile::None,
        &["beat answered", "beat unreachable", "lighthouse same", "beat own"],
        expect![[r"
            beat answered: Again { after: 3s }, address 0
            beat unreachable: AskLighthouses, address 0
            lighthouse same: Dial { after: 3s }, address 0
            beat own: End, address 0
        "]],
    );
}
