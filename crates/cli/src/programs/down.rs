//! `tombolo down`: ends a demo and removes it, or one of its sites as if the power went. Start at
//! [`run`]. Whom it ends is found by the locks of the folders (`tombolo_agent::removal`), and so is
//! nobody else.

use std::path::{Path, PathBuf};

use clap::Args;
use tombolo_agent::Error;
use tombolo_agent::removal::{self, AGENT_LOCK, Files, How, SERVER_LOCK};
use tombolo_demo::{MARK, SITES_FOLDER, agent_folders, end_agents};

use super::up;
use crate::failure::{Exit, Failure};
use crate::output::{self, note};
use crate::places;

/// End the demo that `tombolo up --demo` started, and remove all of it.
///
/// Ends the server, the agents and what they run, wherever they were started from, and removes the
/// data folder. Where there is no demo, nothing is done.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo down
  tombolo down --site far-edge      (then `tombolo agent --data DIR` brings it back)")]
pub(crate) struct DownArgs {
    /// The demo's data folder, if it has one of its own.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// End only this site of the demo, at once and without a good-bye, as if its power had failed.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Remove the folder even if it is not a demo's: its store, its certificate authority and everything else
    /// are lost.
    #[arg(long, conflicts_with = "site", requires = "data")]
    purge: bool,
    /// With --purge: do not ask for confirmation.
    #[arg(short, long, requires = "purge")]
    yes: bool,
}

pub(crate) fn run(args: &DownArgs) -> Result<Exit, Failure> {
    let folder = args.data.clone().or_else(places::demo_folder).ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_DATA_HOME is set").hint("name a folder with --data")
    })?;
    if !folder.exists() {
        return match &args.site {
            None => {
                note(&format!("there is no demo in {}: nothing to do", folder.display()));
                if let Some(server) = places::default_data_folder().filter(|at| is_server(at)) {
                    note(&format!(
                        "the server of {} is no demo: Ctrl-C where it runs stops it, and \
                         `tombolo down --data {0} --purge` removes all that it knows",
                        server.display()
                    ));
                }
                Ok(Exit::Ok)
            }
            Some(_) => Err(Failure::new(Exit::NotFound, "there is no demo here")
                .hint("`tombolo up --demo` starts one")),
        };
    }
    check(args, &folder)?;
    let runtime = up::runtime()?;
    match &args.site {
        Some(site) => runtime.block_on(cut(&folder, site)),
        None => runtime.block_on(remove(&folder)),
    }?;
    Ok(Exit::Ok)
}

/// Whether the folder may be touched.
fn check(args: &DownArgs, folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    if folder.join(MARK).exists() {
        return Ok(());
    }
    if !is_server(folder) {
        return Err(Failure::failed(format!("{shown} has neither a demo nor a server in it")));
    }
    if !args.purge {
        return Err(Failure::failed(format!("{shown} has a server in it that is no demo"))
            .hint("--purge removes it all the same, with everything that it knows"));
    }
    let question = format!("End the server and what its agent runs, and remove {shown}?");
    match args.yes || output::confirmed(&question) {
        true => Ok(()),
        false => Err(Failure::failed("nothing was removed")),
    }
}

fn is_server(folder: &Path) -> bool {
    folder.join(SERVER_LOCK).exists() && folder.join("store.redb").exists()
}

async fn remove(folder: &Path) -> Result<(), Failure> {
    // A demo that hears this ends its agents and their workloads by itself; what it could not end,
    // or what was left without it, is ended below.
    let server = removal::end_holder(&folder.join(SERVER_LOCK), How::Orderly).await;
    let server = server.map_err(|error| failed(&error))?;
    let left = end_agents(folder, Files::Removed).await.map_err(|error| failed(&error))?;
    std::fs::remove_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    note(&match (server, left) {
        (Some(_), _) => format!("ended, and removed {}", folder.display()),
        (None, 0) => format!("nothing ran; removed {}", folder.display()),
        (None, left) => format!("ended {left} that were left, and removed {}", folder.display()),
    });
    Ok(())
}

async fn cut(folder: &Path, site: &str) -> Result<(), Failure> {
    let agent = folder.join(SITES_FOLDER).join(site);
    // The name comes from outside, and must not lead elsewhere.
    let known = agent_folders(folder).contains(&agent);
    if !known {
        let names: Vec<String> = agent_folders(folder)
            .iter()
            .filter(|folder| folder.parent().is_some_and(|above| above.ends_with(SITES_FOLDER)))
            .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
            .collect();
        let message = format!("the demo has no site {site:?}");
        return Err(
            Failure::new(Exit::NotFound, message).hint(format!("it has {}", names.join(", ")))
        );
    }
    let ended = removal::end_holder(&agent.join(AGENT_LOCK), How::Sudden).await;
    let ended = ended.map_err(|error| failed(&error))?;
    let count = removal::cut_workloads(&agent).map_err(|error| failed(&error))?;
    if ended.is_none() && count == 0 {
        note(&format!("{site} was dark already"));
    } else {
        let workloads = if count == 1 { "workload" } else { "workloads" };
        note(&format!("{site} is dark: its agent and {count} {workloads} are gone"));
    }
    let tombolo = std::env::args().next().unwrap_or_else(|| "tombolo".to_owned());
    note(&format!("to bring it back: {tombolo} agent --data {}", agent.display()));
    Ok(())
}

fn failed(error: &Error) -> Failure {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Failure::failed(message)
}
