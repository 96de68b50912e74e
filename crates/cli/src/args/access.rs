//! What can be typed about who may come in and where to: `token`, `login`, `logout`, `whoami`, `config` and
//! `create`. Part of [`super`].

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use crate::moment::parse_duration;
use crate::output::Format;

/// Make, list and revoke tokens: for people to sign in, and for machines to join.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, in a file with which somebody signs in or a machine joins.
    ///
    /// For a person, a kubeconfig with everything in it: where the server is, whom to trust, and the token.
    /// `tombolo login --token-file FILE` takes it, and so does kubectl. With --site, a join file for one
    /// machine, which `tombolo agent --join-file` takes; its token works once. Hand either over like a
    /// password: the server keeps only a hash of the token.
    #[command(after_help = "\
Examples:
  tombolo token create --role user --for-namespace shop alice
  tombolo token create --role guest dashboard --token-only -o dashboard.token
  tombolo token create --site harbour -o harbour.join
  tombolo token create --site harbour --ttl 10m | ssh gateway tombolo agent --join-file -")]
    Create {
        /// Who will use it.
        #[arg(required_unless_present = "site")]
        name: Option<String>,
        /// What it may do.
        #[arg(long, value_name = "ROLE", required_unless_present = "site")]
        role: Option<RoleArg>,
        /// Make a join file for a machine of this site, instead of a token with a name and a role.
        #[arg(long, value_name = "SITE")]
        #[arg(conflicts_with_all = ["name", "role", "for_namespace", "expires_in"])]
        site: Option<String>,
        /// With --site: make it for a single agent that speaks for all nodes of the site, such as a cluster,
        /// instead of for one machine.
        #[arg(long)]
        whole_site: bool,
        /// With --site: how long the token is good, an hour at most and if left out.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        ttl: Option<Duration>,
        /// The address at which they reach the server, if it is not yours. Repeatable with --site.
        #[arg(long = "address", value_name = "URL")]
        addresses: Vec<String>,
        /// With --site: a lighthouse that the machine asks where the server is, when it has moved. The
        /// kubeconfig is that of its administrator; the machine gets a guest's token. Repeatable.
        #[arg(long = "lighthouse", value_name = "KUBECONFIG")]
        lighthouses: Vec<PathBuf>,
        /// With the role user: the namespace it may change; if left out, that of -n or of the context.
        #[arg(long, value_name = "NAMESPACE")]
        for_namespace: Option<String>,
        /// For a person: how long the token is good; until it is revoked if left out.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        expires_in: Option<Duration>,
        /// Write the bare token instead of a kubeconfig, for programs.
        #[arg(long, conflicts_with = "site")]
        token_only: bool,
        /// The new file to write, readable by you alone; - is the terminal. A kubeconfig goes to
        /// NAME.kubeconfig if this is left out, anything else to the terminal.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List the tokens. The tokens themselves are not shown: only their hashes are kept.
    #[command(after_help = "\
Examples:
  tombolo token ls
  tombolo token ls -o json")]
    Ls {
        /// How to print.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Revoke a token: it stops working at once.
    #[command(visible_alias = "rm")]
    #[command(after_help = "\
Examples:
  tombolo token revoke alice")]
    Revoke {
        /// The name with which it was made, or its id.
        name: String,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
    },
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Reads everything but secrets.
    Guest,
    /// Reads as well, and changes what is in one namespace.
    User,
    /// Reads, and changes sites, nodes, links and policies.
    Manager,
    /// Does everything.
    Admin,
}

/// Sign in to a server with a token.
///
/// Takes the file that `tombolo token create` wrote, or a bare token; from a file, from a pipe, or typed
/// without being shown. It is never given as an argument, which others could read. The server is asked
/// whether the token is good before anything is kept. The login is kept in ~/.config/tombolo/kubeconfig as a
/// context, which from then on is used instead of a server on this machine.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo login --token-file alice.kubeconfig
  tombolo login --server https://tombolo.example:7070 --ca ca.crt --token-file alice.token
  pass show tombolo | tombolo login --server https://tombolo.example:7070
  tombolo login --context work --token-file work.kubeconfig")]
pub(crate) struct LoginArgs {
    /// Where the server is, if the file does not say it.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A kubeconfig or a token; - is stdin, which is also read if this is left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificate of the authority to trust (the server's ca.crt), if the file does not have it.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Forget a login: the current one, or that of --context.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo logout
  tombolo logout --context alice@tombolo.example:7070
  tombolo logout --all")]
pub(crate) struct LogoutArgs {
    /// Forget all of them.
    #[arg(long, conflicts_with = "context")]
    pub(crate) all: bool,
}

/// Show who you are to the server, and which file says so.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo whoami
  tombolo whoami -o json")]
pub(crate) struct WhoamiArgs {
    /// How to print: table, json, yaml or name.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Create something without a file.
#[derive(Debug, Subcommand)]
pub(crate) enum CreateCommand {
    /// Create a namespace, for the applications of one team.
    #[command(visible_alias = "ns")]
    #[command(after_help = "\
Examples:
  tombolo create namespace shop")]
    Namespace {
        /// Its name: lower-case letters, digits and dashes.
        name: String,
    },
}

/// Show which server the shell talks to, and choose among several.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// The kubeconfig, without its secrets.
    #[command(after_help = "\
Examples:
  tombolo config view
  tombolo config view -o json")]
    View {
        /// How to print: yaml or json.
        #[arg(short, long, value_enum, default_value = "yaml")]
        output: Format,
    },
    /// List the contexts: the servers and the people that the kubeconfig knows.
    #[command(visible_alias = "get-contexts")]
    #[command(after_help = "\
Examples:
  tombolo config contexts")]
    Contexts,
    /// Make a context the current one.
    #[command(visible_alias = "use-context")]
    #[command(after_help = "\
Examples:
  tombolo config use alice@tombolo.example:7070")]
    Use {
        /// As `tombolo config contexts` lists it.
        name: String,
    },
    /// Where the kubeconfig is.
    #[command(after_help = "\
Examples:
  export KUBECONFIG=$(tombolo config path)")]
    Path,
    /// A line for the shell that makes kubectl use it.
    #[command(after_help = "\
Examples:
  eval \"$(tombolo config env)\"")]
    Env,
}
