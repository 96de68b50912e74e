//! `tombolo delete`: look, show what goes, ask, delete, and wait if asked to.

use std::collections::BTreeSet;
use std::io;

use serde_json::{Value, json};

use super::{
    apply,
    selection::{self, CHUNK_SIZE, name_of, namespace_of},
    wait,
};
use crate::{
    args::DeleteArgs,
    catalogue::{self, Resource},
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    files, moment,
    output::{self, note},
    shell::Shell,
    target,
};

/// More than these are counted, not named.
const SHOWN_MAX: usize = 20;

/// An object that was there when we looked.
struct Doomed {
    resource: Resource,
    namespace: String,
    name: String,
    uid: Option<String>,
}

impl Doomed {
    fn label(&self) -> String {
        self.resource.label(&self.name)
    }

    fn path(&self) -> String {
        self.resource.object(&self.namespace, &self.name)
    }
}

pub(super) async fn run(shell: &mut Shell, args: &DeleteArgs) -> Result<Exit, Failure> {
    if !args.yes && !args.dry_run && !output::somebody_is_there() {
        return Err(Failure::usage("there is no terminal to ask on")
            .hint("--yes deletes without asking, --dry-run only shows what would go"));
    }
    let (mut doomed, missing) = match args.files.is_empty() {
        true => named(shell, args).await?,
        false => filed(shell, args).await?,
    };
    let connection = shell.connect_anywhere().await?;
    doomed.dedup_by_key(|one| one.path());
    for failure in &missing {
        output::tell(failure);
    }
    let not_all = match missing.is_empty() {
        true => Exit::Ok,
        false => Exit::NotFound,
    };
    if doomed.is_empty() {
        if missing.is_empty() {
            note("nothing to delete");
        }
        return Ok(not_all);
    }
    if !args.yes || args.dry_run {
        let owned = owned_by(&connection, &doomed).await;
        note(&preview(&doomed, &owned));
    }
    if args.dry_run {
        return Ok(not_all);
    }
    if !args.yes && !output::confirmed("Delete?") {
        return Err(Failure::failed("nothing was deleted"));
    }
    let owned = match args.force || args.wait {
        true => assignments_of(&connection, &doomed).await?,
        false => Vec::new(),
    };
    delete_all(shell, &connection, args, &doomed, &owned).await?;
    Ok(not_all)
}

async fn delete_all(
    shell: &mut Shell,
    connection: &Connection,
    args: &DeleteArgs,
    doomed: &[Doomed],
    owned: &[Doomed],
) -> Result<(), Failure> {
    let started = moment::monotonic();
    for one in doomed {
        match connection.delete(&one.path(), &options(one)).await {
            Ok(_) => shell.out.line(&format!("{} deleted", one.label()))?,
            // Gone between our look and now: it is as wanted.
            Err(failure) if failure.exit == Exit::NotFound => {
                shell.out.line(&format!("{} was gone already", one.label()))?;
            }
            Err(failure) => return Err(failure),
        }
        shell.out.flush()?;
    }
    for one in owned.iter().filter(|_| args.force) {
        let_go(connection, one).await?;
        shell.out.line(&format!("{} deleted without waiting for its agent", one.label()))?;
    }
    if args.wait {
        // An App goes at once, and its Assignments when their agents have ended what runs.
        for one in doomed.iter().chain(owned) {
            let subject = wait::Subject {
                resource: &one.resource,
                namespace: &one.namespace,
                name: &one.name,
                uid: one.uid.as_deref(),
            };
            let left = args.timeout.saturating_sub(started.elapsed());
            wait::until(connection, &subject, &wait::Goal::Delete, left).await?;
        }
    }
    Ok(())
}

/// The Assignments that wait for their agents: those of the doomed Apps, or doomed themselves.
async fn assignments_of(
    connection: &Connection,
    doomed: &[Doomed],
) -> Result<Vec<Doomed>, Failure> {
    let concerned = |one: &&Doomed| matches!(one.resource.kind.as_str(), "App" | "Assignment");
    let assignments = catalogue::known("Assignment");
    // An Assignment is where its App is, and not everybody may look elsewhere.
    let namespaces: BTreeSet<&str> =
        doomed.iter().filter(concerned).map(|one| one.namespace.as_str()).collect();
    let mut all = Vec::new();
    for namespace in namespaces {
        let path = assignments.collection(Some(namespace));
        let list = selection::list(connection, &path, &Query::default(), JSON, CHUNK_SIZE).await?;
        all.extend(selection::items(&assignments, list));
    }
    let is_doomed = |object: &&Value| {
        let uid = object["metadata"]["uid"].as_str();
        is_owned(object, doomed)
            || uid.is_some() && doomed.iter().any(|one| one.uid.as_deref() == uid)
    };
    Ok(all.iter().filter(is_doomed).map(|object| found(&assignments, object)).collect())
}

/// Deletes an Assignment whatever its agent says. One that is gone is as wanted.
async fn let_go(connection: &Connection, one: &Doomed) -> Result<(), Failure> {
    let path = one.path();
    let deleted = connection.delete(&path, &options(one)).await;
    let free = json!({"metadata": {"uid": one.uid, "finalizers": null}});
    let freed = match deleted {
        Ok(_) => connection.merge(&path, &free).await,
        Err(failure) => Err(failure),
    };
    match freed {
        Err(failure) if failure.exit != Exit::NotFound => Err(failure),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Only the very object that was shown may go, not one that took its name since.
fn options(one: &Doomed) -> Value {
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
    });
    if let Some(uid) = &one.uid {
        options["preconditions"] = json!({"uid": uid});
    }
    options
}

type Found = (Vec<Doomed>, Vec<Failure>);

async fn named(shell: &Shell, args: &DeleteArgs) -> Result<Found, Failure> {
    let targets = target::parse(&args.what)?;
    for target in &targets {
        args.selection.refuse_with_names(&target.names)?;
        if target.names.is_empty() && !args.selection.is_narrowed() && !args.all {
            return Err(Failure::usage(format!("which {}?", target.kind))
                .hint("name them, select them with -l, or take all with --all"));
        }
        if !target.names.is_empty() && args.all {
            return Err(Failure::usage("--all goes with a kind, not with names"));
        }
    }
    let connection = match args.ignore_not_found {
        true => shell.connect_anywhere().await?,
        false => shell.connect().await?,
    };
    let (mut doomed, mut missing) = (Vec::new(), Vec::new());
    for target in &targets {
        let resource = connection.resource(&target.kind).await?;
        if target.names.is_empty() {
            let path = args.selection.collection(&resource, &connection);
            let query = args.selection.query();
            let list = selection::list(&connection, &path, &query, JSON, CHUNK_SIZE).await?;
            let items = selection::items(&resource, list);
            doomed.extend(items.iter().map(|object| found(&resource, object)));
            continue;
        }
        for name in &target.names {
            look(&connection, args, &resource, &connection.namespace, name)
                .await?
                .map_or_else(|failure| missing.extend(failure), |one| doomed.push(one));
        }
    }
    Ok((doomed, missing))
}

async fn filed(shell: &Shell, args: &DeleteArgs) -> Result<Found, Failure> {
    let objects = files::read(&args.read.asked(&args.files), io::stdin())?;
    output::notes(&objects.notes);
    let manifests = objects.manifests;
    let connection = shell.connect_anywhere().await?;
    let asked = shell.globals.namespace.as_deref();
    let (mut doomed, mut missing) = (Vec::new(), Vec::new());
    // What was made last goes first: objects before the namespaces and kinds they stand on.
    for step in apply::steps(&connection, asked, manifests).await?.into_iter().rev() {
        let namespace = match &step.manifest.namespace {
            Some(namespace) => namespace.as_str(),
            None => connection.namespace.as_str(),
        };
        look(&connection, args, &step.resource, namespace, &step.manifest.name)
            .await?
            .map_or_else(|failure| missing.extend(failure), |one| doomed.push(one));
    }
    Ok((doomed, missing))
}

/// The object, or why it is none: a failure unless absence was allowed.
async fn look(
    connection: &Connection,
    args: &DeleteArgs,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Result<Doomed, Option<Failure>>, Failure> {
    match connection.get(&resource.object(namespace, name)).await {
        Ok(object) => Ok(Ok(found(resource, &object))),
        Err(failure) if failure.exit == Exit::NotFound => {
            Ok(Err((!args.ignore_not_found).then_some(failure)))
        }
        Err(failure) => Err(failure),
    }
}

fn found(resource: &Resource, object: &Value) -> Doomed {
    Doomed {
        resource: resource.clone(),
        namespace: namespace_of(object).to_owned(),
        name: name_of(object).to_owned(),
        uid: object["metadata"]["uid"].as_str().map(str::to_owned),
    }
}

/// The assignments that go with their apps: stopping workloads is what people want to know of
/// before they say yes. One request, and none if no app is among the doomed.
async fn owned_by(connection: &Connection, doomed: &[Doomed]) -> Vec<String> {
    if !doomed.iter().any(|one| one.resource.kind == "App") {
        return Vec::new();
    }
    let assignments = catalogue::known("Assignment");
    let path = assignments.collection(None);
    let list = selection::list(connection, &path, &Query::default(), JSON, CHUNK_SIZE).await;
    // It is only a preview; whoever may not list assignments may still delete the app.
    let Ok(list) = list else {
        return Vec::new();
    };
    owned_labels(&assignments, &selection::items(&assignments, list), doomed)
}

fn owned_labels(resource: &Resource, candidates: &[Value], doomed: &[Doomed]) -> Vec<String> {
    let owned = candidates.iter().filter(|object| is_owned(object, doomed));
    owned.map(|object| resource.label(name_of(object))).collect()
}

fn is_owned(object: &Value, doomed: &[Doomed]) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| {
        let uid = owner["uid"].as_str();
        uid.is_some() && doomed.iter().any(|one| one.uid.as_deref() == uid)
    })
}

fn preview(doomed: &[Doomed], owned: &[String]) -> String {
    let line = |one: &Doomed| {
        let place = match one.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        let more = match one.resource.kind.as_str() {
            "Namespace" => ", and everything in it",
            "CustomResourceDefinition" => ", and every object of its kind",
            _ => "",
        };
        format!("{}{place}{more}", one.label())
    };
    let mut lines = vec!["This will be deleted:".to_owned()];
    lines.extend(shortened(doomed.iter().map(line).collect()));
    if !owned.is_empty() {
        lines.push("and with it, being owned by it:".to_owned());
        lines.extend(shortened(owned.to_vec()));
    }
    output_lines(&lines)
}

fn output_lines(lines: &[String]) -> String {
    lines.iter().map(|line| output::harmless(line)).collect::<Vec<_>>().join("\n")
}

fn shortened(all: Vec<String>) -> Vec<String> {
    let count = all.len();
    let mut lines: Vec<String> =
        all.into_iter().take(SHOWN_MAX).map(|line| format!("  {line}")).collect();
    if count > SHOWN_MAX {
        lines.push(format!("  … and {} more", count - SHOWN_MAX));
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn doomed(kind: &str, namespace: &str, name: &str) -> Doomed {
        let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": name}});
        found(&catalogue::known(kind), &object)
    }

    #[test]
    fn the_preview_names_what_goes_and_what_goes_with_it() {
        let going = [doomed("App", "shop", "web"), doomed("Namespace", "", "old")];
        let assignments = [
            json!({"metadata": {"name": "web-front-0", "ownerReferences": [{"uid": "web"}]}}),
            json!({"metadata": {"name": "other-0", "ownerReferences": [{"uid": "other"}]}}),
            json!({"metadata": {"name": "nobodys"}}),
        ];
        let owned = owned_labels(&catalogue::known("Assignment"), &assignments, &going);
        expect![[r#"
            This will be deleted:
              app/web in shop
              namespace/old, and everything in it
            and with it, being owned by it:
              assignment/web-front-0"#]]
        .assert_eq(&preview(&going, &owned));
    }

    #[test]
    fn a_long_preview_is_counted_instead_of_listed() {
        let going: Vec<Doomed> =
            (0..25).map(|number| doomed("Node", "", &format!("n{number}"))).collect();
        let text = preview(&going, &[]);
        assert!(text.ends_with("  node/n19\n  … and 5 more"), "{text}");
    }

    #[test]
    fn only_the_object_that_was_shown_may_go() {
        let options = options(&doomed("App", "shop", "web"));
        assert_eq!(options["preconditions"]["uid"], "web");
    }
}
