//! What can be typed day by day: `status`, `edit`, `scale`, `restart`, `rollout` and `cp`. Part of [`super`].

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::complete;
use crate::{moment::parse_duration, output::Format};

/// Show the state of everything on one screen.
///
/// The server and its loops, the sites and nodes, the apps by phase, what is wrong and why, and what happened
/// last. Exits with 0 if nothing is wrong, with 1 if something is.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo status
  tombolo status -n shop
  tombolo status -o json")]
pub(crate) struct StatusArgs {
    /// How to print: table, json or yaml.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Change an object in your editor.
///
/// The editor is $VISUAL, else $EDITOR, else vi. What the server refuses comes back into the editor, with the
/// reasons as comments at the top. If you save no change, or an empty file, nothing is changed. If somebody
/// changed the same fields meanwhile, your text is kept in a file, which is named.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo edit app/web
  EDITOR=nano tombolo edit app web
  EDITOR=\"code --wait\" tombolo edit site/harbour")]
pub(crate) struct EditArgs {
    /// KIND NAME, or KIND/NAME.
    #[arg(value_name = "WHAT", required = true, num_args = 1..=2, add = complete::objects())]
    pub(crate) what: Vec<String>,
}

/// Run more or fewer instances of a component.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo scale shop/web=3
  tombolo scale shop/web=3 shop/worker=0")]
pub(crate) struct ScaleArgs {
    /// The component, and how many instances of it.
    #[arg(value_name = "APP/COMPONENT=N", required = true, add = complete::components())]
    pub(crate) what: Vec<String>,
}

/// Restart all instances, a few at a time.
///
/// No more are down at once than `unavailableMax` of the component allows, which is one unless it says
/// otherwise. The command returns at once; `tombolo rollout status` waits for the end.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo restart shop
  tombolo restart shop/web && tombolo rollout status shop")]
pub(crate) struct RestartArgs {
    /// The app, or one component of it.
    #[arg(value_name = "APP[/COMPONENT]", add = complete::components())]
    pub(crate) what: String,
}

/// Let instances move to better places, where they gain more than moving costs.
///
/// Nothing that runs well moves by itself. `tombolo plan APP` shows what would come of it, and the events of an app
/// say when it is worth it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo plan shop
  tombolo rebalance shop")]
pub(crate) struct RebalanceArgs {
    /// An app, or one component of it.
    #[arg(value_name = "APP[/COMPONENT]", add = complete::components())]
    pub(crate) what: String,
}

/// Follow a change of an app, list earlier versions, and go back to one.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Wait until all instances run what the app says now.
    #[command(after_help = "\
Examples:
  tombolo rollout status shop
  tombolo rollout status shop --timeout 10m")]
    Status {
        /// The app.
        #[arg(add = complete::apps())]
        app: String,
        /// How long to wait at most.
        #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
        timeout: Duration,
    },
    /// List the earlier versions of an app.
    ///
    /// Each command of this shell that changes an app keeps the version that it replaces: the last ten, in
    /// the ConfigMap APP.rollout. Of changes by other clients, only the version that the next such command
    /// replaces is kept.
    #[command(after_help = "\
Examples:
  tombolo rollout history shop
  tombolo rollout history shop --generation 4 > shop-4.yaml")]
    History {
        /// The app.
        #[arg(add = complete::apps())]
        app: String,
        /// Print the app as it was in this generation, as a file.
        #[arg(long, value_name = "N")]
        generation: Option<i64>,
    },
    /// Take back the latest change of an app.
    #[command(after_help = "\
Examples:
  tombolo rollout undo shop
  tombolo rollout undo shop --to-generation 4")]
    Undo {
        /// The app.
        #[arg(add = complete::apps())]
        app: String,
        /// The generation to go back to; the one before the latest change if left out.
        #[arg(long, value_name = "N")]
        to_generation: Option<i64>,
    },
}

/// Copy files and folders out of an instance, or into one.
///
/// Uses `tar` inside the instance, which has to have it. Links are not copied, and nothing is ever written
/// outside of the target.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo cp shop/web:/var/log/web.log .
  tombolo cp shop/web/1:/etc/web ./web-config
  tombolo cp site.html shop/web:/srv/")]
pub(crate) struct CpArgs {
    /// What to copy: a path here, or APP/COMPONENT[/REPLICA]:PATH.
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Where to copy it: the other one of the two kinds of path.
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// Which part of an instance that has several; the first if left out.
    #[arg(long, value_name = "NAME")]
    pub(crate) part: Option<String>,
}

/// Write the manual pages, one for each command.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo man --dir ~/.local/share/man/man1
  tombolo man | man -l -")]
pub(crate) struct ManArgs {
    /// The folder to write them to; without it, the page of tombolo itself goes to the terminal.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
