//! `tombolo site` and `tombolo node`: what one does with machines. Listing and describing are `get`
//! and `describe` under a nearer name; the rest changes a few fields, or takes something away.

use clap::Subcommand;
use serde_json::{Value, json};
use tombolo_model::keys::{
    ANNOTATION_REVOKED, SYSTEM_NAMESPACE, TAINT_DRAIN, node_lease, site_lease,
};
use tombolo_model::phrase::first_few;

use super::selection::{self, CHUNK_SIZE};
use super::{describe, get};
use crate::{
    args::{DescribeArgs, GetArgs, Selection},
    catalogue,
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    moment,
    output::{self, Format, note},
    shell::Shell,
};

/// More of what runs somewhere than this helps nobody who reads it.
const SHOWN_MAX: usize = 10;
/// Whoever writes so often to one object is broken, and that is worth a message.
const TRIES_MAX: usize = 5;

/// Look after sites.
#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// List the sites.
    #[command(after_help = "\
Examples:
  tombolo site ls
  tombolo site ls -o wide")]
    Ls {
        /// How to print.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Show sites in full.
    #[command(after_help = "\
Examples:
  tombolo site describe harbour")]
    Describe {
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Give a site no new work.
    #[command(after_help = "\
Examples:
  tombolo site cordon harbour")]
    Cordon { name: String },
    /// Let a site take work again, after `cordon` or `drain`.
    #[command(after_help = "\
Examples:
  tombolo site uncordon harbour")]
    Uncordon { name: String },
    /// Give a site no new work, and move away what runs there.
    #[command(after_help = "\
Examples:
  tombolo site drain harbour
  tombolo site uncordon harbour   (takes it back)")]
    Drain { name: String },
    /// Remove a site with its nodes. Their agents are refused from then on.
    #[command(after_help = "\
Examples:
  tombolo site remove harbour
  tombolo site remove harbour --force --yes")]
    Remove {
        name: String,
        #[command(flatten)]
        removal: Removal,
    },
}

/// Look after nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes.
    #[command(after_help = "\
Examples:
  tombolo node ls
  tombolo node ls --site harbour -o wide")]
    Ls {
        /// Only those of this site.
        #[arg(long, value_name = "SITE")]
        site: Option<String>,
        /// How to print.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Show nodes in full.
    #[command(after_help = "\
Examples:
  tombolo node describe crane")]
    Describe {
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Give a node no new work.
    #[command(after_help = "\
Examples:
  tombolo node cordon crane")]
    Cordon { name: String },
    /// Let a node take work again, after `cordon` or `drain`.
    #[command(after_help = "\
Examples:
  tombolo node uncordon crane")]
    Uncordon { name: String },
    /// Give a node no new work, and move away what runs there.
    #[command(after_help = "\
Examples:
  tombolo node drain crane
  tombolo node uncordon crane   (takes it back)")]
    Drain { name: String },
    /// Remove a node. Its agent is refused from then on.
    #[command(after_help = "\
Examples:
  tombolo node remove crane
  tombolo node remove crane --force --yes")]
    Remove {
        name: String,
        #[command(flatten)]
        removal: Removal,
    },
    /// Revoke the certificate of a node, at once. A new join token lets it in again.
    #[command(after_help = "\
Examples:
  tombolo node revoke crane")]
    Revoke {
        name: String,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Removal {
    /// Remove it even if something still runs there.
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Site,
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Cordon,
    Uncordon,
    Drain,
}

pub(super) async fn site(shell: &mut Shell, command: SiteCommand) -> Result<Exit, Failure> {
    match command {
        SiteCommand::Ls { output } => list(shell, Member::Site, None, output).await,
        SiteCommand::Describe { names } => describe(shell, Member::Site, names).await,
        SiteCommand::Cordon { name } => change(shell, Member::Site, &name, Change::Cordon).await,
        SiteCommand::Uncordon { name } => {
            change(shell, Member::Site, &name, Change::Uncordon).await
        }
        SiteCommand::Drain { name } => change(shell, Member::Site, &name, Change::Drain).await,
        SiteCommand::Remove { name, removal } => remove(shell, Member::Site, &name, removal).await,
    }
}

pub(super) async fn node(shell: &mut Shell, command: NodeCommand) -> Result<Exit, Failure> {
    match command {
        NodeCommand::Ls { site, output } => {
            let selector = site.map(|site| format!("spec.site={site}"));
            list(shell, Member::Node, selector, output).await
        }
        NodeCommand::Describe { names } => describe(shell, Member::Node, names).await,
        NodeCommand::Cordon { name } => change(shell, Member::Node, &name, Change::Cordon).await,
        NodeCommand::Uncordon { name } => {
            change(shell, Member::Node, &name, Change::Uncordon).await
        }
        NodeCommand::Drain { name } => change(shell, Member::Node, &name, Change::Drain).await,
        NodeCommand::Remove { name, removal } => remove(shell, Member::Node, &name, removal).await,
        NodeCommand::Revoke { name, yes } => revoke(shell, &name, yes).await,
    }
}

async fn list(
    shell: &mut Shell,
    member: Member,
    field_selector: Option<String>,
    output: Format,
) -> Result<Exit, Failure> {
    let args = GetArgs {
        what: vec![member.plural().to_owned()],
        selection: Selection { all_namespaces: false, selector: None, field_selector },
        output,
        watch: false,
        output_watch_events: false,
        chunk_size: CHUNK_SIZE,
        show_managed_fields: false,
    };
    get::run(shell, &args).await
}

async fn describe(shell: &mut Shell, member: Member, names: Vec<String>) -> Result<Exit, Failure> {
    let what = std::iter::once(member.plural().to_owned()).chain(names).collect();
    let selection = Selection { all_namespaces: false, selector: None, field_selector: None };
    describe::run(shell, &DescribeArgs { what, selection }).await
}

async fn change(
    shell: &mut Shell,
    member: Member,
    name: &str,
    change: Change,
) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    write(&connection, &member.path(name), change).await?;
    let done = match change {
        Change::Cordon => "takes no new work",
        Change::Uncordon => "takes work again",
        Change::Drain => "takes no new work, and what runs there is moved away",
    };
    shell.out.line(&format!("{}/{name} {done}", member.singular()))?;
    Ok(Exit::Ok)
}

/// Agents write to their Nodes at any time. That is no reason to refuse what an operator wants: it is
/// decided again on what is there now.
async fn write(connection: &Connection, path: &str, change: Change) -> Result<(), Failure> {
    let mut tries_left = TRIES_MAX;
    loop {
        let live = connection.get(path).await?;
        tries_left -= 1;
        match connection.merge(path, &patch(&live, change)).await {
            Err(failure) if failure.exit == Exit::Conflict && tries_left > 0 => (),
            other => return other.map(drop),
        }
    }
}

/// What to change of what was read; refused by the server if it has changed meanwhile.
fn patch(live: &Value, change: Change) -> Value {
    let taints = live["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let mut taints: Vec<Value> =
        taints.into_iter().filter(|taint| taint["key"] != TAINT_DRAIN).collect();
    let cordoned = match change {
        Change::Cordon => return json!({"spec": {"unschedulable": true}}),
        Change::Uncordon => Value::Null,
        Change::Drain => {
            // The value is what `get nodes` shows.
            taints.push(json!({"key": TAINT_DRAIN, "value": "yes", "effect": "NoExecute"}));
            json!(true)
        }
    };
    let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
    json!({
        "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]},
        "spec": {"unschedulable": cordoned, "taints": taints},
    })
}

async fn remove(
    shell: &mut Shell,
    member: Member,
    name: &str,
    removal: Removal,
) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    connection.get(&member.path(name)).await?;
    let running = assignments(&connection, member, name).await?;
    if !running.is_empty() && !removal.force {
        let what = format!("{} {name}", member.singular());
        return Err(Failure::new(Exit::Conflict, still_there(&what, &running)).hint(format!(
            "`tombolo {0} drain {name}` moves it away; --force removes the {0} all the same",
            member.singular()
        )));
    }
    let nodes = match member {
        Member::Node => vec![name.to_owned()],
        Member::Site => nodes_of(&connection, name).await?,
    };
    let question = match member {
        Member::Node => format!("Remove node {name}?"),
        Member::Site => format!("Remove site {name} with its {} nodes?", nodes.len()),
    };
    agreed(removal.yes, &question)?;
    for node in &nodes {
        gone(&connection, &Member::Node.path(node)).await?;
        forget_lease(&connection, &node_lease(node)).await;
        shell.out.line(&format!("node/{node} removed"))?;
    }
    if member == Member::Site {
        gone(&connection, &Member::Site.path(name)).await?;
        forget_lease(&connection, &site_lease(name)).await;
        shell.out.line(&format!("site/{name} removed"))?;
    }
    Ok(Exit::Ok)
}

async fn revoke(shell: &mut Shell, name: &str, yes: bool) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let path = Member::Node.path(name);
    connection.get(&path).await?;
    agreed(yes, &format!("Revoke the certificate of node {name}?"))?;
    let now = moment::now().to_string();
    let change = json!({"metadata": {"annotations": {ANNOTATION_REVOKED: now}}});
    connection.merge(&path, &change).await?;
    shell.out.line(&format!("the certificate of node/{name} is revoked"))?;
    Ok(Exit::Ok)
}

fn agreed(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !output::somebody_is_there() {
        return Err(Failure::usage("there is no terminal to ask on")
            .hint("--yes goes ahead without asking"));
    }
    match output::confirmed(question) {
        true => Ok(()),
        false => Err(Failure::failed("nothing was changed")),
    }
}

async fn assignments(
    connection: &Connection,
    member: Member,
    name: &str,
) -> Result<Vec<String>, Failure> {
    let assignments = catalogue::known("Assignment");
    let field = match member {
        Member::Site => "spec.site",
        Member::Node => "spec.node",
    };
    let query = Query::default().with("fieldSelector", format!("{field}={name}"));
    let path = assignments.collection(None);
    let list = selection::list(connection, &path, &query, JSON, CHUNK_SIZE).await?;
    let label = |object: &Value| {
        let namespace = selection::namespace_of(object);
        output::harmless(&format!("{namespace}/{}", selection::name_of(object)))
    };
    Ok(selection::items(&assignments, list).iter().map(label).collect())
}

async fn nodes_of(connection: &Connection, site: &str) -> Result<Vec<String>, Failure> {
    let nodes = catalogue::known("Node");
    let query = Query::default().with("fieldSelector", format!("spec.site={site}"));
    let path = nodes.collection(None);
    let list = selection::list(connection, &path, &query, JSON, CHUNK_SIZE).await?;
    let items = selection::items(&nodes, list);
    Ok(items.iter().map(|node| selection::name_of(node).to_owned()).collect())
}

/// `node crane-1 still runs 2 assignments: shop/web-0, shop/web-1`.
fn still_there(what: &str, running: &[String]) -> String {
    let word = if running.len() == 1 { "assignment" } else { "assignments" };
    format!("{what} still runs {} {word}: {}", running.len(), first_few(running, SHOWN_MAX))
}

async fn gone(connection: &Connection, path: &str) -> Result<(), Failure> {
    match connection.delete(path, &json!({})).await {
        // Somebody else was quicker, which is as good.
        Err(failure) if failure.exit == Exit::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// A Lease without its node means nothing; a role that may not delete it leaves it.
async fn forget_lease(connection: &Connection, name: &str) {
    let path = catalogue::known("Lease").object(SYSTEM_NAMESPACE, name);
    match connection.delete(&path, &json!({})).await {
        Ok(_) => (),
        Err(failure) if failure.exit == Exit::NotFound => (),
        Err(failure) => note(&format!("the lease {name} stays: {}", failure.message)),
    }
}

impl Member {
    fn singular(self) -> &'static str {
        match self {
            Member::Site => "site",
            Member::Node => "node",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Member::Site => "sites",
            Member::Node => "nodes",
        }
    }

    fn path(self, name: &str) -> String {
        let kind = match self {
            Member::Site => "Site",
            Member::Node => "Node",
        };
        catalogue::known(kind).object("", name)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(taints: Value, change: Change, expect: Expect) {
        let live = json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}});
        expect.assert_eq(&patch(&live, change).to_string());
    }

    #[test]
    fn a_drain_adds_its_taint_once_and_leaves_the_others() {
        let other = json!({"key": "gpu", "effect": "NoSchedule"});
        let drain = json!({"key": TAINT_DRAIN, "value": "yes", "effect": "NoExecute"});
        check(
            json!([other]),
            Change::Drain,
            expect![[
                r#"{"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"effect":"NoSchedule","key":"gpu"},{"effect":"NoExecute","key":"tombolo.dev/drain","value":"yes"}],"unschedulable":true}}"#
            ]],
        );
        check(
            json!([drain]),
            Change::Drain,
            expect![[
                r#"{"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"effect":"NoExecute","key":"tombolo.dev/drain","value":"yes"}],"unschedulable":true}}"#
            ]],
        );
        check(
            json!([other, drain]),
            Change::Uncordon,
            expect![[
                r#"{"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"effect":"NoSchedule","key":"gpu"}],"unschedulable":null}}"#
            ]],
        );
        check(json!([drain]), Change::Cordon, expect![[r#"{"spec":{"unschedulable":true}}"#]]);
    }

    #[test]
    fn a_refused_removal_says_what_runs_there() {
        let running: Vec<String> = (0..12).map(|number| format!("shop/web-{number}")).collect();
        assert_eq!(
            still_there("site north", &running[..1]),
            "site north still runs 1 assignment: shop/web-0"
        );
        assert!(still_there("site north", &running).ends_with("shop/web-9 and 2 more"));
    }
}
