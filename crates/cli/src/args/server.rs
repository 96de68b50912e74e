//! What can be typed about the server as a whole: `backup`, `restore`, `audit` and `loops`. Part of [`super`].

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::output::Format;

/// Save everything the server knows into a file, while it runs.
///
/// The file is encrypted with a key of yours, which never leaves this machine. Keep the key elsewhere than
/// the backup: without it nobody can read the backup, not even you.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  tombolo backup keygen backup.key
  tombolo backup tombolo-$(date +%F).backup --key-file backup.key")]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(crate) keygen: Option<BackupCommand>,
    /// A new file, readable by you alone, or - for stdout.
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Encrypt it with the key in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Do not encrypt it: whoever reads it has every Secret.
    #[arg(long, conflicts_with = "key_file")]
    pub(crate) plain: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Make a key for backups, or for `tombolo up --secret-key-file`.
    #[command(after_help = "\
Examples:
  tombolo backup keygen backup.key")]
    Keygen {
        /// A new file, readable by you alone.
        file: PathBuf,
    },
}

/// Restore what `backup` saved, in place of everything that the server has now.
///
/// Revisions keep growing, so that clients notice. What was revoked since the backup was made stays revoked.
/// Shows what it does and asks.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo restore tombolo.backup --key-file backup.key
  tombolo restore tombolo.backup --key-file backup.key --data /var/lib/tombolo   (the server must not run)
  tombolo restore tombolo.backup --key-file backup.key --access nobody           (into another store)")]
pub(crate) struct RestoreArgs {
    /// The file that `backup` wrote.
    pub(crate) file: PathBuf,
    /// The key that it was encrypted with.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Without a server: restore into this data folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// With --data: as `tombolo up` has it.
    #[arg(long, value_name = "FILE", requires = "data")]
    pub(crate) secret_key_file: Option<PathBuf>,
    /// Who may come in afterwards.
    #[arg(long, value_name = "WHO", default_value = "kept")]
    pub(crate) access: AccessArg,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessArg {
    /// Tokens and keys of nodes as they are now.
    Kept,
    /// As they were in the backup, also those that were revoked since.
    Backup,
    /// No token and no node of the backup.
    Nobody,
}

/// Show who changed what: one JSON object a line, the oldest first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo audit --limit 20
  tombolo audit --after 4711 | jq .user")]
pub(crate) struct AuditArgs {
    /// Only changes after this revision.
    #[arg(long, value_name = "REVISION")]
    pub(crate) after: Option<u64>,
    /// Show at most this many.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
}

/// Show how the server's loops are doing: what each is at, its last report and its last error.
///
/// Exits with 0 if all are well, and with 1 if one is dead or late.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo loops
  tombolo loops -o json | jq '.mirrors'")]
pub(crate) struct LoopsArgs {
    /// How to print it.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Format,
}
