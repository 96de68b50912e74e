//! Delete and deletecollection.

use serde_json::{Value, json};
use tombolo_identity::Permit;
use tombolo_store::{Change, Expect};

use crate::accept;
use crate::answer::Answer;
use crate::gather::Gather;
use crate::object::{self, Deletion, text};
use crate::request::Propagation;
use crate::select::Selection;
use crate::server::Call;
use crate::status::{Failure, Invalid, Problem};
use crate::write::{Unwritten, decode_body};
use crate::{bootstrap, encode, scope, time};

const ATTEMPTS_MAX: usize = 16;

/// What a client asks of a delete, from the body or the query.
#[derive(Debug, Default)]
struct Options {
    propagation: Option<Propagation>,
    uid: Option<String>,
    revision: Option<String>,
    dry_run: bool,
}

/// What became of one object.
enum Gone {
    Now(Value),
    /// It is held, and marked.
    Later(Value),
}

pub(crate) async fn one(call: &Call, _permit: &Permit, body: &[u8]) -> Result<Answer, Failure> {
    let options = options(call, body)?;
    let form = call.representation(accept::OF_AN_OBJECT)?;
    match delete(call, call.name(), call.target.namespace.as_deref(), &options).await? {
        Gone::Later(object) => Ok(Answer::in_form(form, &object)),
        Gone::Now(object) => Ok(Answer::in_form(
            form,
            &json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {
                    "name": call.name(), "group": call.served.kind.group,
                    "kind": call.served.kind.plural, "uid": text(&object, "uid"),
                },
            }),
        )),
    }
}

pub(crate) async fn collection(
    call: &Call,
    _permit: &Permit,
    body: &[u8],
) -> Result<Answer, Failure> {
    let kind = &call.served.kind;
    if kind.is("", "Namespace") {
        let message = "namespaces are deleted one by one, by name";
        return Err(Failure::new(405, "MethodNotAllowed", message));
    }
    let options = options(call, body)?;
    let selection = Selection::new(kind, &call.target, &call.query)?;
    let gathered = Gather::all(call, selection.into()).run(call).await?;
    let mut gone = Vec::new();
    for object in &gathered.objects {
        let value = encode::parse_in_version(kind, object);
        match delete(call, text(&value, "name"), object::namespace_of(&value), &options).await {
            Ok(Gone::Now(object) | Gone::Later(object)) => gone.push(encode::to_bytes(&object)),
            // Somebody else has deleted it in between, which is as good.
            Err(failure) if failure.code == 404 => (),
            Err(failure) => return Err(failure),
        }
    }
    let meta = encode::ListMeta { revision: call.api.store.revision(), ..Default::default() };
    Ok(Answer::json(encode::list(kind, &meta, &gone)))
}

async fn delete(
    call: &Call,
    name: &str,
    namespace: Option<&str>,
    options: &Options,
) -> Result<Gone, Failure> {
    let kind = &call.served.kind;
    call.guard_own_kinds(name)?;
    if kind.is("", "Namespace") && bootstrap::NAMESPACES.contains(&name) {
        return Err(Failure::forbidden(format!(
            "namespace {name} cannot be deleted: it is always there"
        )));
    }
    for _ in 0..ATTEMPTS_MAX {
        let stored = call
            .api
            .store
            .get(&kind.key(namespace, name))
            .ok_or_else(|| Failure::not_found(kind, name))?;
        let live = encode::parse_in_version(kind, &stored);
        check_preconditions(call, &live, options)?;
        let deletion = object::delete(kind, &live, options.propagation, &time::now());
        let (change, object) = match deletion {
            Deletion::Pending => return Ok(Gone::Later(live)),
            Deletion::Mark(object) => (Change::Put(encode::draft(kind, &object)), object),
            Deletion::Remove => (Change::Delete(encode::draft(kind, &live)), live),
        };
        let removed = matches!(change, Change::Delete(_));
        if options.dry_run {
            return Ok(if removed { Gone::Now(object) } else { Gone::Later(object) });
        }
        // It was the agent's when it was allowed; it may be another's since.
        scope::guard_removal(&call.subject, kind, &object)?;
        let expect = Expect::Revision(stored.revision);
        match call.commit(&object, expect, change, "delete").await {
            Ok(stored) if removed => return Ok(Gone::Now(encode::parse_in_version(kind, &stored))),
            Ok(stored) => return Ok(Gone::Later(encode::parse_in_version(kind, &stored))),
            Err(Unwritten::Raced) => (),
            Err(Unwritten::Refused(failure)) => return Err(failure),
        }
    }
    Err(Failure::stale(kind, name))
}

fn check_preconditions(call: &Call, live: &Value, options: &Options) -> Result<(), Failure> {
    let fails = |what: &str, wanted: &Option<String>, field: &str| {
        let found = text(live, field);
        wanted.as_deref().filter(|wanted| *wanted != found).map(|wanted| {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: \
                 {found}"
            );
            Failure::conflict(&call.served.kind, text(live, "name"), &why)
        })
    };
    let failure = fails("UID", &options.uid, "uid")
        .or_else(|| fails("ResourceVersion", &options.revision, "resourceVersion"));
    failure.map_or(Ok(()), Err)
}

fn options(call: &Call, body: &[u8]) -> Result<Options, Failure> {
    let mut options = Options {
        propagation: call.query.propagation,
        dry_run: call.query.dry_run,
        ..Options::default()
    };
    if body.is_empty() {
        return Ok(options);
    }
    let body = decode_body(call.content_type(), body)?.value;
    if !body.is_object() {
        return Err(Failure::bad_request("the body is not an object; expected DeleteOptions"));
    }
    if let Some(policy) = optional_text(&body, "/propagationPolicy")? {
        options.propagation = Some(Propagation::parse(&policy)?);
    }
    match body.get("orphanDependents") {
        None | Some(Value::Null | Value::Bool(false)) => (),
        Some(Value::Bool(true)) => options.propagation = Some(Propagation::Orphan),
        Some(found) => return Err(wrong("/orphanDependents", found, "true or false")),
    }
    match body.get("dryRun") {
        None | Some(Value::Null) => (),
        Some(Value::Array(list)) if list.iter().all(|item| item == "All") => {
            options.dry_run |= !list.is_empty();
        }
        Some(found @ Value::Array(list)) if list.iter().all(Value::is_string) => {
            let message = format!("{found}: supported values: \"All\"");
            let problem = Invalid::new("dryRun", Problem::NotSupported, message);
            return Err(Failure::invalid_options("DeleteOptions", &[problem]));
        }
        Some(found) => return Err(wrong("/dryRun", found, r#"["All"]"#)),
    }
    match body.get("preconditions") {
        None | Some(Value::Null | Value::Object(_)) => (),
        Some(found) => return Err(wrong("/preconditions", found, "an object")),
    }
    options.uid = optional_text(&body, "/preconditions/uid")?;
    options.revision = optional_text(&body, "/preconditions/resourceVersion")?;
    Ok(options)
}

/// What is there and is no text is an error: a wish that is not understood must not be passed over
/// when something is deleted.
fn optional_text(body: &Value, pointer: &str) -> Result<Option<String>, Failure> {
    match body.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(found) => Err(wrong(pointer, found, "text")),
    }
}

fn wrong(pointer: &str, found: &Value, expected: &str) -> Failure {
    let field = pointer.trim_start_matches('/').replace('/', ".");
    Failure::bad_request(format!("{field}: found {found}, expected {expected}"))
}
