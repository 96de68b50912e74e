//! The shell: one file for each command.

mod api_resources;
mod apply;
mod archive;
mod audit;
mod chart;
mod completion;
mod components;
mod config;
mod convert;
mod cp;
mod create;
mod delete;
mod describe;
mod diff;
mod edit;
mod events;
mod exec;
mod explain;
mod fleet;
mod get;
mod history;
mod instances;
mod logs;
mod logs_follow;
mod loops;
mod matching;
mod metrics;
mod net;
mod placements;
mod plan;
mod policy;
mod port_forward;
mod query;
mod rollout;
mod schema;
mod selection;
mod signing_in;
mod sim;
mod status;
mod timeline;
mod token;
mod token_join;
mod top;
mod validate;
mod version;
mod wait;
mod what_if;
mod why;
mod world;

pub(crate) use completion::VARIABLE as COMPLETION_VARIABLE;
pub(crate) use fleet::{NodeCommand, SiteCommand};

use crate::{
    args::ShellCommand,
    failure::{Exit, Failure},
    shell::Shell,
};

pub(crate) async fn run(shell: &mut Shell, command: ShellCommand) -> Result<Exit, Failure> {
    match command {
        ShellCommand::Apply(args) => apply::run(shell, &args).await,
        ShellCommand::Diff(args) => diff::run(shell, &args).await,
        ShellCommand::Convert(args) => convert::run(shell, &args),
        ShellCommand::Validate(args) => validate::run(shell, &args),
        ShellCommand::Plan(args) => plan::run(shell, &args).await,
        ShellCommand::Why(args) => why::run(shell, &args).await,
        ShellCommand::WhatIf(args) => what_if::run(shell, &args).await,
        ShellCommand::Match(args) => matching::run(shell, &args),
        ShellCommand::Sim(command) => sim::run(shell, &command),
        ShellCommand::Policy(command) => policy::run(shell, &command),
        ShellCommand::Timeline(args) => timeline::run(shell, &args).await,
        ShellCommand::Suggestions(args) => timeline::suggestions(shell, &args).await,
        ShellCommand::Accept(args) => timeline::accept(shell, &args).await,
        ShellCommand::Dismiss(args) => timeline::dismiss(shell, &args).await,
        ShellCommand::Get(args) => get::run(shell, &args).await,
        ShellCommand::Describe(args) => describe::run(shell, &args).await,
        ShellCommand::Delete(args) => delete::run(shell, &args).await,
        ShellCommand::Status(args) => status::run(shell, &args).await,
        ShellCommand::Edit(args) => edit::run(shell, &args).await,
        ShellCommand::Scale(args) => components::scale(shell, &args).await,
        ShellCommand::Restart(args) => components::restart(shell, &args).await,
        ShellCommand::Rebalance(args) => components::rebalance(shell, &args).await,
        ShellCommand::Rollout(command) => rollout::run(shell, &command).await,
        ShellCommand::Cp(args) => cp::run(shell, &args).await,
        ShellCommand::ApiResources(args) => api_resources::run(shell, &args).await,
        ShellCommand::Man(args) => completion::manual(shell, &args),
        ShellCommand::Wait(args) => wait::run(shell, &args).await,
        ShellCommand::Logs(args) => logs::run(shell, &args).await,
        ShellCommand::Exec(args) => exec::run(shell, &args).await,
        ShellCommand::PortForward(args) => port_forward::run(shell, &args).await,
        ShellCommand::Events(args) => events::run(shell, &args).await,
        ShellCommand::Explain(args) => explain::run(shell, &args).await,
        ShellCommand::Schema(args) => schema::print_schema(shell, &args),
        ShellCommand::Crds(_) => schema::print_definitions(shell),
        ShellCommand::Site(command) => fleet::site(shell, command).await,
        ShellCommand::Node(command) => fleet::node(shell, command).await,
        ShellCommand::Token(command) => token::run(shell, &command).await,
        ShellCommand::Login(args) => signing_in::login(shell, &args).await,
        ShellCommand::Logout(args) => signing_in::logout(shell, &args),
        ShellCommand::Whoami(args) => signing_in::whoami(shell, &args).await,
        ShellCommand::Create(command) => create::run(shell, &command).await,
        ShellCommand::Backup(args) => archive::backup(shell, &args).await,
        ShellCommand::Restore(args) => archive::restore(shell, &args).await,
        ShellCommand::Top(args) => top::run(shell, &args).await,
        ShellCommand::Query(args) => query::run(shell, &args).await,
        ShellCommand::Metrics(command) => metrics::run(shell, &command).await,
        ShellCommand::Audit(args) => audit::run(shell, &args).await,
        ShellCommand::Loops(args) => loops::run(shell, &args).await,
        ShellCommand::Net(args) => net::run(shell, &args).await,
        ShellCommand::Config(command) => config::run(shell, &command),
        ShellCommand::Completion(args) => completion::run(shell, &args),
        ShellCommand::Version(args) => version::run(shell, &args).await,
    }
}
