//! `/tombolo/join`, `/tombolo/nonce` and `/tombolo/renew`: how a machine comes by its certificate.
//!
//! What is decided is in [`tombolo_identity::joining`]; here it is looked up, written and signed.
//! A joining is one commit: the token is used up, the Site and the Node are made or adopted, or
//! nothing is. Two who come with one token at once meet at the token's revision, and one wins.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_identity::authority::AGENT_LIFETIME;
use tombolo_identity::joining::{self, Applicant, Bearer, How, Observed, Plan, Record, Refused};
use tombolo_identity::{Authority, Role, Subject, Token, TokenHash, request, tls};
use tombolo_model::site::Engine;
use tombolo_model::{condition, keys, names};
use tombolo_store::{Object, Write};

use crate::answer::Answer;
use crate::own_writes::{self, Author};
use crate::serve::Peer;
use crate::server::{Api, read_body_within};
use crate::status::Failure;
use crate::write::Unwritten;
use crate::{agents, encode, time};

/// A signing request and a certificate, with room to spare.
const BODY_BYTES_MAX: usize = 48 * 1024;
const MACHINE_BYTES_MAX: usize = 64;
const VERSION_BYTES_MAX: usize = 64;
/// The Lease is called `node-` and the name.
const NODE_BYTES_MAX: usize = 253 - keys::NODE_LEASE_PREFIX.len();
const ATTEMPTS_MAX: usize = 16;
/// Labels that come with a joining; a person may write more on the Node.
const LABELS_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Join {
    token: String,
    /// The signing request, as PEM.
    request: String,
    node: String,
    machine: String,
    #[serde(default)]
    agent_version: String,
    /// Of the site, if this is its first node.
    #[serde(default)]
    engine: Option<Engine>,
    /// For the Node, as the operator of the machine wants them.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Renew {
    /// The certificate so far, as PEM; it may have expired.
    certificate: String,
    /// A signing request with the same key, whose common name is a nonce of ours.
    request: String,
    #[serde(default)]
    instance: Option<String>,
    /// For the Node, as the operator of the machine wants them now.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Those that were wanted before and are not any more.
    #[serde(default)]
    labels_dropped: Vec<String>,
}

/// A nonce for a renewal. Anybody may have one: it is worth nothing without a key.
pub(crate) fn nonce(api: &Api) -> Result<Response, Failure> {
    let nonce = api.door.sealer.seal(api.door.elapsed());
    Ok(Answer::value(&json!({"nonce": nonce})).into_response())
}

pub(crate) async fn join(api: &Api, peer: Option<&Peer>, body: Body) -> Result<Response, Failure> {
    guarded(api, peer, async {
        let authority = authority(api)?;
        let wanted: Join = parse(body).await?;
        let token = Token::parse(&wanted.token)
            .map_err(|malformed| Failure::unauthorized(malformed.to_string()))?;
        check_words(&wanted)?;
        let proof = request::read(&wanted.request).map_err(|error| bad_proof(&error))?;
        for _ in 0..ATTEMPTS_MAX {
            match try_join(api, authority, &wanted, &token, &proof.key).await {
                Ok(answer) => return Ok(answer),
                Err(Unwritten::Raced) => (),
                Err(Unwritten::Refused(failure)) => return Err(failure),
            }
        }
        Err(Failure::too_many("too many join at once; try again in a second", 1))
    })
    .await
}

pub(crate) async fn renew(api: &Api, peer: Option<&Peer>, body: Body) -> Result<Response, Failure> {
    guarded(api, peer, async {
        let authority = authority(api)?;
        let wanted: Renew = parse(body).await?;
        check_labels(&wanted.labels)?;
        let proof = request::read(&wanted.request).map_err(|error| bad_proof(&error))?;
        if !api.door.sealer.is_fresh(&proof.nonce, api.door.elapsed()) {
            return Err(Failure::unauthorized(
                "the signing request was not made for a fresh nonce of this server: ask for \
                 another and try again",
            ));
        }
        let identity = tls::expired_identity(authority, &wanted.certificate)
            .map_err(|error| bad_proof(&error))?;
        if identity.key != proof.key {
            let message = "the signing request is not of the key in the certificate";
            return Err(Failure::unauthorized(message));
        }
        for _ in 0..ATTEMPTS_MAX {
            match try_renew(api, authority, &wanted, &identity.subject, &proof.key).await {
                Ok(answer) => return Ok(answer),
                Err(Unwritten::Raced) => (),
                Err(Unwritten::Refused(failure)) => return Err(failure),
            }
        }
        Err(Failure::too_many("too many write the node at once; try again in a second", 1))
    })
    .await
}

/// Whoever fails again and again from one address has to wait.
async fn guarded(
    api: &Api,
    peer: Option<&Peer>,
    work: impl Future<Output = Result<Answer, Failure>>,
) -> Result<Response, Failure> {
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.address.ip());
    if let Some(wait) = api.door.throttle().wait(address, api.door.elapsed()) {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1);
        return Err(Failure::too_many("too many failures from this address", seconds));
    }
    let result = work.await;
    if let Err(failure) = &result
        && (400..500).contains(&failure.code)
        && failure.code != 429
    {
        api.door.throttle().failed(address, api.door.elapsed());
        tracing::warn!(%address, why = failure.message, "a joining or renewal was refused");
    }
    Ok(result?.into_response())
}

fn authority(api: &Api) -> Result<&Arc<Authority>, Failure> {
    let message = "this server signs no certificates: nobody can join here";
    api.door.authority.get().ok_or_else(|| Failure::new(501, "NotImplemented", message))
}

async fn parse<T: serde::de::DeserializeOwned>(body: Body) -> Result<T, Failure> {
    let bytes = read_body_within(body, BODY_BYTES_MAX).await?;
    // The message of the parser may quote the body, and that has a secret in it.
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::bad_request(format!("the body is not as expected, at line {}", error.line()))
    })
}

fn bad_proof(error: &tombolo_identity::Error) -> Failure {
    match error.is_of_the_request() {
        true => Failure::bad_request(error.to_string()),
        false => Failure::internal("the server could not do this; its log says why"),
    }
}

fn check_words(wanted: &Join) -> Result<(), Failure> {
    let wrong =
        |field: &str, problem: String| Err(Failure::bad_request(format!("{field}: {problem}")));
    if let Err(problem) = names::subdomain(&wanted.node) {
        return wrong("node", problem);
    }
    if wanted.node.len() > NODE_BYTES_MAX {
        return wrong("node", format!("at most {NODE_BYTES_MAX} bytes are allowed"));
    }
    let machine = &wanted.machine;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if machine.is_empty() || machine.len() > MACHINE_BYTES_MAX || !machine.bytes().all(allowed) {
        return wrong("machine", "expected 1 to 64 letters, digits and dashes".to_owned());
    }
    let version = &wanted.agent_version;
    let plain = version.bytes().all(|byte| byte.is_ascii_graphic());
    if version.len() > VERSION_BYTES_MAX || !plain {
        return wrong("agentVersion", "expected at most 64 plain characters".to_owned());
    }
    check_labels(&wanted.labels)
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Failure> {
    let wrong =
        |field: &str, problem: String| Err(Failure::bad_request(format!("{field}: {problem}")));
    if labels.len() > LABELS_MAX {
        return wrong("labels", format!("at most {LABELS_MAX} are allowed"));
    }
    for (key, value) in labels {
        let valid = names::qualified(key).and_then(|()| names::label_value(value));
        if let Err(problem) = valid {
            return wrong("labels", problem);
        }
        if keys::is_own(key) {
            return wrong("labels", format!("{key} is set by the server alone"));
        }
    }
    Ok(())
}

/// A token as it lies in the store.
struct Kept {
    stored: Arc<Object>,
    live: Value,
    record: Record,
}

/// Join tokens are named after their hash, so that they are found without a search.
fn find_token(api: &Api, token: &Token) -> Option<Kept> {
    let name = token.hash().join_token_name();
    let stored = api.store.get(&format!("{}/jointokens//{name}", keys::GROUP))?;
    let live = encode::parse(&stored);
    let moment = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let record = Record {
        hash: TokenHash::parse(live["spec"]["hash"].as_str()?)?,
        site: live["spec"]["site"].as_str()?.to_owned(),
        created: moment(&live["metadata"]["creationTimestamp"])?,
        expires: moment(&live["spec"]["expires"])?,
        used_by: live["status"]["usedBy"].as_str().map(str::to_owned),
    };
    Some(Kept { stored, live, record })
}

async fn try_join(
    api: &Api,
    authority: &Authority,
    wanted: &Join,
    token: &Token,
    key: &str,
) -> Result<Answer, Unwritten> {
    let now = time::timestamp();
    let kept = find_token(api, token);
    let node = agents::find(api, &wanted.node);
    let observed = Observed {
        record: kept.as_ref().map(|kept| kept.record.clone()),
        site_exists: kept.as_ref().is_some_and(|kept| agents::site_exists(api, &kept.record.site)),
        node: node.as_ref().map(|(_, live)| agents::known(live)),
    };
    let applicant = Applicant { token, node: &wanted.node, machine: &wanted.machine, key };
    let plan = joining::join(&applicant, &observed, now).map_err(|refused| refusal(&refused))?;
    let kept = kept.ok_or_else(|| refusal(&Refused::UnknownToken))?;
    let subject = Subject::agent(&plan.site, &wanted.node).map_err(|error| bad_proof(&error))?;
    let certificate = authority
        .sign_request(&wanted.request, &subject, AGENT_LIFETIME, now)
        .map_err(|error| bad_proof(&error))?;
    let expires = now.saturating_add(AGENT_LIFETIME).unwrap_or(jiff::Timestamp::MAX);
    if plan.how != How::Again {
        let author = Author { user: &subject.name, verb: "join" };
        let marks = json!({
            keys::ANNOTATION_MACHINE: wanted.machine, keys::ANNOTATION_KEY: key,
            keys::ANNOTATION_CERTIFICATE_EXPIRES: expires.to_string(),
        });
        let writes = writes(api, wanted, &plan, &kept, node, &marks, author)?;
        let nodes = own_writes::served(api, keys::GROUP, keys::VERSION, "nodes");
        agents::commit(api, &nodes.kind, &wanted.node, writes).await?;
        api.door.forget(&wanted.node);
        tracing::info!(site = plan.site, node = wanted.node, how = %plan.how, "joined");
    }
    let answer = json!({
        "site": plan.site, "node": wanted.node, "certificate": certificate,
        "authority": authority.certificate_pem(), "expires": expires.to_string(),
        "how": plan.how.to_string(),
    });
    Ok(Answer::value(&answer).with_code(StatusCode::CREATED))
}

fn refusal(refused: &Refused) -> Failure {
    match refused {
        Refused::UnknownToken | Refused::Used { .. } | Refused::Expired { .. } => {
            Failure::unauthorized(refused.to_string())
        }
        Refused::WrongSite { .. } | Refused::NameTaken { .. } => {
            Failure::new(409, "Conflict", refused.to_string())
        }
    }
}

/// Everything that a joining changes.
fn writes(
    api: &Api,
    wanted: &Join,
    plan: &Plan,
    token: &Kept,
    node: Option<(Arc<Object>, Value)>,
    marks: &Value,
    author: Author<'_>,
) -> Result<Vec<Write>, Failure> {
    let kind = |plural| own_writes::served(api, keys::GROUP, keys::VERSION, plural);
    let mut used = token.live.clone();
    used["status"] = json!({"usedAt": time::now(), "usedBy": wanted.node});
    let tokens = kind("jointokens");
    let mut writes =
        vec![own_writes::replace(api, &tokens.kind, &token.stored, &token.live, used, author)?];
    if plan.make_site {
        let engine = wanted.engine.unwrap_or(Engine::Host);
        let site = json!({
            "apiVersion": keys::API_VERSION, "kind": "Site",
            "metadata": {"name": plan.site}, "spec": {"engine": engine},
        });
        writes.push(own_writes::create(api, &kind("sites").kind, site, None, author)?);
    }
    let nodes = kind("nodes");
    writes.push(match node {
        None => {
            let node = new_node(wanted, plan, marks);
            own_writes::create(api, &nodes.kind, node, None, author)?
        }
        Some((stored, live)) => {
            let node = adopted(wanted, &live, marks);
            own_writes::replace(api, &nodes.kind, &stored, &live, node, author)?
        }
    });
    let (reason, message) = (("Normal", plan.how.reason()), plan.how.to_string());
    writes.push(own_writes::event_of_node(api, &wanted.node, reason, &message, author)?);
    Ok(writes)
}

fn new_node(wanted: &Join, plan: &Plan, marks: &Value) -> Value {
    let mut node = json!({
        "apiVersion": keys::API_VERSION, "kind": "Node",
        "metadata": {"name": wanted.node, "annotations": marks},
        "spec": {"site": plan.site}, "status": {"agentVersion": wanted.agent_version},
    });
    if !wanted.labels.is_empty() {
        node["metadata"]["labels"] = json!(wanted.labels);
    }
    // Names of sites may be longer than labels.
    if names::label_value(&plan.site).is_ok() {
        node["metadata"]["labels"][keys::LABEL_SITE] = json!(plan.site);
    }
    node
}

/// The node as it was, with another to act for it. What was held against the last one is over.
fn adopted(wanted: &Join, live: &Value, marks: &Value) -> Value {
    let mut node = live.clone();
    if !node["metadata"]["annotations"].is_object() {
        node["metadata"]["annotations"] = json!({});
    }
    if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
        annotations.remove(keys::ANNOTATION_REVOKED);
        annotations.remove(keys::ANNOTATION_QUARANTINED);
        for (key, value) in marks.as_object().into_iter().flatten() {
            annotations.insert(key.clone(), value.clone());
        }
    }
    relabel(&mut node, &wanted.labels, &[]);
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    node["status"]["agentVersion"] = json!(wanted.agent_version);
    let conditions = node["status"]["conditions"].as_array();
    if conditions.is_some_and(|all| all.iter().any(|found| found["type"] == condition::CLONED)) {
        agents::set_cloned(&mut node, "False", "JoinedAnew", "it has joined anew");
    }
    node
}

/// What people have written on it since stays; what the operator of the machine says anew counts more.
fn relabel(node: &mut Value, labels: &BTreeMap<String, String>, dropped: &[String]) {
    if let Some(known) = node["metadata"]["labels"].as_object_mut() {
        known.retain(|key, _| keys::is_own(key) || !dropped.contains(key));
    }
    for (key, value) in labels {
        node["metadata"]["labels"][key] = json!(value);
    }
}

async fn try_renew(
    api: &Api,
    authority: &Authority,
    wanted: &Renew,
    subject: &Subject,
    key: &str,
) -> Result<Answer, Unwritten> {
    let Role::Agent { site, node } = &subject.role else {
        let message = "only the certificates of agents are renewed";
        return Err(Failure::forbidden(message).into());
    };
    let bearer = Bearer { site, node, key: Some(key), instance: wanted.instance.as_deref() };
    agents::stands(api, &bearer).map_err(|fallen| agents::failure(&fallen))?;
    let now = time::timestamp();
    let certificate = authority
        .sign_request(&wanted.request, subject, AGENT_LIFETIME, now)
        .map_err(|error| bad_proof(&error))?;
    let expires = now.saturating_add(AGENT_LIFETIME).unwrap_or(jiff::Timestamp::MAX).to_string();
    let (stored, live) = agents::find(api, node).ok_or(Unwritten::Raced)?;
    let mut object = live.clone();
    object["metadata"]["annotations"][keys::ANNOTATION_CERTIFICATE_EXPIRES] = json!(expires);
    relabel(&mut object, &wanted.labels, &wanted.labels_dropped);
    let kind = &own_writes::served(api, keys::GROUP, keys::VERSION, "nodes").kind;
    let author = Author { user: &subject.name, verb: "renew" };
    let write = own_writes::replace(api, kind, &stored, &live, object, author)?;
    agents::commit(api, kind, node, vec![write]).await?;
    let answer = json!({
        "site": site, "node": node, "certificate": certificate,
        "authority": authority.certificate_pem(), "expires": expires,
    });
    Ok(Answer::value(&answer).with_code(StatusCode::CREATED))
}
