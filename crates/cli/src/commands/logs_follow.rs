//! `tombolo logs -f`: lines as they come, from all instances that are meant and those that are added.
//! Part of [`super::logs`]; start at [`run`].

use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tombolo_model::Assignment;

use super::instances::{self, Look, Wanted, label};
use super::logs::{self, Line, Printer};
use crate::{
    args::LogsArgs,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    output::{harmless, note},
    shell::Shell,
};

/// How often we look while there is no instance at all.
const AWAIT_EVERY: Duration = Duration::from_millis(250);
/// How often we look for instances that are new.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Lines that wait to be printed.
const LINES_AHEAD: usize = 64;

/// What comes from one of the instances.
enum Told {
    Line(Line),
    /// Its log cannot be had for now.
    Waits(Failure),
    /// It is gone.
    Over,
}

type Sender = mpsc::Sender<(Rc<Assignment>, Told)>;

pub(super) async fn run(
    shell: &mut Shell,
    args: &LogsArgs,
    connection: &Connection,
    wanted: &Wanted,
    mut printer: Printer,
) -> Result<Exit, Failure> {
    let (sender, mut told) = mpsc::channel(LINES_AHEAD);
    let mut followers = FuturesUnordered::new();
    let mut followed = BTreeSet::new();
    // What is added later is shown from its beginning.
    let mut begin = logs::query(args, true);
    let mut found = awaited(connection, wanted).await?;
    let mut next_look = tokio::time::Instant::now() + LOOK_EVERY;
    loop {
        for assignment in found.drain(..) {
            printer.know(&label(&assignment));
            if followed.insert(assignment.metadata.uid.clone()) {
                followers.push(follow(connection, assignment, begin.clone(), sender.clone()));
            }
        }
        begin = Query::default().with("timestamps", "true").with("follow", "true");
        tokio::select! {
            Some((assignment, news)) = told.recv() => {
                print(shell, &mut printer, &assignment, news)?;
                while let Ok((assignment, news)) = told.try_recv() {
                    print(shell, &mut printer, &assignment, news)?;
                }
                shell.out.flush()?;
            }
            Some(uid) = followers.next() => {
                let uid: Result<Option<String>, Failure> = uid;
                followed.remove(&uid?);
            }
            () = tokio::time::sleep_until(next_look) => {
                // A server that is away for a moment is asked again.
                let all = instances::of_app(connection, &wanted.app).await;
                found = all.unwrap_or_default();
                found.retain(|one| wanted.means(one));
                if found.is_empty() && followers.is_empty() {
                    note("nothing is left to follow");
                    return Ok(Exit::Ok);
                }
                next_look = tokio::time::Instant::now() + LOOK_EVERY;
            }
        }
    }
}

/// The first instances, as soon as there are any. An App that was just applied has none yet.
async fn awaited(connection: &Connection, wanted: &Wanted) -> Result<Vec<Assignment>, Failure> {
    let mut told = false;
    loop {
        match instances::look(connection, wanted).await? {
            Look::Found(found) => return Ok(found),
            Look::NotYet(failure) if !std::mem::replace(&mut told, true) => {
                note(&format!("{}; waiting", harmless(&failure.message)));
            }
            Look::NotYet(_) => (),
        }
        tokio::time::sleep(AWAIT_EVERY).await;
    }
}

fn print(
    shell: &mut Shell,
    printer: &mut Printer,
    assignment: &Assignment,
    news: Told,
) -> Result<(), Failure> {
    let label = label(assignment);
    match news {
        Told::Line(line) => shell.out.bytes(&printer.print(&label, &line)),
        // It does not run: how it ended is all that there is to see.
        Told::Waits(failure) if failure.status == instances::STATUS_NOT_RUNNING => {
            shell.out.flush()?;
            logs::instead(shell, printer, assignment, &failure)
        }
        Told::Waits(failure) => {
            shell.out.flush()?;
            note(&format!("{label}: {}; waiting", harmless(&failure.message)));
            Ok(())
        }
        Told::Over => {
            shell.out.flush()?;
            note(&format!("{label} is gone"));
            Ok(())
        }
    }
}

/// Follows one instance until it is gone, over broken connections. An error is one that waiting does
/// not mend.
async fn follow(
    connection: &Connection,
    assignment: Assignment,
    begin: Query,
    sender: Sender,
) -> Result<Option<String>, Failure> {
    let assignment = Rc::new(assignment);
    let tell = |news| send(&sender, &assignment, news);
    let mut seen = Seen::default();
    let mut pause = PAUSE_MIN;
    let mut waits = false;
    loop {
        let query = seen.resume(&begin);
        let problem = match logs::open(connection, &assignment, query).await {
            Ok(mut reader) => loop {
                match logs::next_line(&mut reader).await {
                    Ok(Some(line)) => {
                        (pause, waits) = (PAUSE_MIN, false);
                        if seen.is_new(&line) {
                            tell(Told::Line(line)).await;
                        }
                    }
                    // Its agent has none of it any more; the server knows whether it is to come.
                    Ok(None) => break None,
                    Err(_) => {
                        let message = "the connection to its node broke";
                        break Some(Failure::new(Exit::Unreachable, message));
                    }
                }
            },
            Err(failure) => match failure.exit {
                Exit::NotFound => {
                    tell(Told::Over).await;
                    return Ok(assignment.metadata.uid.clone());
                }
                Exit::Denied | Exit::Usage => return Err(failure),
                Exit::Ok
                | Exit::Failed
                | Exit::Conflict
                | Exit::Unreachable
                | Exit::Timeout
                | Exit::NotPlaced
                | Exit::Command(_) => Some(failure),
            },
        };
        if let Some(problem) = problem
            && !std::mem::replace(&mut waits, true)
        {
            tell(Told::Waits(problem)).await;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn send(
    sender: &Sender,
    assignment: &Rc<Assignment>,
    news: Told,
) -> impl Future<Output = ()> + use<> {
    let (sender, assignment) = (sender.clone(), Rc::clone(assignment));
    async move {
        // If nobody prints any more, we are about to end.
        _ = sender.send((assignment, news)).await;
    }
}

/// Up to where a log was read, so that it can be gone on with.
#[derive(Debug, Default)]
struct Seen {
    at: String,
    /// Lines of that very moment.
    count: usize,
    /// Of those, how many are still to come again.
    again: usize,
}

impl Seen {
    fn resume(&mut self, begin: &Query) -> Query {
        if self.at.is_empty() {
            return begin.clone();
        }
        self.again = self.count;
        let query = Query::default().with("timestamps", "true").with("follow", "true");
        query.with("sinceTime", self.at.as_str())
    }

    fn is_new(&mut self, line: &Line) -> bool {
        if line.at == self.at && self.again > 0 {
            self.again -= 1;
            return false;
        }
        self.again = 0;
        match line.at == self.at {
            true => self.count += 1,
            false => (self.at, self.count) = (line.at.clone(), 1),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str) -> Line {
        Line { at: at.to_owned(), text: Vec::new() }
    }

    #[test]
    fn lines_that_come_again_after_a_break_are_not_told_twice() {
        let mut seen = Seen::default();
        let begin = Query::default().with("tailLines", "3");
        assert_eq!(seen.resume(&begin).after("/"), "/?tailLines=3");
        for at in ["1", "2", "2"] {
            assert!(seen.is_new(&line(at)));
        }
        assert_eq!(seen.resume(&begin).after("/"), "/?timestamps=true&follow=true&sinceTime=2");
        let told: Vec<bool> = ["2", "2", "2", "3"].map(|at| seen.is_new(&line(at))).to_vec();
        assert_eq!(told, [false, false, true, true]);
        seen.resume(&begin);
        assert!(!seen.is_new(&line("3")));
        assert!(seen.is_new(&line("4")) && seen.is_new(&line("4")));
    }
}
