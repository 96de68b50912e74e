//! The body of a request, lent to its handler. A handler that refuses a request does not read its
//! body; but a client that is still sending when its connection is closed, or its stream is reset,
//! often never sees the answer. So the rest is read and thrown away before the answer goes out.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::timeout;

/// Who sends even more than this in vain finds the connection closed.
const SURPLUS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A client that takes longer is not waiting for the answer.
const SURPLUS_TIME_MAX: Duration = Duration::from_secs(5);

/// What stays with the lender; nothing if there is no body.
pub(super) struct Loan(Option<Arc<Lent>>);

struct Lent {
    body: Mutex<Incoming>,
    /// The client sends its body only when it is asked for.
    on_demand: bool,
    touched: AtomicBool,
}

pub(super) fn lend(request: Request<Incoming>) -> (Request<Body>, Loan) {
    if request.body().is_end_stream() {
        return (request.map(Body::new), Loan(None));
    }
    let (parts, body) = request.into_parts();
    let lent = Arc::new(Lent {
        body: Mutex::new(body),
        on_demand: parts.headers.contains_key(EXPECT),
        touched: AtomicBool::new(false),
    });
    let body = Body::new(Borrowed(lent.clone()));
    (Request::from_parts(parts, body), Loan(Some(lent)))
}

impl Loan {
    /// Reads what the handler has left, within bounds.
    pub(super) async fn read_to_the_end(self) {
        let Some(lent) = self.0 else { return };
        if lent.on_demand && !lent.touched.load(Ordering::Relaxed) {
            return;
        }
        let mut rest = Borrowed(lent);
        let mut surplus = 0;
        let reading = async {
            while surplus <= SURPLUS_BYTES_MAX
                && let Some(Ok(frame)) = rest.frame().await
            {
                surplus += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        // The answer is the same, whether or not it was the end.
        let _ = timeout(SURPLUS_TIME_MAX, reading).await;
    }
}

struct Borrowed(Arc<Lent>);

impl Borrowed {
    fn with<T>(&self, look: impl FnOnce(Pin<&mut Incoming>) -> T) -> T {
        let mut body = self.0.body.lock().unwrap_or_else(PoisonError::into_inner);
        look(Pin::new(&mut *body))
    }
}

impl HttpBody for Borrowed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0.touched.store(true, Ordering::Relaxed);
        self.with(|body| body.poll_frame(ctx))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}
