//! What an instance sees of the file system: a root of its own, in which only what it may see is
//! there at all. The programs and libraries of the machine are shown for reading; its working
//! directory and a `/tmp` of its own for writing. Neither our folders nor anybody's home exist in it.
//! Start at [`build`]; it is the way in which bubblewrap and systemd's `RootDirectory=` do it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::Mode;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::pivot_root;
use serde::{Deserialize, Serialize};
use tombolo_model::privilege::SHOWN;

use super::{Manner, said};

/// Where names of hosts are looked up, when `/etc/resolv.conf` is a link, and certificates.
const SHOWN_BELOW: &[&str] = &[
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/var/lib/ca-certificates",
];
/// Devices that give nothing away.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// An empty folder on which it is built. Nothing of it is seen from outside.
    pub(crate) at: PathBuf,
    /// The folder that is its `/tmp`.
    pub(crate) tmp: PathBuf,
    /// More files and folders that it may read, each seen under its own name.
    pub(crate) reads: Vec<PathBuf>,
    /// The folders that it may also write to, as far as its user may.
    pub(crate) writes: Vec<PathBuf>,
    /// Folders that are empty to it although they lie in a folder that it sees.
    pub(crate) hides: Vec<PathBuf>,
}

/// Makes it the root of the calling process, which is alone in its mount namespace.
pub(super) fn build(view: &View, manner: Manner) -> io::Result<()> {
    let before = rustix::process::umask(Mode::from_raw_mode(0o022));
    let built = build_with_umask(view, manner);
    rustix::process::umask(before);
    built
}

fn build_with_umask(view: &View, manner: Manner) -> io::Result<()> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(|errno| said("keep mounts apart", errno.into()))?;
    let root = &view.at;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = c"mode=0755,size=1m,nr_inodes=4096";
    let made = mount("tombolo", root, "tmpfs", flags, options);
    made.map_err(|errno| said("make a root for it", errno.into()))?;
    for path in SHOWN {
        show_system(view, Path::new(path))?;
    }
    for path in SHOWN_BELOW.iter().map(Path::new).filter(|path| path.exists()) {
        show(view, path)?;
    }
    for path in &view.hides {
        let hidden = mount("tombolo", point_of(root, path), "tmpfs", flags, options);
        hidden.map_err(|errno| said(&format!("hide {}", path.display()), errno.into()))?;
    }
    for folder in ["/tmp", "/var/tmp"] {
        let point = make_point(root, Path::new(folder), Kind::Folder)?;
        bind(&view.tmp, &point)?;
    }
    for path in view.reads.iter().chain(&view.writes) {
        show(view, path)?;
    }
    devices(view, manner)?;
    processes(root, manner)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for (point, flags) in to_close(&mounts, root, view, manner) {
        let closed = mount_remount(&point, MountFlags::BIND | flags, "");
        closed.map_err(|errno| said(&format!("close {}", point.display()), errno.into()))?;
    }
    enter(root).map_err(|errno| said("enter its root", errno.into()))
}

/// The old root is put below the new root in the same place, and then detached.
fn enter(root: &Path) -> rustix::io::Result<()> {
    rustix::process::chdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

#[derive(Clone, Copy)]
enum Kind {
    Folder,
    File,
}

/// A folder at the top of the machine; on many machines some of them are links to others.
fn show_system(view: &View, path: &Path) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    match found.is_symlink() {
        true => symlink(fs::read_link(path)?, point_of(&view.at, path)),
        false => show(view, path),
    }
}

/// Shows a file or folder of the machine under its own name, with all that is mounted below it.
fn show(view: &View, path: &Path) -> io::Result<()> {
    if is_shown(view, path) {
        return Ok(());
    }
    let kind = if path.is_dir() { Kind::Folder } else { Kind::File };
    let point = make_point(&view.at, path, kind)?;
    bind(path, &point)
}

fn bind(path: &Path, point: &Path) -> io::Result<()> {
    let bound = mount_bind_recursive(path, point);
    bound.map_err(|errno| said(&format!("show {}", path.display()), errno.into()))
}

/// Whether it lies in something that is shown already, so that it is there under its name.
fn is_shown(view: &View, path: &Path) -> bool {
    let is_there = || point_of(&view.at, path).exists();
    let by_name = |shown: &&str| match path == Path::new(shown) {
        true => is_there(),
        false => path.starts_with(shown),
    };
    let hidden = view.hides.iter().any(|hidden| path.starts_with(hidden));
    path == Path::new("/") || (!hidden && SHOWN.iter().any(by_name))
}

fn point_of(root: &Path, path: &Path) -> PathBuf {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    root.join(names.collect::<PathBuf>())
}

/// The place in the new root at which something of the machine is shown.
fn make_point(root: &Path, path: &Path, kind: Kind) -> io::Result<PathBuf> {
    let point = point_of(root, path);
    let mut folders = DirBuilder::new();
    folders.recursive(true).mode(0o755);
    let made = match kind {
        Kind::Folder => folders.create(&point),
        Kind::File => point
            .parent()
            .map_or(Ok(()), |parent| folders.create(parent))
            .and_then(|()| fs::OpenOptions::new().create(true).append(true).open(&point))
            .map(drop),
    };
    made.map_err(|error| said(&format!("make a place for {}", path.display()), error))?;
    Ok(point)
}

fn devices(view: &View, manner: Manner) -> io::Result<()> {
    let root = &view.at;
    let dev = make_point(root, Path::new("/dev"), Kind::Folder)?;
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        if path.exists() {
            let point = make_point(root, &path, Kind::File)?;
            let bound = mount_bind(&path, &point);
            bound.map_err(|errno| said(&format!("show {}", path.display()), errno.into()))?;
        }
    }
    for (name, target) in DEVICE_LINKS {
        symlink(target, dev.join(name))?;
    }
    let shared = make_point(root, Path::new("/dev/shm"), Kind::Folder)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let made = mount("tombolo", &shared, "tmpfs", flags, c"mode=1777,size=64m");
    made.map_err(|errno| said("make /dev/shm", errno.into()))?;
    terminals(view, manner)
}

/// Terminals of its own, for programs that make some. An instance with a user of its own also sees
/// those of the machine, as any user does, and so finds the name of the terminal that it is given. One
/// that shares our user could write to our terminals by their names.
fn terminals(view: &View, manner: Manner) -> io::Result<()> {
    let folder = Path::new("/dev/pts");
    match manner {
        Manner::OwnUser | Manner::Shared if folder.is_dir() => show(view, folder),
        Manner::OwnUser | Manner::Shared => Ok(()),
        Manner::UserNamespace => {
            let point = make_point(&view.at, folder, Kind::Folder)?;
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            // A kernel that cannot only has fewer terminals.
            if mount("devpts", &point, "devpts", flags, c"newinstance,ptmxmode=0666").is_ok() {
                symlink("pts/ptmx", point_of(&view.at, Path::new("/dev/ptmx")))?;
            }
            Ok(())
        }
    }
}

/// Its own processes and no others, where the kernel lets us; else those of the machine, whose
/// secrets the kernel keeps from other users and namespaces.
fn processes(root: &Path, manner: Manner) -> io::Result<()> {
    let point = make_point(root, Path::new("/proc"), Kind::Folder)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match manner {
        Manner::OwnUser if mount("proc", &point, "proc", flags, c"hidepid=2").is_ok() => Ok(()),
        Manner::OwnUser | Manner::UserNamespace | Manner::Shared => {
            bind(Path::new("/proc"), &point)
        }
    }
}

/// The mounts in the new root that nobody shall write to, with the flags that each is to have: those
/// that it has, and ours. What is read is `/proc/self/mountinfo`.
fn to_close(mounts: &str, root: &Path, view: &View, manner: Manner) -> Vec<(PathBuf, MountFlags)> {
    let mut open: Vec<PathBuf> = view.writes.iter().map(|path| point_of(root, path)).collect();
    open.extend(
        ["/tmp", "/var/tmp", "/dev/shm", "/dev/pts"].map(|path| point_of(root, Path::new(path))),
    );
    let processes = point_of(root, Path::new("/proc"));
    if manner == Manner::OwnUser {
        // The kernel asks for the owner there.
        open.push(processes);
    }
    let devices = point_of(root, Path::new("/dev"));
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (unescape(fields.next()?), fields.next()?);
        let closed = point.starts_with(root) && !open.iter().any(|open| point.starts_with(open));
        // What is bound below something that may be written, such as a program in `/tmp`, is not.
        let reads = view.reads.iter().any(|path| point_of(root, path) == point);
        if !closed && !reads {
            return None;
        }
        let mut flags = kept(options) | MountFlags::RDONLY | MountFlags::NOSUID;
        if !point.starts_with(&devices) {
            flags |= MountFlags::NODEV;
        }
        Some((point, flags))
    };
    mounts.lines().filter_map(mount).collect()
}

/// Flags that a mount has and that a namespace of users may not take away.
fn kept(options: &str) -> MountFlags {
    let flag = |option: &str| match option {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        // The flags about access times stay as they are if none is named.
        _ => MountFlags::empty(),
    };
    options.split(',').map(flag).fold(MountFlags::empty(), |all, flag| all | flag)
}

/// The kernel writes blanks and a few other letters as `\040`.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let value =
            octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(manner: Manner, mounts: &str, expected: Expect) {
        let view = View {
            at: "/i/root".into(),
            tmp: "/i/tmp".into(),
            reads: vec!["/tmp/program".into(), "/home/a b/app".into()],
            writes: vec!["/i/work".into()],
            hides: Vec::new(),
        };
        let closed = to_close(mounts, &view.at, &view, manner);
        let lines = closed.iter().map(|(point, flags)| format!("{} {flags:?}\n", point.display()));
        expected.assert_eq(&lines.collect::<String>());
    }

    const MOUNTS: &str = "20 1 0:1 / / rw,relatime - ext4 d rw\n\
         21 20 0:2 / /i/root rw,nosuid,nodev - tmpfs tombolo rw\n\
         22 21 0:1 /usr /i/root/usr rw,relatime - ext4 d rw\n\
         23 21 0:1 /i/work /i/root/i/work rw,relatime - ext4 d rw\n\
         24 21 0:1 /i/tmp /i/root/tmp rw,relatime - ext4 d rw\n\
         25 24 0:1 /x /i/root/tmp/program rw,relatime - ext4 d rw\n\
         26 21 0:1 /y /i/root/home/a\\040b/app rw,noexec - ext4 d rw\n\
         27 21 0:3 /null /i/root/dev/null rw - devtmpfs d rw\n\
         28 21 0:4 / /i/root/proc rw,nosuid - proc proc rw\n";

    #[test]
    fn what_it_may_write_stays_open_and_all_else_is_closed() {
        check(
            Manner::OwnUser,
            MOUNTS,
            expect![[r#"
                /i/root MountFlags(NODEV | NOSUID | RDONLY)
                /i/root/usr MountFlags(NODEV | NOSUID | RDONLY)
                /i/root/tmp/program MountFlags(NODEV | NOSUID | RDONLY)
                /i/root/home/a b/app MountFlags(NODEV | NOEXEC | NOSUID | RDONLY)
                /i/root/dev/null MountFlags(NOSUID | RDONLY)
            "#]],
        );
        check(
            Manner::UserNamespace,
            MOUNTS,
            expect![[r#"
                /i/root MountFlags(NODEV | NOSUID | RDONLY)
                /i/root/usr MountFlags(NODEV | NOSUID | RDONLY)
                /i/root/tmp/program MountFlags(NODEV | NOSUID | RDONLY)
                /i/root/home/a b/app MountFlags(NODEV | NOEXEC | NOSUID | RDONLY)
                /i/root/dev/null MountFlags(NOSUID | RDONLY)
                /i/root/proc MountFlags(NODEV | NOSUID | RDONLY)
            "#]],
        );
    }
}
