//! What a supervisor does when its instance has ended: nothing of it is left, and how it ended is
//! written down.

use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};
use tombolo_driver::Exit;
use tombolo_model::Reason;

use crate::cgroup;
use crate::procfs;

use super::MARK;
use super::tend::{Ended, Tended};

/// Between two looks for somebody who is left. The kernel takes its time to bury many.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Who is not gone by then is stuck in the kernel, and no signal helps.
const LOOKS_MAX: usize = 1000;
/// While a full disk keeps an exit from being written, in spite of the room kept for it.
const WRITE_AGAIN: Duration = Duration::from_millis(500);

impl Tended {
    pub(super) fn end(mut self, ended: Ended, buffer: &mut [u8]) {
        let at = SystemTime::now();
        let starved = cgroup::memory_kills(&self.record.cgroups) > 0;
        let gone = self.kill_everything();
        self.take_rest(buffer);
        let (code, signal) = match ended {
            Ended::Code(code) => (Some(code), None),
            Ended::Signal(signal) => (None, Some(signal)),
            Ended::Unknown => (None, None),
        };
        let (reason, mut message) = self.why(ended, starved);
        if !gone {
            let stuck = "some of its processes are stuck in the kernel and could not be killed";
            message = Some(stuck.to_owned());
        }
        let log = self.log.finish(at);
        let exit = Exit { code, signal, at, reason, message, log };
        cgroup::remove(&self.record.cgroups);
        // A look takes the instance for running until this is done. In a folder that was made in place of
        // ours we have nothing to say.
        while self.folder.is_locked_by(&self.lock) && self.folder.write_exit(&exit).is_err() {
            std::thread::sleep(WRITE_AGAIN);
        }
    }

    /// Kills the processes of the instance, again and again until there is none. Says whether that came
    /// true.
    pub(super) fn kill_everything(&self) -> bool {
        for _ in 0..LOOKS_MAX {
            cgroup::kill(&self.record.cgroups);
            let left = self.left();
            if left.is_empty() {
                return true;
            }
            if self.main.alive()
                && let Some(group) = i32::try_from(self.main.pid).ok().and_then(Pid::from_raw)
            {
                _ = kill_process_group(group, Signal::KILL);
            }
            for pid in left {
                cgroup::send(pid, Signal::KILL);
            }
            // The main process is waited for where its end is wanted; as a zombie it does not count as
            // left.
            if !self.main.alive() {
                clear_orphans(self.main.pid);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        false
    }

    /// Who belongs to the instance and lives: in its cgroups, below us, or with its mark. The mark finds
    /// the processes that left both, and the children of a supervisor that was killed.
    pub(super) fn left(&self) -> Vec<u32> {
        let own = std::process::id();
        let mark = format!("{MARK}={}", self.folder.path().display()).into_bytes();
        let marked =
            |pid: &u32| procfs::environment(*pid).is_some_and(|entries| entries.contains(&mark));
        let mut left = cgroup::members(&self.record.cgroups);
        left.extend(procfs::descendants(own));
        left.extend(procfs::all().into_iter().filter(marked));
        left.sort_unstable();
        left.dedup();
        let lives =
            |pid: &u32| procfs::stat(*pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'));
        left.retain(|pid| *pid != own && lives(pid));
        left
    }

    fn why(&self, ended: Ended, starved: bool) -> (Reason, Option<String>) {
        match ended {
            Ended::Code(_) | Ended::Signal(_) | Ended::Unknown if self.cut_off => {
                (Reason::Stopped, Some("the controller was out of reach for too long".to_owned()))
            }
            Ended::Code(_) | Ended::Signal(_) if self.told => (Reason::Stopped, None),
            // A shell says with its own code that a signal ended what it ran.
            Ended::Signal(9) | Ended::Code(137) if starved => {
                (Reason::OutOfMemory, Some("it used more memory than it is allowed".to_owned()))
            }
            Ended::Signal(signal) => {
                (Reason::Killed, Some(format!("signal {signal}{} ended it", name(signal))))
            }
            Ended::Code(0) => (Reason::Completed, None),
            Ended::Code(_) => (Reason::Error, None),
            Ended::Unknown => (
                Reason::Lost,
                Some(
                    "how it ended is not known: the supervisor that started it was killed"
                        .to_owned(),
                ),
            ),
        }
    }
}

/// Clears away children that have ended, except the main one.
fn clear_orphans(main: u32) {
    for pid in procfs::descendants(std::process::id()) {
        let zombie = procfs::stat(pid).is_some_and(|stat| stat.state == 'Z');
        if zombie
            && pid != main
            && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
        {
            _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// The names of the signals that people meet.
fn name(signal: i32) -> &'static str {
    const NAMES: &[(i32, &str)] = &[
        (1, " (HUP)"),
        (2, " (INT)"),
        (3, " (QUIT)"),
        (4, " (ILL)"),
        (6, " (ABRT)"),
        (7, " (BUS)"),
        (8, " (FPE)"),
        (9, " (KILL)"),
        (11, " (SEGV)"),
        (13, " (PIPE)"),
        (15, " (TERM)"),
    ];
    NAMES.iter().find(|(number, _)| *number == signal).map_or("", |(_, name)| name)
}
