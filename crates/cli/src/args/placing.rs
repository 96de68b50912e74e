//! What can be typed about placement: `match`, `plan`, `why`, `what-if` and `sim`. Part of
//! [`super`].

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use tombolo_descriptor::Format as Descriptor;

use super::{complete, files::descriptor_format};
use crate::{moment::parse_duration, output::Format};

/// How long to search for better places.
#[derive(Args, Clone, Debug)]
pub(crate) struct SearchArgs {
    /// Search until the best is proven or this time is over; if left out, do a fixed amount of work.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) time_limit: Option<Duration>,
    /// The seed of the search: the same input, seed and amount of work give the same answer.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Choose places for the components of an app, from files alone. Needs no server.
///
/// The topology is Site, Node and Link documents, or the JSON of an ICOS aggregator; the app may be of any
/// format that `apply` takes. Exits with 8 if there is no place for all of it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo match --topology topology.yaml --app app.yaml
  tombolo match --topology aggregator.json --app icos-app.yaml -o json
  tombolo match --topology topology.yaml --app app.yaml --dump-model model.json")]
pub(crate) struct MatchArgs {
    /// Sites, nodes and links: a file, a folder, or - for stdin. May be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) topology: Vec<String>,
    /// The app: a file, a folder, or - for stdin. May be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) app: Vec<String>,
    /// The format of the app, if it is not recognised.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// Write the optimisation problem as JSON into this file, for other solvers.
    #[arg(long, value_name = "FILE")]
    pub(crate) dump_model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// How to print: table, wide or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Show where apps would be placed, and change nothing.
///
/// With -f, as if the files were applied; with names, as if those apps were placed anew now. Exits with 8 if
/// an app has no place.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo plan -f app.yaml
  tombolo plan web
  tombolo plan -f app.yaml -o json")]
pub(crate) struct PlanArgs {
    /// Apps on the server.
    #[arg(value_name = "APP", required_unless_present = "files")]
    pub(crate) apps: Vec<String>,
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin. May be repeated.
    #[arg(short, long = "file", value_name = "FILE", conflicts_with = "apps")]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format(), requires = "files")]
    pub(crate) from: Option<Descriptor>,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// How to print: table, wide or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Say why an app is where it is, or why not on another node.
///
/// Without --node: what was decided when it was placed. With --node: everything that keeps the
/// component off that node now, each with its margin.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo why web
  tombolo why web/frontend
  tombolo why web/frontend --node edge-7")]
pub(crate) struct WhyArgs {
    /// The app, or one of its components.
    #[arg(value_name = "APP[/COMPONENT]", add = complete::components())]
    pub(crate) what: String,
    /// Why not on this node?
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// How to print: table or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Show what would follow if something failed, was drained or was added. Changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo what-if --fail site/athens
  tombolo what-if --drain node/edge-7 --add-node new-node.yaml
  tombolo what-if --link harbour-to-cloud=80ms
  tombolo what-if --weights energy=3,performance=1")]
pub(crate) struct WhatIfArgs {
    /// A site, node or link that fails: site/NAME, node/NAME or link/NAME. May be repeated.
    #[arg(long, value_name = "KIND/NAME")]
    pub(crate) fail: Vec<String>,
    /// A site or node that is drained: site/NAME or node/NAME. May be repeated.
    #[arg(long, value_name = "KIND/NAME")]
    pub(crate) drain: Vec<String>,
    /// How long a link takes, one way: NAME=80ms. May be repeated.
    #[arg(long, value_name = "NAME=LATENCY")]
    pub(crate) link: Vec<String>,
    /// A file with Nodes (and Sites and Links) that are added. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) add_node: Vec<String>,
    /// Weights that count in place of those of every app: performance, energy, security, cost,
    /// resilience, latency.
    #[arg(long, value_name = "NAME=NUMBER", value_delimiter = ',')]
    pub(crate) weights: Vec<String>,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// How to print: table or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Generate sites, nodes and apps to try things out on.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Write a random topology.yaml and app.yaml.
    #[command(after_help = "\
Examples:
  tombolo sim instance --sites 5 --nodes 40 --components 8 --seed 1 --dir .
  tombolo match --topology topology.yaml --app app.yaml")]
    Instance(InstanceArgs),
}

#[derive(Args, Debug)]
pub(crate) struct InstanceArgs {
    /// How many sites.
    #[arg(long, value_name = "N")]
    pub(crate) sites: usize,
    /// How many nodes; at least one for each site.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: usize,
    /// How many components the app has.
    #[arg(long, value_name = "N")]
    pub(crate) components: usize,
    /// The same numbers and the same seed give the same files.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// The folder to write into; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
