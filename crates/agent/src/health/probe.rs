//! One question to one instance: over HTTP, by a connection, or by a command beside it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tombolo_driver::{BoxedConnection, CheckOutcome, Driver, Error, InstanceId};
use tombolo_model::component::{Health as Check, HttpCheck};

/// The first line of an answer is shorter; nobody reads on.
const ANSWER_BYTES_MAX: usize = 64;
const OUTPUT_CHARS_MAX: usize = 200;

/// `Err` says, as a clause, why it is not well.
pub(super) async fn ask(
    driver: &Arc<dyn Driver>,
    id: &InstanceId,
    check: &Check,
    timeout: Duration,
) -> Result<(), String> {
    if let Some(exec) = &check.exec {
        return command(driver, id, &exec.command, timeout).await;
    }
    let asked = async {
        match (&check.http, &check.tcp) {
            (Some(http), _) => http_status(connect(driver, id, http.port).await?, http).await,
            (None, Some(tcp)) => connect(driver, id, tcp.port).await.map(drop),
            (None, None) => Ok(()),
        }
    };
    match tokio::time::timeout(timeout, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {timeout:?}")),
    }
}

async fn command(
    driver: &Arc<dyn Driver>,
    id: &InstanceId,
    command: &[String],
    timeout: Duration,
) -> Result<(), String> {
    let shown = command.first().map(String::as_str).unwrap_or_default();
    match driver.check_exec(id, command, timeout).await {
        Ok(CheckOutcome::Ended { code: 0, .. }) => Ok(()),
        Ok(CheckOutcome::Ended { code, output }) => {
            let output: String = output.trim().chars().take(OUTPUT_CHARS_MAX).collect();
            let said = if output.is_empty() { output } else { format!(": {output}") };
            Err(format!("the check {shown:?} ended with code {code}{said}"))
        }
        Ok(CheckOutcome::TimedOut) => {
            Err(format!("the check {shown:?} took longer than {timeout:?}"))
        }
        Err(error) => Err(format!("the check {shown:?} could not be run: {error}")),
    }
}

async fn connect(
    driver: &Arc<dyn Driver>,
    id: &InstanceId,
    port: u16,
) -> Result<BoxedConnection, String> {
    driver.connect(id, port).await.map_err(|error| match error {
        Error::Refused { port, why } => format!("port {port} takes no connection: {why}"),
        other => other.to_string(),
    })
}

async fn http_status(mut stream: BoxedConnection, check: &HttpCheck) -> Result<(), String> {
    let path = check.path.as_deref().unwrap_or("/");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nUser-Agent: tombolo\r\nConnection: close\r\n\r\n",
        check.port
    );
    let broken = |error: std::io::Error| format!("GET {path} was not answered: {error}");
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
    while answer.len() < ANSWER_BYTES_MAX && !answer.contains(&b'\n') {
        if stream.read_buf(&mut answer).await.map_err(broken)? == 0 {
            break;
        }
    }
    match status(&answer) {
        Some(200..=399) => Ok(()),
        Some(status) => Err(format!("GET {path} was answered with {status}")),
        None => Err(format!("GET {path} was not answered with HTTP")),
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = String::from_utf8_lossy(answer);
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|word| word.starts_with("HTTP/"))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn the_status_is_read_from_the_first_line_alone() {
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\nX: 500\r\n"), Some(204));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        assert_eq!(status(b"SSH-2.0-OpenSSH 200\r\n"), None);
        assert_eq!(status(b""), None);
    }
}
