//! The data folder of an agent: its key, its certificate and where the controllers are.
//!
//! The key is made here and never leaves. Files are closed to others and written whole: a reader finds
//! the old text or the new text, also after a power cut.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tombolo_identity::tls::{self, Lifetime};
use tombolo_identity::{Remit, request};

use crate::{Error, Lighthouse};

/// An agent that may start processes as other users lets them pass through to their own folders. What
/// is in it cannot be listed, and every file of ours is closed.
const FOLDER_MODE_ROOT: u32 = 0o711;
const FOLDER_MODE: u32 = 0o700;
const SECRET_MODE: u32 = 0o600;
const LOCK: &str = "agent.lock";
const KEY: &str = "agent.key";
const IDENTITY: &str = "agent.json";
/// No file of ours comes near it.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// The folder, locked: two agents with one identity on one machine would be taken for clones.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    lock: File,
}

/// Who the agent is, as the joining made it. In one file, so that its parts always fit together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    #[serde(flatten, with = "Written")]
    pub remit: Remit,
    /// As PEM.
    pub certificate: String,
    pub authority: String,
    pub addresses: Vec<String>,
    /// Whom to ask when nobody is at the addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lighthouses: Vec<Lighthouse>,
    /// Of the Node, as the server was told last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A remit in a file of ours, or in an answer of the server: `site`, and `node` if it is that of one
/// node.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Remit", untagged)]
pub(crate) enum Written {
    Node { site: String, node: String },
    Site { site: String },
}

/// An identity with the key that belongs to it.
#[derive(Clone)]
pub struct Credentials {
    pub identity: Identity,
    pub key_pem: String,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Folder, Error> {
        let fail = |doing, source| Error::File { doing, path: path.into(), source };
        let mode = match rustix::process::geteuid().is_root() {
            true => FOLDER_MODE_ROOT,
            false => FOLDER_MODE,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path)
            .map_err(|source| fail("make the folder", source))?;
        fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|source| fail("close to others", source))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(SECRET_MODE)
            .open(path.join(LOCK))
            .map_err(|source| fail("lock", source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.into(), lock }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::InUse { path: path.into() }),
            Err(fs::TryLockError::Error(source)) => Err(fail("lock", source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is still the folder that was locked, and not gone, nor another in its place.
    pub fn is_whole(&self) -> bool {
        tombolo_driver_process::is_file_at(&self.lock, &self.path.join(LOCK))
    }

    /// The text of a file, or `None` if there is no such file.
    pub fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let path = self.path.join(name);
        let fail = |source| Error::File { doing: "read", path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(fail(source)),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(fail)?;
        Ok(Some(text))
    }

    /// Writes a file whole, readable by nobody else, and only returns when it is on disk.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        tombolo_identity::write_secret(&self.path, name, text).map_err(|source| Error::File {
            doing: "write",
            path: self.path.join(name),
            source,
        })
    }

    /// The key of this agent; made if there is none. A key that is there is never replaced: the server
    /// may have signed it already, and the answer been lost.
    pub fn key(&self) -> Result<String, Error> {
        if let Some(key) = self.read(KEY)? {
            return Ok(key);
        }
        let key = request::new_key()?;
        self.write(KEY, &key)?;
        Ok(key)
    }

    /// Keeps a new key and what was signed for it. The key goes first: if the power goes between
    /// the two, the same key asks again and is given the same answer.
    pub fn keep_anew(&self, credentials: &Credentials) -> Result<(), Error> {
        self.write(KEY, &credentials.key_pem)?;
        self.keep(&credentials.identity)
    }

    /// What an earlier joining left; `None` if there was none.
    pub fn credentials(&self) -> Result<Option<Credentials>, Error> {
        let (Some(text), Some(key_pem)) = (self.read(IDENTITY)?, self.read(KEY)?) else {
            return Ok(None);
        };
        let malformed = |problem: String| Error::Malformed {
            path: self.path.join(IDENTITY),
            problem: format!("{problem}; remove the folder and join again with a new token"),
        };
        let identity: Identity =
            serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        crate::join_file::check_addresses(&identity.addresses).map_err(malformed)?;
        // They do not belong together when a joining was cut short: it is to be done again.
        let fits = tls::key_of(&identity.certificate)? == request::print_of(&key_pem)?;
        Ok(fits.then_some(Credentials { identity, key_pem }))
    }

    pub fn keep(&self, identity: &Identity) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(identity).expect("plain fields can be written");
        self.write(IDENTITY, &text)
    }
}

impl Credentials {
    /// From when until when the certificate holds.
    pub fn lifetime(&self) -> Result<Lifetime, Error> {
        Ok(tls::lifetime(&self.identity.certificate)?)
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.lifetime().map_or(true, |lifetime| lifetime.expires <= now)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("remit", &self.identity.remit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_and_its_files_are_closed_to_others() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("agent");
        let folder = Folder::open(&path).unwrap();
        let key = folder.key().unwrap();
        assert_eq!(folder.key().unwrap(), key, "a key that is there is kept");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let passed = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        assert_eq!(mode(&path), passed);
        assert_eq!(mode(&path.join(KEY)), 0o600);
        assert!(folder.credentials().unwrap().is_none(), "a key alone is no joining");
    }

    #[test]
    fn an_identity_says_what_it_stands_for() {
        let text = |remit: &str| {
            format!(r#"{{{remit}, "certificate": "", "authority": "", "addresses": []}}"#)
        };
        for (written, remit) in [
            (
                r#""site": "north", "node": "n1""#,
                Remit::Node { site: "north".to_owned(), node: "n1".to_owned() },
            ),
            (r#""site": "north""#, Remit::Site { site: "north".to_owned() }),
        ] {
            let identity: Identity = serde_json::from_str(&text(written)).unwrap();
            assert_eq!(identity.remit, remit);
            let again = serde_json::to_string(&identity).unwrap();
            assert_eq!(serde_json::from_str::<Identity>(&again).unwrap().remit, remit);
        }
    }

    #[test]
    fn two_agents_do_not_share_a_folder() {
        let data = tempfile::tempdir().unwrap();
        let _first = Folder::open(data.path()).unwrap();
        assert!(matches!(Folder::open(data.path()), Err(Error::InUse { .. })));
    }

    #[test]
    fn a_folder_that_is_deleted_moved_or_replaced_is_not_whole() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("agent");
        let folder = Folder::open(&path).unwrap();
        assert!(folder.is_whole());
        fs::rename(&path, data.path().join("elsewhere")).unwrap();
        assert!(!folder.is_whole(), "moved");
        let other = Folder::open(&path).unwrap();
        assert!(!folder.is_whole() && other.is_whole(), "replaced");
        fs::remove_dir_all(&path).unwrap();
        assert!(!other.is_whole(), "deleted");
    }

    #[test]
    fn a_draft_from_a_crash_is_not_in_the_way_and_a_damaged_identity_is_told() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::open(data.path()).unwrap();
        fs::write(data.path().join(".agent.json.draft"), "half").unwrap();
        folder.write(IDENTITY, "{ half").unwrap();
        folder.key().unwrap();
        let error = folder.credentials().unwrap_err().to_string();
        assert!(error.contains("join again with a new token"), "{error}");
    }
}
