//! Points in time and durations, in the forms of RFC 3339 and of Go.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, Value};

pub(super) const ROWS: &[Row] = &[
    ("timestamp", "string", "timestamp", to_timestamp),
    ("timestamp", "timestamp", "timestamp", to_timestamp),
    ("timestamp", "int", "timestamp", to_timestamp),
    ("duration", "string", "duration", to_duration),
    ("duration", "duration", "duration", to_duration),
    ("_+_", "timestamp, duration", "timestamp", plus),
    ("_+_", "duration, timestamp", "timestamp", plus),
    ("_+_", "duration, duration", "duration", plus),
    ("_-_", "timestamp, timestamp", "duration", minus),
    ("_-_", "timestamp, duration", "timestamp", minus),
    ("_-_", "duration, duration", "duration", minus),
    ("getFullYear", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.year()))),
    ("getMonth", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.month()) - 1)),
    ("getDate", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.day()))),
    ("getDayOfMonth", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.day()) - 1)),
    ("getDayOfWeek", "timestamp . ", "int", |v, _| part(v, weekday)),
    ("getDayOfYear", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.day_of_year()) - 1)),
    ("getHours", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.hour()))),
    ("getMinutes", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.minute()))),
    ("getSeconds", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.second()))),
    ("getMilliseconds", "timestamp . ", "int", |v, _| part(v, |t| i64::from(t.millisecond()))),
    ("getFullYear", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.year()))),
    ("getMonth", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.month()) - 1)),
    ("getDate", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.day()))),
    ("getDayOfMonth", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.day()) - 1)),
    ("getDayOfWeek", "timestamp . string", "int", |v, _| part(v, weekday)),
    ("getDayOfYear", "timestamp . string", "int", |v, _| {
        part(v, |t| i64::from(t.day_of_year()) - 1)
    }),
    ("getHours", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.hour()))),
    ("getMinutes", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.minute()))),
    ("getSeconds", "timestamp . string", "int", |v, _| part(v, |t| i64::from(t.second()))),
    ("getMilliseconds", "timestamp . string", "int", |v, _| {
        part(v, |t| i64::from(t.millisecond()))
    }),
    ("getHours", "duration . ", "int", |v, _| length(v, 3_600_000)),
    ("getMinutes", "duration . ", "int", |v, _| length(v, 60_000)),
    ("getSeconds", "duration . ", "int", |v, _| length(v, 1_000)),
    ("getMilliseconds", "duration . ", "int", |v, _| length(v, 1)),
];

fn to_timestamp<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Timestamp(time)] => Ok(Value::Timestamp(*time)),
        [Value::String(text)] => parse_timestamp(text).map(Value::Timestamp),
        [Value::Int(seconds)] => match Timestamp::from_second(*seconds) {
            Ok(time) => Ok(Value::Timestamp(time)),
            Err(_) => failed("timestamp overflow"),
        },
        _ => failed("unexpected arguments"),
    }
}

fn to_duration<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Duration(duration)] => Ok(Value::Duration(*duration)),
        [Value::String(text)] => parse_duration(text).map(Value::Duration),
        _ => failed("unexpected arguments"),
    }
}

/// A point in time, or a day, which begins at midnight.
pub(crate) fn parse_timestamp(text: &str) -> Result<Timestamp, EvalError> {
    let wrong = |_| EvalError::failed(format!("invalid timestamp {text:?}"));
    if text.len() == "2006-01-02".len() {
        let day: Date = text.parse().map_err(wrong)?;
        return Ok(day.to_zoned(TimeZone::UTC).map_err(wrong)?.timestamp());
    }
    text.parse().map_err(wrong)
}

/// `1h30m`, `-1.5s`, `100ms`, `0`, in the range of Go: so many nanoseconds as 64 bits hold.
pub(crate) fn parse_duration(text: &str) -> Result<SignedDuration, EvalError> {
    const UNITS: &[(&str, f64, i128)] = &[
        ("ns", 1.0, 1),
        ("us", 1e3, 1_000),
        ("µs", 1e3, 1_000),
        ("ms", 1e6, 1_000_000),
        ("s", 1e9, 1_000_000_000),
        ("m", 6e10, 60_000_000_000),
        ("h", 3.6e12, 3_600_000_000_000),
    ];
    let wrong = || EvalError::failed(format!("invalid duration {text:?}"));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let (mut total, mut rest) = (0_i128, unsigned);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let whole: i128 =
            if digits == 0 { 0 } else { rest[..digits].parse().map_err(|_| wrong())? };
        let mut after = &rest[digits..];
        let mut fraction = 0.0;
        let mut has_digits = digits > 0;
        if let Some(decimals) = after.strip_prefix('.') {
            let length =
                decimals.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
            has_digits |= length > 0;
            fraction = format!("0.{}0", &decimals[..length]).parse().map_err(|_| wrong())?;
            after = &decimals[length..];
        }
        let length = after.find(|letter: char| letter == '.' || letter.is_ascii_digit());
        let (unit, left) = after.split_at(length.unwrap_or(after.len()));
        let (_, double, nanoseconds) =
            UNITS.iter().find(|(name, ..)| *name == unit).ok_or_else(wrong)?;
        if !has_digits {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, reason = "less than one hour")]
        let part = (fraction * double) as i128;
        let more = whole.checked_mul(*nanoseconds).and_then(|more| more.checked_add(part));
        total = more.and_then(|more| total.checked_add(more)).ok_or_else(wrong)?;
        rest = left;
    }
    let total = if text.starts_with('-') { -total } else { total };
    i64::try_from(total).map(SignedDuration::from_nanos).map_err(|_| wrong())
}

fn plus<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Timestamp(time), Value::Duration(duration)]
        | [Value::Duration(duration), Value::Timestamp(time)] => moved(*time, *duration),
        [Value::Duration(one), Value::Duration(other)] => lasting(one.checked_add(*other)),
        _ => failed("unexpected arguments"),
    }
}

fn minus<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Timestamp(one), Value::Timestamp(other)] => {
            lasting(Some(one.duration_since(*other)))
        }
        [Value::Timestamp(time), Value::Duration(duration)] => match duration.checked_neg() {
            Some(back) => moved(*time, back),
            None => failed("timestamp overflow"),
        },
        [Value::Duration(one), Value::Duration(other)] => lasting(one.checked_sub(*other)),
        _ => failed("unexpected arguments"),
    }
}

fn moved<'a>(time: Timestamp, duration: SignedDuration) -> Evaluated<'a> {
    match time.checked_add(duration) {
        Ok(time) => Ok(Value::Timestamp(time)),
        Err(_) => failed("timestamp overflow"),
    }
}

fn lasting<'a>(duration: Option<SignedDuration>) -> Evaluated<'a> {
    let fits = |duration: &SignedDuration| i64::try_from(duration.as_nanos()).is_ok();
    match duration.filter(fits) {
        Some(duration) => Ok(Value::Duration(duration)),
        None => failed("duration overflow"),
    }
}

/// Where no time zone is named, in UTC. Zones by name would need a table of them: offsets only.
fn part<'a>(values: &[Value<'a>], of: fn(&Zoned) -> i64) -> Evaluated<'a> {
    let (time, zone) = match values {
        [Value::Timestamp(time)] => (time, TimeZone::UTC),
        [Value::Timestamp(time), Value::String(zone)] => (time, parse_zone(zone)?),
        _ => return failed("unexpected arguments"),
    };
    Ok(Value::Int(of(&time.to_zoned(zone))))
}

fn parse_zone(text: &str) -> Result<TimeZone, EvalError> {
    if matches!(text, "UTC" | "" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let wrong = || {
        EvalError::failed(format!("unknown time zone {text:?}: an offset such as +02:00 is known"))
    };
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let is_negative = hours.starts_with('-');
    let hours: i32 = hours.parse().map_err(|_| wrong())?;
    let minutes: i32 = minutes.parse().map_err(|_| wrong())?;
    if !(0..60).contains(&minutes) || hours.abs() > 24 {
        return Err(wrong());
    }
    let minutes = if is_negative { -minutes } else { minutes };
    let offset = Offset::from_seconds(hours * 3600 + minutes * 60).map_err(|_| wrong())?;
    Ok(TimeZone::fixed(offset))
}

fn weekday(time: &Zoned) -> i64 {
    i64::from(time.weekday().to_sunday_zero_offset())
}

fn length<'a>(values: &[Value<'a>], milliseconds: i128) -> Evaluated<'a> {
    arguments!(values, [Value::Duration(duration)]);
    let whole = duration.as_millis() / milliseconds;
    i64::try_from(whole).map(Value::Int).map_err(|_| EvalError::failed("duration overflow"))
}
