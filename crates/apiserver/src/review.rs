//! Reviews: questions about access that are asked by creating an object which is never stored.
//! `kubectl auth can-i` and `kubectl auth whoami` ask them.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use tombolo_identity::{Subject, Verb, access};

use crate::answer::Answer;
use crate::authenticate;
use crate::discovery::REVIEWS;
use crate::request::Target;
use crate::server::Api;
use crate::status::Failure;
use crate::write::decode_body;

/// What each review of [`REVIEWS`] asks.
#[derive(Clone, Copy, Debug)]
enum Question {
    Access,
    Rules,
    Token,
    Me,
}

pub(crate) fn is_review(target: &Target) -> bool {
    find(target).is_some()
}

fn find(target: &Target) -> Option<Question> {
    let review = REVIEWS.iter().find(|review| {
        review.group == target.group
            && review.plural == target.resource
            && review.version == target.version
    })?;
    match review.kind {
        "SelfSubjectAccessReview" => Some(Question::Access),
        "SelfSubjectRulesReview" => Some(Question::Rules),
        "TokenReview" => Some(Question::Token),
        "SelfSubjectReview" => Some(Question::Me),
        _ => None,
    }
}

pub(crate) fn answer(
    api: &Api,
    target: &Target,
    subject: &Subject,
    verb: Verb,
    content_type: &str,
    body: &[u8],
) -> Result<Response, Failure> {
    let question = find(target).ok_or_else(Failure::no_such_path)?;
    if verb != Verb::Create {
        return Err(Failure::new(405, "MethodNotAllowed", "a review can only be created"));
    }
    let mut object = decode_body(content_type, body)?.value;
    if !object.is_object() || !(object["spec"].is_object() || object["spec"].is_null()) {
        return Err(Failure::bad_request(
            "the body is not a review: expected an object with a spec",
        ));
    }
    object["status"] = match question {
        Question::Access => allowed(api, subject, &object["spec"])?,
        Question::Rules => rules(subject, &object["spec"]),
        Question::Token => token(api, &object["spec"]),
        Question::Me => json!({"userInfo": user_info(subject)}),
    };
    Ok(Answer::value(&object).with_code(StatusCode::CREATED).into_response())
}

fn allowed(api: &Api, subject: &Subject, spec: &Value) -> Result<Value, Failure> {
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    let of = |value: &'_ Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (group, name) = (of(resource, "group"), of(resource, "name"));
    let (plural, namespace) = (of(resource, "resource"), of(resource, "namespace"));
    let (subresource, raw_path) = (of(resource, "subresource"), of(path, "path"));
    let attributes = match (resource.is_object(), path.is_object()) {
        (true, _) => access::Attributes {
            verb: Verb::parse(&of(resource, "verb")),
            target: access::Target::Resource(access::Resource {
                group: &group,
                resource: &plural,
                subresource: &subresource,
                namespace: &namespace,
                name: &name,
                site: "",
                node: "",
            }),
        },
        (false, true) => access::Attributes {
            verb: Verb::parse(&of(path, "verb")),
            target: access::Target::Path(&raw_path),
        },
        (false, false) => {
            return Err(Failure::bad_request(
                "spec: one of resourceAttributes and nonResourceAttributes is required",
            ));
        }
    };
    if resource.is_object() && !is_served(api, &group, &plural) {
        let reason = format!("this server has no {plural:?} in the group {group:?}");
        return Ok(json!({"allowed": false, "reason": reason}));
    }
    Ok(match tombolo_identity::authorize(subject, &attributes) {
        Ok(_) => json!({"allowed": true, "reason": format!("role {}", subject.role)}),
        Err(denied) => json!({"allowed": false, "reason": denied.to_string()}),
    })
}

/// Whoever may do everything still cannot make what nobody serves.
fn is_served(api: &Api, group: &str, plural: &str) -> bool {
    if group == "*" || plural == "*" || plural.is_empty() {
        return true;
    }
    let kinds = api.registry.now();
    kinds.iter().any(|served| served.kind.group == group && served.kind.plural == plural)
        || REVIEWS.iter().any(|review| review.group == group && review.plural == plural)
}

fn rules(subject: &Subject, spec: &Value) -> Value {
    let rules = access::rules(subject, spec["namespace"].as_str().unwrap_or("default"));
    let resources = rules.resources.into_iter().map(|rule| {
        json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
            "resourceNames": rule.names})
    });
    let paths = rules
        .paths
        .into_iter()
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}));
    // Kinds that users have defined are not in the list.
    json!({"resourceRules": resources.collect::<Vec<_>>(),
        "nonResourceRules": paths.collect::<Vec<_>>(), "incomplete": true})
}

fn token(api: &Api, spec: &Value) -> Value {
    match authenticate::by_token(api, spec["token"].as_str().unwrap_or_default()) {
        Ok(subject) => json!({"authenticated": true, "user": user_info(&subject)}),
        Err(failure) => json!({"authenticated": false, "error": failure.message}),
    }
}

fn user_info(subject: &Subject) -> Value {
    let mut info = json!({"username": subject.name, "groups": subject.groups()});
    if let Some(namespace) = &subject.namespace {
        info["extra"] = json!({tombolo_identity::EXTRA_NAMESPACE: [namespace]});
    }
    info
}
