//! `/prometheus`: samples in and queries out, for those whom the table of rights lets. Called by `up`. What
//! is behind it is in `tombolo_telemetry`, which knows no roles: here the caller becomes an [`Asker`].

use std::path::Path;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tombolo_gate::Caller;
use tombolo_identity::access::{Attributes, Resource, Target, authorize};
use tombolo_identity::{Remit, Role, Subject, Verb};
use tombolo_model::keys;
use tombolo_telemetry::api::{Asker, Bounds, Sees, Service, Stamp, router};
use tombolo_telemetry::store::Config;

use crate::moment;

/// The samples of this server, in its data folder.
pub(super) fn service(data: &Path) -> Service {
    let now_ms = || moment::now().as_millisecond();
    Service::new(data.join("metrics"), Config::default(), Bounds::default(), now_ms)
}

/// The API of Prometheus, for the door to guard.
pub(super) fn routes(service: Service) -> Router {
    router(service).layer(from_fn(introduce))
}

/// Opens what an earlier run has left, beside everything else: a start waits for nothing of it.
pub(super) fn open_ahead(service: &Service) {
    if service.has_samples() {
        let service = service.clone();
        tokio::spawn(async move {
            // What failed was logged, and is tried again when somebody asks.
            let _ = service.store().await;
        });
    }
}

async fn introduce(mut request: Request, next: Next) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let asker = asker(caller.subject());
    request.extensions_mut().insert(asker);
    next.run(request).await
}

fn asker(subject: &Subject) -> Asker {
    Asker { name: subject.name.clone(), sees: sees(subject), stamp: stamp(subject) }
}

/// As the table of rights says of metrics, and of Nodes for what is in no namespace.
fn sees(subject: &Subject) -> Sees {
    let may_list = |resource: &str, namespace: &str| {
        let group = keys::GROUP;
        let resource = Resource { group, resource, namespace, ..Resource::default() };
        let attributes = Attributes { verb: Verb::List, target: Target::Resource(resource) };
        authorize(subject, &attributes).is_ok()
    };
    if may_list("metrics", "") {
        return Sees::Everything;
    }
    let own = subject.namespace.iter().filter(|own| may_list("metrics", own)).cloned();
    let (namespaces, machines) = (own.collect::<Vec<_>>(), may_list("nodes", ""));
    match namespaces.is_empty() {
        // A right to Nodes alone is not one to what is measured on them.
        true => Sees::Nothing,
        false => Sees::Only { namespaces, machines },
    }
}

fn stamp(subject: &Subject) -> Stamp {
    match (&subject.role, &subject.namespace) {
        (Role::Agent(Remit::Node { site, node }), _) => {
            Stamp::Node { site: site.clone(), node: node.clone() }
        }
        (Role::Agent(Remit::Site { site }), _) => Stamp::Site { site: site.clone() },
        (Role::User, Some(namespace)) => Stamp::Namespace(namespace.clone()),
        // Who looks after all sites may bring the samples of any.
        (Role::Manager | Role::Admin | Role::System, _) => Stamp::AsSaid,
        (Role::Anonymous | Role::Guest | Role::User, _) => {
            Stamp::Refused(format!("{subject} may not write metrics"))
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo_identity::Via;

    use super::*;

    fn person(role: Role, namespace: Option<&str>) -> Asker {
        let namespace = namespace.map(str::to_owned);
        asker(&Subject::person("anna", role, namespace, Via::Token).expect("a right name"))
    }

    #[test]
    fn a_user_sees_its_namespace_and_machines_and_writes_into_its_namespace() {
        let user = person(Role::User, Some("shop"));
        let namespaces = vec!["shop".to_owned()];
        assert_eq!(user.sees, Sees::Only { namespaces, machines: true });
        assert_eq!(user.stamp, Stamp::Namespace("shop".to_owned()));
    }

    #[test]
    fn those_who_look_after_everything_see_everything() {
        for role in [Role::Guest, Role::Manager, Role::Admin] {
            assert_eq!(person(role, None).sees, Sees::Everything);
        }
        assert!(matches!(person(Role::Guest, None).stamp, Stamp::Refused(_)));
        assert_eq!(person(Role::Manager, None).stamp, Stamp::AsSaid);
    }

    #[test]
    fn an_agent_writes_as_what_it_stands_for_and_sees_nothing() {
        let agent = asker(&Subject::agent("north", "crane").expect("right names"));
        assert_eq!(agent.sees, Sees::Nothing);
        let (site, node) = ("north".to_owned(), "crane".to_owned());
        assert_eq!(agent.stamp, Stamp::Node { site: site.clone(), node });
        let of_site = asker(&Subject::site_agent("north").expect("a right name"));
        assert_eq!(of_site.stamp, Stamp::Site { site });
        assert_eq!(of_site.sees, Sees::Nothing);
    }
}
