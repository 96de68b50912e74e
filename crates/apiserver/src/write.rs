//! Create, update and patch. Each looks at what lives, decides in [`crate::object`],
//! [`crate::admit`] and [`tombolo_document::apply`], and commits on the condition that nothing has changed
//! in between.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tombolo_gate::record::{self, Record};
use tombolo_identity::{Permit, Role, Verb};
use tombolo_store::{Change, Error, Expect, Object, Write};

use crate::admit::{Admitted, admit};
use crate::answer::Answer;
use crate::decode;
use crate::kinds::Kind;
use crate::object::{self, Birth, Part, text};
use crate::registry::CRD_PREFIX;
use crate::server::{Call, authorize, resource_of};
use crate::status::{Failure, Invalid, Problem};
use crate::{agents, encode, own_kinds, read, scope, time};
use tombolo_document::apply::{self, ApplyError, Conflict, Manager, OnConflict};
use tombolo_document::number;
use tombolo_document::patch::{self, PatchError};
use tombolo_document::protobuf;

/// A patch that names no revision is tried again when somebody was quicker; so often and no more.
const ATTEMPTS_MAX: usize = 16;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A body, read: the value, and the keys that stood twice in it.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) value: Value,
    pub(crate) doubled: Vec<Invalid>,
}

impl From<decode::Decoded> for Body {
    fn from(decoded: decode::Decoded) -> Body {
        let mut value = decoded.value;
        number::normalise(&mut value);
        Body { value, doubled: decoded.duplicates }
    }
}

/// What a write came to, before it is shown.
pub(crate) struct Written {
    code: StatusCode,
    bytes: Bytes,
    warnings: Vec<String>,
}

pub(crate) async fn create(call: &Call, _permit: &Permit, body: &[u8]) -> Result<Answer, Failure> {
    if call.target.name.is_some() {
        return Err(Failure::new(405, "MethodNotAllowed", "create goes to the collection"));
    }
    let body = decode_body(call.content_type(), body)?;
    call.show(call.create(body).await?)
}

pub(crate) async fn update(call: &Call, _permit: &Permit, body: &[u8]) -> Result<Answer, Failure> {
    let body = decode_body(call.content_type(), body)?;
    let kind = &call.served.kind;
    for _ in 0..ATTEMPTS_MAX {
        let stored = match call.live() {
            Err(failure) if failure.code == 404 && call.makes_by_update() => {
                return call.show(call.create_by_update(&body).await?);
            }
            live => live?,
        };
        let live = encode::parse_in_version(kind, &stored);
        let revision = body.value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if revision.is_empty() && !object::is_core(kind) {
            let problem = Invalid {
                field: "metadata.resourceVersion".to_owned(),
                problem: Problem::Required,
                message: "must be specified for an update, so that nobody's change is lost"
                    .to_owned(),
            };
            return Err(Failure::invalid(kind, call.name(), &[problem]));
        }
        let object = object::update(kind, &live, body.value.clone(), call.part())?;
        match call.replace(&stored, &live, object, body.doubled.clone()).await {
            Err(Unwritten::Raced) if revision.is_empty() => (),
            Err(Unwritten::Raced) => return Err(Failure::stale(kind, call.name())),
            Err(Unwritten::Refused(failure)) => return Err(failure),
            Ok(written) => return call.show(written),
        }
    }
    Err(Failure::stale(kind, call.name()))
}

pub(crate) async fn patch(call: &Call, _permit: &Permit, body: &[u8]) -> Result<Answer, Failure> {
    let kind = &call.served.kind;
    if call.content_type() == APPLY_PATCH {
        return apply(call, body).await;
    }
    if call.query.force {
        let message = "may not be specified for non-apply patch";
        let problem = Invalid::new("force", Problem::Forbidden, message);
        return Err(Failure::invalid_options("PatchOptions", &[problem]));
    }
    for _ in 0..ATTEMPTS_MAX {
        let stored = call.live()?;
        let live = encode::parse_in_version(kind, &stored);
        let (patched, doubled) = patched(call, &live, body)?;
        // A patch that names a revision means that one; otherwise the latest will do.
        let named = text(&patched, "resourceVersion") != text(&live, "resourceVersion");
        let object = object::update(kind, &live, patched, call.part())?;
        match call.replace(&stored, &live, object, doubled).await {
            Err(Unwritten::Raced) if !named => (),
            Err(Unwritten::Raced) => return Err(Failure::stale(kind, call.name())),
            Err(Unwritten::Refused(failure)) => return Err(failure),
            Ok(written) => return call.show(written),
        }
    }
    Err(Failure::stale(kind, call.name()))
}

/// Server-side apply: makes the object if it is not there.
async fn apply(call: &Call, body: &[u8]) -> Result<Answer, Failure> {
    let kind = &call.served.kind;
    let mut body = decode_yaml(body)?;
    if call.query.field_manager.is_none() {
        let problem =
            Invalid::new("fieldManager", Problem::Required, "is required for apply patch");
        return Err(Failure::invalid_options("PatchOptions", &[problem]));
    }
    let manager = call.manager()?;
    prepare_applied(call, &mut body.value)?;
    let on_conflict = if call.query.force { OnConflict::TakeOver } else { OnConflict::Fail };
    let api_version = kind.api_version();
    let manager = call.written_by(&manager, &api_version);
    for _ in 0..ATTEMPTS_MAX {
        let stored = call.api.store.get(&call.key());
        let live = stored.as_deref().map(|stored| encode::parse_in_version(kind, stored));
        if live.is_none() && call.part() == Part::Status {
            return Err(Failure::not_found(kind, call.name()));
        }
        let schema = &kind.compiled;
        let merged =
            apply::apply(live.as_ref(), &body.value, schema, &manager, on_conflict, &time::now())
                .map_err(|problem| apply_failure(kind, call.name(), problem))?;
        let result = match (&stored, &live) {
            (Some(stored), Some(live)) => {
                let object = object::update(kind, live, merged, call.part())?;
                call.replace_applied(stored, live, object, body.doubled.clone()).await
            }
            _ => call.create_applied(merged, body.doubled.clone()).await,
        };
        match result {
            Err(Unwritten::Raced) => (),
            Err(Unwritten::Refused(failure)) => return Err(undeclared(failure)),
            Ok(written) => return call.show(written),
        }
    }
    Err(Failure::stale(kind, call.name()))
}

/// Tools that apply look for these words, behind the path of each field: `.spec.x: field not declared in schema`.
fn undeclared(mut failure: Failure) -> Failure {
    let (start, end) = ("unknown field \"", '"');
    if failure.message.contains("strict decoding error: unknown field") {
        let fields = failure.message.split(start).skip(1).filter_map(|rest| rest.split_once(end));
        let told: Vec<String> =
            fields.map(|(field, _)| format!(".{field}: field not declared in schema")).collect();
        failure.message = format!("{}; {}", failure.message, told.join("; "));
    }
    failure
}

/// Gives an applied configuration its name and takes out what this address does not govern.
fn prepare_applied(call: &Call, applied: &mut Value) -> Result<(), Failure> {
    check_applied_type(call, applied)?;
    let Some(root) = applied.as_object_mut() else {
        return Err(Failure::bad_request("the applied configuration is not an object"));
    };
    match call.part() {
        Part::Main if call.served.kind.status_subresource => {
            root.remove("status");
        }
        Part::Main | Part::Finalize => (),
        Part::Status => {
            root.retain(|key, _| {
                matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status")
            });
        }
    }
    if applied.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
        return Err(Failure::bad_request("metadata: expected an object"));
    }
    let metadata = object::metadata_mut(applied);
    if call.part() == Part::Status {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "resourceVersion"));
    }
    metadata.entry("name").or_insert_with(|| json!(call.name()));
    if text(applied, "name") != call.name() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            text(applied, "name"),
            call.name()
        )));
    }
    Ok(())
}

/// An apply says what it applies, also of the core kinds.
fn check_applied_type(call: &Call, applied: &Value) -> Result<(), Failure> {
    let kind = &call.served.kind;
    let found = applied["apiVersion"].as_str().unwrap_or_default();
    let expected = kind.api_version();
    if applied.is_object() && found != expected {
        return Err(Failure::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {found}, \
             expected: {expected}"
        )));
    }
    match applied.get("kind") {
        None | Some(Value::Null) if applied.is_object() => {
            Err(object::untyped(kind, "kind", applied))
        }
        _ => Ok(()),
    }
}

fn patched(call: &Call, live: &Value, body: &[u8]) -> Result<(Value, Vec<Invalid>), Failure> {
    let core = object::is_core(&call.served.kind);
    let doubled = match call.content_type() {
        JSON_PATCH => Vec::new(),
        _ => decode_json(body)?.doubled,
    };
    let patched = match call.content_type() {
        JSON_PATCH => patch::json_patch(live, body),
        MERGE_PATCH => patch::merge_patch(live, body),
        STRATEGIC_PATCH if core => patch::strategic_merge_patch(live, body),
        found => {
            let allowed = format!("{JSON_PATCH}, {MERGE_PATCH} and {APPLY_PATCH}");
            return Err(Failure::unsupported_media(found, &allowed));
        }
    };
    let mut patched = patched.map_err(patch_failure)?;
    number::normalise(&mut patched);
    Ok((patched, doubled))
}

/// For whoever knows what it wrote: the annotations, which others may have added to, or nothing at all.
fn minimal(bytes: &[u8]) -> Answer {
    let object: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let annotations = &object["metadata"]["annotations"];
    match annotations.as_object().is_some_and(|found| !found.is_empty()) {
        true => Answer::value(&json!({"metadata": {"annotations": annotations}})),
        false => Answer::json(Bytes::new()).with_code(StatusCode::NO_CONTENT),
    }
}

pub(crate) fn patch_failure(problem: PatchError) -> Failure {
    let mut message = problem.to_string();
    if let Some(cause) = std::error::Error::source(&problem) {
        message = format!("{message}: {cause}");
    }
    match problem {
        // The patch is sound, and the object is not as it expects.
        PatchError::NotApplicable { .. } | PatchError::TestFailed { .. } => {
            Failure::new(422, "Invalid", message)
        }
        PatchError::TooLarge | PatchError::TooManyOperations { .. } | PatchError::TooMuchMoved => {
            Failure::new(413, "RequestEntityTooLarge", message)
        }
        PatchError::NotJson(_)
        | PatchError::WrongType { .. }
        | PatchError::InvalidOperation { .. }
        | PatchError::InvalidDirective { .. }
        | PatchError::TooDeep => Failure::bad_request(message),
    }
}

pub(crate) fn decode_body(content_type: &str, body: &[u8]) -> Result<Body, Failure> {
    match content_type {
        JSON | "" => decode_json(body),
        YAML | "text/yaml" => decode_yaml(body),
        protobuf::MEDIA_TYPE => decode_protobuf(body),
        found => Err(Failure::unsupported_media(found, &format!("{JSON} and {YAML}"))),
    }
}

pub(crate) fn decode_json(body: &[u8]) -> Result<Body, Failure> {
    let decoded =
        decode::json(body).map_err(|problem| Failure::bad_request(problem.to_string()))?;
    Ok(decoded.into())
}

fn decode_yaml(body: &[u8]) -> Result<Body, Failure> {
    let decoded =
        decode::yaml(body).map_err(|problem| Failure::bad_request(problem.to_string()))?;
    Ok(decoded.into())
}

fn decode_protobuf(body: &[u8]) -> Result<Body, Failure> {
    let value =
        protobuf::decode(body).map_err(|problem| Failure::bad_request(problem.to_string()))?;
    Ok(Body { value, doubled: Vec::new() })
}

/// Why a write did not happen.
pub(crate) enum Unwritten {
    /// Somebody was quicker: look again.
    Raced,
    Refused(Failure),
}

impl From<Failure> for Unwritten {
    fn from(failure: Failure) -> Unwritten {
        Unwritten::Refused(failure)
    }
}

impl Call {
    fn part(&self) -> Part {
        match self.target.subresource.as_deref() {
            Some("status") => Part::Status,
            Some("finalize") => Part::Finalize,
            _ => Part::Main,
        }
    }

    fn live(&self) -> Result<Arc<Object>, Failure> {
        let missing = || Failure::not_found(&self.served.kind, self.name());
        self.api.store.get(&self.key()).ok_or_else(missing)
    }

    fn written_by<'a>(&'a self, name: &'a str, api_version: &'a str) -> Manager<'a> {
        let subresource = self.target.subresource.as_deref().unwrap_or_default();
        Manager { name, subresource, api_version }
    }

    /// Records who owns which field after this write.
    fn record_owners(&self, live: Option<&Value>, object: &mut Value) -> Result<(), Failure> {
        let (name, api_version) = (self.manager()?, self.served.kind.api_version());
        let manager = self.written_by(&name, &api_version);
        apply::update(live, object, &self.served.kind.compiled, &manager, &time::now());
        Ok(())
    }

    fn show(&self, written: Written) -> Result<Answer, Failure> {
        if self.prefers_minimal() {
            return Ok(minimal(&written.bytes).with_warnings(written.warnings));
        }
        let answer = read::one(self, &written.bytes)?;
        Ok(answer.with_code(written.code).with_warnings(written.warnings))
    }

    /// `Prefer: return=minimal`, as RFC 7240 has it.
    fn prefers_minimal(&self) -> bool {
        let preferences = self.headers.get_all("prefer").iter();
        let preferences = preferences.filter_map(|value| value.to_str().ok());
        preferences.flat_map(|value| value.split(',')).any(|one| one.trim() == "return=minimal")
    }

    async fn create(&self, mut body: Body) -> Result<Written, Failure> {
        let kind = &self.served.kind;
        let generated = text(&body.value, "name").is_empty();
        for _ in 0..ATTEMPTS_MAX {
            // Only a generated name is tried again.
            let value = match generated {
                true => body.value.clone(),
                false => std::mem::take(&mut body.value),
            };
            let object = self.born(value)?;
            let name = text(&object, "name").to_owned();
            let mut admitted = self.admit(None, object, body.doubled.clone()).await?;
            scope::guard(&self.subject, kind, self.part(), None, &admitted.object)?;
            self.record_owners(None, &mut admitted.object)?;
            match self.insert(admitted).await {
                Ok(written) => return Ok(written),
                Err(Unwritten::Raced) if generated => (),
                Err(Unwritten::Raced) => return Err(Failure::already_exists(kind, &name)),
                Err(Unwritten::Refused(failure)) => return Err(failure),
            }
        }
        Err(Failure::already_exists(kind, "of every generated name"))
    }

    /// Holders of leases and writers of events put what may have gone meanwhile.
    fn makes_by_update(&self) -> bool {
        let kind = &self.served.kind;
        let is_event = kind.kind == "Event" && kind.prefix() == "/events/";
        let by_put = is_event || kind.is("coordination.k8s.io", "Lease");
        by_put && self.part() == Part::Main
    }

    async fn create_by_update(&self, body: &Body) -> Result<Written, Failure> {
        authorize(&self.subject, Verb::Create, resource_of(&self.target))?;
        let mut body = body.clone();
        if body.value.is_object() && text(&body.value, "name").is_empty() {
            object::metadata_mut(&mut body.value).insert("name".into(), json!(self.name()));
        }
        let name = text(&body.value, "name");
        if name != self.name() {
            let url = self.name();
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            )));
        }
        // It names a state of an object that was deleted in the meantime: there is none to go on from.
        object::metadata_mut(&mut body.value).remove("resourceVersion");
        self.create(body).await
    }

    async fn create_applied(
        &self,
        merged: Value,
        doubled: Vec<Invalid>,
    ) -> Result<Written, Unwritten> {
        // Whoever may change an object may not always make one.
        authorize(&self.subject, Verb::Create, resource_of(&self.target))?;
        let uid = text(&merged, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(&self.served.kind, self.name(), &why).into());
        }
        let object = self.born(merged)?;
        let admitted = self.admit(None, object, doubled).await?;
        scope::guard(&self.subject, &self.served.kind, self.part(), None, &admitted.object)?;
        self.insert(admitted).await
    }

    fn born(&self, body: Value) -> Result<Value, Failure> {
        let kind = &self.served.kind;
        self.check_namespace()?;
        self.check_definition()?;
        let uid = uuid::Uuid::new_v4().to_string();
        // The end of the uid is random enough for a name that is tried again when it is taken.
        let suffix = &uid[uid.len() - 5..];
        let birth = Birth { now: &time::now(), uid: &uid, suffix };
        object::create(kind, body, self.target.namespace.as_deref(), birth)
    }

    /// Nothing new comes into a namespace that is not there or is going.
    fn check_namespace(&self) -> Result<(), Failure> {
        let Some(namespace) = self.target.namespace.as_deref() else { return Ok(()) };
        let Some(found) = self.api.store.get(&format!("/namespaces//{namespace}")) else {
            let mut failure =
                Failure::new(404, "NotFound", format!("namespaces {namespace:?} not found"));
            failure.details = Some(json!({"name": namespace, "kind": "namespaces"}));
            return Err(failure);
        };
        if !encode::is_deleting(&found) {
            return Ok(());
        }
        let message =
            format!("nothing can be created in namespace {namespace}: it is being deleted");
        let cause = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": format!("namespace {namespace} is being terminated")}]);
        Err(Failure::forbidden(message).about(&self.served.kind, self.name(), Some(cause)))
    }

    /// Nothing new comes of a kind that is going.
    fn check_definition(&self) -> Result<(), Failure> {
        let kind = &self.served.kind;
        let definition = self.api.store.get(&format!("{CRD_PREFIX}/{}", kind.qualified()));
        match definition.is_some_and(|stored| encode::is_deleting(&stored)) {
            true => Err(Failure::new(
                405,
                "MethodNotAllowed",
                format!("no {} can be created: its definition is being deleted", kind.kind),
            )),
            false => Ok(()),
        }
    }

    async fn admit(
        &self,
        live: Option<&Value>,
        object: Value,
        doubled: Vec<Invalid>,
    ) -> Result<Admitted, Failure> {
        let kinds = self.api.registry.now();
        self.guard_own_kinds(text(&object, "name"))?;
        let (served, validation, now) =
            (self.served.clone(), self.query.field_validation, time::now());
        let run = move |live: Option<&Value>| {
            admit(&served.kind, live, object, doubled, validation, kinds.plain(), &now)
        };
        // Rules are somebody else's programs: they run where nobody waits for them, by turns.
        let is_heavy =
            self.served.kind.expressions().is_some() || self.served.kind.prefix() == CRD_PREFIX;
        if !is_heavy {
            return run(live);
        }
        let live = live.cloned();
        read::elsewhere(self, move || run(live.as_ref())).await?
    }

    /// The kinds that come with the server change with its release, and only then.
    pub(crate) fn guard_own_kinds(&self, name: &str) -> Result<(), Failure> {
        let definition = self.served.kind.prefix() == CRD_PREFIX;
        if definition && own_kinds::defines_own(name) && self.subject.role != Role::System {
            return Err(Failure::forbidden(format!(
                "{name} comes with the server and cannot be changed or deleted"
            )));
        }
        Ok(())
    }

    async fn insert(&self, admitted: Admitted) -> Result<Written, Unwritten> {
        let Admitted { object, warnings } = admitted;
        let code = StatusCode::CREATED;
        if self.query.dry_run {
            let key = self.served.kind.key(self.target.namespace.as_deref(), text(&object, "name"));
            if self.api.store.get(&key).is_some() {
                return Err(Unwritten::Raced);
            }
            return Ok(Written { code, bytes: encode::to_bytes(&object), warnings });
        }
        let change = Change::Put(encode::draft(&self.served.kind, &object));
        let stored = self.commit(&object, Expect::Absent, change, "create").await?;
        Ok(Written { code, bytes: encode::in_version(&self.served.kind, &stored), warnings })
    }

    async fn replace(
        &self,
        stored: &Object,
        live: &Value,
        object: Value,
        doubled: Vec<Invalid>,
    ) -> Result<Written, Unwritten> {
        let mut admitted = self.admit(Some(live), object, doubled).await?;
        self.record_owners(Some(live), &mut admitted.object)?;
        self.put(stored, live, admitted, "update").await
    }

    async fn replace_applied(
        &self,
        stored: &Object,
        live: &Value,
        object: Value,
        doubled: Vec<Invalid>,
    ) -> Result<Written, Unwritten> {
        let admitted = self.admit(Some(live), object, doubled).await?;
        self.put(stored, live, admitted, "apply").await
    }

    /// Writes what has changed; removes what nothing holds any more; else leaves all as it is.
    async fn put(
        &self,
        stored: &Object,
        live: &Value,
        admitted: Admitted,
        verb: &str,
    ) -> Result<Written, Unwritten> {
        let Admitted { object, warnings } = admitted;
        let code = StatusCode::OK;
        let kind = &self.served.kind;
        scope::guard(&self.subject, kind, self.part(), Some(live), &object)?;
        if object == *live {
            return Ok(Written { code, bytes: encode::in_version(kind, stored), warnings });
        }
        if self.query.dry_run {
            return Ok(Written { code, bytes: encode::to_bytes(&object), warnings });
        }
        let draft = encode::draft(kind, &object);
        let change =
            if object::is_released(&object) { Change::Delete(draft) } else { Change::Put(draft) };
        let expect = Expect::Revision(stored.revision);
        let stored = self.commit(&object, expect, change, verb).await?;
        Ok(Written { code, bytes: encode::in_version(kind, &stored), warnings })
    }

    /// Writes one change, on its condition, together with its row in the audit record.
    pub(crate) async fn commit(
        &self,
        object: &Value,
        expect: Expect,
        change: Change,
        verb: &str,
    ) -> Result<Arc<Object>, Unwritten> {
        let kind = &self.served.kind;
        let name = text(object, "name");
        agents::check_heartbeat(&self.api, &self.subject, kind, object)?;
        let key = kind.key(object::namespace_of(object), name);
        let note = self.audit_note(&key, &expect, verb);
        let write = Write { key: key.into(), expect, change, note };
        let stored = match self.api.store.commit(vec![write]).await {
            Ok(mut stored) => stored.swap_remove(0),
            Err(Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }) => {
                return Err(Unwritten::Raced);
            }
            Err(error) => return Err(Unwritten::Refused(store_failure(kind, name, &error))),
        };
        if kind.prefix() == CRD_PREFIX {
            self.api.registry.reload(&self.api.store);
        }
        Ok(stored)
    }

    /// Who did what to which revision; the row itself is kept under the revision that it led to.
    /// Renewals of leases are left out: they are heartbeats, and would drown everything else.
    fn audit_note(&self, key: &str, expect: &Expect, verb: &str) -> Option<Bytes> {
        if self.served.kind.is("coordination.k8s.io", "Lease")
            && verb != "create"
            && verb != "delete"
        {
            return None;
        }
        let from = match expect {
            Expect::Revision(revision) => *revision,
            Expect::Absent | Expect::Any => 0,
        };
        let mut note = json!({
            "time": time::now(), "user": self.subject.name, "role": self.subject.role.to_string(),
            "verb": verb, "object": key, "subresource": self.target.subresource, "from": from,
        });
        // Whose deed it is that the system writes.
        let record = self.headers.get(record::HEADER).filter(|_| self.subject.role == Role::System);
        if let Some(record) = record.and_then(Record::from_header) {
            note["user"] = json!(record.user);
            note["role"] = json!(record.role);
            note["verb"] = json!(record.verb);
            if !record.what.is_empty() {
                note["what"] = json!(record.what);
            }
            if !record.object.is_empty() {
                note["object"] = json!(record.object);
            }
        }
        Some(encode::to_bytes(&note))
    }
}

/// What the store's refusals are called on the wire.
pub(crate) fn store_failure(kind: &Kind, name: &str, error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Conflict { .. } => Failure::stale(kind, name),
        Error::AlreadyExists { .. } => Failure::already_exists(kind, name),
        Error::NotFound { .. } => Failure::not_found(kind, name),
        Error::Compacted { .. } => Failure::expired(message),
        Error::Future { current } => read::ahead(current + 1, *current),
        Error::Full => Failure::new(507, "InsufficientStorage", message),
        Error::Overloaded => Failure::too_many(message, 1),
        Error::TooLarge { .. } => Failure::new(413, "RequestEntityTooLarge", message),
        // Of a store that was sound when it was opened: what to do now is said to who writes.
        Error::Closed | Error::Corrupt { .. } => Failure::new(503, "ServiceUnavailable", message),
        Error::Malformed { .. }
        | Error::Locked { .. }
        | Error::UnknownFormat { .. }
        | Error::NoKey { .. }
        | Error::OtherKey { .. }
        | Error::BadBackup { .. }
        | Error::RestoreRefused { .. }
        | Error::Io { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "the store failed");
            Failure::internal("the store could not do this; the server's log says why")
        }
    }
}

fn apply_failure(kind: &Kind, name: &str, problem: ApplyError) -> Failure {
    let message = problem.to_string();
    match problem {
        ApplyError::Conflicts { conflicts } => {
            let causes = conflicts.iter().map(|conflict| {
                json!({"reason": Conflict::REASON, "message": conflict.cause(),
                    "field": conflict.field})
            });
            Failure::new(409, "Conflict", message).about(kind, name, Some(causes.collect()))
        }
        ApplyError::Unmergeable { problems } => Failure::invalid(kind, name, &problems),
        ApplyError::HasManagedFields | ApplyError::NotAnObject => Failure::bad_request(message),
    }
}

/// A merge patch from within, for the subresources; gives back the whole object.
pub(crate) async fn merge(call: &Call, _permit: &Permit, change: &Value) -> Result<Value, Failure> {
    let kind = &call.served.kind;
    let stored = call.live()?;
    let live = encode::parse_in_version(kind, &stored);
    let merged = patch::merge_patch(&live, change.to_string().as_bytes()).map_err(patch_failure)?;
    let object = object::update(kind, &live, merged, Part::Main)?;
    match call.replace(&stored, &live, object, Vec::new()).await {
        Ok(written) => Ok(serde_json::from_slice(&written.bytes).unwrap_or_default()),
        Err(Unwritten::Raced) => Err(Failure::stale(kind, call.name())),
        Err(Unwritten::Refused(failure)) => Err(failure),
    }
}

/// A change by the server itself that is nobody's field: finalizers that are worked off, owners
/// that are gone.
pub(crate) async fn replace_as_is(
    call: &Call,
    stored: &Object,
    live: &Value,
    object: Value,
) -> Result<(), Failure> {
    let admitted = Admitted { object, warnings: Vec::new() };
    match call.put(stored, live, admitted, "update").await {
        Ok(_) => Ok(()),
        Err(Unwritten::Raced) => Err(Failure::stale(&call.served.kind, call.name())),
        Err(Unwritten::Refused(failure)) => Err(failure),
    }
}
