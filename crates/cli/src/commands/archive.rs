//! `tombolo backup` and `tombolo restore`: everything the server knows, into a file and back.

use std::{
    fs,
    io::{self, BufRead as _, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use futures::AsyncReadExt;
use tombolo_apiserver::restore::{self, Access};
use tombolo_identity::home::secrets;
use tombolo_seal::{Key, Reader, Writer};
use tombolo_store::{Summary, restore_offline, verify_backup};

use crate::{
    args::{AccessArg, BackupArgs, BackupCommand, RestoreArgs},
    failure::{Exit, Failure},
    moment,
    output::{self, Out, Progress, note},
    shell::Shell,
    vault,
};

const BACKUP: &str = "/tombolo/backup";
const RESTORE: &str = "/tombolo/restore";
const PIECE_BYTES: usize = 1 << 16;

pub(super) async fn backup(shell: &mut Shell, args: &BackupArgs) -> Result<Exit, Failure> {
    if let Some(BackupCommand::Keygen { file }) = &args.keygen {
        return keygen(file);
    }
    let file = args.file.as_deref().ok_or_else(|| Failure::usage("name a file"))?;
    let key = match (&args.key_file, args.plain) {
        (Some(path), _) => Some(read_key(path)?),
        (None, true) => None,
        (None, false) => {
            return Err(Failure::usage("a backup holds every Secret: say how to encrypt it").hint(
                "--key-file FILE encrypts it with a key that `tombolo backup keygen FILE` makes; --plain \
                 writes it as it is",
            ));
        }
    };
    if file.as_os_str() == "-" {
        return backup_to_stdout(shell, key.as_ref()).await;
    }
    // Before the server has any work with it.
    if file.exists() {
        return Err(Failure::usage(format!("{} exists already", file.display()))
            .hint("name a new file: an old backup is worth keeping"));
    }
    let mut answer = shell.connect().await?.download(BACKUP).await?;
    let partial = Partial::new(file)?;
    let progress = Progress::new();
    let mut total = 0;
    copy(&mut answer, key.as_ref(), |piece| {
        total += piece.len();
        progress.say(&format!("{} KiB", total / 1024));
        (&partial.file).write_all(piece).map_err(|error| Failure::file(&partial.path, &error))
    })
    .await?;
    drop(progress);
    // What cannot be read back is no backup; better to know now.
    let summary = verified(&partial.path, key.as_ref())?;
    partial.keep_as(file)?;
    note(&format!("saved {} to {}", in_words(&summary), file.display()));
    Ok(Exit::Ok)
}

fn keygen(file: &Path) -> Result<Exit, Failure> {
    secrets::make_file(file).map_err(|error| of_key(&error))?;
    let file = file.display();
    note(&format!(
        "made a key in {file}: keep a copy elsewhere, nothing can be restored without it"
    ));
    Ok(Exit::Ok)
}

fn read_key(path: &Path) -> Result<Key, Failure> {
    secrets::read_file(path).map_err(|error| {
        of_key(&error).hint(format!("`tombolo backup keygen {}` makes a new key", path.display()))
    })
}

fn of_key(error: &tombolo_identity::Error) -> Failure {
    match std::error::Error::source(error) {
        Some(cause) => Failure::failed(format!("{error}: {cause}")),
        None => Failure::failed(error.to_string()),
    }
}

async fn backup_to_stdout(shell: &mut Shell, key: Option<&Key>) -> Result<Exit, Failure> {
    if shell.out.colour {
        return Err(Failure::usage(
            "a backup is binary data: write it to a file, not to the terminal",
        ));
    }
    let mut answer = shell.connect().await?.download(BACKUP).await?;
    let out: &mut Out = &mut shell.out;
    copy(&mut answer, key, |piece| out.bytes(piece)).await?;
    Ok(Exit::Ok)
}

/// Sealed on its way if there is a key.
async fn copy(
    from: &mut (impl futures::AsyncRead + Unpin),
    key: Option<&Key>,
    mut to: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let unsealed =
        |error: io::Error| Failure::failed(format!("cannot encrypt the backup: {error}"));
    let mut sealing =
        key.map(|key| Writer::new(Vec::new(), key)).transpose().map_err(|e| unsealed(e.into()))?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("the backup broke off: {error}"))
                .hint("nothing was saved: try again")
        })?;
        match (&mut sealing, length) {
            (None, 0) => return Ok(()),
            (Some(_), 0) => break,
            (None, length) => to(&piece[..length])?,
            (Some(writer), length) => {
                writer.write_all(&piece[..length]).map_err(unsealed)?;
                to(writer.get_mut())?;
                writer.get_mut().clear();
            }
        }
    }
    match sealing {
        Some(writer) => to(&writer.finish().map_err(unsealed)?),
        None => Ok(()),
    }
}

/// A file that is not there until it is whole. It holds secrets, so nobody else may read it.
struct Partial {
    path: PathBuf,
    file: fs::File,
}

impl Partial {
    fn new(destination: &Path) -> Result<Partial, Failure> {
        let mut name = destination.as_os_str().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let path = PathBuf::from(name);
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Failure::file(&path, &error))?;
        Ok(Partial { path, file })
    }

    fn keep_as(self, destination: &Path) -> Result<(), Failure> {
        self.file.sync_all().map_err(|error| Failure::file(&self.path, &error))?;
        // A link fails if somebody made the file meanwhile; a rename would replace it.
        fs::hard_link(&self.path, destination).map_err(|error| Failure::file(destination, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Whole, it has its own name by now; broken, nobody wants it.
        let _ = fs::remove_file(&self.path);
    }
}

fn verified(path: &Path, key: Option<&Key>) -> Result<Summary, Failure> {
    verify_backup(opened(path, key)?).map_err(|error| of_store(path, &error))
}

/// What a backup holds, in clear. Whoever gives a key wants what was sealed with it: anything else may
/// be a forgery, and is refused.
fn opened(path: &Path, key: Option<&Key>) -> Result<Box<dyn io::Read + Send>, Failure> {
    let fail = |error: &io::Error| Failure::file(path, error);
    let mut file = io::BufReader::new(fs::File::open(path).map_err(|error| fail(&error))?);
    let named = path.display();
    let Some(key) = key else {
        return match Reader::is_sealed(file.fill_buf().map_err(|error| fail(&error))?) {
            true => Err(Failure::failed(format!("{named} is encrypted"))
                .hint("--key-file FILE names the key that it was encrypted with")),
            false => Ok(Box::new(file)),
        };
    };
    match Reader::new(file, key) {
        Ok(reader) => Ok(Box::new(reader)),
        Err(tombolo_seal::Error::Io(error)) => Err(fail(&error)),
        Err(tombolo_seal::Error::OtherKey) => {
            Err(Failure::failed(format!("{named} was encrypted with another key"))
                .hint("--key-file FILE must name the key that it was encrypted with"))
        }
        Err(tombolo_seal::Error::NotSealed) => {
            Err(Failure::failed(format!("{named} is not encrypted"))
                .hint("leave out --key-file if you trust it all the same"))
        }
        Err(error) => Err(Failure::failed(format!("{named}: {error}"))),
    }
}

fn in_words(summary: &Summary) -> String {
    format!("{} objects at revision {}", summary.objects, summary.revision)
}

pub(super) async fn restore(shell: &mut Shell, args: &RestoreArgs) -> Result<Exit, Failure> {
    if !args.yes && !output::somebody_is_there() {
        return Err(Failure::usage("there is no terminal to ask on")
            .hint("--yes replaces everything without asking"));
    }
    let key = args.key_file.as_deref().map(read_key).transpose()?;
    let summary = in_words(&verified(&args.file, key.as_ref())?);
    match &args.data {
        Some(data) => restore_folder(args, key.as_ref(), data, &summary).await,
        None => restore_server(shell, args, key.as_ref(), &summary).await,
    }
}

fn agreed(args: &RestoreArgs, summary: &str, place: &str) -> Result<(), Failure> {
    let question = format!("Replace everything in {place} by {summary}?");
    match args.yes || output::confirmed(&question) {
        true => Ok(()),
        false => Err(Failure::failed("nothing was changed")),
    }
}

async fn restore_server(
    shell: &mut Shell,
    args: &RestoreArgs,
    key: Option<&Key>,
    summary: &str,
) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    agreed(args, summary, &format!("the server at {}", connection.server))?;
    let mut bytes = Vec::new();
    opened(&args.file, key)?
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file(&args.file, &error))?;
    let path = format!("{RESTORE}?access={}", word(access(args)));
    connection.upload(&path, bytes).await?;
    note(&format!("restored {summary}; clients that watch will list again"));
    Ok(Exit::Ok)
}

async fn restore_folder(
    args: &RestoreArgs,
    key: Option<&Key>,
    data: &Path,
    summary: &str,
) -> Result<Exit, Failure> {
    agreed(args, summary, &data.display().to_string())?;
    let backup = opened(&args.file, key)?;
    let options = vault::options(data, args.secret_key_file.as_deref())
        .map_err(|error| Failure::failed(format!("{error:#}")))?;
    let folder = data.to_owned();
    let amend = restore::amend(access(args), moment::now().to_string());
    let restoring =
        tokio::task::spawn_blocking(move || restore_offline(folder, options, backup, amend));
    let revision = restoring
        .await
        .map_err(|error| Failure::failed(format!("the restore ended early: {error}")))?
        .map_err(|error| match error {
            tombolo_store::Error::OtherKey { .. } => {
                Failure::failed(format!("{:#}", vault::told(data, error)))
            }
            error => of_store(data, &error),
        })?;
    note(&format!("restored {summary}; the store continues at revision {revision}"));
    Ok(Exit::Ok)
}

fn access(args: &RestoreArgs) -> Access {
    match args.access {
        AccessArg::Kept => Access::Kept,
        AccessArg::Backup => Access::Backup,
        AccessArg::Nobody => Access::Nobody,
    }
}

/// As the server reads it.
fn word(access: Access) -> &'static str {
    let row = Access::CHOICES.iter().find(|(_, choice)| *choice == access);
    row.map_or("kept", |(word, _)| word)
}

fn of_store(path: &Path, error: &tombolo_store::Error) -> Failure {
    let mut message = format!("{}: {error}", path.display());
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        message.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    let failure = Failure::failed(message);
    match error {
        tombolo_store::Error::Locked { .. } => failure
            .hint("a server runs on this folder: stop it, or restore through it without --data"),
        tombolo_store::Error::RestoreRefused { .. } => failure.hint(
            "--access backup lets in whom the backup lets in, --access nobody only the holder of \
             admin.token",
        ),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_file_leaves_nothing_behind_and_replaces_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let destination = folder.path().join("backup");
        drop(Partial::new(&destination).expect("new"));
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);

        let partial = Partial::new(&destination).expect("new");
        (&partial.file).write_all(b"whole").expect("written");
        partial.keep_as(&destination).expect("kept");
        assert_eq!(fs::read(&destination).expect("readable"), b"whole");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);

        let second = Partial::new(&destination).expect("new");
        assert!(second.keep_as(&destination).is_err());
        assert_eq!(fs::read(&destination).expect("readable"), b"whole");
    }

    #[test]
    fn what_is_no_backup_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("not-a-backup");
        fs::write(&path, b"hello").expect("written");
        assert_eq!(verified(&path, None).map_err(|failure| failure.exit), Err(Exit::Failed));
    }
}
