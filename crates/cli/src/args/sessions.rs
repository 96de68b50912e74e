//! What can be typed about running instances: `logs`, `exec` and `port-forward`. Part of [`super`].

use std::time::Duration;

use clap::Args;

use super::complete;
use crate::moment::parse_duration;

/// Show what the instances of an app write.
///
/// The lines of several instances come in the order of their times, with the instance before each.
/// With -f, new lines follow as they come: over restarts and updates, from instances that are added,
/// and again when a node that was cut off is back; an app that does not run yet is waited for. While an
/// instance has no log, the last lines of its last run are shown.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo logs shop
  tombolo logs shop/web -f --tail 10
  tombolo logs shop/web/2 --since 5m
  tombolo logs shop/web --previous")]
pub(crate) struct LogsArgs {
    /// All of an app, of one of its components, or of one instance of it.
    #[arg(value_name = "APP[/COMPONENT[/REPLICA]]", add = complete::components())]
    pub(crate) what: String,
    /// Keep running, and print new lines as they come.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines that are no older than this, such as 5m.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only this many of the last lines of each instance.
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u32>,
    /// Only lines from before the last restart.
    #[arg(short, long, conflicts_with = "follow")]
    pub(crate) previous: bool,
    /// Put the time before each line.
    #[arg(long)]
    pub(crate) timestamps: bool,
    /// Only this part of an instance that has several, such as a service of a compose file.
    #[arg(long, value_name = "NAME")]
    pub(crate) part: Option<String>,
}

/// Run a command inside an instance.
///
/// Exits with the exit code of the command, or with 127 if there is no such command. If this shell ends
/// first, the command is ended too.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo exec shop/web -- cat /etc/hostname
  tombolo exec -it shop/web -- sh
  tombolo exec -i shop/store/0 -- tar x < files.tar")]
pub(crate) struct ExecArgs {
    /// The instance; the replica may be left out if there is only one.
    #[arg(value_name = "APP/COMPONENT[/REPLICA]", add = complete::components())]
    pub(crate) what: String,
    /// Pass on what is typed or piped in.
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,
    /// Give the command a terminal, for programs that want one.
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// Which part of an instance that has several; the first if left out.
    #[arg(long, value_name = "NAME")]
    pub(crate) part: Option<String>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Forward ports of this machine to ports of an instance.
///
/// Listens on 127.0.0.1 alone, until Ctrl-C. Each connection looks the instance up again: a restart breaks
/// the open connections, and new ones work.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo port-forward shop/web 8080:80
  tombolo port-forward shop/store/0 5432 9187
  tombolo port-forward shop/web :80    (any free port; it is printed)")]
pub(crate) struct PortForwardArgs {
    /// The instance; the replica may be left out if there is only one.
    #[arg(value_name = "APP/COMPONENT[/REPLICA]", add = complete::components())]
    pub(crate) what: String,
    /// The port here and the port there; one number is both.
    #[arg(value_name = "[LOCAL:]REMOTE", required = true)]
    pub(crate) ports: Vec<String>,
}
