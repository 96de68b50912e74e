//! Answers in pieces: what of an answer is not written yet is counted, and a stream that makes no
//! progress is known. [`super::layer`] wraps every answer to a socket; [`crate::serve`] ends what stands still.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Charge, Good, Payer, lock};
use crate::status::Failure;

/// HTTP/2 takes a piece whole as soon as its window has one byte of room: a thousand streams of one
/// connection hold so much each.
pub(crate) const PIECE_BYTES_MAX: usize = 32 * 1024;

/// What was counted for an answer before its first byte; among the extensions of the response.
#[derive(Clone, Debug)]
pub(crate) struct Prepaid(Arc<Mutex<Option<(Charge, Covers)>>>);

/// How much of the answer that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covers {
    All,
    /// More may follow, such as the events of a watch.
    Beginning,
}

impl Prepaid {
    pub(crate) fn all(charge: Charge) -> Prepaid {
        Prepaid(Arc::new(Mutex::new(Some((charge, Covers::All)))))
    }

    pub(crate) fn beginning(charge: Charge) -> Prepaid {
        Prepaid(Arc::new(Mutex::new(Some((charge, Covers::Beginning)))))
    }
}

tokio::task_local! {
    /// Of the HTTP/2 stream whose task this is.
    static PROGRESS: Progress;
}

/// Whether the client takes the pieces of an answer: of an HTTP/2 stream, or of an HTTP/1 connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Standing>);

#[derive(Debug, Default)]
struct Standing {
    pieces: Mutex<Pieces>,
    /// The last piece is written.
    all_written: Notify,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Handed on and not written yet.
    unwritten: usize,
    /// When the last of them was written, or the first handed on.
    since: Option<Instant>,
}

impl Progress {
    /// Runs a stream whose answer reports here.
    pub(crate) fn scope<F: Future>(&self, stream: F) -> impl Future<Output = F::Output> + use<F> {
        PROGRESS.scope(self.clone(), stream)
    }

    /// Ends when no piece was written for `limit` although some wait for it. To be polled after the
    /// stream in the same task, which is where pieces are handed on.
    pub(crate) async fn stands_still(&self, limit: Duration) {
        let mut alarm = pin!(sleep(limit));
        poll_fn(|ctx| {
            let Some(since) = lock(&self.0.pieces).since else { return Poll::Pending };
            if alarm.deadline() != since + limit {
                alarm.as_mut().reset(since + limit);
            }
            alarm.as_mut().poll(ctx)
        })
        .await;
    }

    /// Ends when everything that was handed on is written.
    pub(crate) async fn all_written(&self) {
        // A permit is kept when the last piece is written before anybody waits.
        while lock(&self.0.pieces).unwritten > 0 {
            self.0.all_written.notified().await;
        }
    }

    fn hand_on(&self) {
        let mut pieces = lock(&self.0.pieces);
        pieces.unwritten += 1;
        pieces.since.get_or_insert_with(Instant::now);
    }

    fn wrote(&self) {
        let mut pieces = lock(&self.0.pieces);
        pieces.unwritten -= 1;
        if pieces.unwritten > 0 {
            pieces.since = Some(Instant::now());
        } else {
            pieces.since = None;
            self.0.all_written.notify_one();
        }
    }
}

/// Counts the body of `response` until it is written; refuses it if the client has too much already.
pub(super) fn meter(
    mut response: Response,
    payer: &Payer,
    watch: Option<Charge>,
) -> Result<Response, Failure> {
    let prepaid = response.extensions_mut().remove::<Prepaid>();
    let prepaid = match prepaid.and_then(|prepaid| lock(&prepaid.0).take()) {
        Some(prepaid) => Some(prepaid),
        None => match response.body().size_hint().exact() {
            Some(0) => return Ok(response),
            Some(size) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                Some((payer.take(Good::AnswerBytes, size)?, Covers::All))
            }
            None => None,
        },
    };
    let payer = payer.clone();
    Ok(response.map(|inner| {
        Body::new(Metered { inner, rest: Bytes::new(), prepaid, payer, _watch: watch })
    }))
}

/// Holds something until the last byte of an answer is written, or given up.
pub(super) fn held<T: Send + Sync + 'static>(response: Response, held: T) -> Response {
    response.map(|inner| match inner.is_end_stream() {
        true => inner,
        false => Body::new(Held { inner, held: Arc::new(held) }),
    })
}

struct Held<T> {
    inner: Body,
    held: Arc<T>,
}

impl<T: Send + Sync + 'static> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(ctx);
        let held = self.held.clone();
        frame.map_ok(|frame| {
            frame.map_data(|bytes| Bytes::from_owner(Holding { bytes, _held: held }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

struct Holding<T> {
    bytes: Bytes,
    _held: Arc<T>,
}

impl<T> AsRef<[u8]> for Holding<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

struct Metered {
    inner: Body,
    /// What the inner body gave and was not handed on.
    rest: Bytes,
    prepaid: Option<(Charge, Covers)>,
    payer: Payer,
    _watch: Option<Charge>,
}

impl Metered {
    fn pay(&mut self, amount: usize) -> Result<Charge, Failure> {
        match &mut self.prepaid {
            Some((charge, Covers::All)) => Ok(charge.split(amount)),
            Some((charge, Covers::Beginning)) if charge.amount > 0 => Ok(charge.split(amount)),
            Some((_, Covers::Beginning)) | None => self.payer.take(Good::AnswerBytes, amount),
        }
    }

    /// Whether it must make progress. What flows for as long as a client likes, such as a log or the
    /// events of a watch, holds a piece and no more; a person may look at it for an hour.
    fn is_timed(&self) -> bool {
        match &self.prepaid {
            Some((_, Covers::All)) => true,
            Some((charge, Covers::Beginning)) => charge.amount > 0,
            None => false,
        }
    }
}

impl HttpBody for Metered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match Pin::new(&mut self.inner).poll_frame(ctx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(frame)) => frame?,
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES_MAX);
        let bytes = self.rest.split_to(length);
        let is_timed = self.is_timed();
        let charge = self.pay(length).map_err(|full| {
            axum::Error::new(io::Error::new(io::ErrorKind::QuotaExceeded, full.message))
        })?;
        let progress = is_timed.then(|| PROGRESS.try_with(Progress::clone).ok()).flatten();
        progress.iter().for_each(Progress::hand_on);
        let piece = Bytes::from_owner(Piece { bytes, progress, _charge: charge });
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.inner.size_hint();
        let rest = self.rest.len() as u64;
        let (lower, upper) = (hint.lower() + rest, hint.upper());
        // The upper end first: the lower one may not pass it.
        if let Some(upper) = upper {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(lower);
        hint
    }
}

/// Bytes on their way; what was counted for them is given back when they are written.
struct Piece {
    bytes: Bytes,
    /// Not there for what may wait as long as the client likes.
    progress: Option<Progress>,
    _charge: Charge,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.progress.iter().for_each(Progress::wrote);
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
