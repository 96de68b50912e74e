//! As much of HTTP/1.1 as the parts need: short requests and short answers over connections that stay
//! open. Called by every part; start at [`serve`] and [`Call`].

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Nobody here sends more.
const BODY_BYTES_MAX: usize = 64 * 1024;
const HEAD_LINE_BYTES_MAX: u64 = 8 * 1024;
const HEAD_LINES_MAX: usize = 64;
/// More callers than this are turned away.
const CONNECTIONS_MAX: usize = 64;
/// A connection that is quiet for so long is closed.
const QUIET_MAX: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
    /// The caller has no more to ask.
    pub(super) last: bool,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(code: u16, text: &str) -> Answer {
        Answer { code, kind: "text/plain; charset=utf-8", body: text.as_bytes().to_vec() }
    }

    pub(super) fn json(value: &serde_json::Value) -> Answer {
        Answer { code: 200, kind: "application/json", body: value.to_string().into_bytes() }
    }
}

/// Answers callers for ever, each in a thread of its own. Returns when it listens.
pub(super) fn serve(
    listen: &str,
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> Result<(), String> {
    let listener =
        TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let answer = Arc::new(answer);
    let open = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (answer, open) = (Arc::clone(&answer), Arc::clone(&open));
            std::thread::spawn(move || {
                // A caller that has gone, or does not speak HTTP, is nobody's trouble.
                let _ = attend(&stream, &*answer);
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(())
}

fn attend(stream: &TcpStream, answer: &impl Fn(&Request) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(QUIET_MAX))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let Answer { code, kind, body } = answer(&request);
        let head = format!(
            "HTTP/1.1 {code} {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            if code < 400 { "OK" } else { "No" },
            body.len()
        );
        let mut writer = stream;
        writer.write_all(&[head.into_bytes(), body].concat())?;
        if request.last {
            break;
        }
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let first = read_line(reader)?;
    let mut words = first.split_ascii_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let (method, path) = (method.to_owned(), path.to_owned());
    let last = words.next() == Some("HTTP/1.0");
    let body = read_rest(reader)?;
    Ok(Some(Request { method, path, body, last }))
}

/// The headers, of which only the length counts, and the body.
fn read_rest(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut length = 0;
    for _ in 0..HEAD_LINES_MAX {
        let line = read_line(reader)?;
        if line.is_empty() {
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            return Ok(body);
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
        if length > BODY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.by_ref().take(HEAD_LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Call {
    reader: BufReader<TcpStream>,
}

impl Call {
    pub(super) fn open(address: &str) -> io::Result<Call> {
        let addresses = std::net::ToSocketAddrs::to_socket_addrs(address)?;
        let mut problem = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                    stream.set_nodelay(true)?;
                    return Ok(Call { reader: BufReader::new(stream) });
                }
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// The body of the answer, if that is a good one.
    pub(super) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: peer\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.reader.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        let status = read_line(&mut self.reader)?;
        let answer = read_rest(&mut self.reader)?;
        match status.split_ascii_whitespace().nth(1) {
            Some(code) if code.starts_with('2') => Ok(answer),
            Some(code) => Err(io::Error::other(format!("it answered {code}"))),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Option<Request>> {
        read_request(&mut text.as_bytes())
    }

    #[test]
    fn a_request_is_read_and_what_is_none_is_refused() {
        let request = read("POST /seen HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi").unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/seen"));
        assert_eq!(request.body, b"hi");
        assert_eq!(read("").unwrap(), None);
        for wrong in [
            "GET / HTTP/1.1\r\ncontent-length: 999999999\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhi",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let endless = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(100));
        assert!(read(&endless).is_err());
    }
}
