//! Watch: a stream of lines, one for each change, in the order of the revisions, without a gap
//! and without a duplicate. A watcher holds nothing but its place in the history that all share;
//! one that falls behind the history is told to list again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_document::protobuf;
use tombolo_identity::Permit;
use tombolo_store::{Event, Kind as Change, Object, Watch};

use crate::accept::{self, Representation};
use crate::encode;
use crate::gather::Gather;
use crate::metrics::Watching;
use crate::read::{ahead, included};
use crate::select::Selection;
use crate::server::Call;
use crate::status::Failure;
use crate::table::{self, Headings, IncludeObject};
use crate::time;
use crate::traffic::Prepaid;

/// Long enough to be rare, short enough that a dead connection is noticed.
const LIFE_DEFAULT: Duration = Duration::from_secs(45 * 60);
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a quiet watch says how far it has come.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch outlives the right to it at most.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// What one watcher may hold that was not sent yet; a frozen one costs this and no more.
const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// How much of the history a watcher with a selector looks through where its stream is: it takes well
/// under a millisecond.
const LIGHT_LOOK_BYTES: usize = 32 * 1024;
/// How much in one turn on a thread for heavy steps.
const HEAVY_LOOK_BYTES: usize = 1024 * 1024;

/// Where the stream begins.
enum Start {
    /// With everything that is there, then with what happens from then on.
    Present,
    /// With what happened after a revision.
    After(u64),
}

pub(crate) async fn answer(call: Call, _permit: &Permit) -> Result<Response, Failure> {
    let kind = &call.served.kind;
    let selection = Selection::new(kind, &call.target, &call.query)?.within(kind, &call.subject);
    let selection = Arc::new(selection);
    let shape = call.representation(accept::OF_A_WATCH)?;
    let include = included(&call)?;
    let content_type = match shape {
        Representation::Protobuf => protobuf::encode::STREAM_TYPE,
        _ => "application/json",
    };
    let mut pending = Vec::new();
    let mut charge = None;
    let start = start(&call)?;
    let revision = match start {
        Start::After(revision) => revision,
        Start::Present => {
            let gathered = Gather::all(&call, selection.clone()).run(&call).await?;
            charge = call.pay(gathered.bytes)?;
            pending = gathered.objects;
            pending.reverse();
            gathered.meta.revision
        }
    };
    let watch =
        call.api.store.watch(&selection.prefix, revision).map_err(|error| error.to_string());
    let asked = call.query.timeout_seconds.filter(|seconds| *seconds > 0);
    let life = asked.map_or(LIFE_DEFAULT, Duration::from_secs).min(LIFE_MAX);
    let now = Instant::now();
    let announce = call.query.send_initial_events == Some(true);
    let watching = call.api.metrics.watching();
    let state = Stream {
        call,
        _watching: watching,
        selection,
        shape,
        include,
        headings: Headings::Shown,
        pending,
        announce,
        events: VecDeque::new(),
        revision,
        reached: revision,
        watch,
        ends: now + life,
        bookmark_at: now + BOOKMARK_EVERY,
        check_at: now + CHECK_EVERY,
        done: false,
    };
    let lines = stream::unfold(state, |state| async move {
        let (chunk, state) = state.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(chunk), state))
    });
    let mut response = Body::from_stream(lines).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(charge) = charge {
        response.extensions_mut().insert(Prepaid::beginning(charge));
    }
    Ok(response)
}

fn start(call: &Call) -> Result<Start, Failure> {
    let revision = call.query.resource_version.unwrap_or(0);
    let current = call.api.store.revision();
    if revision > current {
        return Err(ahead(revision, current));
    }
    match (call.query.send_initial_events, revision) {
        (Some(true), _) | (None, 0) => Ok(Start::Present),
        (Some(false), 0) => Ok(Start::After(current)),
        (_, revision) => Ok(Start::After(revision)),
    }
}

/// What must be parsed to know what a change means to a watcher with a selector.
fn look_bytes(event: &Event) -> usize {
    event.object.bytes.len() + event.previous.as_ref().map_or(0, |object| object.bytes.len())
}

struct Stream {
    call: Call,
    /// For as long as the stream lasts.
    _watching: Watching,
    selection: Arc<Selection>,
    shape: Representation,
    include: IncludeObject,
    headings: Headings,
    /// What was there at the start and was not sent yet, last first.
    pending: Vec<Arc<Object>>,
    /// Whether the end of the beginning has still to be announced.
    announce: bool,
    /// Changes that were taken from the history and not sent yet. They are shared with it.
    events: VecDeque<Event>,
    /// Up to here everything was sent.
    revision: u64,
    /// Up to here everything was taken from the history.
    reached: u64,
    /// The history, or why it cannot be had.
    watch: Result<Watch, String>,
    ends: Instant,
    bookmark_at: Instant,
    /// When to look again whether the watcher may still watch.
    check_at: Instant,
    done: bool,
}

impl Stream {
    /// The next lines, and the stream after them; `None` when the watch is over.
    async fn next(mut self) -> Option<(Bytes, Stream)> {
        let mut lines = BytesMut::new();
        if !self.pending.is_empty() {
            while lines.len() < CHUNK_BYTES_MAX
                && let Some(object) = self.pending.pop()
            {
                let bytes = encode::in_version(&self.call.served.kind, &object);
                self.line(&mut lines, "ADDED", &bytes);
            }
            return Some((lines.freeze(), self));
        }
        if self.announce {
            self.announce = false;
            self.bookmark(&mut lines, json!({"k8s.io/initial-events-end": "true"}));
            return Some((lines.freeze(), self));
        }
        loop {
            self.drain(&mut lines, LIGHT_LOOK_BYTES);
            if lines.is_empty() && !self.events.is_empty() {
                (self, lines) = self.look_further().await?;
            }
            if !lines.is_empty() {
                return Some((lines.freeze(), self));
            }
            if !self.events.is_empty() {
                continue;
            }
            if self.done {
                return None;
            }
            self.wait(&mut lines).await;
        }
    }

    /// Writes as many of the changes at hand as one chunk holds and `look_bytes_max` allow to look at.
    fn drain(&mut self, lines: &mut BytesMut, look_bytes_max: usize) {
        let mut looked_at_bytes = 0;
        while lines.len() < CHUNK_BYTES_MAX
            && let Some(event) = self.events.front()
        {
            if !self.selection.takes_all() {
                looked_at_bytes += look_bytes(event);
            }
            if looked_at_bytes > look_bytes_max {
                break;
            }
            if let Some(event) = self.events.pop_front() {
                self.revision = event.revision();
                self.event(lines, &event);
            }
        }
        if self.events.is_empty() {
            self.revision = self.reached;
        }
    }

    /// Goes on where others do not wait for it: much has happened, or something large. `None` only if
    /// the step has failed by a bug.
    async fn look_further(mut self) -> Option<(Stream, BytesMut)> {
        let mut lines = BytesMut::new();
        let turn = match self.call.api.traffic.turn(&self.call.flow()).await {
            Ok(turn) => turn,
            Err(failure) => {
                self.events.clear();
                self.end_with(&mut lines, &failure);
                return Some((self, lines));
            }
        };
        let step = move || {
            // Each turn gets on, by a large object if need be.
            let next = self.events.front().map_or(0, look_bytes);
            self.drain(&mut lines, HEAVY_LOOK_BYTES.max(next));
            (self, lines)
        };
        turn.work(step).await.ok()
    }

    async fn wait(&mut self, lines: &mut BytesMut) {
        let watch = match &mut self.watch {
            Ok(watch) => watch,
            Err(problem) => {
                let problem = problem.clone();
                return self.end_with(lines, &Failure::expired(problem));
            }
        };
        // Timers first: a stream that is never quiet must not put them off.
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.check_at) => {
                self.check_at = Instant::now() + CHECK_EVERY;
                if let Err(failure) = self.call.still_allowed() {
                    self.end_with(lines, &failure);
                }
            }
            () = tokio::time::sleep_until(self.ends) => {
                self.done = true;
                if self.call.query.bookmarks {
                    self.bookmark(lines, json!({}));
                }
            }
            () = tokio::time::sleep_until(self.bookmark_at) => {
                self.bookmark_at = Instant::now() + BOOKMARK_EVERY;
                if self.call.query.bookmarks {
                    self.bookmark(lines, json!({}));
                }
            }
            batch = watch.next() => match batch {
                Ok(batch) => {
                    self.reached = batch.revision;
                    self.events.extend(batch.events);
                }
                Err(error) => self.end_with(lines, &Failure::expired(error.to_string())),
            },
        }
    }

    /// What a change means to this watcher: an object may come into its selection and leave it.
    fn event(&mut self, lines: &mut BytesMut, event: &Event) {
        let was = event.previous.as_ref().is_some_and(|object| self.selection.matches(object));
        let is = event.kind != Change::Deleted && self.selection.matches(&event.object);
        let served = self.call.served.clone();
        let now = || encode::in_version(&served.kind, &event.object);
        match (was, is) {
            (false, false) => (),
            (false, true) => self.line(lines, "ADDED", &now()),
            (true, true) => self.line(lines, "MODIFIED", &now()),
            (true, false) if event.kind == Change::Deleted => self.line(lines, "DELETED", &now()),
            // It lives on outside of the selection: the watcher sees its last state inside.
            (true, false) => {
                let Some(previous) = &event.previous else { return };
                let mut value = encode::parse_in_version(&served.kind, previous);
                value["metadata"]["resourceVersion"] = json!(event.revision().to_string());
                self.line(lines, "DELETED", &encode::to_bytes(&value));
            }
        }
    }

    fn line(&mut self, lines: &mut BytesMut, type_: &str, object: &Bytes) {
        let parse = || -> Value { serde_json::from_slice(object).unwrap_or_default() };
        match self.shape {
            Representation::Table => {
                let value = self.table(&parse());
                encode::watch_line(lines, type_, &encode::to_bytes(&value));
            }
            Representation::PartialObject | Representation::PartialObjectList => {
                let value = table::partial_object(&parse());
                encode::watch_line(lines, type_, &encode::to_bytes(&value));
            }
            Representation::Protobuf => {
                lines.extend_from_slice(&protobuf::encode::watch_frame(type_, &parse()));
            }
            _ => encode::watch_line(lines, type_, object),
        }
    }

    /// What is no object of the kind in full, whatever else the watch carries.
    fn say(&self, lines: &mut BytesMut, type_: &str, value: &Value) {
        match self.shape {
            Representation::Protobuf => {
                lines.extend_from_slice(&protobuf::encode::watch_frame(type_, value));
            }
            _ => encode::watch_line(lines, type_, &encode::to_bytes(value)),
        }
    }

    /// The first table of a stream has headings.
    fn table(&mut self, object: &Value) -> Value {
        let headings = std::mem::replace(&mut self.headings, Headings::LeftOut);
        self.call.served.columns.one(object, self.include, headings, time::timestamp())
    }

    fn bookmark(&mut self, lines: &mut BytesMut, annotations: Value) {
        let kind = &self.call.served.kind;
        let mut object = json!({
            "kind": kind.kind, "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": self.revision.to_string(), "creationTimestamp": null},
        });
        if annotations.as_object().is_some_and(|map| !map.is_empty()) {
            object["metadata"]["annotations"] = annotations;
        }
        let object = match self.shape {
            Representation::Table => self.table(&object),
            // Whoever asked for metadata alone knows no other kind.
            Representation::PartialObject | Representation::PartialObjectList => {
                table::partial_object(&object)
            }
            _ => object,
        };
        self.say(lines, "BOOKMARK", &object);
    }

    fn end_with(&mut self, lines: &mut BytesMut, failure: &Failure) {
        self.done = true;
        self.say(lines, "ERROR", &failure.to_json());
    }
}
