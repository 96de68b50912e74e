//! `tombolo agent`: the agent of this machine. What it does is in `tombolo_agent`.

use std::path::PathBuf;

use clap::Args;
use tombolo_agent::{Error, JoinFile, Settings};

use super::up;
use crate::failure::{Exit, Failure};
use crate::{output, places};

/// Join this machine to a site, and run what is assigned to it.
///
/// The join file is needed at the first start; later ones find everything in the data folder. It
/// only dials out: no port is opened. It runs until SIGTERM or Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo agent --join-file harbour.join --name crane-1
  tombolo agent --join-file - < harbour.join
  tombolo agent --data /var/lib/tombolo-agent")]
pub(crate) struct AgentArgs {
    /// The file that `tombolo token create --site` wrote, or - for stdin.
    #[arg(long, value_name = "FILE")]
    join_file: Option<PathBuf>,
    /// The name of the node; the host's name if left out.
    #[arg(long, value_name = "NODE")]
    name: Option<String>,
    /// Keep key and certificate here; a folder of the user's data folder if left out.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(crate) fn run(args: AgentArgs) -> Result<Exit, Failure> {
    let folder = args.data.or_else(|| places::default_data_folder().map(|data| data.join("agent")));
    let folder = folder.ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_DATA_HOME is set").hint("name a folder with --data")
    })?;
    let join_file = args.join_file.as_deref().map(JoinFile::read).transpose();
    let settings = Settings {
        folder,
        join_file: join_file.map_err(|error| failure(&error))?,
        node: args.name,
        machine: None,
    };
    let runtime = up::runtime()?;
    runtime
        .block_on(async {
            let stop = up::stop_signal().map_err(|error| Failure::failed(format!("{error:#}")))?;
            let folder = settings.folder.display();
            output::note(&format!("the agent runs with {folder}; Ctrl-C stops it"));
            let running = tombolo_agent::run(settings, up::stopped(stop));
            running.await.map_err(|error| failure(&error))
        })
        .map(|()| Exit::Ok)
}

fn failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Refused { .. } | Error::Quarantined { .. } => Exit::Denied,
        Error::Unreachable { .. } | Error::Answer { .. } => Exit::Unreachable,
        Error::NothingToJoinWith { .. } => Exit::Usage,
        Error::File { .. }
        | Error::Malformed { .. }
        | Error::InUse { .. }
        | Error::Engine(_)
        | Error::Identity(_) => Exit::Failed,
    };
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Failure::new(exit, message)
}
