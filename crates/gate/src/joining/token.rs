//! The join token of a joining: found, used up by the first write of the joining, and closed by the last.

use serde_json::{Value, json};
use tombolo_identity::joining::{self, StandsFor, Used};
use tombolo_identity::{Token, TokenHash};

use crate::Gate;
use crate::failure::Failure;
use crate::record::Record;
use crate::resources::{Unwritten, now, ours};

/// A join token as the API has it.
pub(super) struct Kept {
    path: String,
    live: Value,
    pub(super) record: joining::Record,
}

impl Kept {
    /// Whether a joining with this token came to its end.
    pub(super) fn is_closed(&self) -> bool {
        self.record.used.as_ref().is_some_and(|used| used.key.is_none())
    }
}

/// Join tokens are named after their hash, so that they are found without a search.
pub(super) async fn find_token(gate: &Gate, token: &Token) -> Result<Option<Kept>, Failure> {
    let path = ours("jointokens", &token.hash().join_token_name());
    let live = gate.resources().get(&path).await?;
    Ok(live.and_then(|live| Some(Kept { path, record: token_record(&live)?, live })))
}

fn token_record(live: &Value) -> Option<joining::Record> {
    let moment = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(joining::Record {
        hash: TokenHash::parse(live["spec"]["hash"].as_str()?)?,
        site: text(&live["spec"]["site"])?,
        stands_for: match live["spec"]["standsFor"].as_str() {
            None | Some("node") => StandsFor::Node,
            Some("site") => StandsFor::Site,
            // Of a newer server that knows more than this server.
            Some(_) => return None,
        },
        created: moment(&live["metadata"]["creationTimestamp"])?,
        expires: moment(&live["spec"]["expires"])?,
        used: text(&live["status"]["usedBy"])
            .map(|by| Used { by, key: text(&live["status"]["usedKey"]) }),
    })
}

/// Writes on the token who has used it, if it still is as it was read.
pub(super) async fn use_up(
    gate: &Gate,
    kept: &Kept,
    by: &str,
    key: &str,
    record: &Record,
) -> Result<(), Unwritten> {
    let used = json!({
        "metadata": {"resourceVersion": kept.live["metadata"]["resourceVersion"]},
        "status": {"usedAt": now(), "usedBy": by, "usedKey": key},
    });
    let path = format!("{}/status", kept.path);
    gate.resources().patch(&path, &used, record).await.map(drop)
}

/// The joining is done. Should this fail, the next question of the same machine does it.
pub(super) async fn close(gate: &Gate, kept: &Kept, record: &Record) {
    let done = json!({"status": {"usedKey": null}});
    let path = format!("{}/status", kept.path);
    if let Err(error) = gate.resources().patch(&path, &done, record).await {
        tracing::warn!(?error, "a join token was not closed");
    }
}
