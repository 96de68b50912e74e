//! Bodies that have to be there whole: small ones, and not for long.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// A client that sends so little slower than this is not coming to an end.
const TIME_MAX: Duration = Duration::from_secs(30);
/// A client that is still writing when its connection is closed never sees the answer, so that some
/// of what is too much is read and thrown away. More than this is not waited for.
const SURPLUS_BYTES_MAX: usize = 1024 * 1024;

/// A body of JSON. The message of the parser may quote the body, and that may have a secret in it:
/// only the line is told.
pub(crate) async fn parse<T: DeserializeOwned>(body: Body, bytes_max: usize) -> Result<T, Failure> {
    let bytes = match tokio::time::timeout(TIME_MAX, collect(body, bytes_max)).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            let message = format!("the body could not be read, or has more than {bytes_max} bytes");
            return Err(Failure::new(413, "RequestEntityTooLarge", message));
        }
        Err(_) => return Err(Failure::new(408, "Timeout", "the body did not arrive in time")),
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::bad_request(format!("the body is not as expected, at line {}", error.line()))
    })
}

async fn collect(mut body: Body, bytes_max: usize) -> Option<Bytes> {
    if let Ok(whole) = Limited::new(&mut body, bytes_max).collect().await {
        return Some(whole.to_bytes());
    }
    let mut surplus = 0;
    while let Some(Ok(frame)) = body.frame().await {
        surplus += frame.data_ref().map_or(0, Bytes::len);
        if surplus > SURPLUS_BYTES_MAX {
            break;
        }
    }
    None
}
