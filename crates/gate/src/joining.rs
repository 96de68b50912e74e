//! `/tombolo/join`, `/tombolo/nonce` and `/tombolo/renew`: how a machine comes by its certificate.
//!
//! What is decided is in [`tombolo_identity::joining`]; here it is looked up, written and signed.
//!
//! A joining is several writes, and they come in an order in which each may be the last. The token is
//! used up first, on the condition that nobody has written it since: of two who come with one token at
//! once, one wins. It then names the node and the key that used it, so that this machine, and no other,
//! can go on where it broke off: make the Site, make or adopt the Node, get its certificate. At the end
//! the key is taken off the token, and nobody can go on with it any more.

mod token;
mod wanted;
mod writes;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use tombolo_identity::authority::AGENT_LIFETIME;
use tombolo_identity::joining::{self, Applicant, Bearer, How, Observed, Refused, Sought};
use tombolo_identity::{Authority, Remit, Role, Subject, Token, request, tls};
use tombolo_model::keys;

use crate::caller::Caller;
use crate::failure::{Failure, answer};
use crate::record::Record;
use crate::resources::{Unwritten, ours, timestamp};
use crate::{Gate, body, nodes};

use token::{Kept, close, find_token, use_up};
use wanted::{Join, Renew, check_labels, check_words};
use writes::{finish, make_site, relabelled, take_in};

/// A signing request and a certificate, with room to spare.
const BODY_BYTES_MAX: usize = 48 * 1024;
const ATTEMPTS_MAX: usize = 16;

/// A nonce for a renewal. Anybody may ask for a nonce: it is worth nothing without a key.
pub(crate) fn nonce(gate: &Gate) -> Response {
    let nonce = gate.shared.sealer.seal(gate.elapsed());
    answer(StatusCode::OK, &json!({"nonce": nonce}))
}

pub(crate) async fn join(gate: &Gate, caller: &Caller, body: Body) -> Result<Response, Failure> {
    throttled(gate, caller, async {
        let authority = authority(gate)?;
        let wanted: Join = body::parse(body, BODY_BYTES_MAX).await?;
        let token = Token::parse(&wanted.token)
            .map_err(|malformed| Failure::unauthorized(malformed.to_string()))?;
        check_words(&wanted)?;
        let proof = request::read(&wanted.request).map_err(|error| bad_proof(&error))?;
        for _ in 0..ATTEMPTS_MAX {
            match try_join(gate, authority, &wanted, &token, &proof.key).await {
                Ok(answer) => return Ok(answer),
                Err(Unwritten::Raced) => (),
                Err(Unwritten::Refused(failure)) => return Err(failure),
            }
        }
        Err(Failure::too_many("too many join at once; try again in a second", 1))
    })
    .await
}

pub(crate) async fn renew(gate: &Gate, caller: &Caller, body: Body) -> Result<Response, Failure> {
    throttled(gate, caller, async {
        let authority = authority(gate)?;
        let wanted: Renew = body::parse(body, BODY_BYTES_MAX).await?;
        check_labels(&wanted.labels)?;
        let proof = request::read(&wanted.request).map_err(|error| bad_proof(&error))?;
        if !gate.shared.sealer.is_fresh(&proof.nonce, gate.elapsed()) {
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
        match try_renew(gate, authority, &wanted, &identity.subject, &proof.key).await {
            Ok(answer) => Ok(answer),
            Err(Unwritten::Refused(failure)) => Err(failure),
            Err(Unwritten::Raced) => {
                let message = "too many write the node at once; try again in a second";
                Err(Failure::too_many(message, 1))
            }
        }
    })
    .await
}

/// A client that fails again and again from one address has to wait.
async fn throttled(
    gate: &Gate,
    caller: &Caller,
    work: impl Future<Output = Result<Response, Failure>>,
) -> Result<Response, Failure> {
    let address = caller.address;
    if let Some(wait) = gate.throttle().wait(address, gate.elapsed()) {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1);
        return Err(Failure::too_many("too many failures from this address", seconds));
    }
    let result = work.await;
    if let Err(failure) = &result
        && (400..500).contains(&failure.code)
        && failure.code != 429
    {
        gate.throttle().failed(address, gate.elapsed());
        tracing::warn!(%address, why = failure.message, "a joining or renewal was refused");
    }
    result
}

fn authority(gate: &Gate) -> Result<&Arc<Authority>, Failure> {
    let message = "this server signs no certificates: nobody can join here";
    let authority = gate.shared.authority.as_ref();
    authority.ok_or_else(|| Failure::new(501, "NotImplemented", message))
}

fn bad_proof(error: &tombolo_identity::Error) -> Failure {
    match error.is_of_the_request() {
        true => Failure::bad_request(error.to_string()),
        false => Failure::internal(error),
    }
}

async fn try_join(
    gate: &Gate,
    authority: &Authority,
    wanted: &Join,
    token: &Token,
    key: &str,
) -> Result<Response, Unwritten> {
    let now = timestamp();
    let kept = find_token(gate, token).await?;
    let seen = look(gate, wanted.sought(), kept.as_ref()).await?;
    let applicant = Applicant { token, sought: wanted.sought(), machine: &wanted.machine, key };
    let plan =
        joining::join(&applicant, &seen.observed, now).map_err(|refused| refusal(&refused))?;
    let kept = kept.ok_or_else(|| refusal(&Refused::UnknownToken))?;
    let subject = Subject::of_agent(plan.remit.clone()).map_err(|error| bad_proof(&error))?;
    let certificate = authority
        .sign_request(&wanted.request, &subject, AGENT_LIFETIME, now)
        .map_err(|error| bad_proof(&error))?;
    let expires = now.saturating_add(AGENT_LIFETIME).unwrap_or(jiff::Timestamp::MAX);
    let record = Record::new(&subject, "join");
    if plan.how != How::Again {
        if kept.record.used.is_none() {
            use_up(gate, &kept, plan.remit.name(), key, &record).await?;
        }
        let marks = json!({
            keys::ANNOTATION_MACHINE: wanted.machine, keys::ANNOTATION_KEY: key,
            keys::ANNOTATION_CERTIFICATE_EXPIRES: expires.to_string(),
        });
        make_site(gate, wanted, &plan, &record).await?;
        take_in(gate, wanted, &plan, seen.live, &marks, &record).await?;
    }
    if !kept.is_closed() {
        finish(gate, wanted, &plan, &record).await?;
        close(gate, &kept, &record).await;
    }
    let answered = json!({
        "site": plan.remit.site(), "node": node_of(&plan.remit), "certificate": certificate,
        "authority": authority.certificate_pem(), "expires": expires.to_string(),
        "how": plan.to_string(),
    });
    Ok(answer(StatusCode::CREATED, &answered))
}

/// For answers; nothing for the agent of a whole site.
fn node_of(remit: &Remit) -> Option<&str> {
    match remit {
        Remit::Node { node, .. } => Some(node),
        Remit::Site { .. } => None,
    }
}

/// What a joining is decided on.
struct Seen {
    observed: Observed,
    /// The Node or Site that is sought, as it is.
    live: Option<Value>,
}

async fn look(gate: &Gate, sought: Sought<'_>, kept: Option<&Kept>) -> Result<Seen, Failure> {
    let resources = gate.resources();
    let site = match kept {
        Some(kept) => resources.get(&ours("sites", &kept.record.site)).await?,
        None => None,
    };
    let (node, joined_node) = match sought {
        Sought::Node(node) => (resources.get(&ours("nodes", node)).await?, None),
        Sought::Site => (None, joined_node(gate, kept).await?),
    };
    let observed = Observed {
        record: kept.map(|kept| kept.record.clone()),
        site: site.as_ref().map(nodes::known_of_site),
        node: node.as_ref().map(nodes::known),
        joined_node,
    };
    let live = match sought {
        Sought::Node(_) => node,
        Sought::Site => site,
    };
    Ok(Seen { observed, live })
}

/// A node of the token's site that has an agent of its own.
async fn joined_node(gate: &Gate, kept: Option<&Kept>) -> Result<Option<String>, Failure> {
    let Some(kept) = kept else { return Ok(None) };
    let path = format!("{}?fieldSelector=spec.site%3D{}", ours("nodes", ""), kept.record.site);
    let listed = gate.resources().get(&path).await?.unwrap_or_default();
    let all = listed["items"].as_array().into_iter().flatten();
    let joined = all.filter(|node| nodes::known(node).has_agent());
    Ok(joined.filter_map(|node| node["metadata"]["name"].as_str()).min().map(str::to_owned))
}

fn refusal(refused: &Refused) -> Failure {
    match refused {
        Refused::UnknownToken | Refused::Used { .. } | Refused::Expired { .. } => {
            Failure::unauthorized(refused.to_string())
        }
        Refused::WrongSite { .. }
        | Refused::NameTaken { .. }
        | Refused::SiteTaken { .. }
        | Refused::ForSite { .. }
        | Refused::ForNode { .. }
        | Refused::SiteHasAgent { .. }
        | Refused::NodesHaveAgents { .. } => Failure::new(409, "Conflict", refused.to_string()),
    }
}

async fn try_renew(
    gate: &Gate,
    authority: &Authority,
    wanted: &Renew,
    subject: &Subject,
    key: &str,
) -> Result<Response, Unwritten> {
    let Role::Agent(remit) = &subject.role else {
        let message = "only the certificates of agents are renewed";
        return Err(Failure::forbidden(message).into());
    };
    let (node, site) = nodes::find(gate, remit).await?;
    let bearer = Bearer { remit, key: Some(key), instance: wanted.instance.as_deref() };
    let (known, of_site) =
        (node.as_ref().map(nodes::known), site.as_ref().map(nodes::known_of_site));
    joining::standing(&bearer, known.as_ref(), of_site.as_ref())
        .map_err(|fallen| nodes::failure(&fallen))?;
    let now = timestamp();
    let certificate = authority
        .sign_request(&wanted.request, subject, AGENT_LIFETIME, now)
        .map_err(|error| bad_proof(&error))?;
    let expires = now.saturating_add(AGENT_LIFETIME).unwrap_or(jiff::Timestamp::MAX).to_string();
    let live = match remit {
        Remit::Node { .. } => node,
        Remit::Site { .. } => site,
    };
    let live = live.ok_or(Unwritten::Raced)?;
    // On the condition that the object is as it was asked about: an agent that was replaced in the
    // meantime must not change its labels.
    let patch = json!({"metadata": {
        "resourceVersion": live["metadata"]["resourceVersion"],
        "annotations": {keys::ANNOTATION_CERTIFICATE_EXPIRES: expires},
        "labels": relabelled(&wanted.labels, &wanted.labels_dropped),
    }});
    let record = Record::new(subject, "renew");
    gate.resources().patch(&nodes::path(remit), &patch, &record).await?;
    let answered = json!({
        "site": remit.site(), "node": node_of(remit), "certificate": certificate,
        "authority": authority.certificate_pem(), "expires": expires,
    });
    Ok(answer(StatusCode::CREATED, &answered))
}
