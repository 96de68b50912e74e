//! `tombolo agent install` and `uninstall`: the agent as a service of systemd, and off the machine
//! again without a trace. The unit itself is in [`super::unit`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use tombolo_agent::JoinFile;
use tombolo_agent::removal::{self, AGENT_LOCK, Ended, Files, How, Used};

use super::offer::OfferArgs;
use super::{DockerArgs, failure, unit};
use crate::failure::{Exit, Failure};
use crate::output::{self, note};

const UNITS: &str = "/etc/systemd/system";

/// Make the agent a service of systemd that starts with this machine.
///
/// If there is a join file, the machine joins first, so that a bad token is reported right away. The other
/// options are passed on to the service. Needs root, except with --print.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo agent install --join-file harbour.join --name crane-1
  tombolo agent install --docker /run/user/1000/docker.sock --cpu 2 --print")]
pub(super) struct InstallArgs {
    /// The file that `tombolo token create --site` wrote, or - for stdin.
    #[arg(long, value_name = "FILE")]
    join_file: Option<PathBuf>,
    /// The name of the node; the host's name if left out.
    #[arg(long, value_name = "NODE")]
    name: Option<String>,
    /// The folder for key, certificate and workloads.
    #[arg(long, value_name = "DIR", default_value = unit::DATA)]
    data: PathBuf,
    /// The folder of systemd's units.
    #[arg(long, value_name = "DIR", default_value = UNITS)]
    units: PathBuf,
    /// Print the unit and change nothing: nothing joins, and the join file is not read.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    offer: OfferArgs,
    #[command(flatten)]
    docker: DockerArgs,
}

/// Remove the agent from this machine: the service, what it runs, and its data folder.
///
/// Volumes of its containers are removed with what is in them; images stay, because others may use them. The
/// node stays on the server until `tombolo node remove`. Where there is no agent, nothing is done.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo tombolo agent uninstall")]
pub(super) struct UninstallArgs {
    /// The agent's data folder.
    #[arg(long, value_name = "DIR", default_value = unit::DATA)]
    data: PathBuf,
    /// The folder of systemd's units.
    #[arg(long, value_name = "DIR", default_value = UNITS)]
    units: PathBuf,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Go on even if the Docker engine does not answer: its containers stay, and have to be removed by hand.
    #[arg(long)]
    leave_containers: bool,
}

pub(super) fn install(args: InstallArgs) -> Result<Exit, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot tell where this program is: {error}")))?;
    let data =
        std::path::absolute(&args.data).map_err(|error| Failure::file(&args.data, &error))?;
    // What is said here holds for the service, which has nothing of this environment.
    let options: Vec<String> = args.offer.words().into_iter().chain(args.docker.words()).collect();
    let text = unit::text(&program, &data, &options);
    if args.print {
        let mut out = output::Out::stdout();
        out.text(&text)?;
        out.flush()?;
        return Ok(Exit::Ok);
    }
    if args.join_file.is_none() && !data.join(AGENT_LOCK).exists() {
        return Err(Failure::usage(format!("{} has never joined anything", data.display()))
            .hint("name the file of `tombolo token create --site` with --join-file"));
    }
    // Before the token is used up.
    rustix::fs::access(&args.units, rustix::fs::Access::WRITE_OK).map_err(|errno| {
        Failure::file(&args.units, &errno.into())
            .hint("run it as root, or see what it would write with --print")
    })?;
    if let Some(file) = &args.join_file {
        let settings = tombolo_agent::Settings {
            folder: data.clone(),
            join_file: Some(JoinFile::read(file).map_err(|error| failure(&error))?),
            node: args.name,
            machine: None,
            offer: args.offer.offer(),
            docker: args.docker.at(),
        };
        let joined = super::super::up::runtime()?.block_on(tombolo_agent::join_only(settings));
        let identity = joined.map_err(|error| failure(&error))?;
        note(&format!("joined site {} as node {}", identity.remit.site(), identity.remit.name()));
    }
    let path = args.units.join(unit::NAME);
    fs::write(&path, text).map_err(|error| {
        Failure::file(&path, &error).hint("run it as root, or see what it would write with --print")
    })?;
    note(&format!("wrote {}", path.display()));
    match is_managed(&args.units) {
        true => {
            systemctl(&["daemon-reload"])?;
            systemctl(&["enable", unit::NAME])?;
            // One that runs already was told other options; what it runs goes on meanwhile.
            systemctl(&["restart", unit::NAME])?;
            note("the agent runs, and starts with this machine; journalctl -u tombolo-agent");
        }
        false => note("systemd does not run here or reads other units, so nothing was started"),
    }
    Ok(Exit::Ok)
}

pub(super) fn uninstall(args: &UninstallArgs) -> Result<Exit, Failure> {
    let path = args.units.join(unit::NAME);
    let (unit_there, data_there) = (path.exists(), args.data.exists());
    if !unit_there && !data_there {
        note("there is nothing to remove");
        return Ok(Exit::Ok);
    }
    if data_there && !args.data.join(AGENT_LOCK).exists() {
        return Err(Failure::failed(format!("{} is not an agent's folder", args.data.display()))
            .hint("name the right one with --data"));
    }
    let left = removal::engine_out_of_reach(&args.data);
    if let Some(engine) = left.as_ref().filter(|_| !args.leave_containers) {
        return Err(out_of_reach(engine));
    }
    let question = format!(
        "Remove the agent, everything that it runs, the volumes of its containers, and {}?",
        args.data.display()
    );
    if !args.yes && !output::confirmed(&question) {
        return Err(Failure::failed("nothing was removed"));
    }
    if unit_there && is_managed(&args.units) {
        systemctl(&["disable", "--now", unit::NAME])?;
    }
    let runtime = super::super::up::runtime()?;
    let Ended { instances, volumes } =
        runtime.block_on(clear(&args.data)).map_err(|error| failure(&error))?;
    if unit_there {
        fs::remove_file(&path).map_err(|error| Failure::file(&path, &error))?;
        if is_managed(&args.units) {
            systemctl(&["daemon-reload"])?;
        }
    }
    if data_there {
        fs::remove_dir_all(&args.data).map_err(|error| Failure::file(&args.data, &error))?;
    }
    let what =
        format!("the agent, {} and {}", many(instances, "workload"), many(volumes, "volume"));
    match &left {
        None => note(&format!("removed {what}; nothing of it is left here")),
        Some(engine) => {
            let (socket, by_hand) = (engine.socket.display(), by_hand(engine));
            note(&format!("removed {what}; its containers are left on the engine at {socket}"));
            note(&format!("when it answers again: {by_hand}"));
        }
    }
    note("the server still has its node: tombolo node remove NAME");
    Ok(Exit::Ok)
}

/// Said before anything is removed: afterwards nobody would know of the containers.
fn out_of_reach(engine: &Used) -> Failure {
    let socket = engine.socket.display();
    let message = format!(
        "the Docker engine at {socket} does not answer, and containers of this agent may be on it; \
         nothing was removed"
    );
    Failure::failed(message).hint(format!(
        "start the engine and try again; or say --leave-containers, and remove them by hand later: {}",
        by_hand(engine)
    ))
}

fn by_hand(engine: &Used) -> String {
    let (socket, filter) = (engine.socket.display(), engine.filter());
    format!(
        "docker -H unix://{socket} ps -aq --filter {filter} | xargs -r docker -H unix://{socket} rm -fv"
    )
}

fn many(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

async fn clear(data: &Path) -> Result<Ended, tombolo_agent::Error> {
    removal::end_holder(&data.join(AGENT_LOCK), How::Orderly).await?;
    removal::end_workloads(data, Files::Removed).await
}

/// Whether systemd runs, as `sd_booted` tells it, and reads this folder.
fn is_managed(units: &Path) -> bool {
    Path::new("/run/systemd/system").is_dir() && units == Path::new(UNITS)
}

fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let ran = Command::new("systemctl").args(words).stdin(Stdio::null()).output();
    let line = format!("systemctl {}", words.join(" "));
    let ran = ran.map_err(|error| Failure::failed(format!("cannot run {line}: {error}")))?;
    match ran.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&ran.stderr);
            Err(Failure::failed(format!("{line} failed: {}", output::harmless(said.trim()))))
        }
    }
}
