//! Taking things off a machine: first the process ends that holds a data folder, then what its agent
//! runs. Called by `tombolo down` and `tombolo agent uninstall`; start at [`end_holder`] and
//! [`end_workloads`].
//!
//! Nobody is ended by a number that somebody once wrote down. A server and an agent hold the lock of
//! their folder for as long as they live: while the lock is taken, the process that has that file open is
//! the one that holds it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tombolo_driver::{Driver, State};

pub use tombolo_driver_docker::Used;

use crate::{Error, engines};

/// The lock of an agent's folder.
pub const AGENT_LOCK: &str = "agent.lock";
/// The lock of a server's folder.
pub const SERVER_LOCK: &str = "lock";

/// How long a process that is asked to end may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(25);
/// After a kill only the kernel is waited for.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(10);
/// What workloads may take to end.
const WORKLOAD_GRACE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// A holder whose files we may not see is somebody else's.
const NOT_OURS: &str = "somebody whom this user may not see or end holds";

/// How something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is asked, and killed if that does not help.
    Orderly,
    /// As if the power went: no good-bye.
    Sudden,
}

/// What becomes of the files of workloads that are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// The next start of the agent goes on with them.
    Kept,
    /// Volumes of containers too.
    Removed,
}

/// What was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub instances: usize,
    pub volumes: usize,
}

/// A process that holds a lock, by a handle that never means another process.
#[derive(Debug)]
struct Holder {
    pid: u32,
    handle: OwnedFd,
}

/// Ends the process that holds the lock `file` of a data folder, and waits until the lock is free. `None`
/// if nobody did.
pub async fn end_holder(file: &Path, how: How) -> Result<Option<u32>, Error> {
    let fail = |doing, source| Error::File { doing, path: file.into(), source };
    if try_lock(file).map_err(|error| fail("lock", error))?.is_some() {
        return Ok(None);
    }
    let Some(holder) = holder(file) else {
        // It may have ended between the two looks.
        return match try_lock(file).map_err(|error| fail("lock", error))? {
            Some(_) => Ok(None),
            None => Err(fail("end the holder of", io::Error::other(NOT_OURS))),
        };
    };
    let signals: &[(Signal, Duration)] = match how {
        How::Orderly => &[(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE_AFTER_KILL)],
        How::Sudden => &[(Signal::KILL, PATIENCE_AFTER_KILL)],
    };
    for (signal, patience) in signals {
        // A process that has just ended cannot be signalled, and need not be.
        let _ = pidfd_send_signal(&holder.handle, *signal);
        if is_free_within(file, *patience).await.map_err(|error| fail("lock", error))? {
            return Ok(Some(holder.pid));
        }
    }
    Err(fail("end the holder of", io::Error::from(io::ErrorKind::TimedOut)))
}

/// Ends everything that the agent with this folder has started, in every engine. The agent must be
/// gone.
pub async fn end_workloads(folder: &Path, files: Files) -> Result<Ended, Error> {
    let mut ended = Ended::default();
    if !folder.join(AGENT_LOCK).exists() {
        return Ok(ended);
    }
    let drivers = engines::open_those_there(folder)?;
    for driver in drivers.values() {
        let instances = driver.list().await?;
        ended.instances += instances.len();
        for instance in &instances {
            driver.stop(&instance.id, WORKLOAD_GRACE).await?;
        }
        wait_for_the_end(&**driver).await?;
        match files {
            Files::Kept => (),
            Files::Removed => {
                for instance in &instances {
                    driver.remove(&instance.id).await?;
                }
                ended.volumes += driver.clear().await?;
            }
        }
    }
    Ok(ended)
}

/// The Docker engine that may have containers of the agent with this folder, if it does not answer: they
/// could not be ended now.
pub fn engine_out_of_reach(folder: &Path) -> Option<Used> {
    engines::used(folder).filter(|used| !engines::answers(&used.socket))
}

/// Kills everything that the agent with this folder has started as processes of the host, as if the
/// power went. The agent must be gone.
pub fn cut_workloads(folder: &Path) -> Result<usize, Error> {
    let path = folder.join(engines::INSTANCES);
    tombolo_driver_process::cut(&path).map_err(|source| Error::File {
        doing: "clear",
        path,
        source,
    })
}

async fn wait_for_the_end(driver: &dyn Driver) -> Result<(), Error> {
    let deadline = Instant::now() + WORKLOAD_GRACE + PATIENCE_AFTER_KILL;
    while Instant::now() < deadline {
        let instances = driver.list().await?;
        let lives = instances.iter().any(|instance| match instance.state {
            State::Starting { .. } | State::Running(_) | State::Stopping(_) => true,
            State::Exited(_) | State::Failed(_) => false,
        });
        if !lives {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // Removing kills, and says what it could not.
    Ok(())
}

/// The lock, if nobody has it; also if there is no such file.
fn try_lock(file: &Path) -> io::Result<Option<()>> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(())),
        Err(error) => return Err(error),
    };
    match opened.try_lock() {
        Ok(()) => Ok(Some(())),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

async fn is_free_within(file: &Path, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        if try_lock(file)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The process that has the file open. The handle is taken before the second look, so that it cannot
/// mean somebody who was given the number afterwards.
fn holder(file: &Path) -> Option<Holder> {
    let file = file.canonicalize().ok()?;
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && has_open(*pid, &file)).find_map(|pid| {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let handle = pidfd_open(number, PidfdFlags::empty()).ok()?;
        has_open(pid, &file).then_some(Holder { pid, handle })
    })
}

fn has_open(pid: u32, file: &Path) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.into_iter().any(|link: PathBuf| link == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_holds_a_lock_is_ended_and_nobody_else() {
        let data = tempfile::tempdir().unwrap();
        let lock = data.path().join(AGENT_LOCK);
        assert_eq!(end_holder(&lock, How::Orderly).await.unwrap(), None, "there is no lock");
        fs::write(&lock, "").unwrap();
        assert_eq!(end_holder(&lock, How::Orderly).await.unwrap(), None, "nobody holds it");

        let script = "exec 9<\"$0\"; flock 9; echo held; exec sleep 1000";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(&lock)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        let read = io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said);
        read.expect("the machine has flock, of util-linux");
        assert_eq!(end_holder(&lock, How::Orderly).await.unwrap(), Some(child.id()));
        assert!(!child.wait().unwrap().success());
        assert!(lock.exists(), "nothing is removed");
    }

    #[tokio::test]
    async fn a_folder_that_is_no_agents_is_left_alone() {
        let data = tempfile::tempdir().unwrap();
        let ended = end_workloads(data.path(), Files::Removed).await.unwrap();
        assert_eq!(ended, Ended::default());
        assert_eq!(cut_workloads(data.path()).unwrap(), 0);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0, "not even a folder is made");
    }
}
