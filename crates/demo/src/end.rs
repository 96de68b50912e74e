//! Ending the agents of a data folder: those of a demo's sites, and the one that `tombolo up` has for its
//! own machine.

use std::path::{Path, PathBuf};

use tombolo_agent::Error;
use tombolo_agent::removal::{self, AGENT_LOCK, Files, How};

use crate::SITES_FOLDER;

/// Where `tombolo up` has the agent of its own machine.
const AGENT_FOLDER: &str = "agent";

/// Ends the agents of a data folder and all that they run. Says how many there were of both.
pub async fn end_agents(folder: &Path, files: Files) -> Result<usize, Error> {
    let mut count = 0;
    let folders = agent_folders(folder);
    for agent in &folders {
        let ended = removal::end_holder(&agent.join(AGENT_LOCK), How::Orderly).await?;
        count += usize::from(ended.is_some());
    }
    for agent in &folders {
        count += removal::end_workloads(agent, files).await?.instances;
    }
    Ok(count)
}

/// The folders of its agents.
pub fn agent_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(SITES_FOLDER)).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.push(folder.join(AGENT_FOLDER));
    folders.retain(|folder| folder.join(AGENT_LOCK).exists());
    folders.sort();
    folders
}
