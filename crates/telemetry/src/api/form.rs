//! The parameters of a request, from its query and from a form in its body, and how times and durations are
//! written in them.

use std::time::Duration;

use axum::extract::FromRequest;
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use tombolo_series::promql;

use super::refusal::Refusal;

/// A form of more is not written by a person, nor by a dashboard.
const FORM_BYTES_MAX: usize = 2 << 20;

/// What was asked; those of the body come first.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let mut form = Self::default();
        if parts.method == Method::POST {
            let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
                let bytes = axum::body::to_bytes(body, FORM_BYTES_MAX).await;
                let bytes = bytes.map_err(|_| {
                    Refusal::body_too_large(format!("a form has at most {FORM_BYTES_MAX} bytes"))
                })?;
                let text = std::str::from_utf8(&bytes);
                form.add(text.map_err(|_| Refusal::bad_data("the form is not UTF-8"))?);
            }
        }
        form.add(parts.uri.query().unwrap_or_default());
        Ok(form)
    }
}

impl Form {
    pub(super) fn of_query(query: Option<&str>) -> Self {
        let mut form = Self::default();
        form.add(query.unwrap_or_default());
        form
    }

    fn add(&mut self, text: &str) {
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.0.push((plain(name), plain(value)));
        }
    }

    /// The first of this name; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Milliseconds, if the time was given.
    pub(super) fn time(&self, name: &str) -> Result<Option<i64>, Refusal> {
        match self.get(name) {
            "" => Ok(None),
            text => time(text).map(Some).map_err(|problem| Refusal::parameter(name, problem)),
        }
    }

    pub(super) fn wanted_time(&self, name: &str) -> Result<i64, Refusal> {
        time(self.get(name)).map_err(|problem| Refusal::parameter(name, problem))
    }

    /// How many at most; all if nothing is said.
    pub(super) fn limit(&self, name: &str) -> Result<usize, Refusal> {
        match self.get(name) {
            "" => Ok(usize::MAX),
            text => match text.parse::<i64>() {
                Err(_) => {
                    Err(Refusal::parameter(name, format!("cannot parse {text:?} to a number")))
                }
                Ok(number) if number < 0 => {
                    Err(Refusal::parameter(name, "limit must be non-negative"))
                }
                Ok(0) => Ok(usize::MAX),
                Ok(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
            },
        }
    }
}

fn plain(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

/// Seconds since 1970, or a time as RFC 3339 writes it; in milliseconds.
pub(super) fn time(text: &str) -> Result<i64, String> {
    const SECONDS_MAX: f64 = 9.2e15;
    if let Ok(seconds) = text.parse::<f64>()
        && seconds.is_finite()
        && seconds.abs() < SECONDS_MAX
    {
        return Ok(milliseconds(seconds));
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(time.as_millisecond()),
        Err(_) => Err(format!("cannot parse {text:?} to a valid timestamp")),
    }
}

/// Seconds, or a duration as PromQL writes it; in milliseconds.
pub(super) fn duration(text: &str) -> Result<i64, String> {
    let seconds = text.parse::<f64>().ok().or_else(|| promql::duration(text).ok());
    match seconds.filter(|seconds| seconds.is_finite() && seconds.abs() < 9.2e9) {
        Some(seconds) => Ok(milliseconds(seconds)),
        None => Err(format!("cannot parse {text:?} to a valid duration")),
    }
}

/// The same as a `Duration`, for deadlines.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    duration(text).map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()))
}

#[expect(clippy::cast_possible_truncation, reason = "it was checked to be far from the bounds")]
fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_read_in_both_ways() {
        assert_eq!(time("1700000000.123"), Ok(1_700_000_000_123));
        assert_eq!(time("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert_eq!(time("2023-11-14T23:13:20.5+01:00"), Ok(1_700_000_000_500));
        for wrong in ["", "x", "NaN", "Inf", "1e300", "2023"] {
            assert!(wrong == "2023" || time(wrong).is_err(), "{wrong}");
        }
        assert_eq!((duration("15"), duration("1m30s")), (Ok(15_000), Ok(90_000)));
        assert!(duration("1x").is_err() && duration("").is_err() && duration("1e100").is_err());
    }

    #[test]
    fn a_parameter_may_come_several_times() {
        let form = Form::of_query(Some("match[]=a%7Bb%3D%22c%22%7D&match%5B%5D=up+1&limit=3"));
        let all: Vec<&str> = form.all("match[]").collect();
        assert_eq!(all, ["a{b=\"c\"}", "up 1"]);
        assert_eq!(form.limit("limit").unwrap(), 3);
        assert_eq!(form.get("none"), "");
    }
}
