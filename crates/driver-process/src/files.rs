//! Putting the files of a component below its working directory, as if that were `/`. The agent may
//! be root and the instance may have written there before, so no link is ever followed: it could
//! lead anywhere.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, fchown, lchown};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use tombolo_driver::{Error, FilePlaced, Result};

use crate::folder::Folder;

/// User and group.
type User = Option<(u32, u32)>;

pub(crate) fn place(work: &Path, files: &[FilePlaced], user: User) -> Result<()> {
    for file in files {
        let names = names(&file.path)?;
        let placed = place_one(work, &names, file.content.expose(), user);
        placed.map_err(|error| Error::io(format!("put {:?} in place", file.path), error))?;
    }
    Ok(())
}

/// Lets the user of the instance have its working directory with all that an earlier user left in it,
/// a folder for temporary files, and write to its own output again by the name `/dev/stdout`.
pub(crate) fn give(folder: &Folder, user: User) -> io::Result<()> {
    let Some((user, group)) = user else { return Ok(()) };
    let work = folder.work();
    let before = std::fs::symlink_metadata(&work)?;
    if (before.uid(), before.gid()) != (user, group) {
        give_below(&work, (user, group), before.dev())?;
    }
    for path in [work, folder.tmp(), folder.out(), folder.err()] {
        lchown(path, Some(user), Some(group))?;
    }
    Ok(())
}

/// Everything below a folder, on the same disk. No link is followed, and what has a second name is
/// left alone: that name may be somebody else's. Nothing of the instance runs while this is done.
fn give_below(folder: &Path, (user, group): (u32, u32), disk: u64) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let found = std::fs::symlink_metadata(&path)?;
            if found.dev() != disk || (!found.is_dir() && found.nlink() > 1) {
                continue;
            }
            lchown(&path, Some(user), Some(group))?;
            if found.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// The first folder on the way to `path` through which the user may not pass.
pub(crate) fn closed_on_the_way(path: &Path, (user, group): (u32, u32)) -> Option<PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    let is_closed = |folder: &&&Path| {
        folder.metadata().is_ok_and(|found| {
            let bit = match found.uid() == user {
                true => 0o100,
                false if found.gid() == group => 0o010,
                false => 0o001,
            };
            user != 0 && found.mode() & bit == 0
        })
    };
    above.iter().find(is_closed).map(|folder| folder.to_path_buf())
}

/// The parts of a path that stays where it is put.
fn names(path: &str) -> Result<Vec<&str>> {
    let mut names = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::RootDir | Component::CurDir => (),
            Component::Normal(name) => names.extend(name.to_str()),
            Component::ParentDir | Component::Prefix(_) => names.clear(),
        }
    }
    let climbs = Path::new(path).components().any(|part| part == Component::ParentDir);
    if names.is_empty() || climbs || path.ends_with('/') || path.contains('\0') {
        return Err(Error::Invalid { what: format!("{path:?} is not the path of a file") });
    }
    Ok(names)
}

fn place_one(work: &Path, names: &[&str], content: &[u8], user: User) -> io::Result<()> {
    let Some((name, parents)) = names.split_last() else { return Ok(()) };
    let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder: OwnedFd = rustix::fs::open(work, folder_flags, Mode::empty())?;
    for parent in parents {
        match mkdirat(&folder, *parent, Mode::from_raw_mode(0o700)) {
            Ok(()) => {
                folder = openat(&folder, *parent, folder_flags, Mode::empty())?;
                give_open(&folder, user)?;
            }
            Err(rustix::io::Errno::EXIST) => {
                folder = openat(&folder, *parent, folder_flags, Mode::empty())?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    // The old file is removed and never written to: it may be a link, or open somewhere.
    match unlinkat(&folder, *name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => (),
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&folder, *name, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    give_open(&file, user)
}

fn give_open(file: impl AsFd, user: User) -> io::Result<()> {
    match user {
        Some((user, group)) => fchown(file, Some(user), Some(group)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn file(path: &str, content: &str) -> FilePlaced {
        FilePlaced { path: path.to_owned(), content: content.into() }
    }

    #[test]
    fn a_file_replaces_the_old_one_and_only_its_owner_reads_it() {
        let work = tempfile::tempdir().unwrap();
        for content in ["longer than the next", "short"] {
            place(work.path(), &[file("/etc/app/conf", content)], None).unwrap();
            let path = work.path().join("etc/app/conf");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn no_link_leads_out_of_the_working_directory() {
        let work = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("shadow");
        std::fs::write(&victim, "before").unwrap();
        symlink(outside.path(), work.path().join("etc")).unwrap();
        symlink(&victim, work.path().join("conf")).unwrap();
        place(work.path(), &[file("/etc/shadow", "after")], None).unwrap_err();
        place(work.path(), &[file("/conf", "after")], None).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "before");
    }

    #[test]
    fn a_path_that_climbs_or_names_no_file_is_refused() {
        for path in ["", "/", "/a/", "/../a", "/a/../../b", "/a/..", "/a\0b"] {
            assert_eq!(names(path).unwrap_err().reason(), "Invalid", "{path:?}");
        }
    }
}
