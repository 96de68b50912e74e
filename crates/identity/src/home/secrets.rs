//! Keys in files: the one that the Secrets of the store are sealed with, and those of backups. `tombolo up`
//! and the shell call this.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tombolo_seal::Key;

use super::files::Folder;
use crate::Error;

/// Lies beside `ca.key`, and not in the store's file.
const SECRETS_KEY: &str = "secrets.key";
/// A key and the end of its line are 45 bytes.
const KEY_FILE_BYTES_MAX: u64 = 1024;

/// The key of a data folder, if it has one.
pub fn find(folder: &Path) -> Result<Option<Key>, Error> {
    if !folder.join(SECRETS_KEY).exists() {
        return Ok(None);
    }
    let mut opened = Folder::open(folder)?;
    let text = opened.read_secret(SECRETS_KEY)?;
    text.map(|text| parse(&path(folder), &text)).transpose()
}

/// Gives a data folder a key, or the one that another start has made meanwhile.
pub fn make(folder: &Path) -> Result<Key, Error> {
    let mut opened = Folder::open(folder)?;
    if let Some(text) = opened.read_secret(SECRETS_KEY)? {
        return parse(&path(folder), &text);
    }
    let key = Key::generate().map_err(Error::cryptography("make a key"))?;
    opened.write_new(SECRETS_KEY, &key.reveal())?;
    Ok(key)
}

/// Where the key of a data folder lies, unless the operator keeps it elsewhere.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(SECRETS_KEY)
}

/// A key of the operator's.
pub fn read_file(path: &Path) -> Result<Key, Error> {
    let fail = |source| Error::File { doing: "read", path: path.into(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(fail)?;
    file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text).map_err(fail)?;
    parse(path, &text)
}

/// Writes a new key to a file that is not there yet, closed to others.
pub fn make_file(path: &Path) -> Result<(), Error> {
    let key = Key::generate().map_err(Error::cryptography("make a key"))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| {
            file.write_all(key.reveal().as_bytes())?;
            file.sync_all()
        })
        .map_err(|source| Error::File { doing: "write", path: path.into(), source })
}

fn parse(path: &Path, text: &str) -> Result<Key, Error> {
    Key::parse(text)
        .map_err(|error| Error::Malformed { path: path.into(), problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_has_one_key_that_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find(folder.path()).unwrap().is_none());
        let key = make(folder.path()).unwrap();
        assert_eq!(make(folder.path()).unwrap().fingerprint(), key.fingerprint());
        assert_eq!(find(folder.path()).unwrap().unwrap().fingerprint(), key.fingerprint());
        let mode = fs::metadata(path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_key_file_is_never_written_over_and_what_is_no_key_is_called_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("backup.key");
        make_file(&file).unwrap();
        let first = read_file(&file).unwrap().fingerprint();
        assert!(make_file(&file).is_err());
        assert_eq!(read_file(&file).unwrap().fingerprint(), first);
        fs::write(&file, "hunter2").unwrap();
        let error = read_file(&file).unwrap_err().to_string();
        assert!(error.contains("44 characters") && !error.contains("hunter2"), "{error}");
    }
}
