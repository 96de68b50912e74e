//! The errand of a log: lines of an instance, and with `follow` of all that the Assignment has one
//! after another, over restarts and updates. Called by [`super::carry`]; start at [`carry`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

use futures::future::FutureExt as _;
use futures::stream::{self, BoxStream, SelectAll, Stream, StreamExt as _};
use jiff::Timestamp;
use tombolo_driver::{Error, InstanceId, LogLine, LogRequest, Source, State};
use tombolo_model::Reason;
use tombolo_model::errand::{Channel, LogOptions, Refusal, broken, well};
use tombolo_model::phrase::with_causes;

use super::instances::{self, Found};
use super::line::{Gone, Line, Outgoing};
use super::refusal;
use crate::converge::Drivers;

/// Lines that are ready together travel together, up to this.
const BATCH_BYTES_MAX: usize = 32 * 1024;
/// How often a follower looks for an instance that is new.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Without any instance for so many looks, there is nothing left to follow.
const LOOKS_IN_VAIN_MAX: u32 = 5;
/// What is kept of an earlier run, if only its end is wanted.
const PREVIOUS_LINES_MAX: usize = 10_000;

pub(super) async fn carry(line: Line, drivers: &Drivers, assignment: &str, options: LogOptions) {
    let Line { to, mut from } = line;
    tokio::select! {
        // Nobody writes to a log.
        _ = from.next() => return,
        () = to.keep_alive() => return,
        () = write(&to, drivers, assignment, &options) => (),
    }
    drop(to);
    from.end().await;
}

async fn write(to: &Outgoing, drivers: &Drivers, assignment: &str, options: &LogOptions) {
    let found = instances::all(drivers, assignment).await;
    let Some(first) = found.first() else {
        let refusal = instances::serving(drivers, assignment).await.err();
        return to.refuse(refusal.unwrap_or_else(moved)).await;
    };
    let begun = match options.previous {
        true => previous(first, options).await,
        false => {
            first.lines(&request(options, SystemTime::now())).await.map_err(|error| refusal(&error))
        }
    };
    let lines = match begun {
        Ok(lines) => lines,
        Err(refusal) => return to.refuse(refusal).await,
    };
    let status = match to.ready().await {
        Err(Gone) => return,
        Ok(()) if options.follow => {
            let id = first.instance.id.clone();
            let mut follower = Follower::new(to, drivers, assignment, options);
            follower.add(id, lines);
            follower.follow(found).await
        }
        Ok(()) => pass(to, lines, options).await,
    };
    match status {
        Ok(()) => to.ended(well()).await,
        Err(Ended::Failed(error)) => {
            to.ended(broken(error.reason(), &with_causes(&error))).await;
        }
        Err(Ended::Gone) => (),
    }
}

/// Between two looks an instance came and went.
fn moved() -> Refusal {
    Refusal::new(Reason::NotRunning, "it is just changing; try again")
}

enum Ended {
    Gone,
    Failed(Error),
}

impl From<Gone> for Ended {
    fn from(Gone: Gone) -> Ended {
        Ended::Gone
    }
}

impl Found {
    /// They may be asked for more after their end.
    async fn lines(&self, request: &LogRequest) -> Result<Lines, Error> {
        let lines = self.driver.logs(&self.instance.id, request.clone()).await?;
        Ok(lines.fuse().boxed())
    }
}

type Lines = BoxStream<'static, Result<LogLine, Error>>;

fn request(options: &LogOptions, now: SystemTime) -> LogRequest {
    let ago = options.since_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let recent = ago.map(|ago| now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH));
    let exact = options.since_time.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    LogRequest {
        since: exact.map(SystemTime::from).max(recent),
        tail: options.tail_lines.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX)),
        follow: options.follow,
        part: options.part.clone(),
    }
}

/// The lines from before the run of now.
async fn previous(found: &Found, options: &LogOptions) -> Result<Lines, Refusal> {
    // The first lines of a run may be older than what its engine calls its beginning, and never older
    // than the end of the one before.
    let ended = found.instance.last_exit.as_ref().map(|exit| exit.at);
    let began = match &found.instance.state {
        State::Running(running) | State::Stopping(running) => Some(ended.unwrap_or(running.since)),
        // There is no run now: all that there is is from before.
        State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
    };
    if began.is_some() && found.instance.restarts == 0 {
        let message = "it has not been restarted: there is no run before the one of now";
        return Err(Refusal::new(Reason::Invalid, message));
    }
    let request = LogRequest { tail: None, ..request(options, SystemTime::now()) };
    let lines = found.lines(&request).await.map_err(|error| refusal(&error))?;
    let lines = lines.filter(move |line| {
        let after = |line: &LogLine| began.is_some_and(|began| line.at > Some(began));
        std::future::ready(!line.as_ref().is_ok_and(after))
    });
    let Some(tail) = options.tail_lines else { return Ok(lines.fuse().boxed()) };
    let tail = usize::try_from(tail).unwrap_or(usize::MAX).min(PREVIOUS_LINES_MAX);
    let kept = lines.fold(VecDeque::new(), |mut kept, line| {
        kept.push_back(line);
        if kept.len() > tail {
            kept.pop_front();
        }
        std::future::ready(kept)
    });
    Ok(stream::iter(kept.await).fuse().boxed())
}

async fn pass(to: &Outgoing, mut lines: Lines, options: &LogOptions) -> Result<(), Ended> {
    while let Some(batch) = batch(&mut lines).await {
        send(to, &batch, options).await?;
    }
    Ok(())
}

/// The next line and those that are ready with it.
async fn batch<T>(lines: &mut (impl Stream<Item = T> + Unpin)) -> Option<Vec<T>> {
    let mut batch = vec![lines.next().await?];
    // A line is LINE_BYTES_MAX at most, so that a batch is bounded by their number.
    let count_max = BATCH_BYTES_MAX / 128;
    while batch.len() < count_max
        && let Some(Some(next)) = lines.next().now_or_never()
    {
        batch.push(next);
    }
    Some(batch)
}

async fn send(
    to: &Outgoing,
    batch: &[Result<LogLine, Error>],
    options: &LogOptions,
) -> Result<(), Ended> {
    let mut text = Vec::new();
    for line in batch {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                to.send(Channel::Output, &text).await?;
                return Err(Ended::Failed(error.clone()));
            }
        };
        render(line, options, &mut text);
        if text.len() >= BATCH_BYTES_MAX {
            to.send(channel(line), &text).await?;
            text.clear();
        }
    }
    if !text.is_empty() {
        to.send(Channel::Output, &text).await?;
    }
    Ok(())
}

fn channel(line: &LogLine) -> Channel {
    match line.source {
        Source::Stdout => Channel::Output,
        Source::Stderr => Channel::ErrorOutput,
    }
}

/// The line as the reader gets it, with its end.
fn render(line: &LogLine, options: &LogOptions, text: &mut Vec<u8>) {
    if options.timestamps {
        let at = line.at.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default();
        text.extend_from_slice(at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string().as_bytes());
    }
    if let (Some(part), None) = (&line.part, &options.part) {
        text.extend_from_slice(format!("{part}: ").as_bytes());
    }
    text.extend_from_slice(&line.text);
    text.push(b'\n');
}

/// A line of an instance; nothing is the end of its log.
type Told = (InstanceId, Option<Result<LogLine, Error>>);

struct Follower<'a> {
    to: &'a Outgoing,
    drivers: &'a Drivers,
    assignment: &'a str,
    options: &'a LogOptions,
    lines: SelectAll<BoxStream<'static, Told>>,
    followed: BTreeSet<InstanceId>,
    /// Where to go on with an instance whose log has ended, should it be started again.
    seen_until: BTreeMap<InstanceId, SystemTime>,
}

impl<'a> Follower<'a> {
    fn new(
        to: &'a Outgoing,
        drivers: &'a Drivers,
        assignment: &'a str,
        options: &'a LogOptions,
    ) -> Follower<'a> {
        let (lines, followed, seen_until) = Default::default();
        Follower { to, drivers, assignment, options, lines, followed, seen_until }
    }

    fn add(&mut self, id: InstanceId, lines: Lines) {
        self.followed.insert(id.clone());
        let named = (id.clone(), id);
        let lines = lines.map(move |line| (named.0.clone(), Some(line)));
        self.lines.push(lines.chain(stream::iter([(named.1, None)])).boxed());
    }

    /// `first` are the instances that are there at the beginning.
    async fn follow(mut self, first: Vec<Found>) -> Result<(), Ended> {
        let from_now = request(self.options, SystemTime::now());
        for found in first.iter().filter(|found| is_up(found)) {
            self.take(found, &from_now).await;
        }
        let mut in_vain = 0;
        let mut next_look = tokio::time::Instant::now() + LOOK_EVERY;
        while in_vain < LOOKS_IN_VAIN_MAX {
            tokio::select! {
                Some(told) = batch(&mut self.lines) => self.tell(told).await?,
                () = tokio::time::sleep_until(next_look) => {
                    in_vain = match self.look().await || !self.lines.is_empty() {
                        true => 0,
                        false => in_vain + 1,
                    };
                    next_look = tokio::time::Instant::now() + LOOK_EVERY;
                }
            }
        }
        Ok(())
    }

    async fn tell(&mut self, told: Vec<Told>) -> Result<(), Ended> {
        let mut lines = Vec::new();
        for (id, line) in told {
            match line {
                Some(line) => {
                    let at = line.as_ref().ok().and_then(|line| line.at);
                    self.seen_until.extend(at.map(|at| (id, at + Duration::from_millis(1))));
                    lines.push(line);
                }
                None => _ = self.followed.remove(&id),
            }
        }
        send(self.to, &lines, self.options).await
    }

    /// Takes up what is new, or runs again. Says whether the Assignment has any instance.
    async fn look(&mut self) -> bool {
        let found = instances::all(self.drivers, self.assignment).await;
        for one in found.iter().filter(|one| is_up(one)) {
            let since = self.seen_until.get(&one.instance.id).copied();
            let part = self.options.part.clone();
            self.take(one, &LogRequest { since, tail: None, follow: true, part }).await;
        }
        !found.is_empty()
    }

    async fn take(&mut self, found: &Found, request: &LogRequest) {
        let id = &found.instance.id;
        if self.followed.contains(id) {
            return;
        }
        match found.lines(request).await {
            Ok(lines) => self.add(id.clone(), lines),
            Err(error) => tracing::debug!(%error, %id, "its log cannot be followed yet"),
        }
    }
}

fn is_up(found: &Found) -> bool {
    match found.instance.state {
        State::Running(_) | State::Starting { .. } => true,
        State::Stopping(_) | State::Exited(_) | State::Failed(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn line(part: Option<&str>) -> LogLine {
        LogLine {
            at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500)),
            source: Source::Stdout,
            part: part.map(str::to_owned),
            text: Bytes::from_static(b"hello"),
        }
    }

    #[track_caller]
    fn check(part: Option<&str>, options: LogOptions, expected: &str) {
        let mut text = Vec::new();
        render(&line(part), &options, &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_line_has_its_time_and_its_part_before_it_if_they_are_not_known() {
        check(None, LogOptions::default(), "hello\n");
        let stamped = LogOptions { timestamps: true, ..LogOptions::default() };
        check(None, stamped, "1970-01-01T00:00:01.500000000Z hello\n");
        check(Some("db"), LogOptions::default(), "db: hello\n");
        let of_part = LogOptions { part: Some("db".to_owned()), ..LogOptions::default() };
        check(Some("db"), of_part, "hello\n");
    }

    #[tokio::test]
    async fn lines_that_are_ready_together_go_together_and_the_end_is_the_end() {
        let once = stream::unfold(0, async |count| (count < 3).then_some((count, count + 1)));
        let mut lines = once.fuse().boxed();
        assert_eq!(batch(&mut lines).await, Some(vec![0, 1, 2]));
        assert_eq!(batch(&mut lines).await, None);
    }

    #[test]
    fn the_later_of_two_beginnings_counts() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let since = |seconds, time: Option<&str>| {
            let options = LogOptions {
                since_seconds: seconds,
                since_time: time.map(str::to_owned),
                ..LogOptions::default()
            };
            let since = request(&options, now).since?;
            Some(since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
        };
        assert_eq!(since(None, None), None);
        assert_eq!(since(Some(60), None), Some(940));
        assert_eq!(since(Some(60), Some("1970-01-01T00:16:00Z")), Some(960));
        assert_eq!(since(Some(5000), None), Some(0));
    }
}
