//! The one way to the machine's files: below a folder, bounded, and without ever waiting. Called
//! by every other module; start reading at [`Root`].
//!
//! The folder is `/` on a real machine, the place where a container has the host's files mounted,
//! or what a test has written. Below any other folder than `/`, a link that leads to `/etc/x`
//! leads to that folder's `/etc/x`.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// `/proc/cpuinfo` of a server with 256 threads has 400 KB; more than this is no file of ours.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;
/// A folder of `/sys`, `/dev` or `/proc` with more than this is cut off.
const ENTRIES_MAX: usize = 16384;
/// How often a path is looked up again while something below the root is being renamed.
const TRIES_MAX: usize = 4;

/// What was seen of a thing: it is not there, it may not be looked at, or this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    Absent,
    Unreadable,
    Present(T),
}

impl<T> Seen<T> {
    pub fn present(self) -> Option<T> {
        match self {
            Seen::Present(value) => Some(value),
            Seen::Absent | Seen::Unreadable => None,
        }
    }

    pub fn as_ref(&self) -> Seen<&T> {
        match self {
            Seen::Present(value) => Seen::Present(value),
            Seen::Absent => Seen::Absent,
            Seen::Unreadable => Seen::Unreadable,
        }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Seen::Present(value) => Seen::Present(change(value)),
            Seen::Absent => Seen::Absent,
            Seen::Unreadable => Seen::Unreadable,
        }
    }
}

/// What is at a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// The twelve bits of permission.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// Seconds since 1970 of the last change to its content.
    pub modified: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Socket,
    Device,
    Other,
}

/// Room on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub bytes_total: u64,
    /// What someone without privileges may still use.
    pub bytes_free: u64,
}

/// A folder that stands for `/`.
#[derive(Clone, Debug)]
pub struct Root {
    /// Nothing for the real `/`.
    folder: Option<Arc<OwnedFd>>,
}

impl Root {
    /// The machine that we run on.
    pub fn real() -> Root {
        Root { folder: None }
    }

    /// A machine whose files are below `folder`.
    pub fn at(folder: &Path) -> std::io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Root { folder: Some(Arc::new(folder)) })
    }

    pub fn is_real(&self) -> bool {
        self.folder.is_none()
    }

    /// The first [`TEXT_BYTES_MAX`] bytes of a file.
    pub fn bytes(&self, path: &str) -> Seen<Vec<u8>> {
        self.bytes_up_to(path, TEXT_BYTES_MAX)
    }

    pub fn bytes_up_to(&self, path: &str, bytes_max: u64) -> Seen<Vec<u8>> {
        // Without NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        seen(self.open(path, flags).and_then(|fd| {
            if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
                return Err(Errno::ACCESS);
            }
            let mut bytes = Vec::new();
            File::from(fd)
                .take(bytes_max)
                .read_to_end(&mut bytes)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            Ok(bytes)
        }))
    }

    /// A file as text; what is not UTF-8 in it is replaced.
    pub fn read(&self, path: &str) -> Seen<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A short value such as those of `/sys`: without the blanks and NULs around it, and nothing if
    /// it is empty or cannot be had.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = self.read(path).present()?;
        let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub fn list(&self, path: &str) -> Vec<String> {
        self.folder(path).present().unwrap_or_default()
    }

    /// The names in a folder, sorted.
    pub fn folder(&self, path: &str) -> Seen<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        seen(self.open(path, flags).and_then(|fd| {
            let mut names: Vec<String> = Dir::new(fd)?
                .filter_map(Result::ok)
                .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
                .filter(|name| name != "." && name != "..")
                .take(ENTRIES_MAX)
                .collect();
            names.sort();
            Ok(names)
        }))
    }

    /// What is at a path, without opening it: a device is not disturbed.
    pub fn entry(&self, path: &str) -> Seen<Entry> {
        seen(self.open(path, OFlags::PATH | OFlags::CLOEXEC).and_then(|fd| {
            let found = rustix::fs::fstat(&fd)?;
            let kind = match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Folder,
                FileType::Socket => EntryKind::Socket,
                FileType::CharacterDevice | FileType::BlockDevice => EntryKind::Device,
                FileType::Symlink | FileType::Fifo | FileType::Unknown => EntryKind::Other,
            };
            Ok(Entry {
                kind,
                mode: found.st_mode & 0o7777,
                user: found.st_uid,
                group: found.st_gid,
                modified: found.st_mtime,
            })
        }))
    }

    pub fn exists(&self, path: &str) -> bool {
        self.entry(path) != Seen::Absent
    }

    /// Where a link leads, as it is written.
    pub fn link(&self, path: &str) -> Option<String> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.open(path, flags).ok()?;
        let target = rustix::fs::readlinkat(fd, "", Vec::new()).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// Room on the file system that holds a path.
    pub fn space(&self, path: &str) -> Option<Space> {
        let fd = self.open(path, OFlags::PATH | OFlags::CLOEXEC).ok()?;
        let found = rustix::fs::fstatvfs(fd).ok()?;
        Some(Space {
            bytes_total: found.f_blocks.saturating_mul(found.f_frsize),
            bytes_free: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let Some(folder) = &self.folder else {
            return rustix::fs::open(path, flags, Mode::empty());
        };
        let mut tries = 1;
        loop {
            let below = if path.is_empty() { "/" } else { path };
            let resolve = ResolveFlags::IN_ROOT;
            match rustix::fs::openat2(folder.as_ref(), below, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < TRIES_MAX => tries += 1,
                opened => return opened,
            }
        }
    }
}

fn seen<T>(result: Result<T, Errno>) -> Seen<T> {
    match result {
        Ok(value) => Seen::Present(value),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO) => Seen::Absent,
        Err(_) => Seen::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_never_leads_out_of_the_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        symlink("/etc/hostname", folder.path().join("etc/absolute")).unwrap();
        symlink("../../../../../../../etc/passwd", folder.path().join("etc/climbing")).unwrap();
        let root = Root::at(folder.path()).unwrap();
        assert_eq!(root.read("/etc/absolute"), Seen::Absent);
        assert_eq!(root.read("/etc/climbing"), Seen::Absent);
        std::fs::write(folder.path().join("etc/hostname"), "fixture\n").unwrap();
        assert_eq!(root.text("/etc/absolute").as_deref(), Some("fixture"));
        assert_eq!(root.link("/etc/absolute").as_deref(), Some("/etc/hostname"));
    }

    #[test]
    fn a_pipe_and_a_folder_are_not_read_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let root = Root::at(folder.path()).unwrap();
        assert_eq!(root.read("/pipe"), Seen::Unreadable);
        assert_eq!(root.read("/"), Seen::Unreadable);
        assert_eq!(root.read("/none"), Seen::Absent);
        assert_eq!(root.list("/none"), Vec::<String>::new());
    }

    #[test]
    fn no_more_is_read_than_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("large"), vec![b'x'; 3 * 1024 * 1024]).unwrap();
        let root = Root::at(folder.path()).unwrap();
        assert_eq!(root.bytes("/large").present().map(|bytes| bytes.len()), Some(1024 * 1024));
        assert_eq!(root.bytes_up_to("/large", 20).present().map(|bytes| bytes.len()), Some(20));
    }

    #[test]
    fn permissions_are_seen_without_opening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4640)).unwrap();
        let entry = Root::at(folder.path()).unwrap().entry("/secret").present().unwrap();
        assert_eq!((entry.kind, entry.mode), (EntryKind::File, 0o4640));
    }
}
