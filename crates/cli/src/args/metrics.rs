//! What can be typed about metrics: `query` and `metrics`. Part of [`super`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::moment::parse_duration;

/// Ask for metrics in PromQL.
///
/// At one moment, or over a range of time. With --samples no server is asked: the samples come from files of
/// OpenMetrics text in which each has its time in seconds, and "now" is the time of the newest.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo query 'sum by (site) (rate(node_cpu_seconds_total{mode!=\"idle\"}[5m]))'
  tombolo query 'up == 0' --time 2026-05-04T12:00:00Z
  tombolo query 'node_load1' --range 1h --step 15s -o plot
  tombolo query 'max_over_time(queue_length[1h])' --samples before.om after.om
  tombolo query 'up' --range 1h -o csv > up.csv")]
pub(crate) struct QueryArgs {
    /// The query.
    #[arg(value_name = "PROMQL")]
    pub(crate) query: String,
    /// The moment, or the end of the range: seconds since 1970, a time like 2026-05-04T12:00:00Z, or how long
    /// ago, like -1h. Now if left out.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
    /// The length of the range; one moment if left out.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) range: Option<Duration>,
    /// The time between two values; a hundredth of the range if left out.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "range")]
    pub(crate) step: Option<Duration>,
    /// How to print.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: QueryFormat,
    /// Ask these files instead of a server; - is stdin.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) samples: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryFormat {
    /// A line for each series.
    #[default]
    Table,
    /// What Prometheus' API answers.
    Json,
    /// A drawing.
    Plot,
    /// A line for each value: series, seconds, value.
    Csv,
}

/// Show how busy sites, nodes, Apps and instances are.
///
/// Processor time and memory as agents have measured them over the last minutes, the busiest Apps and
/// instances first. Prints once.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo top
  tombolo top instances
  watch tombolo top nodes")]
pub(crate) struct TopArgs {
    /// Only these.
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) what: Option<TopWhat>,
    /// Print once and end, as it does anyway; for scripts that say so.
    #[arg(long)]
    once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopWhat {
    Sites,
    Nodes,
    Apps,
    Instances,
}

/// Look at which metrics there are.
#[derive(Debug, Subcommand)]
pub(crate) enum MetricsCommand {
    /// List metrics: name, kind, unit and what they say.
    #[command(after_help = "\
Examples:
  tombolo metrics ls
  tombolo metrics ls node_")]
    Ls {
        /// Only those with this in their names.
        #[arg(value_name = "TEXT")]
        text: Option<String>,
    },
    /// Show one metric: what it says, its labels and their values.
    #[command(after_help = "\
Examples:
  tombolo metrics describe node_load1")]
    Describe {
        /// Its name.
        #[arg(value_name = "METRIC")]
        metric: String,
    },
}
