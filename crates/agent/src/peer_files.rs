//! The file from which a running instance learns where its peers are now: `peers.json` in a folder
//! for each Assignment, replaced whole whenever it changes. An instance finds its path in
//! `TOMBOLO_PEERS_FILE`. Kept by [`crate::converge`]; start at [`PeerFiles::follow`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tombolo_driver::InstanceId;
use tombolo_model::Assignment;
use tombolo_model::run::Volume;

use crate::nearby::Nearby;

/// In the agent's folder.
pub(crate) const FOLDER: &str = "peers";
pub(crate) const FILE: &str = "peers.json";
pub(crate) const VARIABLE: &str = "TOMBOLO_PEERS_FILE";
/// Where a container finds the folder. The folder and not the file: a file that is replaced would stay
/// the old file for a container that has it mounted.
const IN_CONTAINER: &str = "/run/tombolo";
/// There is nothing secret in them, and the programs that read them may run as other users.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

#[derive(Debug)]
pub(crate) struct PeerFiles {
    folder: PathBuf,
    /// What was written, by the uid of the Assignment.
    written: BTreeMap<String, String>,
    /// Left by agents before us, and not looked at yet.
    strangers: bool,
}

impl PeerFiles {
    pub(crate) fn new(folder: PathBuf) -> PeerFiles {
        PeerFiles { folder, written: BTreeMap::new(), strangers: true }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Brings the files to `wanted`, by uid, and takes away those of Assignments that are gone.
    /// What cannot be written is told and tried again at the next look. Blocks, if at all, for a few
    /// small files: they are not worth a word to the disk, since a start writes them anew.
    pub(crate) fn follow(
        &mut self,
        wanted: &BTreeMap<String, String>,
        known: impl Fn(&str) -> bool,
    ) {
        for (uid, text) in wanted {
            if self.written.get(uid) == Some(text) || InstanceId::new(uid, 0).is_err() {
                continue;
            }
            match write(&self.folder.join(uid), text) {
                Ok(()) => _ = self.written.insert(uid.clone(), text.clone()),
                Err(error) => tracing::warn!(uid, %error, "cannot tell an instance of its peers"),
            }
        }
        let mut gone: Vec<String> =
            self.written.keys().filter(|uid| !known(uid)).cloned().collect();
        if std::mem::take(&mut self.strangers) {
            let left = fs::read_dir(&self.folder).into_iter().flatten().flatten();
            let left = left.filter_map(|entry| entry.file_name().into_string().ok());
            gone.extend(left.filter(|uid| !known(uid)));
        }
        for uid in gone {
            self.written.remove(&uid);
            match fs::remove_dir_all(self.folder.join(&uid)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(uid, %error, "cannot remove a file of peers");
                }
                Ok(()) | Err(_) => (),
            }
        }
    }
}

/// What the file says: the addresses of each component that is called.
pub(crate) fn text(assignment: &Assignment, nearby: &Nearby) -> String {
    let peers = assignment.spec.peers.iter();
    let peers: BTreeMap<&str, Vec<String>> =
        peers.map(|peer| (peer.component.as_str(), nearby.addresses(assignment, peer))).collect();
    let mut text = serde_json::to_string_pretty(&peers).expect("text can be written");
    text.push('\n');
    text
}

/// How a container gets at the folder.
pub(crate) fn volume(folder: &Path) -> (Volume, String) {
    let volume = Volume {
        path: IN_CONTAINER.to_owned(),
        host_path: Some(folder.display().to_string()),
        read_only: true,
        ..Volume::default()
    };
    (volume, format!("{IN_CONTAINER}/{FILE}"))
}

fn write(folder: &Path, text: &str) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    let (draft, path) = (folder.join(".peers.json.draft"), folder.join(FILE));
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&draft)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    fs::rename(&draft, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_when_it_changes_and_goes_with_its_assignment() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join(FOLDER);
        fs::create_dir_all(folder.join("left-over")).unwrap();
        let mut files = PeerFiles::new(folder.clone());
        let read = |uid: &str| fs::read_to_string(folder.join(uid).join(FILE)).ok();
        let wanted = |text: &str| BTreeMap::from([("a-1".to_owned(), text.to_owned())]);
        files.follow(&wanted("one"), |uid| uid == "a-1");
        assert_eq!(read("a-1").as_deref(), Some("one"));
        assert!(!folder.join("left-over").exists(), "nobody knows it");
        let open = fs::File::open(folder.join("a-1").join(FILE)).unwrap();
        files.follow(&wanted("two"), |uid| uid == "a-1");
        assert_eq!(read("a-1").as_deref(), Some("two"));
        assert_eq!(io::read_to_string(open).unwrap(), "one", "whoever reads sees no half of it");
        files.follow(&BTreeMap::new(), |uid| uid == "a-1");
        assert_eq!(read("a-1").as_deref(), Some("two"), "it is still assigned");
        files.follow(&BTreeMap::new(), |_| false);
        assert!(!folder.join("a-1").exists());
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_uid() {
        let data = tempfile::tempdir().unwrap();
        let mut files = PeerFiles::new(data.path().join(FOLDER));
        let wanted = BTreeMap::from([("../outside".to_owned(), "text".to_owned())]);
        files.follow(&wanted, |_| true);
        assert!(!data.path().join("outside").exists());
    }
}
