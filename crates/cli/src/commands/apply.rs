//! `tombolo apply`: read everything, then send each object as a server-side apply.
//!
//! `diff` shares the reading and the resolving.

use std::{collections::BTreeSet, io, time::Duration};

use serde_json::{Value, json};

use super::history;
use crate::{
    args::ApplyArgs,
    catalogue::{self, Resource},
    connection::{Connection, Query},
    failure::{Exit, Failure},
    files::{self, Manifest},
    moment, output,
    shell::Shell,
};

/// A Kubernetes API server serves a new kind a moment after it took its definition.
const NEW_KIND_WAIT: Duration = Duration::from_secs(10);
const NEW_KIND_PAUSE: Duration = Duration::from_millis(250);

/// A manifest, and where it goes.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) manifest: Manifest,
    pub(super) resource: Resource,
    pub(super) path: String,
    /// Where it goes, if its kind goes into one.
    namespace: String,
    /// Its kind is defined in the same run, so that the server may not know it yet.
    kind_is_new: bool,
}

pub(super) async fn run(shell: &mut Shell, args: &ApplyArgs) -> Result<Exit, Failure> {
    let objects = files::read(&args.read.asked(&args.files), io::stdin())?;
    output::notes(&objects.notes);
    let manifests = objects.manifests.clone();
    let connection = shell.connect_anywhere().await?;
    let namespace = shell.globals.namespace.as_deref();
    let steps = steps(&connection, namespace, manifests).await?;
    require_namespaces(&connection, &steps, &objects.namespaces).await?;
    for name in &objects.namespaces {
        bring_namespace(shell, &connection, args, name).await?;
    }
    let query = apply_query(&args.field_manager, args.force_conflicts, args.dry_run);

    let mut worst = Exit::Ok;
    for step in &steps {
        match apply(&connection, step, &query).await {
            Ok(result) => {
                if !args.dry_run {
                    history::keep(&connection, &result.before, &result.after).await;
                }
                let note = if args.dry_run { " (dry run)" } else { "" };
                let label = step.resource.label(&step.manifest.name);
                shell.out.line(&format!("{label} {}{note}", result.word()))?;
                shell.out.flush()?;
            }
            // The rest may well be fine; whoever applies a folder wants to know all of it.
            Err(failure) => {
                shell.out.flush()?;
                output::tell(&Failure {
                    message: format!("{}: {}", step.manifest.source, failure.message),
                    ..failure.clone()
                });
                worst = if worst == Exit::Ok { failure.exit } else { worst };
            }
        }
    }
    Ok(worst)
}

/// Makes a namespace that is not there. One that is there is left alone: whoever applies may not be
/// allowed to touch it.
async fn bring_namespace(
    shell: &mut Shell,
    connection: &Connection,
    args: &ApplyArgs,
    name: &str,
) -> Result<(), Failure> {
    let path = format!("/api/v1/namespaces/{name}");
    if connection.find(&path).await?.is_some() {
        return Ok(());
    }
    if args.dry_run {
        return Err(Failure::new(Exit::NotFound, format!("namespace {name:?} is not there yet"))
            .hint(format!("make it for a dry run: tombolo create namespace {name}")));
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let query = apply_query(&args.field_manager, false, false);
    connection.apply(&query.after(&path), &namespace).await?;
    shell.out.line(&format!("namespace/{name} created"))
}

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    Created,
    Configured,
    Unchanged,
}

impl Applied {
    fn word(self) -> &'static str {
        match self {
            Applied::Created => "created",
            Applied::Configured => "configured",
            Applied::Unchanged => "unchanged",
        }
    }
}

/// An object before and after.
struct Done {
    /// Null if there was none.
    before: Value,
    after: Value,
}

impl Done {
    fn word(&self) -> &'static str {
        applied(Some(&self.before).filter(|before| !before.is_null()), &self.after).word()
    }
}

async fn apply(connection: &Connection, step: &Step, query: &Query) -> Result<Done, Failure> {
    let before = connection.find(&step.path).await?.unwrap_or_default();
    let after = send(connection, step, query).await?;
    Ok(Done { before, after })
}

/// Nothing is sent into namespaces that are neither there nor among the files.
async fn require_namespaces(
    connection: &Connection,
    steps: &[Step],
    brought: &BTreeSet<String>,
) -> Result<(), Failure> {
    let is_brought = |name: &str| {
        let made = |step: &&Step| step.resource.kind == "Namespace" && step.manifest.name == name;
        brought.contains(name) || steps.iter().any(|step| made(&step))
    };
    let namespaced = steps.iter().filter(|step| step.resource.namespaced);
    let targets: BTreeSet<&str> = namespaced.map(|step| step.namespace.as_str()).collect();
    for name in targets.into_iter().filter(|name| *name != "default" && !is_brought(name)) {
        connection.require_namespace_of(name).await?;
    }
    Ok(())
}

/// Sends one step. If its kind is only just being defined, waits until it is served.
pub(super) async fn send(
    connection: &Connection,
    step: &Step,
    query: &Query,
) -> Result<Value, Failure> {
    let path = query.after(&step.path);
    let started = moment::monotonic();
    loop {
        match connection.apply(&path, &step.manifest.object).await {
            Err(failure)
                if failure.exit == Exit::NotFound
                    && step.kind_is_new
                    && started.elapsed() < NEW_KIND_WAIT =>
            {
                tokio::time::sleep(NEW_KIND_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// The revision tells; in a dry run there is no new one, so the content has to.
fn applied(before: Option<&Value>, after: &Value) -> Applied {
    let Some(before) = before else {
        return Applied::Created;
    };
    match comparable(before) == comparable(after) {
        true => Applied::Unchanged,
        false => Applied::Configured,
    }
}

/// The object without what differs although nothing that matters does. A status is the business of
/// loops, which may write one between two looks.
pub(super) fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(key);
        }
    }
    object
}

pub(super) fn apply_query(field_manager: &str, force: bool, dry_run: bool) -> Query {
    Query::default()
        .with("fieldManager", field_manager)
        .with("fieldValidation", "Strict")
        .with_some("force", force.then_some("true"))
        .with_some("dryRun", dry_run.then_some("All"))
}

/// Finds the place of every manifest before anything is sent, and brings namespaces and
/// definitions to the front, because the others may stand on them.
pub(super) async fn steps(
    connection: &Connection,
    namespace: Option<&str>,
    manifests: Vec<Manifest>,
) -> Result<Vec<Step>, Failure> {
    let new_kinds: Vec<Resource> = manifests
        .iter()
        .filter(|manifest| manifest.kind == "CustomResourceDefinition")
        .flat_map(|manifest| catalogue::from_definition(&manifest.object))
        .collect();
    let mut steps = Vec::new();
    for manifest in manifests {
        let new = catalogue::by_kind(&new_kinds, &manifest.api_version, &manifest.kind);
        let (resource, kind_is_new) = match new {
            Some(resource) => (resource.clone(), true),
            None => {
                let found = connection.resource_of(&manifest.api_version, &manifest.kind).await;
                (found.map_err(|failure| at(&manifest, failure))?, false)
            }
        };
        let target = destination(&manifest, &resource, namespace, &connection.namespace)
            .map_err(|failure| at(&manifest, failure))?;
        let path = resource.object(&target, &manifest.name);
        steps.push(Step { manifest, resource, path, namespace: target, kind_is_new });
    }
    steps.sort_by_key(|step| foundation(&step.resource.kind));
    Ok(steps)
}

fn at(manifest: &Manifest, failure: Failure) -> Failure {
    Failure { message: format!("{}: {}", manifest.source, failure.message), ..failure }
}

/// The sort is stable: beyond this, files keep their order.
fn foundation(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        _ => 2,
    }
}

/// The namespace of the file, else the one asked for, else the context's. A file that names
/// another than was asked for is not bent to it.
fn destination(
    manifest: &Manifest,
    resource: &Resource,
    asked: Option<&str>,
    default: &str,
) -> Result<String, Failure> {
    match (&manifest.namespace, asked) {
        (Some(own), Some(asked)) if own != asked && resource.namespaced => {
            Err(Failure::usage(format!("the file says namespace {own}, the command line {asked}"))
                .hint("leave out one of the two"))
        }
        (Some(own), _) => Ok(own.clone()),
        (None, asked) => Ok(asked.unwrap_or(default).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_bookkeeping_alone_is_no_change() {
        let before = json!({"metadata": {"resourceVersion": "1", "managedFields": [1]}, "spec": 1});
        let same = json!({"metadata": {"resourceVersion": "2", "managedFields": [2]}, "spec": 1});
        let other = json!({"metadata": {"resourceVersion": "2"}, "spec": 2});
        assert_eq!(applied(None, &before), Applied::Created);
        assert_eq!(applied(Some(&before), &same), Applied::Unchanged);
        assert_eq!(applied(Some(&before), &other), Applied::Configured);
    }

    #[track_caller]
    fn check_destination(own: Option<&str>, asked: Option<&str>, expected: Option<&str>) {
        let manifest = Manifest {
            source: String::new(),
            api_version: String::new(),
            kind: String::new(),
            name: "web".to_owned(),
            namespace: own.map(str::to_owned),
            object: Value::Null,
        };
        let found = destination(&manifest, &catalogue::known("App"), asked, "default");
        assert_eq!(found.ok().as_deref(), expected);
    }

    #[test]
    fn the_file_decides_on_the_namespace_and_is_not_bent() {
        check_destination(None, None, Some("default"));
        check_destination(None, Some("a"), Some("a"));
        check_destination(Some("b"), None, Some("b"));
        check_destination(Some("a"), Some("a"), Some("a"));
        check_destination(Some("b"), Some("a"), None);
    }
}
