//! Bodies as senders write them, and as attackers do.

use proptest::prelude::*;
use tombolo_series::{Labels, STALE_BITS};

use super::*;

fn up(job: &str, samples: &[(i64, f64)]) -> Series {
    Series {
        labels: Labels::new([("__name__", "up"), ("job", job)]),
        samples: samples.iter().map(|(at, value)| Sample::new(*at, *value)).collect(),
    }
}

fn told() -> Metadata {
    Metadata {
        metric: "up".to_owned(),
        kind: MetricKind::Gauge,
        help: "whether it answers".to_owned(),
        unit: "ratio".to_owned(),
    }
}

#[track_caller]
fn refused(message: &[u8], limits: Limits, problem: &str) {
    let body = snap::raw::Encoder::new().compress_vec(message).unwrap();
    let error = decode(Version::V1, &body, &limits).unwrap_err();
    assert_eq!(error.to_string(), problem);
}

#[test]
fn what_is_written_is_read_again_in_both_versions() {
    let stale = f64::from_bits(STALE_BITS);
    let series = vec![up("a", &[(-1, 1.5), (0, stale)]), up("b", &[(i64::MAX, f64::INFINITY)])];
    for version in [Version::V1, Version::V2] {
        let body = encode(version, &series, &[told()]);
        let batch = decode(version, &body, &Limits::default()).unwrap();
        assert_eq!(batch.series, series);
        assert_eq!(batch.metadata[0], told());
    }
}

/// Bytes written by hand after the definition of `prometheus.WriteRequest`, so that reader and writer
/// cannot agree on something wrong.
#[test]
fn a_request_of_prometheus_is_read() {
    let label = |name: &str, value: &str| {
        let mut out = vec![0x0a, u8::try_from(name.len()).unwrap()];
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&[0x12, u8::try_from(value.len()).unwrap()]);
        out.extend_from_slice(value.as_bytes());
        out
    };
    let mut series = Vec::new();
    for label in [label("job", "a"), label("__name__", "up")] {
        series.extend_from_slice(&[0x0a, u8::try_from(label.len()).unwrap()]);
        series.extend(label);
    }
    series.extend_from_slice(&[0x12, 12, 0x09]);
    series.extend_from_slice(&1.5_f64.to_le_bytes());
    series.extend_from_slice(&[0x10, 0xd0, 0x0f]);
    let mut message = vec![0x0a, u8::try_from(series.len()).unwrap()];
    message.extend(series);
    let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
    let batch = decode(Version::V1, &body, &Limits::default()).unwrap();
    assert_eq!(batch.series, [up("a", &[(2000, 1.5)])]);
}

#[test]
fn the_content_type_tells_the_version() {
    let of = Version::of_content_type;
    assert_eq!(of("application/x-protobuf"), Some(Version::V1));
    assert_eq!(of(Version::CONTENT_TYPE_V2), Some(Version::V2));
    assert_eq!(of("application/x-protobuf; proto=prometheus.WriteRequest"), Some(Version::V1));
    assert_eq!(of("application/x-protobuf;proto=other"), None);
    assert_eq!(of("application/json"), None);
}

#[test]
fn a_bomb_is_refused_before_it_is_unpacked() {
    let limits = Limits { bytes_max: 1 << 20, ..Limits::default() };
    refused(&vec![0; (1 << 20) + 1], limits, "the message has more than 1048576 bytes");
    // A length of four gigabytes and nothing behind it.
    let lie = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    assert_eq!(
        decode(Version::V1, &lie, &Limits::default()),
        Err(Error::TooMany { what: "bytes", max: 32 << 20 })
    );
    assert_eq!(decode(Version::V1, b"{}", &Limits::default()), Err(Error::NotSnappy));
}

#[test]
fn each_bound_is_kept_and_named() {
    let message = encode_v1(&[up("a", &[(1, 1.0), (2, 2.0)]), up("b", &[])], &[]);
    let all = Limits::default();
    refused(&message, Limits { series_max: 1, ..all }, "the message has more than 1 series");
    refused(&message, Limits { samples_max: 1, ..all }, "the message has more than 1 samples");
    let problem = "the message has more than 1 labels in one series";
    refused(&message, Limits { labels_max: 1, ..all }, problem);
    let long = encode_v1(&[up(&"x".repeat(10 << 20), &[])], &[]);
    refused(&long, all, "the message has more than 4096 bytes in the value of a label");
}

#[test]
fn a_series_without_a_name_or_with_a_label_twice_is_refused() {
    let nameless = Series { labels: Labels::new([("job", "a")]), samples: Vec::new() };
    let message = encode_v1(&[nameless], &[]);
    let problem = r#"a series is not to be named so: {job="a"} has no __name__"#;
    refused(&message, Limits::default(), problem);
    let limits = Limits::default();
    assert!(limits.labels(&[("__name__", "up"), ("a", "1"), ("a", "2")]).is_err());
    assert!(limits.labels(&[("__name__", "up"), ("a", ""), ("b", "")]).is_ok());
}

#[test]
fn texts_that_are_not_there_are_refused() {
    let mut series = Vec::new();
    put_bytes(&mut series, 1, &[0, 9]);
    let mut message = Vec::new();
    put_message(&mut message, 4, b"");
    put_message(&mut message, 5, &series);
    let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
    let error = decode(Version::V2, &body, &Limits::default()).unwrap_err();
    assert_eq!(error, Error::Malformed("a text that it refers to is not there"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for version in [Version::V1, Version::V2] {
            let _ = decode(version, &bytes, &Limits::default());
            let body = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
            let _ = decode(version, &body, &Limits::default());
        }
    }
}
