//! Stories of a link, and what of them is written down.

use proptest::prelude::*;

use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn figure(value: f64) -> Figure {
    Figure { value, kind: Kind::Measured, age: s(1), spread: 0.1, samples: 10 }
}

fn seen(latency: f64) -> Seen {
    let figures = Figures::from([(Metric::Latency, figure(latency))]);
    Seen { figures, answered_in_a_row: 10, ..Seen::default() }
}

/// A link that is looked at every second; when it is written down, with which delay.
fn story(latencies: impl IntoIterator<Item = f64>) -> Vec<(u64, f64)> {
    let mut keeper = Keeper::default();
    let mut writes = Vec::new();
    for (second, latency) in (0..).zip(latencies) {
        if let Some(write) = keeper.look(&seen(latency), s(second)).write {
            writes.push((second, write.figures[&Metric::Latency].value));
        }
    }
    writes
}

fn for_seconds(many: usize, latency: f64) -> impl Iterator<Item = f64> + Clone {
    std::iter::repeat_n(latency, many)
}

#[test]
fn a_worsening_is_written_within_ten_seconds_and_an_improvement_after_a_minute() {
    let worse_at_once = for_seconds(1, 10.0).chain(for_seconds(20, 40.0));
    assert_eq!(story(worse_at_once), [(0, 10.0), (5, 40.0)]);
    let worse_later = for_seconds(100, 10.0).chain(for_seconds(20, 40.0));
    assert_eq!(story(worse_later), [(0, 10.0), (103, 40.0)]);
    let better = for_seconds(100, 40.0).chain(for_seconds(100, 10.0));
    assert_eq!(story(better), [(0, 40.0), (160, 10.0)]);
}

#[test]
fn a_link_that_flaps_is_written_once_as_bad_as_it_gets() {
    let flapping = for_seconds(4, 10.0).chain(for_seconds(4, 40.0)).collect::<Vec<_>>();
    assert_eq!(story(flapping.into_iter().cycle().take(600)), [(0, 10.0), (7, 40.0)]);
    let quick = [10.0, 40.0].into_iter().cycle().take(600);
    assert_eq!(story(quick), [(0, 10.0)]);
}

#[test]
fn a_quiet_link_is_written_for_its_age_only() {
    let writes = story(for_seconds(3600, 10.0));
    assert_eq!(writes.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 900, 1800, 2700]);
}

#[test]
fn what_a_window_says_becomes_figures_one_way() {
    let mut window = crate::Window::new(s(60));
    for second in 0..4 {
        let number = window.send(s(second));
        if second != 3 {
            window.answered(number, None, s(second) + Duration::from_millis(20 + second));
        }
    }
    let figures = figures(&window.summary(s(10)));
    let shown = |metric: Metric| (figures[&metric].value, figures[&metric].samples);
    assert_eq!(shown(Metric::Latency), (10.5, 3));
    assert_eq!(shown(Metric::LatencyP95), (11.0, 3));
    assert_eq!(shown(Metric::Jitter), (0.5, 3));
    assert_eq!(shown(Metric::Loss), (25.0, 4));
    assert_eq!((figures[&Metric::Latency].age, figures.len()), (s(8), 4));
    assert!(super::figures(&crate::Window::new(s(60)).summary(s(1))).is_empty());
}

#[test]
fn a_dead_link_is_a_failure_and_an_event_at_once() {
    let mut keeper = Keeper::default();
    keeper.look(&seen(10.0), s(0));
    let dead = Seen { lost_in_a_row: 3, answered_in_a_row: 0, day: 5, ..seen(10.0) };
    let looked = keeper.look(&dead, s(30));
    assert_eq!(looked.events, [Event::Died { failures: 1 }]);
    let write = looked.write.unwrap();
    assert_eq!((write.is_alive, write.failures, write.failures_mean), (false, 1, 0.3));
    assert!(keeper.look(&dead, s(31)).events.is_empty());
    // Two answers are not yet a living link.
    let nearly = Seen { lost_in_a_row: 0, answered_in_a_row: 2, ..dead.clone() };
    assert!(keeper.look(&nearly, s(40)).events.is_empty());
    let again = keeper.look(&Seen { answered_in_a_row: 3, ..nearly }, s(41));
    assert_eq!((again.events, again.write), (vec![Event::Revived], None));
    let later = keeper.look(&Seen { answered_in_a_row: 60, lost_in_a_row: 0, ..dead }, s(90));
    assert_eq!(later.write.unwrap().because, [Why::Revived]);
}

#[test]
fn a_broken_promise_is_an_event_and_so_is_its_end() {
    let mut keeper = Keeper::default();
    let promised = |latency: f64| Seen {
        declared: BTreeMap::from([(Metric::Latency, 20.0)]),
        ..seen(latency)
    };
    let mut events = Vec::new();
    for second in 0..200 {
        let latency = if (10..60).contains(&second) { 35.0 } else { 19.0 };
        for event in keeper.look(&promised(latency), s(second)).events {
            events.push((second, event));
        }
    }
    let (metric, declared) = (Metric::Latency, 20.0);
    let contradicted = Event::Contradicted { metric, declared, figure: figure(35.0) };
    assert_eq!(events, [(13, contradicted), (120, Event::Agrees { metric, declared })]);
}

#[test]
fn what_is_doubtful_contradicts_no_promise() {
    let contradicts = |figure: Figure| Metric::Latency.contradicts(20.0, &figure);
    assert!(contradicts(figure(35.0)));
    assert!(!contradicts(figure(22.0)));
    assert!(!contradicts(Figure { spread: 14.0, ..figure(35.0) }));
    assert!(!contradicts(Figure { kind: Kind::Estimated, ..figure(35.0) }));
    assert!(!contradicts(Figure { samples: 2, ..figure(35.0) }));
    let less = |value: f64| Metric::Bandwidth.contradicts(10e6, &figure(value));
    assert!(less(5e6) && !less(9e6) && !less(50e6));
}

#[test]
fn failures_count_for_thirty_days_and_their_mean_fades() {
    let mut failures = Failures::default();
    failures.add(100);
    failures.add(100);
    failures.add(110);
    assert_eq!((failures.count(110), failures.count(129), failures.count(130)), (3, 3, 1));
    assert_eq!(failures.count(140), 0);
    assert!(failures.mean(111) < failures.mean(110) && failures.mean(110) > 0.3);
    // The calendar is set back: what was counted still counts.
    failures.add(3);
    assert_eq!(failures.count(3), 4);
    assert_eq!(Failures::of(failures.days()), failures);
}

proptest! {
    /// Whatever a link does, at whatever pace it is looked at.
    #[test]
    fn writes_keep_their_distance(
        looks in proptest::collection::vec((1.0..200.0f64, 100..20_000u64, 0..5u32, 0..5u32), 1..300),
    ) {
        let mut keeper = Keeper::default();
        let mut now = s(0);
        let mut last: Option<(Duration, f64)> = None;
        for (latency, wait, lost_in_a_row, answered_in_a_row) in looks {
            now += Duration::from_millis(wait);
            let seen = Seen { lost_in_a_row, answered_in_a_row, ..seen(latency) };
            let Some(write) = keeper.look(&seen, now).write else { continue };
            if let Some((at, before)) = last {
                prop_assert!(now - at >= GAP_WORSE);
                let bad = write.because.iter().any(|why| match why {
                    Why::Changed { turn: Turn::Worse, to, .. } => *to > before * 1.15,
                    Why::Died => true,
                    Why::First | Why::Changed { .. } | Why::Revived | Why::Contradicted
                    | Why::Agrees | Why::Aged => false,
                });
                prop_assert!(bad || now - at >= GAP, "{:?}", write.because);
            }
            last = Some((now, write.figures[&Metric::Latency].value));
        }
    }

    /// Noise within a step, for an hour.
    #[test]
    fn noise_within_a_step_is_never_news(
        noise in proptest::collection::vec(-0.06..0.06f64, 3600),
        base in 5.0..200.0f64,
    ) {
        let writes = story(noise.into_iter().map(|noise| base * (1.0 + noise)));
        prop_assert!(writes.len() <= 4, "{:?}", writes);
    }

    /// A link that alternates at any pace is written at most once a minute in the mean, and stays bad
    /// unless it was good for a minute.
    #[test]
    fn flapping_at_any_pace_is_bounded(good in 1..200usize, bad in 1..200usize) {
        let period: Vec<f64> =
            for_seconds(good, 10.0).chain(for_seconds(bad, 80.0)).collect();
        let seconds = 3600;
        let writes = story(period.into_iter().cycle().take(seconds));
        prop_assert!(writes.len() <= 2 + 2 * seconds / (good + bad) && writes.len() <= 2 + seconds / 60 * 2);
        if good < 60 {
            let told = writes.iter().skip_while(|(_, latency)| *latency != 80.0);
            prop_assert!(told.into_iter().all(|(_, latency)| *latency == 80.0), "{:?}", writes);
        }
    }

    /// However bad, whenever: within ten seconds, if it stays.
    #[test]
    fn a_lasting_worsening_is_always_written_within_ten_seconds(
        before in proptest::collection::vec(1.0..100.0f64, 1..100),
        worse in 1.3..50.0f64,
    ) {
        let mut keeper = Keeper::default();
        let mut written = 0.0;
        let mut second = 0;
        for latency in before {
            if let Some(write) = keeper.look(&seen(latency), s(second)).write {
                written = write.figures[&Metric::Latency].value;
            }
            second += 1;
        }
        let level = (written * worse).max(written + 1.0);
        let write = (0..=10).find_map(|later| keeper.look(&seen(level), s(second + later)).write);
        prop_assert_eq!(write.map(|write| write.figures[&Metric::Latency].value), Some(level));
    }
}
