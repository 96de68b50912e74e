//! What an instance wrote, from its last run but one on. A reader that goes on is taken along to the
//! next run.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptions;
use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, stream};
use tokio::sync::mpsc;
use tombolo_driver::{
    Error, InstanceId, LINE_BYTES_MAX, LogLine, LogRequest, LogStream, Result, Source,
};

use crate::look::Seen;
use crate::{Inner, list, look};

/// Lines that wait for a slow reader.
const LINES_WAITING: usize = 16;

pub(crate) async fn read(
    inner: &Arc<Inner>,
    id: &InstanceId,
    request: LogRequest,
) -> Result<LogStream> {
    let seen = list::seen(inner, Some(id)).await?;
    let parts = look::newest(seen.iter().map(|seen| &**seen)).into_iter();
    let parts: Vec<Option<String>> = parts.map(|seen| seen.tag.part.clone()).collect();
    if parts.is_empty() {
        return Err(Error::NoSuchInstance { id: id.clone() });
    }
    let wanted = request.part.as_ref();
    let wanted = |part: &Option<String>| wanted.is_none() || part.as_ref() == wanted;
    let parts: Vec<Option<String>> = parts.into_iter().filter(wanted).collect();
    if parts.is_empty() {
        let part = request.part.unwrap_or_default();
        return Err(Error::Invalid { what: format!("{id} has no part {part:?}") });
    }
    let (sender, receiver) = mpsc::channel(LINES_WAITING);
    let (inner, id) = (Arc::clone(inner), id.clone());
    tokio::spawn(async move {
        let send = async |part: &Option<String>| {
            let sent = send(&inner, &id, part.as_deref(), &request, &sender).await;
            if let Err(error) = sent {
                // The reader may be gone.
                _ = sender.send(Err(error)).await;
            }
        };
        match request.follow {
            // As they come, all at once.
            true => _ = join_all(parts.iter().map(send)).await,
            false => {
                for part in &parts {
                    send(part).await;
                }
            }
        }
    });
    let lines = stream::unfold(receiver, async |mut lines| Some((lines.recv().await?, lines)));
    Ok(lines.boxed())
}

async fn send(
    inner: &Arc<Inner>,
    id: &InstanceId,
    part: Option<&str>,
    request: &LogRequest,
    sender: &mpsc::Sender<Result<LogLine>>,
) -> Result<()> {
    let mut changed = inner.changed.subscribe();
    let mut read_until = None;
    loop {
        changed.mark_unchanged();
        let mut runs = list::seen(inner, Some(id)).await?;
        if runs.is_empty() {
            return Ok(());
        }
        runs.retain(|run| run.tag.part.as_deref() == part);
        runs.retain(|run| read_until.is_none_or(|last| run.tag.run > last));
        runs.sort_by_key(|run| run.tag.run);
        // Of what is there at first the last lines are wanted; of what comes later, all.
        if read_until.is_none() && request.tail.is_some() {
            let surplus = runs.len().saturating_sub(1);
            runs.drain(..surplus);
        }
        for run in runs {
            let tail = request.tail.filter(|_| read_until.is_none());
            if !send_run(inner, &run, request, tail, sender).await? {
                return Ok(());
            }
            read_until = Some(run.tag.run);
        }
        if !request.follow {
            return Ok(());
        }
        tokio::select! {
            _ = changed.changed() => (),
            () = sender.closed() => return Ok(()),
        }
    }
}

/// Whether anybody still reads.
async fn send_run(
    inner: &Inner,
    run: &Seen,
    request: &LogRequest,
    tail: Option<usize>,
    sender: &mpsc::Sender<Result<LogLine>>,
) -> Result<bool> {
    let docker = inner.connection.docker().await?;
    let seconds = request.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    let seconds = seconds.and_then(|since| i32::try_from(since.as_secs()).ok());
    let options = LogsOptions {
        follow: request.follow,
        stdout: true,
        stderr: true,
        since: seconds.unwrap_or_default(),
        until: 0,
        timestamps: true,
        tail: tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string()),
    };
    let mut lines = docker.logs(&run.container, Some(options));
    loop {
        let next = tokio::select! {
            next = lines.next() => next,
            () = sender.closed() => return Ok(false),
        };
        let Some(next) = next else { return Ok(true) };
        let output = next.map_err(|error| inner.connection.failed("read the log", error))?;
        let line = LogLine { part: run.tag.part.clone(), ..line(output) };
        let early = |since: SystemTime| line.at.is_some_and(|at| at < since);
        if request.since.is_some_and(early) {
            continue;
        }
        if sender.send(Ok(line)).await.is_err() {
            return Ok(false);
        }
    }
}

/// `2026-01-01T00:00:00.1Z text`, as the engine writes it when it is asked for times.
fn line(output: LogOutput) -> LogLine {
    let source = match &output {
        LogOutput::StdErr { .. } => Source::Stderr,
        LogOutput::StdOut { .. } | LogOutput::StdIn { .. } | LogOutput::Console { .. } => {
            Source::Stdout
        }
    };
    let bytes = output.into_bytes();
    let space = bytes.iter().position(|byte| *byte == b' ');
    let stamp = space.and_then(|space| std::str::from_utf8(&bytes[..space]).ok());
    let at = look::time(stamp);
    let text = match (at, space) {
        (Some(_), Some(space)) => bytes.slice(space + 1..),
        (_, _) => bytes,
    };
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    let text: Bytes = text.slice(..end.min(LINE_BYTES_MAX));
    LogLine { at, source, part: None, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_parted_from_its_time() {
        let message = Bytes::from_static(b"2026-01-01T00:00:01.5Z hello there\n");
        let read = line(LogOutput::StdErr { message });
        assert_eq!((read.source, &read.text[..]), (Source::Stderr, &b"hello there"[..]));
        assert!(read.at.is_some());
        let read = line(LogOutput::StdOut { message: Bytes::from_static(b"no time\n") });
        assert_eq!((read.at, &read.text[..]), (None, &b"no time"[..]));
    }
}
