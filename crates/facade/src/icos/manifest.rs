//! What an Assignment runs, as texts that the engine of its site takes: Kubernetes objects for a
//! cluster, a compose project for Docker. Called by [`super::job`]; start at [`texts`].

use tombolo_descriptor::write::{self, Target};
use tombolo_model::component::Component;
use tombolo_model::needs::Needs;
use tombolo_model::run::Way;
use tombolo_model::{App, AppSpec, Assignment, Engine};

/// One text an object; JSON, which every reader of YAML takes.
pub(super) fn texts(assignment: &Assignment) -> Vec<String> {
    let spec = &assignment.spec;
    match (spec.run.way(), spec.engine) {
        (Some(Way::Manifests(manifests)), _) => {
            manifests.iter().map(|manifest| manifest.to_string()).collect()
        }
        (Some(Way::Compose(project)), _) => vec![project.to_string()],
        (Some(Way::Container(_)), Engine::Kubernetes) => written(assignment, Target::Kubernetes),
        (Some(Way::Container(_)), Engine::Docker) => written(assignment, Target::Compose),
        // Nobody but us has a form for it.
        (Some(Way::Container(_) | Way::Process(_)) | None, _) => {
            vec![serde_json::to_string(&spec.run).unwrap_or_default()]
        }
    }
}

fn written(assignment: &Assignment, target: Target) -> Vec<String> {
    let text = write::write(&alone(assignment), target).text;
    let (documents, _) = tombolo_yaml::documents(&text, &tombolo_yaml::Limits::default());
    documents.iter().map(|document| document.to_json().to_string()).collect()
}

/// An App with this instance and nothing else.
fn alone(assignment: &Assignment) -> App {
    let spec = &assignment.spec;
    let name = match spec.replica {
        0 => spec.component.clone(),
        // Two of them in one cluster need two names.
        replica => format!("{}-{replica}", spec.component),
    };
    let needs = spec.resources.as_ref().map(|has| Needs {
        cpu: has.cpu,
        memory: has.memory,
        storage: has.storage,
        gpu: has.gpu,
        devices: has.devices.keys().cloned().collect(),
        ..Needs::default()
    });
    let component = Component {
        name,
        run: vec![spec.run.clone()],
        needs,
        expose: spec.expose.clone(),
        health: spec.health.clone(),
        stop_grace: spec.stop_grace,
        stateful: spec.fence.is_some(),
        ..Component::default()
    };
    let mut app =
        App::new(&spec.app, AppSpec { components: vec![component], ..AppSpec::default() });
    app.metadata.namespace = assignment.metadata.namespace.clone();
    app
}
