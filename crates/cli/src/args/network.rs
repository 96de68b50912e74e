//! What can be typed about the network: `net`. Part of [`super`].

use clap::{Args, Subcommand};

use crate::output::Format;

/// Show how far sites are from each other, one way, and how that is known.
///
/// A plain delay is measured, ~ before it says that it is estimated from probes of other pairs, and = that it is as
/// declared. Sites measure when their spec names a probePort.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tombolo net
  tombolo net -o wide
  tombolo net path harbour cloud")]
pub(crate) struct NetArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NetCommand>,
    /// How to print: table (a matrix of the sites), wide (a line for each link) or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NetCommand {
    /// Show the best way from one site to another.
    #[command(after_help = "\
Examples:
  tombolo net path harbour cloud")]
    Path {
        /// Where it begins.
        #[arg(value_name = "SITE")]
        from: String,
        /// Where it ends.
        #[arg(value_name = "SITE")]
        to: String,
    },
}
