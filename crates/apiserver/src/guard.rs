//! Routes beside the Kubernetes protocol: the gate, facades and the console. They go through the same
//! door as every other request, and their handlers act with the rights of whoever asks. Called by the
//! programs that put the API together; start at [`Api::serving`].

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::request::Parts;
use tombolo_gate::Caller;
use tombolo_gate::caller::Still;
use tombolo_identity::{Permit, Role, Subject, Verb, access};

use crate::authenticate::Authenticated;
use crate::request::{Path, Query, parse_path, verb};
use crate::server::{Api, authorize, explain_refusal, peer, read_body, resource_of};
use crate::status::Failure;
use crate::traffic::{Connection, Payer, Place};
use crate::{agents, authenticate};

impl Api {
    /// This API with `routes` beside it, reached only by those whom the table of rights lets to the
    /// path. Their handlers find a [`Caller`] among the extensions of a request, and a body that has
    /// arrived whole, in time and within bounds.
    #[must_use]
    pub fn serving(self, routes: Router) -> Api {
        let routes = self.routes.clone().merge(routes.route_layer(from_fn(guard_whole)));
        Api { routes, ..self }
    }

    /// The same for routes whose bodies flow: nothing of them is read here, and bounds are kept by
    /// their handlers.
    #[must_use]
    pub fn streaming(self, routes: Router) -> Api {
        let routes = self.routes.clone().merge(routes.route_layer(from_fn(guard_flowing)));
        Api { routes, ..self }
    }
}

async fn guard_flowing(Extension(api): Extension<Api>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match admit(&api, &mut parts, Routes::Gate) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(failure) => failure.into_response(),
    }
}

async fn guard_whole(Extension(api): Extension<Api>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let admitted = async {
        admit(&api, &mut parts, Routes::Beside)?;
        read_body(body).await
    };
    match admitted.await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(failure) => failure.into_response(),
    }
}

/// What the table of rights is asked about.
#[derive(Clone, Copy, Debug)]
enum Routes {
    /// Paths, whatever they look like: `/api/v3/…` of a facade is no resource.
    Beside,
    /// Paths of ours, and subresources of the protocol.
    Gate,
}

/// Finds out who asks and whether they may, and leaves the proof among the extensions.
fn admit(api: &Api, parts: &mut Parts, routes: Routes) -> Result<(), Failure> {
    let path = parse_path(parts.uri.path());
    let subject = authenticate::subject(api, parts)?;
    let key = authenticate::key(parts);
    agents::check(api, &subject, key.as_deref(), &parts.headers)?;
    let permit = permit(&subject, &path, parts, routes)
        .map_err(|failure| explain_refusal(failure, parts))?;
    let caller = Caller {
        permit,
        client: api.client_at(subject, parts.extensions.get::<Place>().cloned()),
        address: peer(parts).map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.address.ip()),
        still: still(api, parts, routes),
    };
    parts.extensions.insert(caller);
    Ok(())
}

fn permit(
    subject: &Subject,
    path: &Path,
    parts: &Parts,
    routes: Routes,
) -> Result<Permit, Failure> {
    let target = match (routes, path) {
        // Agents answer errands and send nobody on any; what is there is no matter of theirs.
        (Routes::Gate, Path::Resource(_)) if matches!(subject.role, Role::Agent(_)) => {
            return Err(Failure::new(404, "NotFound", "there is no such path"));
        }
        (Routes::Gate, Path::Resource(target)) => target,
        (Routes::Beside, _) | (Routes::Gate, Path::Own(_)) => {
            let verb = Verb::of_method(parts.method.as_str());
            return authorize(subject, verb, access::Target::Path(parts.uri.path()));
        }
        // The router has found a route where we read no resource (an encoded slash, a path beyond
        // the bound). To ask for the right to the mere path would let in those who may not have the
        // resource.
        (Routes::Gate, _) => return Err(Failure::new(404, "NotFound", "there is no such path")),
    };
    let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
    let verb = verb(&parts.method, target, &query).ok_or_else(|| {
        let method = &parts.method;
        Failure::new(405, "MethodNotAllowed", format!("{method} is not possible here"))
    })?;
    authorize(subject, verb, resource_of(target))
}

/// Asks everything again that was asked in the beginning.
fn still(api: &Api, parts: &Parts, routes: Routes) -> Still {
    let api = api.clone();
    let mut kept = Parts::clone(parts);
    kept.extensions.remove::<Caller>();
    // What was found out in the beginning is to be found out anew, and nothing of the connection is
    // held for longer than it lasts.
    kept.extensions.remove::<Authenticated>();
    kept.extensions.remove::<Connection>();
    kept.extensions.remove::<Payer>();
    kept.extensions.remove::<Place>();
    let kept = Arc::new(kept);
    Arc::new(move || {
        let allowed = still_allowed(&api, &kept, routes).is_ok();
        Box::pin(std::future::ready(allowed))
    })
}

fn still_allowed(api: &Api, parts: &Parts, routes: Routes) -> Result<Permit, Failure> {
    let subject = authenticate::subject(api, parts)?;
    agents::check(api, &subject, authenticate::key(parts).as_deref(), &parts.headers)?;
    permit(&subject, &parse_path(parts.uri.path()), parts, routes)
}
