//! Errands: somebody who asks the server wants a log, a command or a port of an instance here. The
//! agent has no open port, so it waits for errands on a connection of its own making, and dials
//! another to answer each. Started by [`crate::work`]; start at [`run`].
//!
//! The waiting connection is nearly silent: a word from the server every 100 s. If it breaks, it is
//! dialled again; what is under way goes on.

mod exec;
mod forward;
mod instances;
mod line;
mod log;

use std::io;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Empty, Limited};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tombolo_model::errand::{self, Errand, Refusal, What};
use tombolo_model::phrase::with_causes;
use tombolo_plan::agent::pauses::{self, Ended, Redial};
use tower::ServiceExt as _;

use crate::connection::{Connection, Flow, Wire};
use crate::converge::Drivers;
use line::Line;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The server says every 100 s that it is still there: without a word for so long, it is not.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// An errand is a line, and its command the longest of it.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// The server sends fewer at a time; errands beyond this number are not carried out.
const ERRANDS_MAX: usize = 256;

/// Waits for errands and carries them out, for ever.
pub(crate) async fn run(mut connection: Connection, drivers: Drivers) {
    let mut under_way = JoinSet::new();
    let mut redial = Redial::new(pauses::ERRANDS);
    loop {
        let began = Instant::now();
        let wire = connection.wire();
        let ended = tokio::select! {
            problem = wait(&wire, &drivers, &mut under_way) => {
                tracing::debug!(%problem, "no way for errands; dialling again");
                match problem.kind() {
                    io::ErrorKind::PermissionDenied => Ended::Refused,
                    _ => Ended::Broken,
                }
            }
            () = connection.replaced() => Ended::Replaced,
        };
        let pause = redial.after(ended, began.elapsed());
        let chance = getrandom::u32().unwrap_or(u32::MAX);
        tokio::time::sleep(pauses::jittered(pause, chance)).await;
    }
}

/// Returns why it ended.
async fn wait(wire: &Wire, drivers: &Drivers, under_way: &mut JoinSet<()>) -> io::Error {
    let empty: Flow = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let response = match send(wire, Method::GET, errand::PATH, empty).await {
        Ok(response) => response,
        Err(problem) => return problem,
    };
    let mut body = response.into_body();
    let mut pending = Vec::new();
    loop {
        let bytes = match timeout(SILENCE_MAX, body.frame()).await {
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => return error,
            Ok(None) => return io::Error::other("the server ended it"),
            Err(_) => return io::Error::other("the server has fallen silent"),
        };
        for errand in errands(&mut pending, &bytes) {
            while under_way.try_join_next().is_some() {}
            if under_way.len() < ERRANDS_MAX {
                under_way.spawn(carry(wire.clone(), drivers.clone(), errand));
            }
        }
        if pending.len() > LINE_BYTES_MAX {
            return io::Error::other("the server sends a line without an end");
        }
    }
}

/// The whole lines, as errands; an empty line only says that the server is there, and an errand of a
/// newer server that we do not understand is left to run out of time there.
fn errands(pending: &mut Vec<u8>, bytes: &[u8]) -> Vec<Errand> {
    pending.extend_from_slice(bytes);
    let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let whole: Vec<u8> = pending.drain(..=end).collect();
    let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// One errand, from the dialling to its end.
async fn carry(wire: Wire, drivers: Drivers, errand: Errand) {
    let Errand { id, assignment, what } = errand;
    let line = match Line::dial(&wire, &id).await {
        Ok(line) => line,
        Err(error) => {
            tracing::info!(%error, id, "cannot answer an errand");
            return;
        }
    };
    tracing::debug!(id, assignment, ?what, "on an errand");
    match what {
        What::Log(options) => log::carry(line, &drivers, &assignment, options).await,
        What::Exec(options) => exec::carry(line, &drivers, &assignment, options).await,
        What::PortForward(port) => forward::carry(line, &drivers, &assignment, port.port).await,
    }
}

/// Sends a request; an answer that is none is an error.
async fn send(wire: &Wire, method: Method, path: &str, body: Flow) -> io::Result<Response<Flow>> {
    let request = Request::builder().method(method).uri(path).body(body);
    let request = request.map_err(io::Error::other)?;
    let response = timeout(ANSWER_TIMEOUT, wire.clone().oneshot(request)).await??;
    if response.status().is_success() {
        return Ok(response);
    }
    let code = response.status();
    let kind = match code.is_client_error() {
        true => io::ErrorKind::PermissionDenied,
        false => io::ErrorKind::Other,
    };
    let body = Limited::new(response.into_body(), LINE_BYTES_MAX).collect();
    let body = timeout(ANSWER_TIMEOUT, body).await?.map_err(io::Error::other)?;
    let status: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    Err(io::Error::new(kind, format!("{code}: {message}")))
}

fn refusal(error: &tombolo_driver::Error) -> Refusal {
    Refusal::new(error.reason(), with_causes(error))
}

#[cfg(test)]
mod tests {
    use tombolo_model::errand::Port;

    use super::*;

    #[test]
    fn errands_are_read_however_their_lines_are_cut() {
        let errand = |id: &str| Errand {
            id: id.to_owned(),
            assignment: "u1".to_owned(),
            what: What::PortForward(Port { port: 80 }),
        };
        let line = |id: &str| format!("{}\n", serde_json::to_string(&errand(id)).unwrap());
        let text = format!("\n{}\n{}{{\"id\":1}}\n{}", line("a"), line("b"), line("c"));
        for cut in [1, 7, 50, 1000] {
            let mut pending = Vec::new();
            let pieces = text.as_bytes().chunks(cut);
            let found: Vec<Errand> =
                pieces.flat_map(|piece| errands(&mut pending, piece)).collect();
            assert_eq!(found, [errand("a"), errand("b"), errand("c")], "{cut}");
            assert!(pending.is_empty());
        }
    }
}
