//! Starting an instance, the driver's side: everything that can be wrong is found out before
//! anything runs, the folder is filled, and a supervisor does the rest. Called by the driver with the
//! instance held; start at [`start`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tombolo_driver::{
    DeadlineRecord, Error, Exit, InstanceId, Origin, Process, PublishedPort, Result, Secret, Spec,
    State, Workload,
};
use tombolo_model::{AppId, Engine};

use crate::cgroup::{self, Limits};
use crate::folder::{Folder, InstanceRecord};
use crate::launch::{Answer, Launch, Step};
use crate::manner::{self, Folders, PROCESSES_MAX, Who};
use crate::supervise::MARK;
use crate::users::Users;
use crate::{Inner, cut, files, look, port, program};

/// A supervisor that has written an exit ends right after; this is how long it may take.
const LOCK_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(crate) fn start(inner: &Arc<Inner>, spec: &Spec) -> Result<()> {
    let Workload::Process(process) = &spec.workload else {
        let what = "run anything but processes".to_owned();
        return Err(Error::Unsupported { engine: Engine::Host, what });
    };
    spec.check_allowed()?;
    let earlier = inner.look_at(&spec.id);
    let (restarts, last_exit) = match earlier.as_ref().map(|instance| &instance.state) {
        Some(State::Starting { .. } | State::Running(_) | State::Stopping(_)) => return Ok(()),
        Some(State::Exited(exit)) => {
            let restarts = earlier.as_ref().map_or(0, |instance| instance.restarts);
            (restarts.saturating_add(1), Some(exit.clone()))
        }
        Some(State::Failed(_)) | None => (0, None),
    };
    let folder = inner.folder(&spec.id);
    if !folder.path().try_exists().unwrap_or(true)
        && cut::end_strays(&folder, &inner.groups.find(&spec.id.to_string()))
    {
        tracing::warn!(id = %spec.id, "it still ran without its folder; it was ended first");
    }
    let started = run(inner, spec, process, &folder, restarts, last_exit.clone());
    if started.is_err() {
        undo(&folder, earlier.and(last_exit), restarts);
    }
    inner.wake();
    started
}

/// After a start that failed, an instance that never ran is not there, and an instance that has run
/// before is as it was.
fn undo(folder: &Folder, last_exit: Option<Exit>, restarts: u32) {
    let record = folder.instance();
    if let Some(record) = &record {
        cgroup::remove(&record.cgroups);
    }
    let (Some(exit), Some(mut record)) = (last_exit, record) else {
        _ = folder.remove();
        return;
    };
    if folder.run().is_none() && folder.exit().is_none() {
        record.restarts = restarts.saturating_sub(1);
        // Both fail on a full disk only, and then the record itself still has the exit.
        _ = folder.write_instance(&record);
        _ = folder.write_exit(&exit);
    }
}

fn run(
    inner: &Arc<Inner>,
    spec: &Spec,
    process: &Process,
    folder: &Folder,
    restarts: u32,
    last_exit: Option<Exit>,
) -> Result<()> {
    let doing = |error| Error::io(format!("prepare {}", spec.id), error);
    let tried = |error| Error::io("find out how programs can be confined", error);
    let choice = manner::choose(process, &spec.allow, inner.abilities().map_err(tried)?)?;
    let user = match choice.who {
        Who::Named => program::user(process.user.as_deref())?,
        Who::TheAgents => None,
        Who::OfItsApp => Some(user_of_app(inner, spec)?),
    };
    let kept = folder.instance().map(|record| record.ports).unwrap_or_default();
    let ports = port::choose(spec, process, &kept, &taken(inner, &spec.id))?;
    folder.make().map_err(doing)?;
    let lock = lock(folder, &spec.id)?;
    let work = folder.work();
    let about = about(&ports, &work.display().to_string());
    let env = environment(spec, &about, folder);
    let workdir = workdir(inner, process, &work)?;
    let arguments = program::expand_all(&process.command, &about);
    let (command, arguments) = arguments
        .split_first()
        .ok_or_else(|| Error::Invalid { what: "the command is empty".to_owned() })?;
    let path = env.get("PATH").map(|path| String::from_utf8_lossy(path.expose()).into_owned());
    let program = program::find(command, &workdir, path.as_deref().unwrap_or_default())?;
    files::place(&work, &spec.files, user)?;
    files::give(folder, user).map_err(doing)?;
    let processes = choice.manner.map(|_| PROCESSES_MAX);
    let limits = Limits::of(&spec.resources, processes);
    let (cgroups, mut notes) = inner.groups.make(&spec.id.to_string(), limits);
    if !choice.view {
        notes.extend(user.and_then(|user| unreached(&work, user)));
    }
    // A disk that is full keeps the agent from making one, and the instance from no more than that.
    let shown: Vec<PathBuf> = spec.shown.iter().filter(|path| path.exists()).cloned().collect();
    let folders = Folders {
        root: folder.root(),
        tmp: folder.tmp(),
        work: work.clone(),
        workdir: &workdir,
        program: &program,
        shown: &shown,
        ours: inner.folder.parent().unwrap_or(&inner.folder),
    };
    let counted = cgroup::counts_processes(&cgroups);
    let confinement = manner::confinement(choice, &folders, &spec.resources, counted);
    folder.clear_run().map_err(doing)?;
    folder.write_deadline(spec.deadline.map(DeadlineRecord::of)).map_err(doing)?;
    let (id, origin, log) = (spec.id.clone(), spec.origin.clone(), inner.options.log);
    let record = InstanceRecord {
        id,
        origin,
        ports,
        restarts,
        last_exit,
        notes,
        cgroups,
        user,
        confinement: confinement.clone(),
        workdir: workdir.clone(),
        log,
    };
    folder.write_instance(&record).map_err(doing)?;
    let env = env.into_iter().map(|(name, value)| (name, value.expose().to_vec())).collect();
    let arguments = arguments.to_vec();
    let launch = Launch { program, arguments, env, workdir, user, confinement };
    let answer = inner.launch(&spec.id, folder, lock, &launch);
    let answer = answer.map_err(|error| Error::io("start a supervisor", error))?;
    judge(answer, &spec.id, command, &launch)
}

/// Where it begins.
fn workdir(inner: &Inner, process: &Process, work: &Path) -> Result<PathBuf> {
    let workdir = process.workdir.as_ref().map_or_else(|| work.to_owned(), PathBuf::from);
    if workdir != work && holds_ours(inner, &workdir) {
        let what = format!("{} holds Tombolo's own files", workdir.display());
        return Err(Error::Invalid { what });
    }
    match workdir.is_dir() {
        true => Ok(workdir),
        false => Err(Error::NoSuchFolder { path: workdir.display().to_string() }),
    }
}

/// It runs all the same: it begins in its folder, and may not need the name of it.
fn unreached(work: &Path, user: (u32, u32)) -> Option<String> {
    let closed = files::closed_on_the_way(work, user)?;
    let (name, closed) = (user.0, closed.display());
    Some(format!(
        "user {name} cannot reach its own folder by name: {closed} is closed to it; open it to others \
         (chmod o+x), or give the agent another data folder"
    ))
}

/// The user of its App.
fn user_of_app(inner: &Inner, spec: &Spec) -> Result<(u32, u32)> {
    let folder = inner.folder.display();
    let doing = |error| Error::io(format!("note down in {folder} which user it runs as"), error);
    let app = |origin: &Origin| AppId::new(&origin.namespace, &origin.app).to_string();
    let records = inner.ids().into_iter().filter_map(|id| inner.folder(&id).instance());
    let known = records.map(|record| app(&record.origin)).collect();
    let mut users = inner.users.lock().unwrap_or_else(PoisonError::into_inner);
    if users.is_none() {
        *users = Some(Users::open(&inner.folder, inner.options.users.clone()).map_err(doing)?);
    }
    let users = users.as_mut().expect("it was opened above");
    let number = users.of_app(&app(&spec.origin), &known).map_err(doing)?;
    Ok((number, number))
}

/// Whether the agent's folder lies in this folder, or this folder in the agent's.
fn holds_ours(inner: &Inner, folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let ours = inner.folder.parent().unwrap_or(&inner.folder);
    folder != Path::new("/") && (ours.starts_with(&folder) || folder.starts_with(ours))
}

/// The lock of the instance, as soon as its last supervisor is gone.
fn lock(folder: &Folder, id: &InstanceId) -> Result<File> {
    let deadline = Instant::now() + LOCK_WITHIN;
    loop {
        match folder.lock() {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            Ok(None) => {
                let doing = format!("ending the last run of {id}");
                return Err(Error::TimedOut { doing, after: LOCK_WITHIN });
            }
            Err(error) => return Err(Error::io(format!("lock {id}"), error)),
        }
    }
}

/// What we tell the instance about itself. It alone may be named in arguments, which everybody on
/// the machine can read.
fn about(ports: &[PublishedPort], work: &str) -> BTreeMap<String, Secret> {
    let mut about = BTreeMap::from([("TOMBOLO_DIR".to_owned(), Secret::from(work))]);
    for (position, port) in ports.iter().enumerate() {
        let number = Secret::from(port.published.unwrap_or(port.port).to_string().as_str());
        let address = match port.on {
            None => "0.0.0.0".to_owned(),
            Some(IpAddr::V4(address)) => address.to_string(),
            // As it stands before a port.
            Some(IpAddr::V6(address)) => format!("[{address}]"),
        };
        let address = Secret::from(address.as_str());
        if position == 0 {
            about.insert("PORT".to_owned(), number.clone());
            about.insert("ADDRESS".to_owned(), address.clone());
        }
        about.insert(format!("PORT_{}", port.port), number);
        about.insert(format!("ADDRESS_{}", port.port), address);
    }
    about
}

/// All that the instance finds in its environment.
fn environment(
    spec: &Spec,
    about: &BTreeMap<String, Secret>,
    folder: &Folder,
) -> BTreeMap<String, Secret> {
    let mut env = about.clone();
    // Nothing of the agent's own: its folders tell whose account it is and what is installed there, and what
    // an instance finds must not depend on who started the agent.
    env.insert("PATH".to_owned(), Secret::from(program::PATH_DEFAULT));
    env.insert("HOME".to_owned(), Secret::from(folder.work().display().to_string().as_str()));
    let asked = spec.env.iter();
    env.extend(asked.map(|(name, value)| (name.clone(), program::expand_secret(value, about))));
    // By it everything is known again that the instance starts, so it is not for others to set.
    env.insert(MARK.to_owned(), Secret::from(folder.path().display().to_string().as_str()));
    env
}

/// Ports that other instances of ours have been given, whether or not they listen yet.
fn taken(inner: &Inner, id: &InstanceId) -> Vec<u16> {
    let others = inner.ids().into_iter().filter(|other| other != id);
    let live = others.map(|other| inner.folder(&other)).filter(|folder| {
        look::look(folder, &inner.boot_id).is_some_and(|instance| match instance.state {
            State::Starting { .. } | State::Running(_) | State::Stopping(_) => true,
            State::Exited(_) | State::Failed(_) => false,
        })
    });
    let records = live.filter_map(|folder| folder.instance());
    records.flat_map(|record| record.ports).filter_map(|port| port.published).collect()
}

fn judge(answer: Answer, id: &InstanceId, command: &str, launch: &Launch) -> Result<()> {
    let (step, errno, message) = match answer {
        Answer::Runs | Answer::Ended => return Ok(()),
        Answer::Failed { step, errno, message } => (step, errno, message),
    };
    let error = match errno {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(message),
    };
    let command = command.to_owned();
    Err(match (step, error.kind()) {
        (Step::EnterWorkdir, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Error::NoSuchFolder { path: launch.workdir.display().to_string() }
        }
        // The program itself was found: it is the interpreter in its first line that was not.
        (Step::Execute, io::ErrorKind::NotFound) => {
            let interpreter = program::interpreter(&launch.program);
            Error::CommandNotFound {
                command: interpreter.unwrap_or(command),
                looked_in: Vec::new(),
            }
        }
        (Step::Execute, io::ErrorKind::PermissionDenied) => {
            Error::NotExecutable { command, source: Arc::new(error) }
        }
        (Step::Execute, io::ErrorKind::ArgumentListTooLong) => {
            Error::Invalid { what: format!("{error}: command and environment of {id}") }
        }
        (Step::Execute, _) if error.raw_os_error() == Some(program::NOT_A_PROGRAM) => {
            Error::NotExecutable { command, source: Arc::new(error) }
        }
        (Step::Execute, _) => Error::io(format!("execute {command:?}"), error),
        (Step::Confine, _) => {
            Error::Failed { doing: format!("confine {id}"), source: Arc::new(error) }
        }
        (Step::Read | Step::Prepare | Step::EnterWorkdir | Step::Record, _) => {
            Error::io(format!("start {id}"), error)
        }
    })
}
