//! What can be typed about policies: `policy test` and `policy check`. Part of [`super`].

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use tombolo_descriptor::Format as Descriptor;

use super::files::descriptor_format;
use crate::moment::parse_duration;
use crate::output::Format;

/// Say what policies would have done, and what is wrong with them. Needs no server.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    Test(PolicyTestArgs),
    Check(PolicyCheckArgs),
}

/// Which policies.
#[derive(Args, Debug)]
pub(crate) struct PolicyFiles {
    /// Policies, and Apps of any format with policies in them: a file, a folder, or - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// A file with templates of your own, each a document with name, expr and variables. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) templates: Vec<String>,
    /// What icos_app_instance is in the samples: the uid of the App.
    #[arg(long, value_name = "UID")]
    pub(crate) app_instance: Option<String>,
    /// The scores that low, medium and high ask for.
    #[arg(long, value_name = "LOW,MEDIUM,HIGH", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) levels: Vec<u8>,
}

/// Send recorded samples through policies: when they would have fired, what they would have done, and
/// what would have come of it.
///
/// It is the same state machine that works live. What a step would have changed is modelled; the
/// output says how. The samples are OpenMetrics text with a time on each line.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo policy test policy.yaml --samples samples.txt
  tombolo policy test app.yaml --samples samples.txt --since 24h -o plot
  tombolo policy test policy.yaml --samples samples.txt --templates mine.yaml -o json")]
pub(crate) struct PolicyTestArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyFiles,
    /// Samples: OpenMetrics text with times. May be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) samples: Vec<String>,
    /// Use only the samples of this long before the last one; all of them if left out.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// How many instances there were when the samples were taken.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) replicas: u32,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: PolicyFormat,
}

/// Say what is wrong with policies, and what becomes of those that are right.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo policy check policy.yaml
  tombolo policy check app.yaml --levels 0,50,80 -o json")]
pub(crate) struct PolicyCheckArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyFiles,
    /// How to print: table or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: PolicyFormat,
}

/// How what became of policies is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyFormat {
    #[default]
    Table,
    Json,
    Plot,
}

/// Show what policies did and why: which values, what was chosen and what not, what came of it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo timeline
  tombolo timeline shop --since 1h
  tombolo timeline -o json")]
pub(crate) struct TimelineArgs {
    /// Only what is about this App, node or policy.
    #[arg(value_name = "NAME")]
    pub(crate) about: Option<String>,
    /// Only what is younger.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// How to print: table, json or yaml.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// List the steps that policies suggest and a person has to accept.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo suggestions
  tombolo suggestions -o json")]
pub(crate) struct SuggestionsArgs {
    /// How to print: table, json or yaml.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Have a suggested step done.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo accept 8f3a52c09d1e77b4")]
pub(crate) struct AcceptArgs {
    /// As `tombolo suggestions` lists it.
    pub(crate) id: String,
}

/// Have a suggested step not done. It may be suggested again later.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo dismiss 8f3a52c09d1e77b4")]
pub(crate) struct DismissArgs {
    /// As `tombolo suggestions` lists it.
    pub(crate) id: String,
}
