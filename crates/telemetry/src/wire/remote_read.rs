//! Prometheus' remote-read: [`decode`] what is asked, [`encode`] the samples. Fields are those of
//! `prometheus.ReadRequest` and `prometheus.ReadResponse`; only whole samples are answered, no chunks.

use tombolo_series::{Matcher, Op};

use super::protobuf::{Fields, put_message};
use super::remote_write::{decompress, put_series};
use super::{Error, Limits, Series};

/// Series and a span of time, both ends inside.
#[derive(Clone, Debug)]
pub struct ReadQuery {
    pub from_ms: i64,
    pub to_ms: i64,
    pub matchers: Vec<Matcher>,
}

/// A person's query has a few selectors; each is a query here.
const QUERIES_MAX: usize = 100;

/// Reads a body as it came, compressed.
pub fn decode(body: &[u8], limits: &Limits) -> Result<Vec<ReadQuery>, Error> {
    let bytes = decompress(body, limits)?;
    let mut queries = Vec::new();
    let mut fields = Fields(&bytes);
    while let Some((field, value)) = fields.next()? {
        if field == 1 {
            Limits::check(queries.len() + 1, QUERIES_MAX, "queries")?;
            queries.push(query(value.bytes()?, limits)?);
        }
    }
    Ok(queries)
}

fn query(bytes: &[u8], limits: &Limits) -> Result<ReadQuery, Error> {
    let mut query = ReadQuery { from_ms: 0, to_ms: 0, matchers: Vec::new() };
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => query.from_ms = value.signed()?,
            2 => query.to_ms = value.signed()?,
            3 => {
                Limits::check(query.matchers.len() + 1, limits.labels_max, "matchers")?;
                query.matchers.push(matcher(value.bytes()?)?);
            }
            _ => {}
        }
    }
    Ok(query)
}

fn matcher(bytes: &[u8]) -> Result<Matcher, Error> {
    let (mut op, mut name, mut pattern) = (Op::Equal, "", "");
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                op = match value.number()? {
                    0 => Op::Equal,
                    1 => Op::NotEqual,
                    2 => Op::Matches,
                    3 => Op::MatchesNot,
                    _ => return Err(Error::Malformed("a matcher is of an unknown kind")),
                }
            }
            2 => name = value.text()?,
            3 => pattern = value.text()?,
            _ => {}
        }
    }
    Matcher::new(name, op, pattern).map_err(|bad| Error::BadLabels(bad.to_string()))
}

/// The body of the answer, compressed: for each query its series.
pub fn encode(results: &[Vec<Series>]) -> Vec<u8> {
    let (mut all, mut result) = (Vec::new(), Vec::new());
    for series in results {
        result.clear();
        put_series(&mut result, series);
        put_message(&mut all, 1, &result);
    }
    let compressed = snap::raw::Encoder::new().compress_vec(&all);
    compressed.expect("an answer is shorter than the four gigabytes that snappy can say")
}

#[cfg(test)]
mod tests {
    use tombolo_series::{Labels, Sample};

    use super::super::protobuf::{put_bytes, put_number};
    use super::*;

    #[test]
    fn a_request_is_read() {
        let (mut matcher, mut query, mut request) = (Vec::new(), Vec::new(), Vec::new());
        put_number(&mut matcher, 1, 2);
        put_bytes(&mut matcher, 2, b"job");
        put_bytes(&mut matcher, 3, b"a|b");
        put_number(&mut query, 1, 5);
        put_number(&mut query, 2, 9);
        put_message(&mut query, 3, &matcher);
        put_message(&mut request, 1, &query);
        let body = snap::raw::Encoder::new().compress_vec(&request).unwrap();
        let queries = decode(&body, &Limits::default()).unwrap();
        assert_eq!((queries.len(), queries[0].from_ms, queries[0].to_ms), (1, 5, 9));
        assert_eq!(queries[0].matchers[0].to_string(), "job=~\"a|b\"");
    }

    #[test]
    fn an_answer_holds_what_a_write_of_the_same_series_holds() {
        let labels = Labels::new([("__name__", "up")]);
        let series = vec![Series { labels, samples: vec![Sample::new(5, 1.5)] }];
        let body = encode(std::slice::from_ref(&series));
        let bytes = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        let mut fields = Fields(&bytes);
        let (field, value) = fields.next().unwrap().unwrap();
        assert_eq!(field, 1);
        // A result is laid out as a message of remote-write 1.0.
        let again = snap::raw::Encoder::new().compress_vec(value.bytes().unwrap()).unwrap();
        let version = crate::wire::remote_write::Version::V1;
        let batch = crate::wire::remote_write::decode(version, &again, &Limits::default()).unwrap();
        assert_eq!(batch.series, series);
    }
}
