//! What people write, and what it means.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// One line a text: its canonical form, or why it is none.
#[track_caller]
fn check<Q: FromStr<Err = Error> + fmt::Display>(texts: &[&str], expected: Expect) {
    let lines: Vec<String> = texts
        .iter()
        .map(|text| match text.parse::<Q>() {
            Ok(quantity) => format!("{text} = {quantity}\n"),
            Err(error) => format!("{error}\n"),
        })
        .collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn cpu_is_read_as_cores_and_thousandths() {
    let texts = [
        "0.5", "2", "500m", "1500m", "0", ".25", "1e3", "5e-1", "100u", "1n", "1k", "2 cores",
        "1.0001",
    ];
    check::<Cpu>(
        &texts,
        expect![[r#"
        0.5 = 500m
        2 = 2
        500m = 500m
        1500m = 1500m
        0 = 0
        .25 = 250m
        1e3 = 1000
        5e-1 = 500m
        100u = 1m
        1n = 1m
        1k = 1000
        2 cores = 2
        1.0001 = 1001m
    "#]],
    );
}

#[test]
fn what_is_no_cpu_says_what_would_be_one() {
    check::<Cpu>(
        &[
            "",
            "half",
            "-1",
            "2x",
            "500mi",
            "500millis",
            "1e30",
            "99999999999999999999999",
            "2µµcpu",
        ],
        expect![[r#"
            "" is not an amount of cpu: it is empty; write cores such as 0.5 or 2, or thousandths of a core such as 500m
            "half" is not an amount of cpu: it does not begin with a number; write cores such as 0.5 or 2, or thousandths of a core such as 500m
            "-1" is not an amount of cpu: it is negative; write cores such as 0.5 or 2, or thousandths of a core such as 500m
            "2x" is not an amount of cpu: unknown unit "x"; write cores such as 0.5 or 2, or thousandths of a core such as 500m
            "500mi" is not an amount of cpu: unknown unit "mi"; write cores such as 0.5 or 2, or thousandths of a core such as 500m (did you mean "500m"?)
            "500millis" is not an amount of cpu: unknown unit "millis"; write cores such as 0.5 or 2, or thousandths of a core such as 500m (did you mean "500m"?)
            "1e30" is not an amount of cpu: it is too large; write cores such as 0.5 or 2, or thousandths of a core such as 500m
            "99999999999999999999999" is not an amount of cpu: it has too many digits; write cores such as 0.5 or 2, or thousandths of a core such as 500m
            "2µµcpu" is not an amount of cpu: unknown unit "µµ"; write cores such as 0.5 or 2, or thousandths of a core such as 500m
        "#]],
    );
}

#[test]
fn bytes_are_read_exactly_and_sloppily() {
    let texts = [
        "200Mi",
        "200M",
        "200Mb",
        "512MB",
        "200MiB",
        "200 MB",
        "1G",
        "1Ei",
        "1e3",
        "1E3",
        "1E",
        "0.5Gi",
        "1000",
        "1K",
        "7Gi",
        "0",
        "128974848000m",
        "1.5",
        "10B",
        "18446744073709551615",
    ];
    check::<Bytes>(
        &texts,
        expect![[r#"
        200Mi = 200Mi
        200M = 200M
        200Mb = 200M
        512MB = 512M
        200MiB = 200Mi
        200 MB = 200M
        1G = 1G
        1Ei = 1Ei
        1e3 = 1k
        1E3 = 1k
        1E = 1E
        0.5Gi = 512Mi
        1000 = 1k
        1K = 1k
        7Gi = 7Gi
        0 = 0
        128974848000m = 123Mi
        1.5 = 2
        10B = 10
        18446744073709551615 = 18446744073709551615
    "#]],
    );
}

#[test]
fn what_is_no_bytes_says_what_would_be() {
    let texts =
        ["200m", "200mi", "200Q", "lots", "-5Gi", "16Ei", "18446744073709551616", "1e400", "1e401"];
    check::<Bytes>(
        &texts,
        expect![[r#"
        "200m" is not an amount of bytes: it is less than one byte; write bytes with a suffix such as 512Mi (binary) or 200M (decimal) (did you mean "200M"?)
        "200mi" is not an amount of bytes: unknown unit "mi"; write bytes with a suffix such as 512Mi (binary) or 200M (decimal) (did you mean "200Mi"?)
        "200Q" is not an amount of bytes: unknown unit "Q"; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
        "lots" is not an amount of bytes: it does not begin with a number; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
        "-5Gi" is not an amount of bytes: it is negative; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
        "16Ei" is not an amount of bytes: it is too large; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
        "18446744073709551616" is not an amount of bytes: it is too large; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
        "1e400" is not an amount of bytes: it is too large; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
        "1e401" is not an amount of bytes: it has too many digits; write bytes with a suffix such as 512Mi (binary) or 200M (decimal)
    "#]],
    );
}

#[test]
fn durations_are_read_with_their_units() {
    let texts = [
        "20ms", "5s", "1h30m", "1.5s", "500us", "500µs", "1500ns", "2d", "1 week", "0", "0s",
        "90m", "1m 30s", "30min",
    ];
    check::<Duration>(
        &texts,
        expect![[r#"
        20ms = 20ms
        5s = 5s
        1h30m = 1h30m
        1.5s = 1s500ms
        500us = 500us
        500µs = 500us
        1500ns = 2us
        2d = 48h
        1 week = 168h
        0 = 0s
        0s = 0s
        90m = 1h30m
        1m 30s = 1m30s
        30min = 30m
    "#]],
    );
}

#[test]
fn what_is_no_duration_says_what_would_be_one() {
    check::<Duration>(
        &["20", "", "5 parsecs", "1h30", "-5s", "999999999999999d", "s"],
        expect![[r#"
            "20" is not a duration: it has no unit; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m (did you mean "20ms"?)
            "" is not a duration: it is empty; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m
            "5 parsecs" is not a duration: unknown unit "parsecs"; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m
            "1h30" is not a duration: it has no unit; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m
            "-5s" is not a duration: it is negative; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m
            "999999999999999d" is not a duration: it is too large; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m
            "s" is not a duration: it does not begin with a number; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m
        "#]],
    );
}

#[test]
fn bit_rates_are_read_in_all_spellings() {
    let texts = [
        "10Mbps",
        "1G",
        "10 Mbit/s",
        "1Gb/s",
        "100kbps",
        "2.5MB/s",
        "1000",
        "10Mi",
        "0",
        "5e3bps",
        "10MBps",
        "64Kbit",
        "1.5Gbps",
    ];
    check::<BitRate>(
        &texts,
        expect![[r#"
        10Mbps = 10Mbps
        1G = 1Gbps
        10 Mbit/s = 10Mbps
        1Gb/s = 1Gbps
        100kbps = 100kbps
        2.5MB/s = 20Mbps
        1000 = 1kbps
        10Mi = 10485760bps
        0 = 0bps
        5e3bps = 5kbps
        10MBps = 80Mbps
        64Kbit = 64kbps
        1.5Gbps = 1500Mbps
    "#]],
    );
}

#[test]
fn what_is_no_bit_rate_says_what_would_be_one() {
    check::<BitRate>(
        &["10mbps", "10MBPS", "fast", "500m", "10 km/h", "-1G", "99E"],
        expect![[r#"
        "10mbps" is not a bit rate: "m" means thousandths; write bits a second with a unit such as 10Mbps or 1Gbit/s (did you mean "10Mbps"?)
        "10MBPS" is not a bit rate: unknown unit "MBPS"; write bits a second with a unit such as 10Mbps or 1Gbit/s (did you mean "10Mbps"?)
        "fast" is not a bit rate: it does not begin with a number; write bits a second with a unit such as 10Mbps or 1Gbit/s
        "500m" is not a bit rate: "m" means thousandths; write bits a second with a unit such as 10Mbps or 1Gbit/s (did you mean "500M"?)
        "10 km/h" is not a bit rate: unknown unit "km/h"; write bits a second with a unit such as 10Mbps or 1Gbit/s
        "-1G" is not a bit rate: it is negative; write bits a second with a unit such as 10Mbps or 1Gbit/s
        "99E" is not a bit rate: it is too large; write bits a second with a unit such as 10Mbps or 1Gbit/s
    "#]],
    );
}

#[test]
fn levels_are_words_or_scores() {
    check::<Level>(
        &["low", "Medium", "high", "34", "50", "100", "101", "-1", "hihg", "50.5", "NaN"],
        expect![[r#"
            low = low
            Medium = medium
            high = high
            34 = medium
            50 = 50
            100 = 100
            "101" is not a level; write low, medium, high, or a score from 0 to 100
            "-1" is not a level; write low, medium, high, or a score from 0 to 100
            "hihg" is not a level; write low, medium, high, or a score from 0 to 100 (did you mean "high"?)
            "50.5" is not a level; write low, medium, high, or a score from 0 to 100
            "NaN" is not a level; write low, medium, high, or a score from 0 to 100
        "#]],
    );
}

#[test]
fn architectures_go_by_many_names() {
    check::<Arch>(
        &["amd64", "x86_64", "intel", "aarch64", "arm64", "armv7l", "X86-64", "amd46", "sparc"],
        expect![[r#"
            amd64 = amd64
            x86_64 = amd64
            intel = amd64
            aarch64 = arm64
            arm64 = arm64
            armv7l = arm
            X86-64 = amd64
            "amd46" is not an architecture; write amd64, arm64, arm, 386, riscv64, ppc64le or s390x (did you mean "amd64"?)
            "sparc" is not an architecture; write amd64, arm64, arm, 386, riscv64, ppc64le or s390x
        "#]],
    );
}

#[test]
fn numbers_and_strings_mean_the_same_in_json() {
    for (number, string) in
        [(json!(0.5), json!("500m")), (json!(2), json!("2")), (json!(1e3), json!("1000"))]
    {
        let cpu = |value| serde_json::from_value::<Cpu>(value).unwrap();
        assert_eq!(cpu(number), cpu(string));
    }
    assert_eq!(serde_json::to_value(Cpu::from_millis(500)).unwrap(), json!("500m"));
    assert_eq!(serde_json::from_value::<Bytes>(json!(1e9)).unwrap(), Bytes::new(1_000_000_000));
    assert!(serde_json::from_value::<Duration>(json!(20)).is_err());
    assert!(serde_json::from_value::<Cpu>(json!([1])).is_err());
}

#[track_caller]
fn comes_back<Q>(quantity: Q)
where
    Q: FromStr<Err = Error>
        + fmt::Display
        + fmt::Debug
        + PartialEq
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    assert_eq!(quantity.to_string().parse::<Q>().as_ref(), Ok(&quantity));
    let json = serde_json::to_value(&quantity).unwrap();
    assert_eq!(serde_json::from_value::<Q>(json).unwrap(), quantity);
}

proptest! {
    #[test]
    fn every_value_comes_back_from_its_written_form(value: u64, score in 0u8..=100) {
        comes_back(Cpu::from_millis(value));
        comes_back(Bytes::new(value));
        comes_back(Duration::from_micros(value));
        comes_back(BitRate::from_bps(value));
        comes_back(Level::from_score(score).unwrap());
    }

    #[test]
    fn round_values_come_back_as_well(small in 0u64..10_000, shift in 0u32..50) {
        comes_back(Bytes::new(small << shift));
        comes_back(BitRate::from_bps(small * 10u64.pow(shift / 4)));
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "[0-9]{0,2}[µmMkKi ]{0,3}.{0,60}(cpu|b/s|B|s)?") {
        let _ = text.parse::<Cpu>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Duration>();
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<Level>();
        let _ = text.parse::<Arch>();
    }

    #[test]
    fn texts_that_look_like_quantities_never_panic(
        text in "[+-]?[0-9]{0,25}[.]?[0-9]{0,25}([eE][+-]?[0-9]{1,4})?(n|u|m|k|M|G|E|Ki|Ei|Mb|ms|h|bps|MB/s)?"
    ) {
        let _ = text.parse::<Cpu>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Duration>();
        let _ = text.parse::<BitRate>();
    }

    #[test]
    fn whole_numbers_with_a_suffix_are_exact(number in 0u64..1_000_000, suffix in 0usize..5) {
        let (name, factor) = [("Ki", 1u64 << 10), ("Mi", 1 << 20), ("k", 1_000), ("M", 1_000_000), ("Gi", 1 << 30)][suffix];
        prop_assert_eq!(format!("{number}{name}").parse::<Bytes>(), Ok(Bytes::new(number * factor)));
    }
}
