//! What can be typed: the global options and one variant for each command.
//!
//! Help texts are written here and nowhere else; a test keeps a snapshot of every one.

mod access;
mod complete;
mod daily;
mod files;
mod kinds;
mod metrics;
mod network;
mod objects;
mod placing;
mod policy;
mod program;
mod server;
mod sessions;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::{
    commands::{NodeCommand, SiteCommand},
    moment::parse_duration,
    programs::Program,
};

pub(crate) use access::{
    ConfigCommand, CreateCommand, LoginArgs, LogoutArgs, RoleArg, TokenCommand, WhoamiArgs,
};
pub(crate) use daily::{
    CpArgs, EditArgs, ManArgs, RebalanceArgs, RestartArgs, RolloutCommand, ScaleArgs, StatusArgs,
};
pub(crate) use files::{ApplyArgs, ConvertArgs, DiffArgs, ValidateArgs};
pub(crate) use kinds::{ApiResourcesArgs, CrdsArgs, ExplainArgs, SchemaArgs};
pub(crate) use metrics::{MetricsCommand, QueryArgs, QueryFormat, TopArgs, TopWhat};
pub(crate) use network::{NetArgs, NetCommand};
pub(crate) use objects::{DeleteArgs, DescribeArgs, EventsArgs, GetArgs, Selection, WaitArgs};
pub(crate) use placing::{
    InstanceArgs, MatchArgs, PlanArgs, SearchArgs, SimCommand, WhatIfArgs, WhyArgs,
};
pub(crate) use policy::{
    AcceptArgs, DismissArgs, PolicyCheckArgs, PolicyCommand, PolicyFiles, PolicyFormat,
    PolicyTestArgs, SuggestionsArgs, TimelineArgs,
};
pub(crate) use program::{CompletionArgs, VersionArgs};
pub(crate) use server::{AccessArg, AuditArgs, BackupArgs, BackupCommand, LoopsArgs, RestoreArgs};
pub(crate) use sessions::{ExecArgs, LogsArgs, PortForwardArgs};

const AFTER_HELP: &str = "\
Examples:
  tombolo up
  tombolo apply -f examples/app-clock.yaml
  tombolo get apps
  tombolo help get

Exit codes:
  0  ok
  1  failed (and `diff`: there are differences)
  2  wrong usage
  3  not found
  4  conflict: somebody else changed it, or owns the field
  5  denied: not logged in, or the role does not allow it
  6  unreachable: no server, or it is not ready
  7  timeout
  8  not placed: no node meets the needs of the app

The server is found by --kubeconfig, then TOMBOLO_KUBECONFIG, then what `tombolo login` wrote
(~/.config/tombolo/kubeconfig), then the kubeconfig that `tombolo up` wrote into the user's
data folder ($XDG_DATA_HOME/tombolo or ~/.local/share/tombolo), then the one of
`tombolo up --demo`.";

/// One orchestrator from edge to cloud: the control plane, and the shell to talk to it.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The file that says where the server is and who you are.
    #[arg(long, global = true, env = "TOMBOLO_KUBECONFIG", value_name = "FILE")]
    #[arg(hide_env_values = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig of a lighthouse, which is asked for the server when that is not where it was.
    #[arg(long, global = true, env = "TOMBOLO_LIGHTHOUSE", value_name = "FILE", hide = true)]
    #[arg(hide_env_values = true)]
    pub(crate) lighthouse_config: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of its current one.
    #[arg(long, global = true, value_name = "NAME", add = complete::contexts())]
    pub(crate) context: Option<String>,
    /// The namespace to work in instead of the context's.
    #[arg(short, long, global = true, value_name = "NAME", add = complete::namespaces())]
    pub(crate) namespace: Option<String>,
    /// How long a single request may take.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = parse_duration, hide_default_value = false)]
    pub(crate) request_timeout: Duration,
    /// Log what the client does to stderr; given twice, log everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Program(Program),
    #[command(flatten)]
    Shell(ShellCommand),
}

/// Commands that talk to a server, or need none.
#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    Apply(ApplyArgs),
    Diff(DiffArgs),
    Convert(ConvertArgs),
    Validate(ValidateArgs),
    Plan(PlanArgs),
    Why(WhyArgs),
    WhatIf(WhatIfArgs),
    Match(MatchArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo sim instance --sites 5 --nodes 40 --components 8 --seed 1 --dir .")]
    Sim(SimCommand),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo policy check policy.yaml
  tombolo policy test policy.yaml --samples samples.txt")]
    Policy(PolicyCommand),
    Timeline(TimelineArgs),
    Suggestions(SuggestionsArgs),
    Accept(AcceptArgs),
    Dismiss(DismissArgs),
    Status(StatusArgs),
    Get(GetArgs),
    Describe(DescribeArgs),
    Delete(DeleteArgs),
    Edit(EditArgs),
    Scale(ScaleArgs),
    Restart(RestartArgs),
    Rebalance(RebalanceArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo rollout status shop
  tombolo rollout undo shop")]
    Rollout(RolloutCommand),
    Wait(WaitArgs),
    Logs(LogsArgs),
    Exec(ExecArgs),
    PortForward(PortForwardArgs),
    Cp(CpArgs),
    Events(EventsArgs),
    Top(TopArgs),
    Query(QueryArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo metrics ls node_
  tombolo metrics describe node_load1")]
    Metrics(MetricsCommand),
    Explain(ExplainArgs),
    ApiResources(ApiResourcesArgs),
    Schema(SchemaArgs),
    Crds(CrdsArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo site ls
  tombolo site drain harbour")]
    Site(SiteCommand),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo node ls --site harbour
  tombolo node drain crane")]
    Node(NodeCommand),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo token create --role user --for-namespace shop alice
  tombolo token ls")]
    Token(TokenCommand),
    Login(LoginArgs),
    Logout(LogoutArgs),
    Whoami(WhoamiArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo create namespace shop")]
    Create(CreateCommand),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Audit(AuditArgs),
    Loops(LoopsArgs),
    Net(NetArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo config view
  eval \"$(tombolo config env)\"")]
    Config(ConfigCommand),
    Completion(CompletionArgs),
    Man(ManArgs),
    Version(VersionArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    /// A change of any help text shows up in `tests/help/`, where a reviewer reads it.
    #[test]
    fn every_help_text_is_as_in_its_snapshot() {
        let command = Arguments::command().term_width(100);
        check_help(command, "tombolo");
    }

    fn check_help(mut command: clap::Command, name: &str) {
        command.build();
        let text = command.render_long_help().to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let path = format!("{}/tests/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        expect_test::expect_file![path].assert_eq(&format!("{}\n", lines.join("\n")));
        // What `tombolo help` says of a command is what `--help` says.
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let inner_name = format!("{name}-{}", inner.get_name());
            check_help(inner.clone().term_width(100), &inner_name);
        }
    }

    #[test]
    fn every_help_text_has_an_example() {
        fn without(command: &clap::Command, name: &str, found: &mut Vec<String>) {
            let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
            inner.for_each(|one| without(one, &format!("{name} {}", one.get_name()), found));
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if !after.contains("Examples:\n") {
                found.push(name.to_owned());
            }
        }
        let mut found = Vec::new();
        without(&Arguments::command(), "tombolo", &mut found);
        assert_eq!(found, [] as [&str; 0]);
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        for exit in crate::failure::Exit::ALL {
            assert!(AFTER_HELP.contains(&format!("\n  {}  ", exit.code())), "{exit:?}");
        }
    }
}
