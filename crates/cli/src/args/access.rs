//! What can be typed about who may come in: `token` and `config`. Part of [`super`].

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;

use crate::moment::parse_duration;
use crate::output::Format;

/// Make, list and revoke tokens: for people to sign in, and for machines to join.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token. Its secret is shown once and kept nowhere.
    ///
    /// With --site, a join file for one machine: where the server is, whom to trust, and a token
    /// that is good once. Hand it over safely; `tombolo agent --join-file` takes it.
    #[command(after_help = "\
Examples:
  tombolo token create --role user --for-namespace shop alice
  tombolo token create --role guest dashboard --out dashboard.token
  tombolo token create --site harbour -o harbour.join
  tombolo token create --site harbour --ttl 10m | ssh gateway tombolo agent --join-file -")]
    Create {
        /// Who will use it.
        #[arg(required_unless_present = "site")]
        name: Option<String>,
        /// What it may do: guest reads; user changes one namespace; manager also sites, nodes and
        /// policies; admin everything.
        #[arg(long, value_name = "ROLE", required_unless_present = "site")]
        role: Option<String>,
        /// The site that a machine may join with it, instead of a name and a role.
        #[arg(long, value_name = "SITE")]
        #[arg(conflicts_with_all = ["name", "role", "for_namespace", "expires_in"])]
        site: Option<String>,
        /// With --site: for the one agent of all nodes of the site, such as a cluster, instead of for
        /// one machine.
        #[arg(long, requires = "site")]
        whole_site: bool,
        /// With --site: for how long it is good, an hour at most.
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
        ttl: Duration,
        /// With --site: where the machine reaches the server, if not where you do. Repeatable.
        #[arg(long = "address", value_name = "URL", requires = "site")]
        addresses: Vec<String>,
        /// With --site: a lighthouse where the machine asks for the server when it is not where it
        /// was. The kubeconfig is that of its administrator; the machine gets a guest's token.
        /// Repeatable.
        #[arg(long = "lighthouse", value_name = "KUBECONFIG", requires = "site")]
        lighthouses: Vec<PathBuf>,
        /// Role user: the namespace it may change; -n or the context's if left out.
        #[arg(long, value_name = "NAMESPACE")]
        for_namespace: Option<String>,
        /// For how long it is good.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        expires_in: Option<Duration>,
        /// Write it to this new file, readable by you alone, instead of the terminal.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List the tokens; their secrets are not known to anybody.
    #[command(after_help = "\
Examples:
  tombolo token ls
  tombolo token ls -o json")]
    Ls {
        /// How to print.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Make a token worthless.
    #[command(visible_alias = "rm")]
    #[command(after_help = "\
Examples:
  tombolo token revoke alice")]
    Revoke {
        /// The name it was made with, or its id.
        name: String,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
}

/// Show which server the shell talks to.
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
