//! What the Kubernetes protocol has no word for: health, backup, restore, the audit record, the
//! joining of machines, the list of controllers and the errands of agents.

use std::io::Write as _;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::TryStreamExt;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde_json::{Value, json};
use tombolo_identity::Permit;

use crate::answer::Answer;
use crate::errands::listen;
use crate::request::Query;
use crate::server::{Api, peer};
use crate::status::Failure;
use crate::{joining, lighthouse};

/// Rows of the audit record in one answer.
const AUDIT_ROWS_MAX: usize = 10_000;
/// The largest backup that is taken back over the wire.
const BACKUP_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// `/livez`, `/readyz` and `/healthz` tell only whether, so that anybody may ask.
pub(crate) fn health(api: &Api, path: &str, query: &Query) -> Response {
    if path.starts_with("/readyz") && api.store.is_closed() {
        let failure = Failure::new(503, "ServiceUnavailable", "the store is closed");
        return failure.into_response();
    }
    if !query.verbose {
        return Answer::text("ok").into_response();
    }
    let name = path.trim_matches('/').split('/').next().unwrap_or_default();
    Answer::text(format!("[+]store ok\n{name} check passed\n")).into_response()
}

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
        ("backup", "GET") => backup(api).await,
        ("restore", "POST") => restore(api, &asked.permit, body).await,
        ("audit", "GET") => audit(api, asked.query).await,
        ("join", "POST") => joining::join(api, peer(asked.parts), body).await,
        ("nonce", "GET") => joining::nonce(api),
        ("renew", "POST") => joining::renew(api, peer(asked.parts), body).await,
        ("controllers", "GET") => lighthouse::list(api),
        ("controllers", "POST") => lighthouse::register(api, &asked.permit, body).await,
        ("errands", "GET") => listen::wait(api, &asked.permit, asked.parts),
        ("errands", "POST") => {
            let id = asked.query.id.as_deref().unwrap_or_default();
            listen::answer(api, &asked.permit, id, body)
        }
        (
            "backup" | "restore" | "audit" | "join" | "nonce" | "renew" | "controllers" | "errands",
            method,
        ) => {
            let message = format!("{method} is not possible on /tombolo/{operation}");
            Err(Failure::new(405, "MethodNotAllowed", message))
        }
        _ => Err(Failure::no_such_path()),
    }
}

/// The backup goes to a file without a name first: memory stays small however large it is.
async fn backup(api: &Api) -> Result<Response, Failure> {
    let store = api.store.clone();
    let file = tokio::task::spawn_blocking(move || -> std::io::Result<std::fs::File> {
        let mut file = tempfile::tempfile()?;
        let mut writer = std::io::BufWriter::new(&mut file);
        store.backup(&mut writer).map_err(std::io::Error::other)?;
        writer.flush()?;
        drop(writer);
        std::io::Seek::rewind(&mut file)?;
        Ok(file)
    });
    let failed = |why: String| Failure::internal(format!("the backup failed: {why}"));
    let file = file.await.map_err(|error| failed(error.to_string()))?;
    let file = tokio::fs::File::from_std(file.map_err(|error| failed(error.to_string()))?);
    let body = Body::from_stream(tokio_util::io::ReaderStream::new(file));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

async fn restore(api: &Api, permit: &Permit, body: Body) -> Result<Response, Failure> {
    let refused = |why: String| Failure::bad_request(format!("nothing was restored: {why}"));
    let file = spool(body).await.map_err(|error| refused(error.to_string()))?;
    let revision = api.store.restore(file).await.map_err(|error| refused(error.to_string()))?;
    api.registry.reload(&api.store);
    crate::bootstrap::run(api).await?;
    crate::bootstrap::note_restore(api, &permit.subject().name, revision).await?;
    Ok(Answer::value(&json!({"revision": revision})).into_response())
}

async fn spool(body: Body) -> std::io::Result<std::fs::File> {
    let mut file = tempfile::tempfile()?;
    let mut stream = body.into_data_stream().map_err(std::io::Error::other);
    let mut size = 0;
    while let Some(chunk) = stream.try_next().await? {
        size += chunk.len() as u64;
        if size > BACKUP_BYTES_MAX {
            return Err(std::io::Error::other("the backup is larger than 4 GiB"));
        }
        file.write_all(&chunk)?;
    }
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
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
