//! `tombolo cp`: files and folders out of an instance and into one, by a `tar` that runs there. Start at
//! [`run`]. What comes out of an instance is not trusted: [`unpack`] writes nothing outside of its target.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use tokio::sync::mpsc;
use tombolo_model::Assignment;
use tombolo_model::errand::Channel;

use super::{exec, instances};
use crate::{
    args::CpArgs,
    connection::Connection,
    failure::{Exit, Failure},
    output::{harmless, note},
    shell::Shell,
};

/// Pieces of a file that wait for the network or for the disk.
const PIECES_AHEAD: usize = 8;
const PIECE_BYTES: usize = 32 * 1024;
/// Of what `tar` complains of, no more is shown.
const COMPLAINT_BYTES_MAX: usize = 4 * 1024;

/// A path in an instance.
#[derive(Debug, PartialEq, Eq)]
struct Remote {
    instance: String,
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    Out { from: Remote, to: PathBuf },
    In { from: PathBuf, to: Remote },
}

pub(super) async fn run(shell: &mut Shell, args: &CpArgs) -> Result<Exit, Failure> {
    let way = way(&args.from, &args.to)?;
    let connection = shell.connect().await?;
    let instance = match &way {
        Way::Out { from, .. } => &from.instance,
        Way::In { to, .. } => &to.instance,
    };
    let wanted = instances::parse(instance)?;
    let found = instances::find(&connection, &wanted).await?;
    let assignment = instances::one(found, &wanted, "cp")?;
    let there =
        There { connection: &connection, assignment: &assignment, part: args.part.as_deref() };
    let copied = match way {
        Way::Out { from, to } => out(&there, &from.path, &to).await?,
        Way::In { from, to } => into(&there, &from, &to.path).await?,
    };
    let files = if copied.files == 1 { "file" } else { "files" };
    shell.out.line(&format!("copied {} {files}, {} bytes", copied.files, copied.bytes))?;
    if copied.left_out > 0 {
        note(&format!("{} links and special files were left out", copied.left_out));
    }
    Ok(Exit::Ok)
}

/// An instance has a slash before its colon, and a path here has not.
fn way(from: &str, to: &str) -> Result<Way, Failure> {
    let wrong = |why: &str| {
        Err(Failure::usage(why).hint("for example `tombolo cp shop/web:/var/log/web.log .`"))
    };
    match (remote(from), remote(to)) {
        (Some(from), None) => Ok(Way::Out { from, to: to.into() }),
        (None, Some(to)) => Ok(Way::In { from: from.into(), to }),
        (Some(_), Some(_)) => wrong("from one instance to another is two copies"),
        (None, None) => wrong("neither of the two is APP/COMPONENT:PATH"),
    }
}

fn remote(word: &str) -> Option<Remote> {
    let (instance, path) = word.split_once(':')?;
    let named = instance.contains('/') && !instance.starts_with(['/', '.']);
    (named && !path.is_empty())
        .then(|| Remote { instance: instance.to_owned(), path: path.to_owned() })
}

/// The folder and the name in it. `/` and `..` have no name of their own.
fn split(path: &str) -> Result<(String, String), Failure> {
    let path = path.trim_end_matches('/');
    let (folder, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", path),
    };
    match name {
        "" | "." | ".." => Err(Failure::usage(format!("{path:?} has no name of its own"))
            .hint("name a file, or a folder by its own name")),
        name => Ok((folder.to_owned(), name.to_owned())),
    }
}

#[derive(Clone, Copy)]
struct There<'a> {
    connection: &'a Connection,
    assignment: &'a Assignment,
    part: Option<&'a str>,
}

impl There<'_> {
    /// Runs a command there. What it complained of is the failure.
    async fn command(
        &self,
        command: &[&str],
        input: Option<mpsc::Receiver<Vec<u8>>>,
        output: impl AsyncFnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Ran, Failure> {
        let mut output = output;
        let mut complaint = Vec::new();
        let opening =
            exec::Opening { command, stdin: input.is_some(), terminal: None, part: self.part };
        let (sender, receiver) = exec::open(self.connection, self.assignment, &opening).await?;
        let ended = exec::converse(sender, receiver, input, None, async |channel, bytes: &[u8]| {
            match channel {
                Channel::Output => output(bytes).await,
                _ => {
                    let room = COMPLAINT_BYTES_MAX.saturating_sub(complaint.len());
                    complaint.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    Ok(())
                }
            }
        })
        .await?;
        let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
        Ok(Ran { code: ended.code, complaint })
    }

    fn failed(&self, ran: &Ran) -> Failure {
        let instance = instances::path(self.assignment);
        if ran.code == exec::CODE_NOT_FOUND {
            return Failure::failed(format!("there is no command \"tar\" in {instance}"))
                .hint("copying needs it there; `tombolo exec` with `cat` may do for one file");
        }
        // The first line has the cause, those after it only that tar has failed.
        let cause = ran.complaint.lines().next().unwrap_or_default();
        Failure::failed(format!("tar in {instance} failed: {}", harmless(cause)))
    }
}

struct Ran {
    code: i32,
    complaint: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Copied {
    files: u64,
    bytes: u64,
    left_out: u64,
}

async fn out(there: &There<'_>, from: &str, to: &Path) -> Result<Copied, Failure> {
    let (folder, name) = split(from)?;
    let target = match to.is_dir() {
        true => to.join(&name),
        false => to.to_owned(),
    };
    let (pieces, reader) = channel();
    let unpacking = tokio::task::spawn_blocking({
        let name = name.clone();
        move || unpack(reader, &name, &target)
    });
    let command = ["tar", "-cf", "-", "-C", &folder, "--", &name];
    let ran = there
        .command(&command, None, async |bytes: &[u8]| {
            // Whoever unpacks has given up, and says why below.
            let _ = pieces.send(bytes.to_vec()).await;
            Ok(())
        })
        .await;
    drop(pieces);
    let unpacked = unpacking.await.map_err(|error| Failure::failed(error.to_string()))?;
    let ran = ran?;
    if ran.code != 0 {
        return Err(there.failed(&ran));
    }
    unpacked
}

async fn into(there: &There<'_>, from: &Path, to: &str) -> Result<Copied, Failure> {
    let metadata = fs::metadata(from).map_err(|error| Failure::file(from, &error))?;
    let own = from.canonicalize().map_err(|error| Failure::file(from, &error))?;
    let own = own.file_name().and_then(|name| name.to_str()).unwrap_or("root").to_owned();
    let nothing = async |_: &[u8]| Ok(());
    let is_folder = to.ends_with('/')
        || there.command(&["test", "-d", to], None, nothing).await.is_ok_and(|ran| ran.code == 0);
    let (folder, name) = match is_folder {
        true => (to.to_owned(), own),
        false => split(to)?,
    };
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let packing = tokio::task::spawn_blocking({
        let from = from.to_owned();
        move || pack(&from, &metadata, &name, Pieces { sender, piece: Vec::new() })
    });
    let command = ["tar", "-xmf", "-", "-C", &folder];
    let ran = there.command(&command, Some(receiver), nothing).await?;
    let packed = packing.await.map_err(|error| Failure::failed(error.to_string()))?;
    match ran.code {
        0 => packed,
        _ => Err(there.failed(&ran)),
    }
}

/// Bytes that arrive are read by a thread that may block.
fn channel() -> (mpsc::Sender<Vec<u8>>, Arriving) {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    (sender, Arriving { receiver, piece: Vec::new(), read: 0 })
}

struct Arriving {
    receiver: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    read: usize,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            let Some(piece) = self.receiver.blocking_recv() else { return Ok(0) };
            (self.piece, self.read) = (piece, 0);
        }
        let count = buffer.len().min(self.piece.len() - self.read);
        buffer[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

/// Bytes that leave, in pieces of some size.
struct Pieces {
    sender: mpsc::Sender<Vec<u8>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender.blocking_send(piece).map_err(gone)
    }
}

fn pack(from: &Path, metadata: &fs::Metadata, name: &str, to: Pieces) -> Result<Copied, Failure> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    let mut copied = Copied::default();
    let failed = |path: &Path, error: &io::Error| Failure::file(path, error);
    let mut waiting = vec![(from.to_owned(), PathBuf::from(name), metadata.clone())];
    while let Some((path, name, metadata)) = waiting.pop() {
        if metadata.is_dir() {
            archive.append_dir(&name, &path).map_err(|error| failed(&path, &error))?;
            for entry in fs::read_dir(&path).map_err(|error| failed(&path, &error))? {
                let entry = entry.map_err(|error| failed(&path, &error))?;
                let metadata = entry.metadata().map_err(|error| failed(&entry.path(), &error))?;
                waiting.push((entry.path(), name.join(entry.file_name()), metadata));
            }
        } else if metadata.is_file() {
            archive.append_path_with_name(&path, &name).map_err(|error| failed(&path, &error))?;
            copied.files += 1;
            copied.bytes += metadata.len();
        } else {
            copied.left_out += 1;
        }
    }
    let done = archive.into_inner().and_then(|mut pieces| pieces.flush());
    done.map_err(|error| failed(from, &error))?;
    Ok(copied)
}

/// Writes `name` of the archive, and all below it, to `target`.
fn unpack(from: impl Read, name: &str, target: &Path) -> Result<Copied, Failure> {
    let mut archive = tar::Archive::new(from);
    let mut copied = Copied::default();
    let broken = |error: io::Error| Failure::failed(format!("what tar sent is broken: {error}"));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let inner = within(&path, name)?;
        let to = match inner.as_os_str().is_empty() {
            true => target.to_owned(),
            false => target.join(&inner),
        };
        refuse_links(target, &inner)?;
        let failed = |error: io::Error| Failure::file(&to, &error);
        match entry.header().entry_type() {
            tar::EntryType::Directory => fs::create_dir_all(&to).map_err(failed)?,
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                if !inner.as_os_str().is_empty()
                    && let Some(folder) = to.parent()
                {
                    fs::create_dir_all(folder).map_err(failed)?;
                }
                let mut file = fs::File::create(&to).map_err(failed)?;
                copied.bytes += io::copy(&mut entry, &mut file).map_err(failed)?;
                copied.files += 1;
            }
            _ => copied.left_out += 1,
        }
    }
    Ok(copied)
}

/// The path below `name`. One that leads elsewhere is no mistake, and everything ends there.
fn within(path: &Path, name: &str) -> Result<PathBuf, Failure> {
    let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
    let starts = parts.next() == Some(Component::Normal(name.as_ref()));
    let rest: Option<PathBuf> =
        parts.map(|part| matches!(part, Component::Normal(_)).then_some(part)).collect();
    rest.filter(|_| starts).ok_or_else(|| {
        let path = harmless(&path.display().to_string());
        Failure::failed(format!(
            "refused: the instance sent {path:?}, which is not within {name:?}"
        ))
    })
}

/// A link in the target folder could lead anywhere.
fn refuse_links(target: &Path, inner: &Path) -> Result<(), Failure> {
    let mut at = target.to_owned();
    for part in inner.components() {
        at.push(part);
        if fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink()) {
            return Err(Failure::failed(format!("refused: {} is a link", at.display()))
                .hint("copy to an empty folder, or remove the link"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_two_is_in_an_instance() {
        let remote = || Remote { instance: "shop/web/1".into(), path: "/etc/x".into() };
        assert_eq!(
            way("shop/web/1:/etc/x", ".").ok(),
            Some(Way::Out { from: remote(), to: ".".into() })
        );
        assert_eq!(
            way("./a:b", "shop/web/1:/etc/x").ok(),
            Some(Way::In { from: "./a:b".into(), to: remote() })
        );
        assert!(way("a", "b").is_err() && way("a/b:/c", "d/e:/f").is_err());
        assert!(way("/a/b:c", "d").is_err(), "a path here may have a colon");
    }

    #[test]
    fn a_remote_path_is_a_folder_and_a_name() {
        let check = |path: &str, folder: &str, name: &str| {
            assert_eq!(split(path).ok(), Some((folder.to_owned(), name.to_owned())), "{path}");
        };
        check("/etc/hosts", "/etc", "hosts");
        check("/etc/", "/", "etc");
        check("data", ".", "data");
        assert!(split("/").is_err() && split("a/..").is_err() && split(".").is_err());
    }

    /// An archive of these files; a path that the library refuses to write is written all the same.
    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_old();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(match text.starts_with("-> ") {
                true => tar::EntryType::Symlink,
                false => tar::EntryType::Regular,
            });
            let content = if text.starts_with("-> ") { "" } else { text };
            if let Some(link) = text.strip_prefix("-> ") {
                header.set_link_name(link).expect("short");
            }
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).expect("in memory");
        }
        archive.into_inner().expect("in memory")
    }

    #[test]
    fn a_folder_comes_out_under_the_name_that_was_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("here");
        let bytes = archive(&[("web/a", "1"), ("./web/b/c", "22"), ("web/link", "-> /etc/passwd")]);
        let copied = unpack(bytes.as_slice(), "web", &target).expect("all is within");
        assert_eq!(copied, Copied { files: 2, bytes: 3, left_out: 1 });
        assert_eq!(fs::read_to_string(target.join("b/c")).expect("there"), "22");
        assert!(!target.join("link").exists());
    }

    #[test]
    fn nothing_is_written_outside_of_the_target() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("deep/here");
        fs::create_dir_all(&target).expect("made");
        for path in
            ["../escaped", "/escaped", "web/../../escaped", "other/file", "web/x/../../../y"]
        {
            let bytes = archive(&[(path, "evil")]);
            let failure = unpack(bytes.as_slice(), "web", &target).expect_err(path);
            assert!(failure.message.starts_with("refused"), "{path}: {}", failure.message);
        }
        std::os::unix::fs::symlink(folder.path(), target.join("out")).expect("a link");
        let bytes = archive(&[("web/out/escaped", "evil")]);
        assert!(unpack(bytes.as_slice(), "web", &target).is_err());
        let left: Vec<_> = fs::read_dir(folder.path()).expect("there").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_is_packed_can_be_unpacked() {
        let folder = tempfile::tempdir().expect("a folder");
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("a")).expect("made");
        fs::write(from.join("a/b"), vec![7; 100_000]).expect("written");
        let (sender, reader) = channel();
        let metadata = fs::metadata(&from).expect("there");
        let packing = std::thread::spawn(move || {
            pack(&from, &metadata, "web", Pieces { sender, piece: Vec::new() })
        });
        let target = folder.path().join("to");
        let copied = unpack(reader, "web", &target).expect("unpacked");
        assert_eq!(packing.join().expect("it ends").ok(), Some(copied));
        assert_eq!(fs::read(target.join("a/b")).expect("there").len(), 100_000);
    }
}
