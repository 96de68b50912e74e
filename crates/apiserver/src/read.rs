//! Get and list.

use axum::response::Response;
use bytes::Bytes;
use http_body::Body as _;
use serde_json::Value;
use tombolo_identity::Permit;
use tombolo_store::At;

use crate::accept::{self, Representation};
use crate::answer::Answer;
use crate::gather::Gather;
use crate::listing::{Form, Listing};
use crate::request::RevisionMatch;
use crate::select::{Continue, Selection};
use crate::server::Call;
use crate::status::{Failure, Invalid, Problem};
use crate::table::{self, Headings, IncludeObject};
use crate::time;
use crate::traffic::flow::collection;
use crate::traffic::{Place, Prepaid};
use crate::{encode, gzip};

/// Of the objects of a list in protobuf: writing them takes a millisecond. More is done elsewhere.
const COUNTED_AT_ONCE_BYTES_MAX: usize = 128 * 1024;

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
        form @ Representation::Protobuf => Ok(Answer::in_form(form, &parse())),
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

pub(crate) async fn list(call: &Call, _permit: &Permit) -> Result<Response, Failure> {
    let kind = &call.served.kind;
    let selection = Selection::new(kind, &call.target, &call.query)?.within(kind, &call.subject);
    let form = match call.representation(accept::OF_A_LIST)? {
        Representation::Table => Form::Table { include: included(call)?, now: time::timestamp() },
        Representation::PartialObject | Representation::PartialObjectList => Form::Partial,
        Representation::Yaml => Form::Yaml,
        Representation::Protobuf => Form::Binary,
        _ => Form::Objects,
    };
    let from = call.query.continue_.as_deref().map(Continue::decode).transpose()?;
    let at = match &from {
        Some(from) if from.revision == Continue::LATEST => At::Latest,
        Some(from) => At::Revision(from.revision),
        None => wanted_revision(call)?,
    };
    let after = from.map(|from| from.after);
    let limit = call.query.limit.unwrap_or(usize::MAX);
    let gather = Gather::all(call, selection.into());
    let gather = gather.page(at, after.clone(), limit);
    let gathered = gather.run(call).await.map_err(|failure| go_on(failure, after))?;
    if call.query.limit.is_none() {
        call.api.traffic.remember(collection(&call.target), gathered.looked_at_bytes);
    }
    let charge = call.pay(gathered.bytes)?;
    let (served, meta, objects) = (call.served.clone(), gathered.meta, gathered.objects);
    let make = move || Listing::new(served, form, &meta, objects);
    let listing = match form {
        // Its length comes first, so that all of it is written once to be counted.
        Form::Binary if gathered.bytes > COUNTED_AT_ONCE_BYTES_MAX => {
            elsewhere(call, make).await??
        }
        _ => make()?,
    };
    let mut response = listing.into_response();
    response.extensions_mut().insert(gzip::Expected(gathered.bytes));
    // A small one has arrived whole and is counted like any other answer.
    if response.body().size_hint().exact().is_none()
        && let Some(charge) = charge
    {
        response.extensions_mut().insert(Prepaid::all(charge));
    }
    Ok(response)
}

/// A heavy step, on a thread where nobody waits for it.
pub(crate) async fn elsewhere<T: Send + 'static>(
    call: &Call,
    step: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    call.place.iter().for_each(Place::leave);
    let done = call.api.traffic.turn(&call.flow()).await?.work(step).await?;
    if let Some(place) = &call.place {
        place.take_again().await?;
    }
    Ok(done)
}

/// A page that came too late may go on with what is there now.
fn go_on(failure: Failure, after: Option<String>) -> Failure {
    match after {
        Some(after) if failure.code == 410 => Failure {
            message:
                "The provided continue parameter is too old to display a consistent list result. \
                      You can start a new list without the continue parameter, or use the continue \
                      token in this response to retrieve the remainder of the results: what has \
                      changed since the first page may then be there twice or not at all"
                    .to_owned(),
            continue_: Some(Continue { revision: Continue::LATEST, after }.encode()),
            ..failure
        },
        _ => failure,
    }
}

fn wanted_revision(call: &Call) -> Result<At, Failure> {
    let (revision, match_) = (call.query.resource_version, call.query.resource_version_match);
    match (revision, match_) {
        (None, Some(_)) => {
            Err(no_match("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        }
        (Some(0), Some(RevisionMatch::Exact)) => {
            Err(no_match("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""))
        }
        (Some(revision), Some(RevisionMatch::Exact)) => Ok(At::Revision(revision)),
        _ => {
            not_ahead(call)?;
            Ok(At::Latest)
        }
    }
}

fn no_match(why: &str) -> Failure {
    let problem = Invalid::new("resourceVersionMatch", Problem::Forbidden, why);
    Failure::invalid_options("ListOptions", &[problem])
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
