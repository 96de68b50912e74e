//! What can be typed about objects on the server: `get`, `describe`, `delete`, `wait` and `events`. Part of
//! [`super`].

use std::time::Duration;

use clap::Args;

use super::{complete, files::ReadArgs};
use crate::moment::parse_duration;
use crate::output::Format;

/// Which objects of a kind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Selection {
    /// In all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels, such as `tier=web,env in (test,live)`.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Only objects with these fields, such as `metadata.name=web`.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
}

/// Show objects.
///
/// Kinds go by plural, singular or short name, with their group if need be (`widgets.example.org`);
/// `tombolo api-resources` lists them. `all` is apps, assignments and policies, and with -A also sites,
/// nodes and links. With --watch, -o json prints one object a line.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo get apps
  tombolo get all
  tombolo get app web -o yaml
  tombolo get app/web node/gateway-1
  tombolo get apps,sites -A -l tier=web -o wide
  tombolo get nodes --watch")]
pub(crate) struct GetArgs {
    /// KIND, KIND NAME… or KIND/NAME….
    #[arg(value_name = "WHAT", required = true, add = complete::objects())]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Keep running, and print every change.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// With --watch: put ADDED, MODIFIED or DELETED in front.
    #[arg(long, requires = "watch")]
    pub(crate) output_watch_events: bool,
    /// Ask the server for this many objects at a time; 0 means all at once.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) chunk_size: u32,
    /// Also print the server's record of who set which field.
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
}

/// Show objects in full, for people: metadata, spec, status, conditions and events.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo describe app web
  tombolo describe node/gateway-1
  tombolo describe apps -l tier=web")]
pub(crate) struct DescribeArgs {
    /// KIND, KIND NAME… or KIND/NAME….
    #[arg(value_name = "WHAT", required = true, add = complete::objects())]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Delete objects, after showing which and asking.
///
/// What a deleted object owns is deleted with it. Without a terminal, --yes is required.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo delete app web
  tombolo delete -f app.yaml --yes
  tombolo delete apps -l tier=test --yes --wait")]
pub(crate) struct DeleteArgs {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all.
    #[arg(value_name = "WHAT", required_unless_present = "files", add = complete::objects())]
    pub(crate) what: Vec<String>,
    /// Delete what these files name.
    #[arg(short, long = "file", value_name = "FILE", conflicts_with_all = ["what", "Selection"])]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Delete all objects of the kind.
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not fail if an object does not exist.
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Do not wait for agents to take down what is assigned to them; what runs on a node that does
    /// not answer ends when it returns.
    #[arg(long)]
    pub(crate) force: bool,
    /// Wait until everything is gone and all that ran of an app has ended.
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: how long to wait at most.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// Wait until objects have reached a state.
///
/// Exits with 7 when the time is up, or with 8 if an app is then unplaceable; and at once if the object is
/// deleted, or if nothing but a change of the app can help.
#[derive(Args, Debug)]
#[command(after_help = "\
What to wait for:
  condition=TYPE            a condition is True
  condition=TYPE=VALUE      a condition has another status
  phase=PHASE               .status.phase, such as Running
  jsonpath={.path}=VALUE    any field; without =VALUE: it is there
  create                    it exists
  delete                    it is gone

Examples:
  tombolo wait app/web --for=condition=Ready
  tombolo wait app/web --for=phase=Running --timeout 2m
  tombolo wait nodes --all --for=condition=Ready=False
  tombolo wait app/web --for=delete")]
pub(crate) struct WaitArgs {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all.
    #[arg(value_name = "WHAT", required = true, add = complete::objects())]
    pub(crate) what: Vec<String>,
    /// What to wait for.
    #[arg(long = "for", value_name = "GOAL")]
    pub(crate) goal: String,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// All objects of the kind that are there now.
    #[arg(long)]
    pub(crate) all: bool,
    /// How long to wait at most, for all objects together.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// Show what happened, the newest last.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo events
  tombolo events --for app/web
  tombolo events -A --watch")]
pub(crate) struct EventsArgs {
    /// Only what happened to this object.
    #[arg(long = "for", value_name = "KIND/NAME")]
    pub(crate) about: Option<String>,
    /// In all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Keep running, and print events as they happen.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}
