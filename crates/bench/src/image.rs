//! A small image in the Docker engine of this machine, there for as long as a benchmark runs. Made of
//! this machine's own busybox, so that nothing is pulled.
//!
//! The two requests that are needed are written by hand: the engine's client is not for programs
//! beside the driver.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Nobody else has an image of this name.
pub(crate) const IMAGE: &str = "tombolo-bench:1";
/// Where the program is in it.
pub(crate) const BUSYBOX: &str = "/bin/busybox";

#[derive(Debug)]
pub(crate) struct Image {
    socket: PathBuf,
}

/// Why there is nothing to measure with.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

impl Image {
    /// Puts the image into the engine behind `socket`.
    pub(crate) fn make(socket: &Path) -> anyhow::Result<Result<Image, Missing>> {
        if let Err(error) = UnixStream::connect(socket) {
            let reason = format!("no Docker engine answers at {}: {error}", socket.display());
            return Ok(Err(Missing(reason)));
        }
        let Some(busybox) = find("busybox") else {
            return Ok(Err(Missing("this machine has no busybox to make an image of".to_owned())));
        };
        let layer =
            layer(&busybox).with_context(|| format!("cannot pack {}", busybox.display()))?;
        let (name, tag) = IMAGE.split_once(':').context("a name and a tag")?;
        let image = Image { socket: socket.to_owned() };
        let path = format!("/images/create?fromSrc=-&repo={name}&tag={tag}");
        image.ask("POST", &path, &layer)?;
        Ok(Ok(image))
    }

    fn ask(&self, verb: &str, path: &str, body: &[u8]) -> anyhow::Result<()> {
        let mut stream = UnixStream::connect(&self.socket)?;
        // 1.0, so that the answer comes in one piece and ends with the connection.
        let head = format!(
            "{verb} {path} HTTP/1.0\r\nContent-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split(' ').nth(1) {
            Some("200") => Ok(()),
            Some(_) | None => bail!("the Docker engine refuses {verb} {path}: {answer}"),
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // One that is left behind does no harm: the next run replaces it.
        let _ = self.ask("DELETE", &format!("/images/{IMAGE}?force=true"), &[]);
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|path| path.join(program)).find(|path| path.is_file())
}

/// All that is in the image.
fn layer(busybox: &Path) -> io::Result<Vec<u8>> {
    let program = std::fs::read(busybox)?;
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(program.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, BUSYBOX.trim_start_matches('/'), program.as_slice())?;
    archive.into_inner()
}
