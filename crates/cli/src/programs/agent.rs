//! `tombolo agent`: the agent of this machine. What it does is in `tombolo_agent`.

mod install;
mod offer;
mod unit;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tombolo_agent::engines::DockerAt;
use tombolo_agent::{Error, JoinFile, Settings};

pub(super) use self::offer::MetricsArgs;
use self::offer::OfferArgs;
use super::up;
use crate::failure::{Exit, Failure};
use crate::{output, places, shell};

/// Join this machine to a site, and run what is assigned to it.
///
/// The join file is needed at the first start; later ones find everything in the data folder. It
/// only dials out: no port is opened. It runs until SIGTERM or Ctrl-C.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  tombolo agent --join-file harbour.join --name crane-1
  tombolo agent --join-file - < harbour.join
  tombolo agent --join-file harbour.join --cpu 2 --memory 1Gi --label camera=yes --watts 4:15
  tombolo agent --data /var/lib/tombolo-agent"
)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    /// The file that `tombolo token create --site` wrote, or - for stdin.
    #[arg(long, value_name = "FILE")]
    join_file: Option<PathBuf>,
    /// The name of the node; the host's name if left out.
    #[arg(long, value_name = "NODE")]
    name: Option<String>,
    /// The folder for key, certificate and workloads; if left out, a folder in the user's data folder.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    offer: OfferArgs,
    #[command(flatten)]
    docker: DockerArgs,
}

/// Where containers are run.
#[derive(Args, Clone, Debug)]
pub(crate) struct DockerArgs {
    /// The socket of the Docker engine that runs containers, or `none`. If left out, the one in DOCKER_HOST,
    /// else /var/run/docker.sock if an engine answers there.
    #[arg(long, value_name = "SOCKET")]
    docker: Option<DockerAt>,
}

impl DockerArgs {
    /// The same as words of a command line, for a process that does not know DOCKER_HOST.
    fn words(&self) -> Vec<String> {
        let at = self.at();
        let said = (at != DockerAt::Usual).then(|| at.socket());
        said.map(|socket| socket.unwrap_or_else(|| "none".into()))
            .map(|socket| format!("--docker={}", socket.display()))
            .into_iter()
            .collect()
    }

    pub(crate) fn at(&self) -> DockerAt {
        let variable = std::env::var("DOCKER_HOST").ok().filter(|text| !text.is_empty());
        match (&self.docker, variable.map(|text| text.parse())) {
            (Some(docker), _) => docker.clone(),
            (None, None) => DockerAt::Usual,
            (None, Some(Ok(docker))) => docker,
            // It may be meant for other programs.
            (None, Some(Err(problem))) => {
                output::note(&format!(
                    "warning: no containers are run here: DOCKER_HOST: {problem}"
                ));
                DockerAt::Nowhere
            }
        }
    }
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Doctor(DoctorArgs),
    Install(Box<install::InstallArgs>),
    Uninstall(install::UninstallArgs),
}

/// Examine this machine: what it is, and how safely it is set up.
///
/// Nothing is changed, and no server is needed. What the agent finds is what its Node shows; as
/// root it sees more.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo tombolo agent doctor
  tombolo agent doctor -o json")]
struct DoctorArgs {
    /// The agent's data folder.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: DoctorFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum DoctorFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

pub(crate) fn run(args: AgentArgs) -> Result<Exit, Failure> {
    match args.command {
        Some(AgentCommand::Doctor(args)) => doctor(args),
        Some(AgentCommand::Install(args)) => install::install(*args),
        Some(AgentCommand::Uninstall(args)) => install::uninstall(&args),
        None => work(args),
    }
}

fn doctor(args: DoctorArgs) -> Result<Exit, Failure> {
    let doctor = tombolo_agent::examine(&folder(args.data)?);
    let mut out = output::Out::stdout();
    match args.output {
        DoctorFormat::Text => out.text(&doctor.to_string())?,
        DoctorFormat::Json => {
            let text = serde_json::to_string_pretty(&doctor);
            out.line(&text.map_err(|error| Failure::failed(error.to_string()))?)?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

fn folder(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    given.or_else(|| places::default_data_folder().map(|data| data.join("agent"))).ok_or_else(
        || {
            Failure::usage("neither HOME nor XDG_DATA_HOME is set")
                .hint("name a folder with --data")
        },
    )
}

fn work(args: AgentArgs) -> Result<Exit, Failure> {
    let folder = folder(args.data)?;
    let join_file = args.join_file.as_deref().map(JoinFile::read).transpose();
    let settings = Settings {
        folder,
        join_file: join_file.map_err(|error| failure(&error))?,
        node: args.name,
        machine: None,
        offer: args.offer.offer(),
        docker: args.docker.at(),
    };
    // One thread is enough for what an agent does by itself, and takes less memory than many.
    let runtime = shell::runtime()?;
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
        Error::NothingToJoinWith { .. } | Error::StandsForOther { .. } => Exit::Usage,
        Error::File { .. }
        | Error::Malformed { .. }
        | Error::InUse { .. }
        | Error::FolderGone { .. }
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
