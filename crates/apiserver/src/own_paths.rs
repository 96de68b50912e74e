//! What the Kubernetes protocol has no word for: backup, restore, the audit record and metrics.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::TryStreamExt;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde_json::{Value, json};
use tombolo_identity::Permit;
use tombolo_seal::{Key, Reader, Writer};

use crate::answer::Answer;
use crate::request::Query;
use crate::restore::{self, Access};
use crate::server::Api;
use crate::status::Failure;
use crate::{metrics, time};

/// Rows of the audit record in one answer.
const AUDIT_ROWS_MAX: usize = 10_000;
/// Of a backup in memory at once.
const PIECE_BYTES: usize = 64 * 1024;
/// The largest backup that is taken back over the wire.
const BACKUP_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// A request to a path of our own, allowed.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub permit: Permit,
    pub parts: &'a Parts,
    pub query: &'a Query,
}

pub(crate) async fn answer(
    api: &Api,
    asked: Asked<'_>,
    operation: &str,
    body: Body,
) -> Result<Response, Failure> {
    match (operation, asked.parts.method.as_str()) {
        ("backup", "GET") => backup(api, &asked.permit).await,
        ("restore", "POST") => {
            restore(api, &asked.permit, asked.query.access.unwrap_or_default(), body).await
        }
        ("audit", "GET") => audit(api, asked.query).await,
        ("metrics", "GET") => Ok(metrics::answer(api).into_response()),
        ("backup" | "restore" | "audit" | "metrics", method) => {
            let message = format!("{method} is not possible on /tombolo/{operation}");
            Err(Failure::new(405, "MethodNotAllowed", message))
        }
        _ => Err(Failure::no_such_path()),
    }
}

/// The backup goes to a file without a name first: memory stays small however large it is.
async fn backup(api: &Api, permit: &Permit) -> Result<Response, Failure> {
    // Whoever takes everything along leaves a trace before. But where the disk is full, a backup may
    // be the way out, and it is given without.
    if let Err(failure) = crate::bootstrap::note_backup(api, &permit.subject().name).await {
        tracing::error!(
            why = failure.message,
            "a backup is made that the audit record does not have"
        );
    }
    let store = api.store.clone();
    let spooled = tokio::task::spawn_blocking(move || -> std::io::Result<Reader<std::fs::File>> {
        let mut spool = Spool::new()?;
        store.backup(&mut spool.writer).map_err(std::io::Error::other)?;
        spool.rewound()
    });
    let failed = |why: String| Failure::internal(format!("the backup failed: {why}"));
    let spooled = spooled.await.map_err(|error| failed(error.to_string()))?;
    let spooled = spooled.map_err(|error| failed(error.to_string()))?;
    let body = Body::from_stream(futures::stream::try_unfold(spooled, next_piece));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

async fn next_piece(
    mut spooled: Reader<std::fs::File>,
) -> std::io::Result<Option<(Bytes, Reader<std::fs::File>)>> {
    let reading = tokio::task::spawn_blocking(move || {
        let mut piece = vec![0; PIECE_BYTES];
        let length = spooled.read(&mut piece)?;
        piece.truncate(length);
        Ok((length > 0).then(|| (Bytes::from(piece), spooled)))
    });
    reading.await.map_err(std::io::Error::other)?
}

/// A file without a name that holds Secrets for a moment, sealed with a key that is in memory alone: what
/// is left of it on the disk is worth nothing.
struct Spool {
    writer: Writer<std::fs::File>,
    key: Key,
}

impl Spool {
    fn new() -> std::io::Result<Spool> {
        let key = Key::generate()?;
        Ok(Spool { writer: Writer::new(tempfile::tempfile()?, &key)?, key })
    }

    fn rewound(self) -> std::io::Result<Reader<std::fs::File>> {
        let mut file = self.writer.finish()?;
        std::io::Seek::rewind(&mut file)?;
        Ok(Reader::new(file, &self.key)?)
    }
}

async fn restore(
    api: &Api,
    permit: &Permit,
    access: Access,
    body: Body,
) -> Result<Response, Failure> {
    let refused = |why: String| Failure::bad_request(format!("nothing was restored: {why}"));
    let file = spool(body).await.map_err(|error| refused(error.to_string()))?;
    let amend = restore::amend(access, time::now());
    let restored = api.store.restore(file, amend).await;
    let revision = restored.map_err(|error| refused(error.to_string()))?;
    api.registry.reload(&api.store);
    crate::bootstrap::run(api).await?;
    crate::bootstrap::note_restore(api, &permit.subject().name, revision, access).await?;
    Ok(Answer::value(&json!({"revision": revision})).into_response())
}

async fn spool(body: Body) -> std::io::Result<Reader<std::fs::File>> {
    let mut spool = Spool::new()?;
    let mut stream = body.into_data_stream().map_err(std::io::Error::other);
    let mut size = 0;
    while let Some(chunk) = stream.try_next().await? {
        size += chunk.len() as u64;
        if size > BACKUP_BYTES_MAX {
            return Err(std::io::Error::other("the backup is larger than 4 GiB"));
        }
        spool.writer.write_all(&chunk)?;
    }
    spool.rewound()
}

/// One JSON object a line: the revision that a write led to, and who wrote what.
async fn audit(api: &Api, query: &Query) -> Result<Response, Failure> {
    let limit = query.limit.unwrap_or(AUDIT_ROWS_MAX).min(AUDIT_ROWS_MAX);
    let rows =
        api.store.audit(query.after.unwrap_or(0), limit).await.map_err(|error| {
            Failure::internal(format!("the audit record cannot be read: {error}"))
        })?;
    let mut lines = Vec::new();
    for (revision, note) in rows {
        let mut row: Value = serde_json::from_slice(&note).unwrap_or_default();
        row["to"] = json!(revision);
        lines.extend_from_slice(row.to_string().as_bytes());
        lines.push(b'\n');
    }
    let answer = Answer::text(Bytes::from(lines));
    Ok(Answer { content_type: "application/x-ndjson", ..answer }.into_response())
}
