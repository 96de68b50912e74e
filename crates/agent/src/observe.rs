//! What the engines hold, as the plan sees it. Called by [`crate::converge`]; start at [`look`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::join_all;
use tokio::task::JoinHandle;
use tombolo_driver::{Driver, Error, Exit, Instance, InstanceId, State};
use tombolo_model::component::Reach;
use tombolo_model::{Engine, Reason};
use tombolo_plan::instances::{Health, Id, Problem, Retry, Seen};

use crate::desired::problem;

/// An engine that does not answer within this is as good as away.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// After this the question itself is given up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What is there, and which engines did not say.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) instances: BTreeMap<Id, (Engine, Instance)>,
    pub(crate) silent: BTreeMap<Engine, Error>,
}

/// Engines that did not answer in time when they were last asked, with the question that is open. They
/// are not waited for until an answer is in time again: an engine that hangs would hold up all the
/// others. What they say late is heard at the next look.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(BTreeMap<Engine, Option<JoinHandle<Answer>>>);

#[derive(Debug)]
struct Answer {
    listed: Result<Vec<Instance>, Error>,
    in_time: bool,
}

impl Look {
    /// How many ports are open beyond this machine; nothing if not all engines have said.
    pub(crate) fn open_ports(&self) -> Option<u32> {
        let ports = self.instances.values().flat_map(|(_, instance)| match &instance.state {
            State::Running(running) | State::Stopping(running) => running.ports.as_slice(),
            State::Starting { .. } | State::Exited(_) | State::Failed(_) => &[],
        });
        let open = ports.filter(|port| port.reach() > Reach::Loopback).count();
        self.silent.is_empty().then(|| u32::try_from(open).unwrap_or(u32::MAX))
    }
}

impl Unanswered {
    /// Something was done on the engine: what it was asked before is asked anew.
    pub(crate) fn outdate(&mut self, engine: Engine) {
        if let Some(question) = self.0.get_mut(&engine).and_then(Option::take) {
            question.abort();
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.values().flatten().for_each(JoinHandle::abort);
    }
}

pub(crate) async fn look(
    drivers: &BTreeMap<Engine, Arc<dyn Driver>>,
    unanswered: &mut Unanswered,
) -> Look {
    let asked = drivers.iter().map(|(engine, driver)| {
        let heard = match unanswered.0.remove(engine) {
            None => hear(driver, ask(driver), LIST_TIMEOUT),
            Some(open) => hear(driver, open.unwrap_or_else(|| ask(driver)), Duration::ZERO),
        };
        async { (*engine, heard.await) }
    });
    let mut look = Look::default();
    for (engine, (listed, open)) in join_all(asked).await {
        unanswered.0.extend(open.map(|open| (engine, Some(open))));
        match listed {
            Ok(instances) => {
                let known = instances.into_iter();
                look.instances.extend(known.map(|found| (id(&found.id), (engine, found))));
            }
            Err(error) => _ = look.silent.insert(engine, error),
        }
    }
    look
}

fn ask(driver: &Arc<dyn Driver>) -> JoinHandle<Answer> {
    let driver = Arc::clone(driver);
    tokio::spawn(async move {
        let mut list = driver.list();
        match tokio::time::timeout(LIST_TIMEOUT, &mut list).await {
            Ok(listed) => Answer { listed, in_time: true },
            Err(_) => {
                // It may have got lost.
                let rest = ANSWER_TIMEOUT.saturating_sub(LIST_TIMEOUT);
                let listed = tokio::time::timeout(rest, list).await.unwrap_or_else(|_| late());
                Answer { listed, in_time: false }
            }
        }
    })
}

/// What the engine says, and the question that is open from now on if it is late.
async fn hear(
    driver: &Arc<dyn Driver>,
    mut question: JoinHandle<Answer>,
    patience: Duration,
) -> (Result<Vec<Instance>, Error>, Option<JoinHandle<Answer>>) {
    if patience.is_zero() && !question.is_finished() {
        return (late(), Some(question));
    }
    match tokio::time::timeout(patience, &mut question).await {
        Ok(Ok(Answer { listed, in_time: true })) => (listed, None),
        Ok(Ok(Answer { listed, in_time: false })) => (listed, Some(ask(driver))),
        Ok(Err(error)) => {
            let doing = "finish listing".to_owned();
            (Err(Error::Failed { doing, source: Arc::new(error) }), None)
        }
        Err(_) => (late(), Some(question)),
    }
}

fn late() -> Result<Vec<Instance>, Error> {
    Err(Error::TimedOut { doing: "listing".to_owned(), after: LIST_TIMEOUT })
}

pub(crate) fn id(instance: &InstanceId) -> Id {
    Id { assignment: instance.assignment().to_owned(), revision: instance.revision() }
}

/// One instance as the plan sees it. `starts` tells two failures to start apart.
pub(crate) fn seen(
    engine: Engine,
    instance: &Instance,
    health: Option<&Health>,
    starts: u64,
) -> Seen {
    match &instance.state {
        State::Starting { doing } => Seen::Starting { doing: doing.clone() },
        State::Running(_) => Seen::Running(health.cloned().unwrap_or(Health::Unknown)),
        State::Stopping(_) => Seen::Stopping,
        State::Exited(exit) => Seen::Exited {
            at: nanoseconds(exit.at),
            ordered: exit.reason == Reason::Stopped,
            problem: Problem::new(exit.reason, sentence(exit)),
        },
        State::Failed(error) => {
            Seen::Failed { at: starts, retry: retry(engine, error), problem: problem(error) }
        }
    }
}

/// What comes of trying again what failed on an engine like this.
pub(crate) fn retry(engine: Engine, error: &Error) -> Retry {
    match error.retryable() {
        true => Retry::after(engine, error.reason()),
        false => Retry::Never,
    }
}

/// How it ended, as a clause for people, with the last line that it wrote.
pub(crate) fn sentence(exit: &Exit) -> String {
    let number = |number: Option<i32>| number.map_or("?".to_owned(), |number| number.to_string());
    let how = match &exit.message {
        Some(message) => message.trim_end_matches('.').to_owned(),
        None => {
            let blanks = [("code", number(exit.code)), ("signal", number(exit.signal))];
            exit.reason.says(&blanks)
        }
    };
    let last = exit.log.iter().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(line) => format!("{how}; its last line was: {}", short(line.trim())),
        None => how,
    }
}

/// A line is for a condition, which holds no novel.
fn short(line: &str) -> String {
    const CHARS_MAX: usize = 200;
    match line.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
