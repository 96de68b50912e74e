//! The driver's side of a supervisor: starting it, waking it, waiting for its end, and starting another
//! in place of a supervisor that was killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError, Weak};

use rustix::fs::{Mode, OFlags};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::OpenOptions;
use tombolo_driver::{DeadlineRecord, InstanceId};

use crate::Inner;
use crate::confine::Abilities;
use crate::folder::{self, Folder, PUT_OFF, StopRecord};
use crate::launch::{Answer, Launch};
use crate::procfs::ProcessKey;

/// An answer is a line; more is not ours.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The folder in which confinement is tried. No instance can have this name.
const TRIAL: &str = "trial";

/// Tells a supervisor when to kill its instance. A supervisor that is gone is replaced at the next look.
pub(crate) fn tell(folder: &Folder, stop: StopRecord) -> io::Result<()> {
    say(folder, &format!("{}\n", stop.kill_at_ms))
}

/// Puts off the deadline of an instance whose folder takes no record, because the disk is full: what
/// runs is not to end for that.
pub(crate) fn put_off(folder: &Folder, deadline: DeadlineRecord) -> io::Result<()> {
    let DeadlineRecord { end_at_ms, after_ms, grace_ms } = deadline;
    say(folder, &format!("{PUT_OFF}{end_at_ms} {after_ms} {grace_ms}\n"))
}

/// Makes a supervisor look at its folder again.
pub(crate) fn wake(folder: &Folder) -> io::Result<()> {
    say(folder, "\n")
}

fn say(folder: &Folder, line: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(folder.control(), flags, Mode::empty())?;
    // So short a line is written whole or not at all.
    rustix::io::write(&pipe, line.as_bytes())?;
    Ok(())
}

impl Inner {
    /// Starts a supervisor that starts the instance. The lock goes over to it.
    pub(crate) fn launch(
        self: &Arc<Inner>,
        id: &InstanceId,
        folder: &Folder,
        lock: File,
        launch: &Launch,
    ) -> io::Result<Answer> {
        let mut child = self.supervisor("run", folder, lock, Stdio::piped())?;
        let bytes = serde_json::to_vec(launch)?;
        if let Some(mut input) = child.stdin.take() {
            // A supervisor that ended without reading says why in its answer.
            _ = input.write_all(&bytes);
        }
        self.settle(id, child)
    }

    /// Starts another supervisor if the instance runs, or ran, under one that was killed.
    pub(crate) fn replace_supervisor(
        self: &Arc<Inner>,
        id: &InstanceId,
        folder: &Folder,
    ) -> io::Result<()> {
        let Some(run) = folder.run() else { return Ok(()) };
        let settled = run.boot_id != self.boot_id || run.supervisor.alive();
        if settled || folder.exit().is_some() {
            return Ok(());
        }
        // Whoever holds it is replacing it already.
        let Some(lock) = folder.lock()? else { return Ok(()) };
        if folder.exit().is_some() {
            return Ok(());
        }
        tracing::warn!(%id, "its supervisor was killed; starting another");
        let child = self.supervisor("adopt", folder, lock, Stdio::null())?;
        match self.settle(id, child)? {
            Answer::Runs | Answer::Ended => Ok(()),
            Answer::Failed { message, .. } => Err(io::Error::other(message)),
        }
    }

    /// What this machine can do to confine instances, as a process of ours has tried it. A try that
    /// failed says nothing about the machine, and is made again.
    pub(crate) fn abilities(&self) -> io::Result<&Abilities> {
        if let Some(known) = self.abilities.get() {
            return Ok(known);
        }
        let folder = self.folder.join(TRIAL);
        folder::make_folder(&folder, 0o700)?;
        let tried = try_abilities(&self.options.supervisor, &folder)?;
        Ok(self.abilities.get_or_init(|| tried))
    }

    /// Sees to it that the end of the instance's supervisor wakes whoever waits for events.
    pub(crate) fn watch(self: &Arc<Inner>, id: &InstanceId, folder: &Folder) {
        let Some(run) = folder.run() else { return };
        if run.boot_id == self.boot_id && folder.exit().is_none() {
            self.watch_process(id, run.supervisor, None);
        }
    }

    /// Reads the answer of a new supervisor. From then on one that runs is watched; one that does not
    /// is about to end.
    fn settle(self: &Arc<Inner>, id: &InstanceId, mut child: Child) -> io::Result<Answer> {
        let answer = read_answer(&mut child);
        match (&answer, ProcessKey::of(child.id())) {
            // A child that was not waited for keeps its number, so that it is the same.
            (Ok(Answer::Runs), Some(supervisor)) => {
                self.watch_process(id, supervisor, Some(child));
            }
            (_, _) => _ = child.wait(),
        }
        answer
    }

    fn watch_process(
        self: &Arc<Inner>,
        id: &InstanceId,
        supervisor: ProcessKey,
        child: Option<Child>,
    ) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.get(id).is_some_and(|(pid, task)| *pid == supervisor.pid && !task.is_finished())
        {
            return;
        }
        let inner = Arc::downgrade(self);
        let task = self.runtime.spawn(wait(inner, id.clone(), self.folder(id).alive(), child));
        watched.insert(id.clone(), (supervisor.pid, task.abort_handle()));
    }

    fn supervisor(
        &self,
        word: &str,
        folder: &Folder,
        lock: File,
        input: Stdio,
    ) -> io::Result<Child> {
        let mut words = self.options.supervisor.iter();
        let program = words.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Command::new(program)
            .args(words)
            .arg(word)
            .arg(folder.path())
            // The agent's own environment is none of an instance's business.
            .env_clear()
            .current_dir("/")
            .stdin(input)
            .stdout(lock)
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// `folder` is an empty one.
pub(crate) fn try_abilities(supervisor: &[OsString], folder: &Path) -> io::Result<Abilities> {
    let mut words = supervisor.iter();
    let program = words.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut trial = Command::new(program);
    trial.args(words).arg("abilities").arg(folder).env_clear().current_dir("/");
    let output = trial.stdin(Stdio::null()).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Waits for the end of a supervisor, buries it if it was our child, and wakes the loop. A supervisor
/// that was killed is replaced at once, not at the next look.
async fn wait(inner: Weak<Inner>, id: InstanceId, alive: PathBuf, child: Option<Child>) {
    // The supervisor alone holds the other end: without one, or with its end, there is nothing to
    // read, and nobody's number is asked for.
    if let Ok(mut pipe) = OpenOptions::new().open_receiver(&alive) {
        while pipe.read(&mut [0]).await.is_ok_and(|count| count > 0) {}
    }
    if let Some(mut child) = child {
        // It has let go of all that it held, and is about to end.
        _ = tokio::task::spawn_blocking(move || child.wait()).await;
    }
    let Some(inner) = inner.upgrade() else { return };
    // This task counts as finished from here on, so that the next supervisor gets a task of its own.
    inner.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    let looked = tokio::task::spawn_blocking(move || {
        inner.look_at(&id);
        inner.wake();
    });
    _ = looked.await;
}

fn read_answer(child: &mut Child) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    }
    serde_json::from_slice(&bytes).map_err(|_| {
        let said = String::from_utf8_lossy(&bytes);
        io::Error::other(format!("the supervisor gave no answer; it said {said:?}"))
    })
}
