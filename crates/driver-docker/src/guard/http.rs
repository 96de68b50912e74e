//! As much of HTTP/1.1 as the guard needs: one request on one connection to a socket of this machine.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A busy engine is slow; an engine that hangs is asked anew.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A list of all containers that one instance can have takes far less.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    body: Vec<u8>,
}

impl Answer {
    /// The body of an answer that says yes.
    pub(crate) fn ok(self) -> io::Result<Vec<u8>> {
        match self.status {
            200..300 => Ok(self.body),
            other => Err(io::Error::other(format!("the engine answers {other}"))),
        }
    }
}

pub(crate) fn ask(socket: &Path, method: &str, path: &str) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    read(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// With every character that could mean something in an address as its number.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

/// A whole answer, after which the engine has closed the connection. Nothing if it is cut short.
fn read(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let field = |name: &str| {
        let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    };
    let body = match (field("transfer-encoding"), field("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => joined(body)?,
        (_, Some(length)) => body.get(..length.parse().ok()?)?.to_vec(),
        (_, None) => body.to_vec(),
    };
    Some(Answer { status, body })
}

/// The chunks of a body as one.
fn joined(mut chunked: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunked.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&chunked[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        let rest = chunked.get(end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        chunked = rest.get(size.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(answer: &str) -> Option<(u16, String)> {
        let answer = read(answer.as_bytes())?;
        Some((answer.status, String::from_utf8(answer.body).unwrap()))
    }

    #[test]
    fn an_answer_is_read_however_its_body_is_sent_and_never_by_halves() {
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
        assert_eq!(body(plain), Some((200, "[]".to_owned())));
        let open = "HTTP/1.1 404 Not Found\r\nServer: x\r\n\r\n{}";
        assert_eq!(body(open), Some((404, "{}".to_owned())));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n\
                       3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n";
        assert_eq!(body(chunked), Some((200, "[1,2]".to_owned())));
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, String::new())));
        for whole in [plain, chunked] {
            let start = whole.find("\r\n\r\n").unwrap();
            for cut in 0..whole.len() - 6 {
                let read = body(&whole[..cut]);
                assert!(read.is_none(), "{cut} of {start}: {read:?}");
            }
        }
        let huge = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        assert_eq!(body(huge), None);
    }

    #[test]
    fn nothing_in_a_label_leaves_its_place_in_the_address() {
        assert_eq!(escaped("a/b c&d=é"), "a%2Fb%20c%26d%3D%C3%A9");
    }
}
