//! Large answers as gzip, for clients that accept it. [`crate::server`] sends every answer through here.

use std::io::Write as _;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt as _;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;

/// As in Kubernetes: what is smaller has arrived before it would be compressed.
const BYTES_MIN: u64 = 128 * 1024;
/// So much is compressed in one go, in less than a millisecond: others wait for the thread.
const PIECE_BYTES: usize = 32 * 1024;

/// About how large a body is that comes in pieces; among the extensions of a response that may be compressed.
/// Without it nothing is: a watch must not wait for its next event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected(pub usize);

pub(crate) fn accepts(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// For a client that accepts it.
pub(crate) fn compressed(response: Response) -> Response {
    let expected = response.extensions().get::<Expected>().map(|bytes| bytes.0 as u64);
    let bytes = response.body().size_hint().exact().or(expected).unwrap_or(0);
    let is_plain = !response.headers().contains_key(CONTENT_ENCODING);
    if response.status() != StatusCode::OK || !is_plain || bytes < BYTES_MIN {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let shrinking =
        Shrinking { pieces: body.into_data_stream(), rest: Bytes::new(), encoder: Some(encoder) };
    let stream = futures::stream::unfold(shrinking, Shrinking::next);
    Response::from_parts(parts, Body::from_stream(stream))
}

struct Shrinking {
    pieces: BodyDataStream,
    /// What was taken from the body and is still to be compressed.
    rest: Bytes,
    /// `None` after the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Shrinking {
    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, Shrinking)> {
        loop {
            if self.rest.is_empty() {
                match self.pieces.next().await {
                    Some(Ok(piece)) => self.rest = piece,
                    Some(Err(error)) => {
                        self.encoder = None;
                        return Some((Err(error), self));
                    }
                    None => {
                        let end = self.encoder.take()?.finish().map_err(axum::Error::new);
                        return Some((end.map(Bytes::from), self));
                    }
                }
            }
            let encoder = self.encoder.as_mut()?;
            let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
            encoder.write_all(&piece).expect("memory takes all that is written");
            let made = std::mem::take(encoder.get_mut());
            if !made.is_empty() {
                return Some((Ok(made.into()), self));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn it_is_accepted_by_name() {
        let check = |text: &'static str, expected: bool| {
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(text))].into_iter().collect();
            assert_eq!(accepts(&headers), expected, "{text}");
        };
        check("gzip", true);
        check("deflate, GZIP;q=0.5", true);
        check("gzip;q=0, identity", false);
        check("deflate", false);
        assert!(!accepts(&HeaderMap::new()));
    }

    async fn sent(body: Body, expected: Option<usize>) -> (bool, Vec<u8>) {
        let mut response = Response::new(body);
        if let Some(bytes) = expected {
            response.extensions_mut().insert(Expected(bytes));
        }
        let response = compressed(response);
        let is_small = response.headers().contains_key(CONTENT_ENCODING);
        (is_small, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("it is gzip");
        plain
    }

    #[tokio::test]
    async fn what_is_large_is_compressed_and_comes_back_as_it_was() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let (is_small, bytes) = sent(Body::from(text.clone()), None).await;
        assert!(is_small && bytes.len() < text.len());
        assert_eq!(unpacked(&bytes), text);

        let pieces: Vec<Bytes> = text.chunks(7000).map(Bytes::copy_from_slice).collect();
        let body = || {
            let pieces = pieces.clone().into_iter().map(Ok::<Bytes, std::io::Error>);
            Body::from_stream(futures::stream::iter(pieces))
        };
        let (is_small, bytes) = sent(body(), Some(text.len())).await;
        assert!(is_small);
        assert_eq!(unpacked(&bytes), text);
        // A watch says nothing of its length.
        assert!(!sent(body(), None).await.0);
        assert!(!sent(Body::from(text[..1000].to_vec()), None).await.0);
    }
}
