//! What goes into a chunk comes out, and whatever comes in, nothing breaks.

use proptest::prelude::*;

use super::*;

fn check(samples: &[Sample]) -> usize {
    let bytes = encode(samples);
    let mut back = Vec::new();
    decode(&bytes, &mut back).unwrap();
    assert_eq!(back, samples);
    bytes.len()
}

fn at_15_s(values: impl IntoIterator<Item = f64>) -> Vec<Sample> {
    let values = values.into_iter().enumerate();
    values.map(|(n, v)| Sample::new(1_700_000_000_123 + 15_000 * n as i64, v)).collect()
}

#[test]
fn a_constant_takes_no_room() {
    assert!(check(&at_15_s([42.5; 240])) < 24);
}

#[test]
fn a_steady_counter_takes_bits() {
    assert!(check(&at_15_s((0..240).map(|n| 1000.0 + 15.0 * f64::from(n)))) < 60);
}

#[test]
fn a_gauge_with_two_places_takes_about_a_byte() {
    let values = (0..240).map(|n| f64::from((n * 7919) % 101) / 100.0);
    assert!(check(&at_15_s(values)) < 260);
}

#[test]
fn whatever_a_float_can_be_comes_back() {
    let values = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        f64::MAX,
        1e-300,
    ];
    check(&at_15_s(values));
    let mut samples = at_15_s((0..100).map(f64::from));
    samples.push(Sample::stale(samples[99].at_ms + 1));
    check(&samples);
    check(&[]);
    check(&[Sample::stale(i64::MIN)]);
    check(&[Sample::new(i64::MIN, 0.1), Sample::new(-1, 0.2), Sample::new(i64::MAX, 0.3)][1..]);
}

#[test]
fn a_step_beyond_all_bounds_is_refused_and_not_followed() {
    // A regular chunk whose second step would pass the end of time.
    let mut bytes = vec![CONSTANT];
    put_uvarint(&mut bytes, 3);
    put_varint(&mut bytes, i64::MAX - 5);
    put_uvarint(&mut bytes, 4);
    bytes.extend_from_slice(&[0; 8]);
    let mut out = Vec::new();
    assert_eq!(decode(&bytes, &mut out), Err(Broken("its times are not in order")));
    assert!(out.is_empty());
}

fn a_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<i32>().prop_map(f64::from),
        4 => any::<i32>().prop_map(|v| f64::from(v) / 100.0),
        2 => any::<u64>().prop_map(f64::from_bits),
        1 => Just(f64::from_bits(crate::sample::STALE_BITS)),
    ]
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        start in any::<i32>(),
        pairs in prop::collection::vec((1_i64..100_000_000, a_value()), 0..300),
    ) {
        let mut at = i64::from(start);
        let samples: Vec<Sample> = pairs
            .into_iter()
            .map(|(step, value)| {
                at += step;
                Sample::new(at, value)
            })
            .collect();
        check(&samples);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        if decode(&bytes, &mut out).is_ok() {
            prop_assert!(out.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms));
        }
    }

    #[test]
    fn a_flipped_bit_is_read_or_refused(bit in 0_usize..2000) {
        let mut bytes = encode(&at_15_s((0..200).map(|n| f64::from(n * n) / 10.0)));
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let _ = decode(&bytes, &mut Vec::new());
    }
}
