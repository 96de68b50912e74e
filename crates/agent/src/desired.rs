//! Assignments as what is to run here: which are ours, what of them must restart an instance, and
//! what the driver is handed. Plain values; called by [`crate::converge`], start at [`job`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tombolo_driver::{Absent, Entry, Error, STOP_GRACE_DEFAULT, Secret, Spec, Workload};
use tombolo_identity::Remit;
use tombolo_model::app::DisconnectAction;
use tombolo_model::assignment::Peer;
use tombolo_model::phrase::with_causes;
use tombolo_model::ports::NodePort;
use tombolo_model::run::{KeyRef, Volume, Way};
use tombolo_model::{AppId, Assignment, Engine};
use tombolo_plan::instances::{Before, Problem, Wanted};
use tombolo_plan::reach;

use crate::nearby::Nearby;
use crate::peer_files;

/// A rule that names no time means this one.
const STOP_AFTER_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// What is asked of the server, and which entries of it somebody needs.
pub type Wishes = BTreeMap<Source, BTreeSet<String>>;

/// A Secret or ConfigMap that an Assignment names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Source {
    pub namespace: String,
    pub kind: SourceKind,
    pub name: String,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum SourceKind {
    Secret,
    ConfigMap,
}

/// What is in the sources that were asked for. A source that is not in here has not been answered yet;
/// one that is in here and empty does not exist on the server.
pub type Entries = BTreeMap<Source, BTreeMap<String, Vec<u8>>>;

/// What is known beside the Assignment.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub remit: &'a Remit,
    pub entries: &'a Entries,
    pub engines: &'a BTreeSet<Engine>,
    /// Ports of the machine that other revisions of the same Assignment hold.
    pub ports_taken: &'a BTreeSet<NodePort>,
    pub nearby: &'a Nearby,
    /// The revision that was well last, if the agent can still start it.
    pub fallback: Option<u64>,
}

/// One Assignment, ready for the plan and the driver.
#[derive(Debug)]
pub struct Job {
    pub wanted: Wanted,
    /// The driver's order, or why there can be none.
    pub spec: Result<Spec, Error>,
    /// Something that it names has been asked for and not been answered: nothing is known of it yet,
    /// and nothing is told.
    pub unanswered: bool,
}

/// Whether it is for this agent: it names a node that the agent stands for, or the agent has taken it.
pub fn is_ours(assignment: &Assignment, remit: &Remit) -> bool {
    let holder = || assignment.status.as_ref().and_then(|status| status.agent.as_deref());
    match assignment.spec.node.as_deref() {
        Some(node) => remit.covers(&assignment.spec.site, node),
        None => assignment.spec.site == remit.site() && holder() == Some(remit.name()),
    }
}

pub fn job(assignment: &Assignment, around: &Surroundings<'_>) -> Job {
    let spec = &assignment.spec;
    let revision = revision(assignment, around.entries);
    let unanswered = sources(assignment).iter().any(|source| !around.entries.contains_key(source));
    let resolved = resolve(assignment, revision, around.remit, around.entries, around.nearby);
    let resolved = match around.engines.contains(&spec.engine) {
        true => resolved,
        false => Err(no_engine(spec.engine)),
    };
    let clashes = resolved.as_ref().is_ok_and(|resolved| {
        resolved.fixed_ports.iter().any(|port| around.ports_taken.contains(port))
    });
    let stop_when_cut_off = spec.disconnect.as_ref().and_then(|rule| match rule.action {
        DisconnectAction::Stop => {
            Some(rule.after.map_or(STOP_AFTER_DEFAULT, |after| after.to_std()))
        }
        DisconnectAction::Keep | DisconnectAction::Replace => None,
    });
    let wanted = Wanted {
        revision,
        // Two Apps of one name in two namespaces are two.
        app: AppId::owning(assignment).to_string(),
        component: spec.component.clone(),
        after: spec
            .peers
            .iter()
            .filter(|peer| peer.first)
            .map(|peer| before(assignment, peer, around.nearby))
            .collect(),
        exclusive: spec.fence.is_some() || clashes,
        stopped: spec.stopped || is_deleting(assignment),
        checked: spec.health.is_some(),
        grace: spec.stop_grace.map_or(STOP_GRACE_DEFAULT, |grace| grace.to_std()),
        stop_when_cut_off,
        blocked: resolved.as_ref().err().map(problem),
        fallback: around.fallback.filter(|fallback| *fallback != revision),
    };
    Job { wanted, spec: resolved, unanswered }
}

fn before(caller: &Assignment, peer: &Peer, nearby: &Nearby) -> Before {
    Before { component: peer.component.clone(), up_elsewhere: nearby.is_up_elsewhere(caller, peer) }
}

/// Changes with what must restart an instance, and with nothing else: why it is here and where its peers
/// are may change while it runs, unless the instance is bound to the address of a peer.
pub fn revision(assignment: &Assignment, entries: &Entries) -> u64 {
    let spec = &assignment.spec;
    let mut said = serde_json::json!({
        "engine": spec.engine, "run": spec.run, "resources": spec.resources, "expose": spec.expose,
    });
    if let Some(reach) = &spec.reach {
        said["reach"] = serde_json::json!(reach);
    }
    if let Some(at) = &spec.restarted_at {
        said["restartedAt"] = serde_json::json!(at);
    }
    let mut digest = Context::new(&SHA256);
    digest.update(said.to_string().as_bytes());
    for bound in spec.peers.iter().filter_map(|peer| peer.bound.as_ref()) {
        digest.update(bound.as_bytes());
        digest.update(&[0]);
    }
    for key in keys(assignment) {
        let value = look_up(assignment, entries, key).unwrap_or_default();
        digest.update(&u64::try_from(value.len()).unwrap_or(u64::MAX).to_le_bytes());
        digest.update(value);
    }
    let digest = digest.finish();
    let first = digest.as_ref().first_chunk::<8>().expect("SHA-256 has 32 bytes");
    u64::from_le_bytes(*first)
}

/// The driver's order for one revision.
pub fn resolve(
    assignment: &Assignment,
    revision: u64,
    remit: &Remit,
    entries: &Entries,
    nearby: &Nearby,
) -> Result<Spec, Error> {
    let find = |entry: Entry<'_>| match look_up(assignment, entries, entry) {
        Some(value) => Ok(Secret::new(value)),
        // Of one that is not there, nothing at all is known.
        None => Err(match entries.get(&source(assignment, entry)) {
            Some(values) if !values.is_empty() => Absent::Entry,
            Some(_) | None => Absent::Object,
        }),
    };
    let mut spec = Spec::resolve(assignment, revision, &find)?;
    spec.address = nearby.address;
    let file = peers_file(&mut spec, assignment, nearby);
    let file = file.map(|path| (peer_files::VARIABLE.to_owned(), path));
    for (name, value) in about(assignment, remit, nearby).into_iter().chain(file) {
        // What the component sets itself is its own business.
        spec.env.entry(name).or_insert_with(|| Secret::from(value.as_str()));
    }
    Ok(spec)
}

/// Where the instance finds the file with its peers. Only an instance that we start ourselves can be
/// given a file.
fn peers_file(spec: &mut Spec, assignment: &Assignment, nearby: &Nearby) -> Option<String> {
    if assignment.spec.peers.is_empty() {
        return None;
    }
    let folder = nearby.folder(assignment.metadata.uid.as_deref()?)?;
    spec.shown.push(folder.clone());
    match &mut spec.workload {
        Workload::Process(_) => Some(folder.join(peer_files::FILE).display().to_string()),
        Workload::Container(container) => {
            let (volume, path) = peer_files::volume(&folder);
            if container.volumes.iter().any(|other| other.path == volume.path) {
                return None;
            }
            container.volumes.push(volume);
            Some(path)
        }
        Workload::Compose(project) => {
            let (volume, path) = peer_files::volume(&folder);
            let services = project.get_mut("services")?.as_object_mut()?;
            services.values_mut().for_each(|service| mount(service, &volume));
            Some(path)
        }
        Workload::Manifests(_) => None,
    }
}

/// Mounts the volume into a service of a compose project, unless something else is there.
fn mount(service: &mut serde_json::Value, volume: &Volume) {
    let Some(service) = service.as_object_mut() else { return };
    let volumes = service.entry("volumes").or_insert_with(|| serde_json::json!([]));
    let Some(volumes) = volumes.as_array_mut() else { return };
    let there = |one: &serde_json::Value| match one.as_str() {
        Some(text) => text.split(':').any(|word| word == volume.path),
        None => one["target"] == volume.path.as_str(),
    };
    if !volumes.iter().any(there) {
        // In a project a `$` stands for a variable, and two for itself.
        let source = volume.host_path.as_ref().map(|path| path.replace('$', "$$"));
        volumes.push(serde_json::json!({
            "type": "bind", "source": source, "target": volume.path,
            "read_only": volume.read_only,
        }));
    }
}

/// What an instance is told about itself and its peers.
fn about(assignment: &Assignment, remit: &Remit, nearby: &Nearby) -> Vec<(String, String)> {
    let spec = &assignment.spec;
    let namespace = assignment.metadata.namespace.clone().unwrap_or_default();
    let mut about = vec![
        ("TOMBOLO_NAMESPACE".to_owned(), namespace),
        ("TOMBOLO_APP".to_owned(), spec.app.clone()),
        ("TOMBOLO_COMPONENT".to_owned(), spec.component.clone()),
        ("TOMBOLO_REPLICA".to_owned(), spec.replica.to_string()),
        ("TOMBOLO_SITE".to_owned(), remit.site().to_owned()),
        // Of a site's agent it is the node that is named, not the agent's own.
        ("TOMBOLO_NODE".to_owned(), spec.node.clone().unwrap_or_else(|| remit.name().to_owned())),
    ];
    about.extend(spec.fence.map(|fence| ("TOMBOLO_FENCE".to_owned(), fence.to_string())));
    for peer in &spec.peers {
        about.extend(reach::variables(&peer.component, &nearby.addresses(assignment, peer)));
    }
    about
}

/// Everything that the Assignment names.
pub fn sources(assignment: &Assignment) -> BTreeSet<Source> {
    keys(assignment).into_iter().map(|entry| source(assignment, entry)).collect()
}

/// The entries that it names, by where they are.
pub fn entries_named(assignment: &Assignment) -> impl Iterator<Item = (Source, String)> {
    let entries = keys(assignment).into_iter();
    entries.map(|entry| (source(assignment, entry), split(entry).1.key.clone()))
}

fn keys(assignment: &Assignment) -> Vec<Entry<'_>> {
    let (secret_env, files) = match assignment.spec.run.way() {
        Some(Way::Container(container)) => (&container.secret_env, &container.files),
        Some(Way::Process(process)) => (&process.secret_env, &process.files),
        Some(Way::Compose(_) | Way::Manifests(_)) | None => return Vec::new(),
    };
    let env = secret_env.values().map(Entry::Secret);
    let secrets = files.iter().filter_map(|file| file.secret.as_ref()).map(Entry::Secret);
    let configs = files.iter().filter_map(|file| file.config.as_ref()).map(Entry::Config);
    env.chain(secrets).chain(configs).collect()
}

fn source(assignment: &Assignment, entry: Entry<'_>) -> Source {
    let (kind, key) = split(entry);
    let namespace = assignment.metadata.namespace.clone().unwrap_or_default();
    Source { namespace, kind, name: key.name.clone() }
}

fn split(entry: Entry<'_>) -> (SourceKind, &KeyRef) {
    match entry {
        Entry::Secret(key) => (SourceKind::Secret, key),
        Entry::Config(key) => (SourceKind::ConfigMap, key),
    }
}

fn look_up<'a>(
    assignment: &Assignment,
    entries: &'a Entries,
    entry: Entry<'_>,
) -> Option<&'a [u8]> {
    let values = entries.get(&source(assignment, entry))?;
    values.get(&split(entry).1.key).map(Vec::as_slice)
}

pub fn is_deleting(assignment: &Assignment) -> bool {
    assignment.metadata.deletion_timestamp.is_some()
}

/// An error of a driver as the plan and people read it.
pub fn problem(error: &Error) -> Problem {
    Problem { reason: error.reason(), message: with_causes(error), help: error.help() }
}

fn no_engine(engine: Engine) -> Error {
    Error::Unsupported { engine, what: "be used: this agent does not serve it".to_owned() }
}

#[cfg(test)]
mod tests;
