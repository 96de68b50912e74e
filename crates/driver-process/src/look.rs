//! What there is of one instance, from its folder and the kernel's word alone. Called at every look
//! of the driver; it changes nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tombolo_driver::{Error, Exit, Instance, Running, State, Usage};
use tombolo_model::Reason;

use crate::cgroup;
use crate::folder::{Folder, InstanceRecord, RunRecord};
use crate::logs;
use crate::procfs;

/// Lines of the log that go with an exit that nobody saw.
const TAIL_LINES: usize = 20;

/// Nothing if there is no such instance.
pub(crate) fn look(folder: &Folder, boot_id: &str) -> Option<Instance> {
    let record = folder.instance()?;
    let state = state(folder, &record, boot_id);
    Some(Instance {
        id: record.id,
        origin: record.origin,
        state,
        restarts: record.restarts,
        last_exit: record.last_exit,
        notes: record.notes,
        parts: Vec::new(),
    })
}

/// What an instance that runs uses.
pub(crate) fn usage(folder: &Folder) -> Option<Usage> {
    let record = folder.instance()?;
    let run = folder.run()?;
    if folder.exit().is_some() || !run.main.alive() {
        return None;
    }
    let members = members_of(&record.cgroups, &run);
    let stats: Vec<procfs::Stat> = members.iter().filter_map(|pid| procfs::stat(*pid)).collect();
    let (cpu, memory) = cgroup::used(&record.cgroups);
    // Without a cgroup, memory that several share is counted for each.
    let pages: u64 = stats.iter().map(|stat| stat.resident_pages).sum();
    let ticks: u64 = stats.iter().map(|stat| stat.cpu_ticks).sum();
    let tick_micros = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some(Usage {
        cpu_micros: cpu.unwrap_or(ticks * tick_micros),
        memory_bytes: memory.unwrap_or(pages * rustix::param::page_size() as u64),
        processes: u32::try_from(stats.len()).unwrap_or(u32::MAX),
        received_bytes: None,
        sent_bytes: None,
    })
}

/// The processes of an instance; none if it does not run.
pub(crate) fn members(folder: &Folder) -> Vec<u32> {
    match (folder.instance(), folder.run()) {
        (Some(record), Some(run)) => members_of(&record.cgroups, &run),
        (_, _) => Vec::new(),
    }
}

fn members_of(cgroups: &[PathBuf], run: &RunRecord) -> Vec<u32> {
    if !cgroups.is_empty() {
        return cgroup::members(cgroups);
    }
    // A child whose parent has ended belongs to the supervisor from then on; the main process belongs to
    // nobody of ours once the supervisor was replaced.
    let mut members: BTreeSet<u32> = BTreeSet::from([run.main.pid]);
    members.extend(procfs::descendants(run.main.pid));
    if run.supervisor.alive() {
        members.extend(procfs::descendants(run.supervisor.pid));
    }
    members.into_iter().collect()
}

fn state(folder: &Folder, record: &InstanceRecord, boot_id: &str) -> State {
    // In this order: the supervisor writes the exit last, so an exit that is there is of this run.
    let run = folder.run();
    if let Some(exit) = folder.exit() {
        return State::Exited(exit);
    }
    let Some(run) = run else { return before_the_run(folder, record) };
    if run.boot_id != boot_id {
        let message = "the machine was restarted".to_owned();
        return State::Exited(unseen(Reason::Rebooted, message, folder));
    }
    match (run.main.alive(), run.supervisor.alive(), folder.stop().is_some()) {
        (true, _, false) => State::Running(running(record, &run)),
        // It has ended, and its supervisor is about to say how.
        (true, _, true) | (false, true, _) => State::Stopping(running(record, &run)),
        // The last of them is still about to go: nothing is over while somebody holds the lock.
        (false, false, _) if matches!(folder.lock(), Ok(None)) => {
            State::Stopping(running(record, &run))
        }
        (false, false, _) => match folder.exit() {
            // Both have ended since the exit was looked for.
            Some(exit) => State::Exited(exit),
            None => {
                let message = "it ended together with its supervisor".to_owned();
                State::Exited(unseen(Reason::Lost, message, folder))
            }
        },
    }
}

/// There is a record and no run: the instance is about to be started, or the agent was killed while it
/// started it.
fn before_the_run(folder: &Folder, record: &InstanceRecord) -> State {
    if matches!(folder.lock(), Ok(None)) {
        return State::Starting { doing: "starting".to_owned() };
    }
    match &record.last_exit {
        Some(exit) => State::Exited(exit.clone()),
        None => State::Failed(Error::Failed {
            doing: "say whether it was started: the agent ended while it did so".to_owned(),
            source: Arc::new(io::Error::from(io::ErrorKind::Interrupted)),
        }),
    }
}

fn running(record: &InstanceRecord, run: &RunRecord) -> Running {
    Running {
        name: run.main.pid.to_string(),
        pid: Some(run.main.pid),
        since: run.since,
        addresses: Vec::new(),
        ports: record.ports.clone(),
    }
}

fn unseen(reason: Reason, message: String, folder: &Folder) -> Exit {
    Exit {
        code: None,
        signal: None,
        at: folder.last_sign(),
        reason,
        message: Some(message),
        log: logs::tail(folder, TAIL_LINES),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::time::SystemTime;

    use crate::procfs::ProcessKey;

    use super::*;

    #[test]
    fn a_child_whose_parent_has_ended_is_still_of_the_instance_without_a_cgroup() {
        // This test is the supervisor.
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).unwrap();
        let mut main = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut parent = Command::new("sh");
        parent.args(["-c", "sleep 1000 >/dev/null & echo $!"]).stdout(Stdio::piped());
        let mut parent = parent.spawn().unwrap();
        let mut said = String::new();
        parent.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(parent.wait().unwrap().success());
        let orphan: u32 = said.trim().parse().unwrap();
        let run = RunRecord {
            boot_id: procfs::boot_id(),
            supervisor: ProcessKey::of(std::process::id()).unwrap(),
            main: ProcessKey::of(main.id()).unwrap(),
            since: SystemTime::now(),
        };
        let members = members_of(&[], &run);
        let number = rustix::process::Pid::from_raw(i32::try_from(orphan).unwrap()).unwrap();
        rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
        main.kill().unwrap();
        main.wait().unwrap();
        assert!(members.contains(&main.id()) && members.contains(&orphan), "{members:?}");
    }
}
