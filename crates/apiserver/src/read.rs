//! Get and list.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use tombolo_identity::Permit;
use tombolo_store::{At, Object};

use crate::accept::{self, Representation};
use crate::answer::Answer;
use crate::encode::{self, ListMeta};
use crate::request::RevisionMatch;
use crate::select::{Continue, Selection};
use crate::server::Call;
use crate::status::Failure;
use crate::table::{self, Headings, IncludeObject};
use crate::time;

/// How many objects are looked at in one go when a selector leaves few of them.
const PAGE_OBJECTS: usize = 1000;

pub(crate) fn get(call: &Call, _permit: &Permit) -> Result<Answer, Failure> {
    not_ahead(call)?;
    let object = call
        .api
        .store
        .get(&call.key())
        .ok_or_else(|| Failure::not_found(&call.served.kind, call.name()))?;
    one(call, &encode::in_version(&call.served.kind, &object))
}

/// An object in the representation that the client asked for.
pub(crate) fn one(call: &Call, bytes: &Bytes) -> Result<Answer, Failure> {
    let parse = || -> Value { serde_json::from_slice(bytes).unwrap_or_default() };
    match call.representation(accept::OF_AN_OBJECT)? {
        Representation::Table => {
            let (include, now) = (included(call)?, time::timestamp());
            let columns = &call.served.columns;
            Ok(Answer::value(&columns.one(&parse(), include, Headings::Shown, now)))
        }
        Representation::PartialObject => Ok(Answer::value(&table::partial_object(&parse()))),
        Representation::Yaml => yaml(&parse()),
        _ => Ok(Answer::json(bytes.clone())),
    }
}

pub(crate) fn included(call: &Call) -> Result<IncludeObject, Failure> {
    IncludeObject::parse(call.query.include_object.as_deref())
        .map_err(|problem| Failure::bad_request(problem.to_string()))
}

pub(crate) fn yaml(value: &Value) -> Result<Answer, Failure> {
    let text = serde_saphyr::to_string(value)
        .map_err(|problem| Failure::internal(format!("cannot write YAML: {problem}")))?;
    Ok(Answer { content_type: "application/yaml", ..Answer::text(text) })
}

pub(crate) fn list(call: &Call, _permit: &Permit) -> Result<Answer, Failure> {
    let kind = &call.served.kind;
    let selection = Selection::new(kind, &call.target, &call.query)?.within(kind, &call.subject);
    let (meta, objects) = select_page(call, &selection)?;
    let values = || objects.iter().map(|object| encode::parse(object)).collect::<Vec<Value>>();
    let answer = match call.representation(accept::OF_A_LIST)? {
        Representation::Table => {
            let (include, now) = (included(call)?, time::timestamp());
            Answer::value(&call.served.columns.list(&meta.to_json(), &values(), include, now))
        }
        Representation::PartialObject | Representation::PartialObjectList => {
            Answer::value(&table::partial_object_list(&meta.to_json(), &values()))
        }
        Representation::Yaml => {
            let bytes = as_list(call, &meta, &objects);
            yaml(&serde_json::from_slice(&bytes).unwrap_or_default())?
        }
        _ => Answer::json(as_list(call, &meta, &objects)),
    };
    Ok(answer.with_code(StatusCode::OK))
}

fn as_list(call: &Call, meta: &ListMeta, objects: &[std::sync::Arc<Object>]) -> Bytes {
    let kind = &call.served.kind;
    let items: Vec<Bytes> = objects.iter().map(|object| encode::in_version(kind, object)).collect();
    encode::list(kind, meta, &items)
}

/// The objects of one answer, and where the next one goes on.
fn select_page(
    call: &Call,
    selection: &Selection,
) -> Result<(ListMeta, Vec<std::sync::Arc<Object>>), Failure> {
    let limit = call.query.limit.unwrap_or(usize::MAX);
    let from = call.query.continue_.as_deref().map(Continue::decode).transpose()?;
    let mut at = match &from {
        Some(from) => At::Revision(from.revision),
        None => wanted_revision(call)?,
    };
    let mut after = from.map(|from| from.after);
    let mut chosen = Vec::new();
    loop {
        let want = if selection.takes_all() { limit } else { PAGE_OBJECTS };
        let page = call
            .api
            .store
            .list(&selection.prefix, at, after.as_deref(), want)
            .map_err(|error| crate::write::store_failure(&call.served.kind, "", &error))?;
        at = At::Revision(page.revision);
        after = page.objects.last().map(|object| object.key.to_string());
        for (index, object) in page.objects.iter().enumerate() {
            if !selection.matches(object) {
                continue;
            }
            chosen.push(object.clone());
            let last_of_all = !page.more && index + 1 == page.objects.len();
            if chosen.len() == limit && !last_of_all {
                let token = Continue { revision: page.revision, after: object.key.to_string() };
                let remaining = selection.takes_all().then_some(page.remaining);
                let continue_ = Some(token.encode());
                return Ok((ListMeta { revision: page.revision, continue_, remaining }, chosen));
            }
        }
        if !page.more {
            return Ok((ListMeta { revision: page.revision, ..ListMeta::default() }, chosen));
        }
    }
}

fn wanted_revision(call: &Call) -> Result<At, Failure> {
    let (revision, match_) = (call.query.resource_version, call.query.resource_version_match);
    match (revision, match_) {
        (None, Some(_)) => Err(Failure::bad_request(
            "resourceVersionMatch: is of use only together with resourceVersion",
        )),
        (Some(0), Some(RevisionMatch::Exact)) => {
            Err(Failure::bad_request("resourceVersionMatch: Exact needs a resourceVersion above 0"))
        }
        (Some(revision), Some(RevisionMatch::Exact)) => Ok(At::Revision(revision)),
        _ => {
            not_ahead(call)?;
            Ok(At::Latest)
        }
    }
}

/// A client that has seen a later state than ours must not be given an older one as fresh.
fn not_ahead(call: &Call) -> Result<(), Failure> {
    let current = call.api.store.revision();
    match call.query.resource_version {
        Some(wanted) if wanted > current => Err(ahead(wanted, current)),
        _ => Ok(()),
    }
}

pub(crate) fn ahead(wanted: u64, current: u64) -> Failure {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    let mut failure = Failure::new(504, "Timeout", message);
    failure.details = Some(serde_json::json!({
        "retryAfterSeconds": 1,
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    }));
    failure
}
