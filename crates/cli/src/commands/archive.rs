//! `tombolo backup` and `tombolo restore`: everything the server knows, into a file and back.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use futures::AsyncReadExt as _;
use tombolo_store::{Options, Summary, restore_offline, verify_backup};

use crate::{
    args::{BackupArgs, RestoreArgs},
    failure::{Exit, Failure},
    output::{self, Out, Progress, note},
    shell::Shell,
};

const BACKUP: &str = "/tombolo/backup";
const RESTORE: &str = "/tombolo/restore";
const PIECE_BYTES: usize = 1 << 16;

pub(super) async fn backup(shell: &mut Shell, args: &BackupArgs) -> Result<Exit, Failure> {
    if args.file.as_os_str() == "-" {
        return backup_to_stdout(shell).await;
    }
    // Before the server has any work with it.
    if args.file.exists() {
        return Err(Failure::usage(format!("{} exists already", args.file.display()))
            .hint("name a new file: an old backup is worth keeping"));
    }
    let mut answer = shell.connect().await?.download(BACKUP).await?;
    let partial = Partial::new(&args.file)?;
    let progress = Progress::new();
    copy(&mut answer, |piece, total| {
        progress.say(&format!("{} KiB", total / 1024));
        (&partial.file).write_all(piece).map_err(|error| Failure::file(&partial.path, &error))
    })
    .await?;
    drop(progress);
    // What cannot be read back is no backup; better to know now.
    let summary = verified(&partial.path)?;
    partial.keep_as(&args.file)?;
    note(&format!("saved {} to {}", in_words(&summary), args.file.display()));
    Ok(Exit::Ok)
}

async fn backup_to_stdout(shell: &mut Shell) -> Result<Exit, Failure> {
    if shell.out.colour {
        return Err(Failure::usage("a backup is no text for a terminal: name a file"));
    }
    let mut answer = shell.connect().await?.download(BACKUP).await?;
    let out: &mut Out = &mut shell.out;
    copy(&mut answer, |piece, _| out.bytes(piece)).await?;
    Ok(Exit::Ok)
}

async fn copy(
    from: &mut (impl futures::AsyncRead + Unpin),
    mut to: impl FnMut(&[u8], u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut total = 0;
    loop {
        let length = from.read(&mut piece).await.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("the backup broke off: {error}"))
                .hint("nothing was saved: try again")
        })?;
        if length == 0 {
            return Ok(());
        }
        total += length as u64;
        to(&piece[..length], total)?;
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

fn verified(path: &Path) -> Result<Summary, Failure> {
    let file = fs::File::open(path).map_err(|error| Failure::file(path, &error))?;
    verify_backup(io::BufReader::new(file)).map_err(|error| of_store(path, &error))
}

fn in_words(summary: &Summary) -> String {
    format!("{} objects at revision {}", summary.objects, summary.revision)
}

pub(super) async fn restore(shell: &mut Shell, args: &RestoreArgs) -> Result<Exit, Failure> {
    if !args.yes && !output::somebody_is_there() {
        return Err(Failure::usage("there is no terminal to ask on")
            .hint("--yes replaces everything without asking"));
    }
    let summary = in_words(&verified(&args.file)?);
    match &args.data {
        Some(data) => restore_folder(args, data, &summary).await,
        None => restore_server(shell, args, &summary).await,
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
    summary: &str,
) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    agreed(args, summary, &format!("the server at {}", connection.server))?;
    let bytes = fs::read(&args.file).map_err(|error| Failure::file(&args.file, &error))?;
    connection.upload(RESTORE, bytes).await?;
    note(&format!("restored {summary}; clients that watch will list again"));
    Ok(Exit::Ok)
}

async fn restore_folder(args: &RestoreArgs, data: &Path, summary: &str) -> Result<Exit, Failure> {
    agreed(args, summary, &data.display().to_string())?;
    let file = fs::File::open(&args.file).map_err(|error| Failure::file(&args.file, &error))?;
    let folder = data.to_owned();
    let restoring = tokio::task::spawn_blocking(move || {
        restore_offline(folder, Options::default(), io::BufReader::new(file))
    });
    let revision = restoring
        .await
        .map_err(|error| Failure::failed(format!("the restore ended early: {error}")))?
        .map_err(|error| of_store(data, &error))?;
    note(&format!("restored {summary}; the store continues at revision {revision}"));
    Ok(Exit::Ok)
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
        assert_eq!(verified(&path).map_err(|failure| failure.exit), Err(Exit::Failed));
    }
}
