//! The gate: how agents come in, and what they do beside reading and writing resources. Joining,
//! certificates and their renewal, heartbeats, errands (logs, commands and ports of instances), and
//! the list of controllers.
//!
//! The gate knows the API through a `kube::Client` alone, so that it serves in both homes. Who asks,
//! and whether they may, is decided at the door of the home, which hands every request over with a
//! [`Caller`]: its `Permit` is the proof. Start reading at [`Gate`], then [`caller`]; the whole
//! design is in `docs/adr/0009-the-gate.md`.

mod body;
pub mod caller;
mod errands;
mod failure;
mod joining;
mod leases;
mod lighthouse;
mod log_end;
pub mod nodes;
pub mod record;
mod resources;
pub mod scope;
mod throttle;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use axum::{Extension, Router};
use http::{Method, Uri};
use tombolo_identity::Authority;
use tombolo_identity::nonce::Sealer;

pub use caller::Caller;
pub use failure::Failure;
pub use log_end::Log;

use errands::{Errands, listen, subresource};
use leases::Leases;
use resources::Resources;
use throttle::Throttle;

/// The gate of one server. Cheap to clone; all clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    resources: Resources,
    /// Not there on a server that lets nobody join.
    authority: Option<Arc<Authority>>,
    sealer: Sealer,
    throttle: Mutex<Throttle>,
    leases: Mutex<Leases>,
    errands: Arc<Errands>,
    started: Instant,
}

impl Gate {
    /// `client` acts with the rights of the system. Machines can join if there is an `authority`,
    /// which signs what their agents ask for.
    pub fn open(
        client: kube::Client,
        authority: Option<Arc<Authority>>,
    ) -> Result<Gate, tombolo_identity::Error> {
        let shared = Shared {
            resources: Resources::new(client),
            authority,
            sealer: Sealer::generate()?,
            throttle: Mutex::default(),
            leases: Mutex::default(),
            errands: Arc::default(),
            started: Instant::now(),
        };
        Ok(Gate { shared: Arc::new(shared) })
    }

    /// What the gate answers. The home puts its door before these routes: bodies and answers flow
    /// through it, and every request comes with a [`Caller`].
    pub fn router(&self) -> Router {
        let mut router = Router::new()
            .route("/tombolo/join", any(join))
            .route("/tombolo/nonce", any(nonce))
            .route("/tombolo/renew", any(renew))
            .route("/tombolo/controllers", any(controllers))
            .route("/tombolo/errands", any(errands_of_agent));
        for path in subresource::PATHS {
            router = router.route(path, any(errand));
        }
        router.with_state(self.clone())
    }

    /// Listens to the Leases of nodes and controllers; never ends.
    pub async fn listen(self) {
        leases::listen(&self).await;
    }

    /// Keeps this server registered with itself; never ends.
    pub async fn keep_registered(self, name: String, addresses: Vec<String>) {
        lighthouse::keep(&self, name, addresses).await;
    }

    fn resources(&self) -> &Resources {
        &self.shared.resources
    }

    fn errands(&self) -> &Arc<Errands> {
        &self.shared.errands
    }

    /// Since the gate was opened; no clock that somebody sets has a part in it.
    fn elapsed(&self) -> Duration {
        self.shared.started.elapsed()
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        // A panic while the lock was held cannot leave a count half changed.
        self.shared.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.shared.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn join(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    method: Method,
    body: Body,
) -> Result<Response, Failure> {
    only(&method, &[Method::POST])?;
    joining::join(&gate, &caller, body).await
}

async fn nonce(State(gate): State<Gate>, method: Method) -> Result<Response, Failure> {
    only(&method, &[Method::GET])?;
    Ok(joining::nonce(&gate))
}

async fn renew(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    method: Method,
    body: Body,
) -> Result<Response, Failure> {
    only(&method, &[Method::POST])?;
    joining::renew(&gate, &caller, body).await
}

async fn controllers(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    method: Method,
    body: Body,
) -> Result<Response, Failure> {
    only(&method, &[Method::GET, Method::POST])?;
    match method == Method::POST {
        true => lighthouse::register(&gate, &caller, body).await,
        false => Ok(lighthouse::list(&gate)),
    }
}

async fn errands_of_agent(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    method: Method,
    uri: Uri,
    body: Body,
) -> Result<Response, Failure> {
    only(&method, &[Method::GET, Method::POST])?;
    match method == Method::POST {
        true => listen::answer(&gate, &caller, &uri, body),
        false => listen::wait(&gate, &caller),
    }
}

async fn errand(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Failure> {
    let (mut parts, _) = request.into_parts();
    subresource::answer(&gate, &caller, &mut parts, &namespace, &name).await
}

fn only(method: &Method, allowed: &[Method]) -> Result<(), Failure> {
    match allowed.contains(method) {
        true => Ok(()),
        false => {
            Err(Failure::new(405, "MethodNotAllowed", format!("{method} is not possible here")))
        }
    }
}
