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
    check::<Cpu>(&texts, expect![[r#""#]]);
}

#[test]
fn what_is_no_cpu_says_what_would_be_one() {
    check::<Cpu>(
        &["", "half", "-1", "2x", "500mi", "500millis", "1e30", "99999999999999999999999"],
        expect![[r#""#]],
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
    check::<Bytes>(&texts, expect![[r#""#]]);
}

#[test]
fn what_is_no_bytes_says_what_would_be() {
    let texts =
        ["200m", "200mi", "200Q", "lots", "-5Gi", "16Ei", "18446744073709551616", "1e400", "1e401"];
    check::<Bytes>(&texts, expect![[r#""#]]);
}

#[test]
fn durations_are_read_with_their_units() {
    let texts = [
        "20ms", "5s", "1h30m", "1.5s", "500us", "500µs", "1500ns", "2d", "1 week", "0", "0s",
        "90m", "1m 30s", "30min",
    ];
    check::<Duration>(&texts, expect![[r#""#]]);
}

#[test]
fn what_is_no_duration_says_what_would_be_one() {
    check::<Duration>(
        &["20", "", "5 parsecs", "1h30", "-5s", "999999999999999d", "s"],
        expect![[r#""#]],
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
    check::<BitRate>(&texts, expect![[r#""#]]);
}

#[test]
fn what_is_no_bit_rate_says_what_would_be_one() {
    check::<BitRate>(&["10mbps", "10MBPS", "fast", "500m", "10 km/h", "-1G", "99E"], expect![[r#""#]]);
}

#[test]
fn levels_are_words_or_scores() {
    check::<Level>(
        &["low", "Medium", "high", "34", "50", "100", "101", "-1", "hihg", "50.5", "NaN"],
        expect![[r#""#]],
    );
}

#[test]
fn architectures_go_by_many_names() {
    check::<Arch>(
        &["amd64", "x86_64", "intel", "aarch64", "arm64", "armv7l", "X86-64", "amd46", "sparc"],
        expect![[r#""#]],
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
    fn any_text_is_read_or_refused_without_a_panic(text in ".{0,80}") {
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
