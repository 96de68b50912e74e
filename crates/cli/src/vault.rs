//! The key that the Secrets of a store are sealed with: found, or made for a new store. `tombolo up` and
//! `tombolo restore --data` call [`options`].

use std::path::Path;

use tombolo_identity::home::secrets;
use tombolo_store::{Error, Options, Sealing, Store};

/// Where the store keeps Secrets: the API writes `group/plural/namespace/name`, and their group is empty.
const SECRETS: &[&str] = &["/secrets/"];

/// How to open the store of a data folder. The key is in the file that is named, or in the folder.
pub(crate) fn options(data: &Path, key_file: Option<&Path>) -> anyhow::Result<Options> {
    let key = match key_file {
        Some(file) => secrets::read_file(file).map_err(|error| named(file, error))?,
        None => match secrets::find(data)? {
            Some(key) => key,
            None => {
                refuse_if_sealed(data)?;
                secrets::make(data)?
            }
        },
    };
    Ok(Options { sealing: Some(Sealing { key, prefixes: SECRETS }), ..Options::default() })
}

/// A store without a key beside it is from before there were keys, or has lost its own. A new key in its
/// place would open nothing.
fn refuse_if_sealed(data: &Path) -> anyhow::Result<()> {
    if !data.join("store.redb").exists() {
        return Ok(());
    }
    match Store::open(data, Options::default()) {
        // A damaged one is for whoever opens it next: a start says so, and a restore puts it aside.
        Ok(_) | Err(Error::Corrupt { .. }) => Ok(()),
        Err(error) => Err(told(data, error)),
    }
}

/// The store's error, with the way out where the key is the matter.
pub(crate) fn told(data: &Path, error: Error) -> anyhow::Error {
    let folder = data.display();
    match error {
        Error::NoKey { .. } | Error::OtherKey { .. } => anyhow::anyhow!(
            "{error}; put {key} back, or name the file that has it with --secret-key-file; if it is lost, \
             move {folder}/store.redb away and bring back a backup with `tombolo restore --data {folder} FILE`",
            key = secrets::path(data).display(),
        ),
        error => error.into(),
    }
}

fn named(file: &Path, error: tombolo_identity::Error) -> anyhow::Error {
    let file = file.display();
    anyhow::Error::new(error).context(format!(
        "--secret-key-file {file} cannot be used; for a new server, `tombolo backup keygen {file}` makes one"
    ))
}
