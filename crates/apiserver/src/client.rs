//! In-process use: a `kube::Client` that is handed the router, with no socket in between. The
//! loops cannot tell it from one that talks to a cluster.

use axum::body::Body;
use http::{Request, Response};
use kube::client::Body as KubeBody;
use tombolo_identity::Subject;
use tower::{ServiceExt, service_fn};

use crate::request::parse_path;
use crate::server::Api;
use crate::traffic::Place;
use crate::traffic::flow::{self, Arrival};

impl Api {
    /// Answers one request as if `subject` had sent it; what flows in the bodies goes on flowing.
    pub async fn answer_as(&self, subject: Subject, mut request: Request<Body>) -> Response<Body> {
        request.extensions_mut().insert(subject);
        let answered = self.router().oneshot(request).await;
        answered.unwrap_or_else(|never| match never {})
    }

    /// A client that acts as `subject`.
    pub fn client(&self, subject: Subject) -> kube::Client {
        self.client_at(subject, None)
    }

    /// The same for the handler of a request that has a seat: what it asks may turn out to be heavy.
    pub(crate) fn client_at(&self, subject: Subject, place: Option<Place>) -> kube::Client {
        let router = self.router();
        let service = service_fn(move |request: Request<KubeBody>| {
            let router = router.clone();
            let (subject, place) = (subject.clone(), place.clone());
            async move {
                let (mut parts, body) = request.into_parts();
                parts.extensions.insert(subject);
                match (place, flow::arrival(&parse_path(parts.uri.path()))) {
                    (Some(place), Arrival::Whole) => {
                        parts.extensions.insert(place);
                    }
                    // An agent is waited for now.
                    (Some(place), Arrival::Flowing) => place.leave(),
                    (None, _) => (),
                }
                let request = Request::from_parts(parts, Body::new(body));
                let response: Response<Body> = router.oneshot(request).await?;
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        kube::Client::new(service, "default")
    }
}
