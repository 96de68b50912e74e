//! The scale subresource: one number of an object, as `autoscaling/v1 Scale`.

use bytes::Bytes;
use serde_json::{Value, json};
use tombolo_identity::{Permit, Verb};

use crate::answer::Answer;
use crate::kinds::{Kind, Scale};
use crate::object::text;
use crate::server::Call;
use crate::status::{Failure, Invalid, Problem};
use crate::{encode, write};
use tombolo_document::jsonpath::{self, Path};
use tombolo_document::patch;

pub(crate) async fn answer(
    call: &Call,
    permit: &Permit,
    verb: Verb,
    body: &Bytes,
) -> Result<Answer, Failure> {
    let kind = &call.served.kind;
    let scale = kind.scale.as_ref().ok_or_else(Failure::no_such_path)?;
    let stored =
        call.api.store.get(&call.key()).ok_or_else(|| Failure::not_found(kind, call.name()))?;
    let live = encode::parse(&stored);
    let current = render(scale, &live);
    let wanted = match verb {
        Verb::Get => return Ok(Answer::value(&current)),
        Verb::Update => write::decode_body(call.content_type(), body)?.value,
        Verb::Patch => patched(call, &current, body)?,
        _ => return Err(Failure::new(405, "MethodNotAllowed", "a scale is read or changed")),
    };
    let replicas = replicas(kind, call.name(), &wanted)?;
    let revision = text(&wanted, "resourceVersion");
    if !revision.is_empty() && revision != text(&live, "resourceVersion") {
        return Err(Failure::stale(kind, call.name()));
    }
    let change = change(scale, &live, replicas)?;
    let written = write::merge(call, permit, &change).await?;
    Ok(Answer::value(&render(scale, &written)))
}

fn patched(call: &Call, current: &Value, body: &[u8]) -> Result<Value, Failure> {
    let patched = match call.content_type() {
        "application/json-patch+json" => patch::json_patch(current, body),
        _ => patch::merge_patch(current, body),
    };
    patched.map_err(write::patch_failure)
}

fn replicas(kind: &Kind, name: &str, scale: &Value) -> Result<u64, Failure> {
    let found = scale["spec"].get("replicas").unwrap_or(&Value::Null);
    let number = found.as_u64();
    number.filter(|number| *number <= i32::MAX.unsigned_abs().into()).ok_or_else(|| {
        let problem = Invalid {
            field: "spec.replicas".to_owned(),
            problem: Problem::Invalid,
            message: format!("found {found}, expected a whole number of 0 or more"),
        };
        Failure::invalid(kind, name, &[problem])
    })
}

/// The object's change as a merge patch, so that it takes the way of every other change.
fn change(scale: &Scale, live: &Value, replicas: u64) -> Result<Value, Failure> {
    let internal = |problem: jsonpath::Error| Failure::internal(problem.to_string());
    let mut change = json!({"metadata": {"resourceVersion": text(live, "resourceVersion")}});
    let path = Path::parse(&scale.spec_replicas_path).map_err(internal)?;
    path.set(&mut change, json!(replicas)).map_err(internal)?;
    Ok(change)
}

fn render(scale: &Scale, object: &Value) -> Value {
    let number = |path: &str| {
        let path = Path::parse(path).ok()?;
        path.first(object).and_then(Value::as_u64)
    };
    let selector = scale.label_selector_path.as_deref().and_then(|path| {
        Path::parse(path).ok()?.first(object).and_then(Value::as_str).map(str::to_owned)
    });
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut status = json!({"replicas": number(&scale.status_replicas_path).unwrap_or(0)});
    if let Some(selector) = selector {
        status["selector"] = json!(selector);
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&scale.spec_replicas_path).unwrap_or(0)}, "status": status,
    })
}
