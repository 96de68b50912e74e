//! Files that hold secrets: closed to others, written whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::Error;

const FOLDER_MODE: u32 = 0o700;
const SECRET_MODE: u32 = 0o600;
/// What others may not have.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;
/// No file of ours comes near it.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Held while files are made, so that two starts at once do not make two authorities.
const LOCK: &str = ".identity.lock";

/// A folder that is locked for us until it is dropped.
pub(super) struct Folder {
    path: PathBuf,
    warnings: Vec<String>,
    _lock: File,
}

/// What to do about a folder that others may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Nothing,
    Close,
    /// It may be shared on purpose, such as `/tmp`: closing it would hurt others.
    Warn,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Folder, Error> {
        let fail = |doing, source| Error::File { doing, path: path.into(), source };
        let existed = path.is_dir();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(path)
            .map_err(|source| fail("make the folder", source))?;
        let warning = match existed {
            true => close_folder(path).map_err(|source| fail("look into", source))?,
            false => None,
        };
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(SECRET_MODE)
            .open(&lock_path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|source| Error::File { doing: "lock", path: lock_path, source })?;
        Ok(Folder { path: path.into(), warnings: warning.into_iter().collect(), _lock: lock })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// The text of a file, or `None` if there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::File { doing: "read", path, source }),
        };
        let mut text = String::new();
        match file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text) {
            Ok(_) if text.len() as u64 > FILE_BYTES_MAX => Err(Error::Malformed {
                path,
                problem: format!("it is larger than {FILE_BYTES_MAX} bytes"),
            }),
            Ok(_) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(Error::Malformed { path, problem: "it is not text".into() })
            }
            Err(source) => Err(Error::File { doing: "read", path, source }),
        }
    }

    /// The same for a secret. A file that others can read is closed first, and that is told.
    pub(super) fn read_secret(&mut self, name: &str) -> Result<Option<String>, Error> {
        let path = self.path(name);
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.permissions().mode(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::File { doing: "read", path, source }),
        };
        if mode & OTHERS != 0 {
            fs::set_permissions(&path, Permissions::from_mode(SECRET_MODE))
                .map_err(|source| Error::File { doing: "close to others", path, source })?;
            self.warn(format!(
                "{} was open to other users (mode {:o}) and is closed now; if others use this \
                 machine, they may have read it",
                self.path(name).display(),
                mode & 0o777
            ));
        }
        self.read(name)
    }

    /// Writes a file that does not exist. The lock is held and its absence was seen, so that this
    /// never goes over a key.
    pub(super) fn write_new(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        if fs::symlink_metadata(&path).is_ok() {
            let source = std::io::Error::from(ErrorKind::AlreadyExists);
            return Err(Error::File { doing: "write", path, source });
        }
        self.replace(name, text)
    }

    pub(super) fn replace(&self, name: &str, text: &str) -> Result<(), Error> {
        write_secret(&self.path, name, text).map_err(|source| Error::File {
            doing: "write",
            path: self.path(name),
            source,
        })
    }
}

/// Writes a file whole, closed to others: a reader finds the old text or the new text, also after a power
/// cut. Returns when it is on disk.
pub fn write_secret(folder: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let draft = folder.join(format!(".{name}.draft"));
    // Left by a write that was cut short; it may be a link or open to others.
    match fs::remove_file(&draft) {
        Ok(()) => (),
        Err(error) if error.kind() == ErrorKind::NotFound => (),
        Err(error) => return Err(error),
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(SECRET_MODE).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(name))?;
    File::open(folder)?.sync_all()
}

fn close_folder(path: &Path) -> std::io::Result<Option<String>> {
    let mode = fs::metadata(path)?.permissions().mode();
    let ours = path.join(super::AUTHORITY_KEY).exists();
    let empty = fs::read_dir(path)?.next().is_none();
    match repair(mode, ours || empty) {
        Repair::Nothing => Ok(None),
        Repair::Close => {
            fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))?;
            Ok(Some(format!(
                "the folder {} was open to other users and is closed now",
                path.display()
            )))
        }
        Repair::Warn => Ok(Some(format!(
            "the folder {} holds other things and is open to other users; choose a folder of its \
             own with --data",
            path.display()
        ))),
    }
}

fn repair(mode: u32, ours: bool) -> Repair {
    if mode & OTHERS == 0 {
        return Repair::Nothing;
    }
    if ours && mode & STICKY == 0 { Repair::Close } else { Repair::Warn }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_closed_only_when_it_is_ours() {
        assert_eq!(repair(0o40700, false), Repair::Nothing);
        assert_eq!(repair(0o40755, true), Repair::Close);
        assert_eq!(repair(0o40755, false), Repair::Warn);
        assert_eq!(repair(0o41777, true), Repair::Warn);
    }

    #[test]
    fn an_existing_key_is_never_written_over() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::open(data.path()).unwrap();
        folder.write_new("ca.key", "first").unwrap();
        let error = folder.write_new("ca.key", "second").unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert_eq!(folder.read("ca.key").unwrap().unwrap(), "first");
    }

    #[test]
    fn a_draft_from_a_crash_is_not_in_the_way() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::open(data.path()).unwrap();
        fs::write(data.path().join(".ca.key.draft"), "half").unwrap();
        folder.write_new("ca.key", "whole").unwrap();
        assert_eq!(folder.read("ca.key").unwrap().unwrap(), "whole");
        assert!(!data.path().join(".ca.key.draft").exists());
    }
}
