//! The guard: one small process beside an agent, which ends containers by their deadlines while the
//! agent is dead or frozen. It is `tombolo supervise guard FOLDER`, never typed by people: [`main`] is
//! called by the `cli`, and the driver starts it with the first deadline. It ends when no deadline is
//! left, or the folder is gone.
//!
//! It has no thread and no tokio. What it does to a container looks as if an agent had stopped it, so
//! that the next agent takes the end for an order. To read on, see [`judge`], then `act`.

pub(crate) mod http;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::setsid;
use serde_json::Value;
use tombolo_driver::{DeadlineRecord, InstanceId};

use crate::deadlines::{self, Records, Used};
use crate::tag;

/// No wait counts the time for which the machine is asleep: this is how late the guard may be then.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same while something is being ended.
const LOOK_EVERY_WHILE_ENDING: Duration = Duration::from_millis(500);
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(20);
/// The driver looks whether there is a guard by taking the lock for a moment.
const LOCK_TRIES: usize = 100;
const LOCK_AGAIN: Duration = Duration::from_millis(10);
const STOP_SIGNAL_DEFAULT: &str = "SIGTERM";
const KILL: &str = "SIGKILL";

/// Runs until there is no deadline to keep. The arguments are those after `supervise guard`.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let [folder] = arguments.as_slice() else { return ExitCode::FAILURE };
    let folder = Path::new(folder);
    // No terminal's hang-up comes here. A process that leads a group already has been started as its
    // leader.
    _ = setsid();
    let mut guard = Guard::new(folder);
    while let Some(lock) = take(folder) {
        guard.until_idle(&lock);
        drop(lock);
        // The agent may have written a deadline since, when it saw that there still was a guard.
        if guard.read().is_err() || guard.known.is_empty() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Nothing if there is another guard, or no folder any more.
fn take(folder: &Path) -> Option<File> {
    for _ in 0..LOCK_TRIES {
        match deadlines::lock(folder) {
            Ok(Some(lock)) => return Some(lock),
            Ok(None) => std::thread::sleep(LOCK_AGAIN),
            Err(_) => return None,
        }
    }
    None
}

#[derive(Debug)]
struct Guard<'a> {
    folder: &'a Path,
    records: Records,
    /// As they were last read.
    known: BTreeMap<InstanceId, DeadlineRecord>,
    /// What was asked to end, and when it is killed, in milliseconds since the boot.
    ending: BTreeMap<InstanceId, u64>,
    /// Tells when a record is written; without it a deadline that comes nearer is seen at the next look.
    changes: Option<OwnedFd>,
}

/// What is to be done about one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Its time is over: whatever runs of it is asked to end, and killed then.
    End { kill_at_ms: u64 },
    /// It was asked before its deadline was put off: what has heard it still ends, and what has been
    /// started since is left alone.
    Finish { kill_at_ms: u64 },
}

/// What is due now, by id. A deadline that nobody has put off becomes an order, which nobody takes back.
fn judge(
    known: &BTreeMap<InstanceId, DeadlineRecord>,
    ending: &BTreeMap<InstanceId, u64>,
    now_ms: u64,
) -> BTreeMap<InstanceId, Order> {
    let due = known.iter().filter(|(_, record)| record.end_at_ms <= now_ms);
    let finish = ending.iter().map(|(id, at)| (id.clone(), Order::Finish { kill_at_ms: *at }));
    let mut orders: BTreeMap<InstanceId, Order> = finish.collect();
    for (id, record) in due {
        let kill_at_ms = ending.get(id).copied().unwrap_or_else(|| record.kill_at_ms());
        orders.insert(id.clone(), Order::End { kill_at_ms });
    }
    orders
}

/// How long nothing is to be done.
fn pause(
    known: &BTreeMap<InstanceId, DeadlineRecord>,
    ending: &BTreeMap<InstanceId, u64>,
    now_ms: u64,
) -> Duration {
    let longest = if ending.is_empty() { LOOK_EVERY } else { LOOK_EVERY_WHILE_ENDING };
    let ahead = known.values().map(|record| record.end_at_ms).chain(ending.values().copied());
    let next = ahead.filter(|at| *at > now_ms).map(|at| Duration::from_millis(at - now_ms)).min();
    next.map_or(longest, |next| next.clamp(LOOK_AGAIN_MIN, longest))
}

/// A container that runs, as the engine lists it.
#[derive(Debug, PartialEq, Eq)]
struct Container {
    id: String,
    name: String,
}

impl Container {
    fn is_asked(&self) -> bool {
        tag::stopping_until(&self.name).is_some()
    }
}

impl<'a> Guard<'a> {
    fn new(folder: &'a Path) -> Guard<'a> {
        Guard {
            folder,
            records: Records::of(folder),
            known: BTreeMap::new(),
            ending: BTreeMap::new(),
            changes: None,
        }
    }

    fn until_idle(&mut self, lock: &File) {
        self.changes = self.records.changes().ok();
        while is_ours(lock, self.folder) && self.read().is_ok() {
            if self.known.is_empty() && self.ending.is_empty() {
                return;
            }
            let now = now_ms();
            for (id, order) in judge(&self.known, &self.ending, now) {
                // An engine that does not answer is asked again at the next look.
                _ = self.act(&id, order);
            }
            self.wait(pause(&self.known, &self.ending, now_ms()));
        }
    }

    fn wait(&self, longest: Duration) {
        let Some(changes) = &self.changes else { return std::thread::sleep(longest) };
        let timeout = Timespec::try_from(longest).ok();
        // What woke us is found by reading all records.
        _ = poll(&mut [PollFd::new(changes, PollFlags::IN)], timeout.as_ref());
        let mut told = [0; 4096];
        while rustix::io::read(changes, &mut told).is_ok_and(|count| count > 0) {}
    }

    /// Reads all records. A record that is just being written counts as it was before.
    fn read(&mut self) -> io::Result<()> {
        let ids = self.records.ids()?;
        let mut known = BTreeMap::new();
        for id in ids {
            let record = match self.records.read(&id) {
                Some(Ok(record)) => Some(record),
                Some(Err(_)) => self.known.get(&id).copied(),
                None => None,
            };
            known.extend(record.map(|record| (id, record)));
        }
        self.known = known;
        Ok(())
    }

    fn act(&mut self, id: &InstanceId, order: Order) -> io::Result<()> {
        let used =
            Used::read(self.folder).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let containers = list(&used, id)?;
        // Before a container is made its deadline is written. So one that has been made since the
        // records were read is known by a deadline that is not over.
        let still_due =
            matches!(self.records.read(id), Some(Ok(record)) if record.end_at_ms <= now_ms());
        let (kill_at_ms, asks) = match order {
            Order::End { kill_at_ms } => (kill_at_ms, still_due),
            Order::Finish { kill_at_ms } => (kill_at_ms, false),
        };
        if asks {
            self.ending.entry(id.clone()).or_insert(kill_at_ms);
        }
        let is_over = now_ms() >= kill_at_ms;
        let of_it = containers.iter().filter(|container| asks || container.is_asked());
        let of_it: Vec<&Container> = of_it.collect();
        if of_it.is_empty() && !asks {
            self.ending.remove(id);
        }
        let mut done = Ok(());
        for container in of_it {
            // A container that cannot be ended does not keep the others from being ended.
            let ended = match is_over {
                true => kill(&used.socket, container, kill_at_ms),
                false => ask(&used.socket, container, kill_at_ms),
            };
            done = done.and(ended);
        }
        done
    }
}

fn ask(socket: &Path, container: &Container, kill_at_ms: u64) -> io::Result<()> {
    if container.is_asked() {
        return Ok(());
    }
    let wish = stop_signal(socket, container)?;
    mark(socket, container, kill_at_ms)?;
    signal(socket, container, &wish)
}

fn kill(socket: &Path, container: &Container, kill_at_ms: u64) -> io::Result<()> {
    // It ends also if nobody can be told that it was ordered.
    let marked = mark(socket, container, kill_at_ms);
    signal(socket, container, KILL).and(marked)
}

/// What runs of the instance, all parts of a project among them.
fn list(used: &Used, id: &InstanceId) -> io::Result<Vec<Container>> {
    let filters = serde_json::to_string(&tag::filter(&used.agent, Some(id)))?;
    let path = format!("/containers/json?filters={}", http::escaped(&filters));
    let body = http::ask(&used.socket, "GET", &path)?.ok()?;
    Ok(containers(&serde_json::from_slice(&body)?))
}

fn containers(listed: &Value) -> Vec<Container> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let read =
        |one: &Value| Some(Container { id: text(&one["Id"])?, name: text(&one["Names"][0])? });
    listed.as_array().into_iter().flatten().filter_map(read).collect()
}

/// Writes down at the engine that it was asked to end, as the driver does, so that the next agent does
/// not take the end for a failure.
fn mark(socket: &Path, container: &Container, kill_at_ms: u64) -> io::Result<()> {
    if container.is_asked() {
        return Ok(());
    }
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = ms(epoch).saturating_add(kill_at_ms.saturating_sub(now_ms()));
    let name = tag::stopping_name(&container.name, until);
    let path = format!("/containers/{}/rename?name={}", container.id, http::escaped(&name));
    http::ask(socket, "POST", &path)?.ok().map(drop)
}

fn signal(socket: &Path, container: &Container, signal: &str) -> io::Result<()> {
    let path = format!("/containers/{}/kill?signal={}", container.id, http::escaped(signal));
    let answer = http::ask(socket, "POST", &path)?;
    // For a container that has ended meanwhile the engine answers with a conflict, for one that is
    // removed with not found.
    if matches!(answer.status, 404 | 409) { Ok(()) } else { answer.ok().map(drop) }
}

/// What the image or the project says.
fn stop_signal(socket: &Path, container: &Container) -> io::Result<String> {
    let answer = http::ask(socket, "GET", &format!("/containers/{}/json", container.id))?;
    let inspected: Value = serde_json::from_slice(&answer.ok()?)?;
    let signal = inspected["Config"]["StopSignal"].as_str().filter(|signal| !signal.is_empty());
    Ok(signal.unwrap_or(STOP_SIGNAL_DEFAULT).to_owned())
}

/// Whether the lock is still in the folder: nobody is to be guarded where it was deleted.
fn is_ours(lock: &File, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(folder.join("guard.lock"));
    let (Ok(held), Ok(found)) = (lock.metadata(), found) else { return false };
    (held.dev(), held.ino()) == (found.dev(), found.ino())
}

fn now_ms() -> u64 {
    ms(deadlines::since_boot())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
