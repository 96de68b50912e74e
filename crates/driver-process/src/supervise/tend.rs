//! The loop of a supervisor: take what the instance writes, obey what the driver writes, notice the
//! end. One `poll` over four descriptors; nothing happens between two of its returns.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process_group, pidfd_open,
};
use tombolo_driver::{DeadlineRecord, STOP_GRACE_DEFAULT, Source};

use crate::folder::{Folder, InstanceRecord, StopRecord, read_put_off};
use crate::logfile::Writer;
use crate::procfs::{self, ProcessKey};
use crate::spool::read;

use super::Pipes;

/// Orphans that ended are cleared away at least this often. More would only cost wake-ups.
const IDLE: Duration = Duration::from_secs(30);
/// The same while there is a deadline: no wait counts the time for which the machine is asleep.
const WITH_DEADLINE: Duration = Duration::from_secs(5);
/// Without a descriptor for the process, for kernels before 5.3.
const WITHOUT_PIDFD: Duration = Duration::from_millis(250);
/// Between two looks for processes that the main process left behind.
const MOMENT: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(5);
/// As much as a pipe holds.
const READ_BYTES: usize = 64 * 1024;
/// How much is taken from one pipe in a row: the other pipe, and an order, must get their turn.
const READS_IN_A_ROW: usize = 4;

/// How long an instance has to end whose folder was deleted: nothing says any more how long it wanted.
const GRACE_WITHOUT_FOLDER: Duration = STOP_GRACE_DEFAULT;

/// An instance and everything that its supervisor holds.
#[derive(Debug)]
pub(super) struct Tended {
    pub(super) folder: Folder,
    /// Held for as long as we live; by it we know that the folder is still ours.
    pub(super) lock: File,
    pub(super) record: InstanceRecord,
    pub(super) main: ProcessKey,
    pub(super) parentage: Parentage,
    pub(super) pipes: Pipes,
    pub(super) log: Writer,
    /// When it is to be killed, since the boot.
    pub(super) stopping: Option<Duration>,
    /// It has been asked to end.
    pub(super) told: bool,
    /// A deadline that the disk had no room for.
    pub(super) put_off: Option<DeadlineRecord>,
    /// When it is to end unless the driver puts that off, since the boot.
    pub(super) deadline: Option<Duration>,
    /// Nobody put it off in time.
    pub(super) cut_off: bool,
}

/// Whose child the instance is: the kernel tells a parent alone how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parentage {
    Ours,
    Adopted,
}

/// How the main process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Code(i32),
    Signal(i32),
    /// Somebody else was its parent.
    Unknown,
}

impl Tended {
    pub(super) fn until_it_ends(mut self) {
        let pid = i32::try_from(self.main.pid).ok().and_then(Pid::from_raw);
        let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut buffer = vec![0; READ_BYTES];
        let ended = loop {
            self.obey(pid);
            if let Some(ended) = self.ended() {
                break ended;
            }
            let longest = if pidfd.is_some() { IDLE } else { WITHOUT_PIDFD };
            self.wait(longest, pidfd.as_ref());
            self.hear(&mut buffer);
            self.take(Source::Stdout, &mut buffer);
            self.take(Source::Stderr, &mut buffer);
        };
        drop(pidfd);
        // Processes that the main process leaves behind were asked to end with it, and have its time.
        while self.stopping.is_some_and(|at| procfs::since_boot() < at) && !self.left().is_empty() {
            self.wait(MOMENT, None);
            self.hear(&mut buffer);
            self.take_rest(&mut buffer);
            self.obey(None);
        }
        self.end(ended, &mut buffer);
    }

    /// Does what it was told, by `stop.json` or through the pipe: asks once, and kills when the time
    /// has come.
    fn obey(&mut self, pid: Option<Pid>) {
        self.keep_the_deadline();
        self.end_without_folder();
        let written = self.folder.stop().map(|stop| Duration::from_millis(stop.kill_at_ms));
        // The earliest of all counts.
        self.stopping = written.into_iter().chain(self.stopping).min();
        let Some(kill_at) = self.stopping else { return };
        if !self.told
            && let Some(pid) = pid
        {
            self.told = true;
            // The number of a process that we only adopted may be another process's by now.
            if self.main.alive() {
                _ = kill_process_group(pid, Signal::TERM);
            }
        }
        if kill_at <= procfs::since_boot() {
            self.kill_everything();
        }
    }

    /// A deadline that nobody has put off becomes an order to stop, which nobody takes back.
    fn keep_the_deadline(&mut self) {
        let later = |written: &DeadlineRecord| {
            self.put_off.filter(|put_off| put_off.end_at_ms > written.end_at_ms)
        };
        let deadline = self.folder.deadline().map(|written| later(&written).unwrap_or(written));
        self.deadline = deadline.map(|deadline| Duration::from_millis(deadline.end_at_ms));
        let is_over = self.deadline.is_some_and(|at| at <= procfs::since_boot());
        let Some(deadline) = deadline.filter(|_| is_over && self.stopping.is_none()) else {
            return;
        };
        self.cut_off = true;
        let stop = StopRecord { kill_at_ms: deadline.kill_at_ms() };
        self.stopping = Some(Duration::from_millis(stop.kill_at_ms));
        // For the looks of the driver. On a full disk the instance ends all the same.
        _ = self.folder.write_stop(stop);
    }

    /// Without its folder no agent finds the instance again, and one that starts there would start it
    /// a second time.
    fn end_without_folder(&mut self) {
        if self.stopping.is_none() && !self.folder.is_locked_by(&self.lock) {
            self.stopping = Some(procfs::since_boot().saturating_add(GRACE_WITHOUT_FOLDER));
        }
    }

    /// Reads what the driver wrote to the pipe: when to kill, which is in `stop.json` too unless the
    /// disk is full, and deadlines for which there was no room.
    fn hear(&mut self, buffer: &mut [u8]) {
        let count = read(&self.pipes.control, buffer);
        let text = String::from_utf8_lossy(&buffer[..count]);
        let orders = text.lines().filter_map(|line| line.parse().ok()).map(Duration::from_millis);
        self.stopping = orders.chain(self.stopping).min();
        self.put_off = text.lines().filter_map(read_put_off).next_back().or(self.put_off);
    }

    /// Clears away every child that has ended. Says how the main process ended, if it is among them.
    fn ended(&self) -> Option<Ended> {
        let mut main = None;
        // A process that is not our child cannot be waited for.
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if u32::try_from(pid.as_raw_nonzero().get()) == Ok(self.main.pid) {
                main = Some(how(status));
            }
        }
        match self.parentage {
            Parentage::Ours => main,
            Parentage::Adopted => (!self.main.alive()).then_some(Ended::Unknown),
        }
    }

    /// Until there is something to do, or `longest` has passed.
    fn wait(&self, longest: Duration, pidfd: Option<&OwnedFd>) {
        let mut polled = vec![
            PollFd::new(&self.pipes.control, PollFlags::IN),
            PollFd::new(&self.pipes.out, PollFlags::IN),
            PollFd::new(&self.pipes.err, PollFlags::IN),
        ];
        polled.extend(pidfd.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        let left = |at: Duration| at.saturating_sub(procfs::since_boot());
        let timeout = match (self.stopping, self.deadline) {
            (Some(at), _) => left(at).min(longest),
            (None, Some(at)) => left(at).min(longest).min(WITH_DEADLINE),
            (None, None) => longest,
        };
        // Killing takes a moment to show; without a pause the loop would spin until then.
        let timeout = Timespec::try_from(timeout.max(PAUSE)).ok();
        // What woke it is found by trying.
        _ = poll(&mut polled, timeout.as_ref());
    }

    /// Takes what there is to be read now, and leaves the rest for the next round.
    fn take(&mut self, source: Source, buffer: &mut [u8]) {
        for _ in 0..READS_IN_A_ROW {
            let pipe = match source {
                Source::Stdout => &self.pipes.out,
                Source::Stderr => &self.pipes.err,
            };
            if !self.log.take_from(source, pipe, buffer, SystemTime::now()) {
                return;
            }
        }
    }

    /// What is left in the pipes once nobody writes any more: a pipe holds no more than this.
    pub(super) fn take_rest(&mut self, buffer: &mut [u8]) {
        for source in [Source::Stdout, Source::Stderr] {
            for _ in 0..READS_IN_A_ROW {
                self.take(source, buffer);
            }
        }
    }
}

fn how(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Unknown,
    }
}
