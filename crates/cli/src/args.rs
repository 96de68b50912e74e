//! What can be typed: the global options and one variant for each command.
//!
//! Help texts are written here and nowhere else; a test keeps a snapshot of every one.

mod placing;
mod sessions;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell as CompletionShell;

use tombolo_descriptor::Format as Descriptor;
use tombolo_descriptor::write::Target;

use crate::{
    commands::{NodeCommand, SiteCommand},
    moment::parse_duration,
    output::Format,
    programs::Program,
};

pub(crate) use placing::{
    InstanceArgs, MatchArgs, PlanArgs, SearchArgs, SimCommand, WhatIfArgs, WhyArgs,
};
pub(crate) use sessions::{ExecArgs, LogsArgs, PortForwardArgs};

const AFTER_HELP: &str = "\
Examples:
  tombolo up
  tombolo apply -f examples/app-clock.yaml
  tombolo get apps
  tombolo help get

Exit codes:
  0  ok
  1  failed (and `diff`: there are differences)
  2  wrong usage
  3  not found
  4  conflict: somebody else changed it, or owns the field
  5  denied: not logged in, or the role does not allow it
  6  unreachable: no server, or it is not ready
  7  timeout
  8  not placed: no node meets the needs of the app

The server is found by --kubeconfig, then TOMBOLO_KUBECONFIG, then the kubeconfig that
`tombolo up` wrote into the user's data folder ($XDG_DATA_HOME/tombolo or
~/.local/share/tombolo), then the one of `tombolo up --demo`.";

/// One orchestrator from edge to cloud: the control plane, and the shell to talk to it.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The file that says where the server is and who you are.
    #[arg(long, global = true, env = "TOMBOLO_KUBECONFIG", value_name = "FILE")]
    #[arg(hide_env_values = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig of a lighthouse, which is asked for the server when that is not where it was.
    #[arg(long, global = true, env = "TOMBOLO_LIGHTHOUSE", value_name = "FILE", hide = true)]
    #[arg(hide_env_values = true)]
    pub(crate) lighthouse_config: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of its current one.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace to work in instead of the context's.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// How long a single request may take.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = parse_duration, hide_default_value = false)]
    pub(crate) request_timeout: Duration,
    /// Log what the client does to stderr; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Program(Program),
    #[command(flatten)]
    Shell(ShellCommand),
}

/// Commands that talk to a server, or need none.
#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    Apply(ApplyArgs),
    Diff(DiffArgs),
    Convert(ConvertArgs),
    Validate(ValidateArgs),
    Plan(PlanArgs),
    Why(WhyArgs),
    WhatIf(WhatIfArgs),
    Match(MatchArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo sim instance --sites 5 --nodes 40 --components 8 --seed 1 --dir .")]
    Sim(SimCommand),
    Get(GetArgs),
    Describe(DescribeArgs),
    Delete(DeleteArgs),
    Wait(WaitArgs),
    Logs(LogsArgs),
    Exec(ExecArgs),
    PortForward(PortForwardArgs),
    Events(EventsArgs),
    Explain(ExplainArgs),
    Schema(SchemaArgs),
    Crds(CrdsArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo site ls
  tombolo site drain harbour")]
    Site(SiteCommand),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo node ls --site harbour
  tombolo node drain crane")]
    Node(NodeCommand),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo token create --role user --for-namespace shop alice
  tombolo token ls")]
    Token(TokenCommand),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Audit(AuditArgs),
    Loops(LoopsArgs),
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tombolo config view
  eval \"$(tombolo config env)\"")]
    Config(ConfigCommand),
    Completion(CompletionArgs),
    Version(VersionArgs),
}

/// Make the server's objects as the files say.
///
/// Server-side apply: only the fields in the files are touched, and the server says if somebody
/// else owns one of them. All files are read and checked before anything is sent. Descriptors of
/// other projects become Apps, and what an App cannot carry is told; `tombolo convert` shows the
/// result.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo apply -f app.yaml
  tombolo apply -f site/ -f apps.yaml
  tombolo apply -f compose.yaml
  generate | tombolo apply -f - --dry-run")]
pub(crate) struct ApplyArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin. May be repeated.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised by itself.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// Let the server check everything and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take over fields that belong to somebody else.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// The name under which the server remembers who set a field.
    #[arg(long, value_name = "NAME", default_value = "tombolo")]
    pub(crate) field_manager: String,
}

/// Show what `apply` would change.
///
/// Ends with 0 if nothing would change, with 1 if something would.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo diff -f app.yaml
  tombolo diff -f apps/ && echo in sync")]
pub(crate) struct DiffArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin. May be repeated.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised by itself.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// Show the difference as if fields of others were taken over.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// The name under which `apply` would set the fields.
    #[arg(long, value_name = "NAME", default_value = "tombolo")]
    pub(crate) field_manager: String,
}

/// Turn a descriptor of any accepted format into another format. Needs no server.
///
/// What the target format cannot say is told on stderr, together with everything that was assumed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo convert icos-app.yaml > app.yaml
  tombolo convert --to compose app.yaml
  tombolo convert --from kubernetes --to icos deployment.yaml")]
pub(crate) struct ConvertArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised by itself.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// The format to write.
    #[arg(long, value_name = "FORMAT", default_value = "native", value_parser = target_format())]
    pub(crate) to: Target,
    /// Do not tell what was left out, assumed or changed.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Say what is wrong with descriptors, where, and how to mend it. Needs no server.
///
/// Ends with 0 if all files can be used, with 1 if one cannot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo validate app.yaml
  tombolo validate --notes descriptors/
  tombolo validate -o json app.yaml    (with places, for editors)")]
pub(crate) struct ValidateArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised by itself.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// Show as well what an App cannot carry and what was assumed.
    #[arg(long)]
    pub(crate) notes: bool,
    /// How to print: table (for people) or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Which objects of a kind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Selection {
    /// In all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels, such as `tier=web,env in (test,live)`.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Only objects with these fields, such as `metadata.name=web`.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
}

/// Show objects.
///
/// Kinds go by plural, singular or short name, with their group if need be
/// (`widgets.example.org`). With --watch, -o json prints one object a line.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo get apps
  tombolo get app web -o yaml
  tombolo get app/web node/gateway-1
  tombolo get apps,sites -A -l tier=web -o wide
  tombolo get nodes --watch")]
pub(crate) struct GetArgs {
    /// KIND, KIND NAME… or KIND/NAME….
    #[arg(value_name = "WHAT", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Stay, and print every change.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// With --watch: put ADDED, MODIFIED or DELETED in front.
    #[arg(long, requires = "watch")]
    pub(crate) output_watch_events: bool,
    /// Ask the server for so many objects at a time; 0 means all at once.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) chunk_size: u32,
    /// Print the server's record of who set which field as well.
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
}

/// Show objects in full, for people: metadata, spec, status, conditions and events.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo describe app web
  tombolo describe node/gateway-1
  tombolo describe apps -l tier=web")]
pub(crate) struct DescribeArgs {
    /// KIND, KIND NAME… or KIND/NAME….
    #[arg(value_name = "WHAT", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Delete objects, after showing which and asking.
///
/// What is owned by a deleted object goes with it. Without a terminal, --yes is required.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo delete app web
  tombolo delete -f app.yaml --yes
  tombolo delete apps -l tier=test --yes --wait")]
pub(crate) struct DeleteArgs {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all.
    #[arg(value_name = "WHAT", required_unless_present = "files")]
    pub(crate) what: Vec<String>,
    /// Delete what these files name.
    #[arg(short, long = "file", value_name = "FILE", conflicts_with_all = ["what", "Selection"])]
    pub(crate) files: Vec<String>,
    /// The format of the files, if it is not recognised by itself.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format(), requires = "files")]
    pub(crate) from: Option<Descriptor>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// All objects of the kind.
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would go, and let it stay.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// It is no failure if an object is not there.
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Do not wait for agents to take down what is assigned to them; what runs on a node that does
    /// not answer ends when it returns.
    #[arg(long)]
    pub(crate) force: bool,
    /// Stay until everything is gone, and what ran of an app has ended.
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: for how long at most.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// Wait until objects are as wanted.
///
/// Ends with 7 when the time is up, or with 8 if an app is then unplaceable; and at once if the object
/// is deleted, or if nothing but a change of the app can help.
#[derive(Args, Debug)]
#[command(after_help = "\
What to wait for:
  condition=TYPE            a condition is True
  condition=TYPE=VALUE      a condition has another status
  phase=PHASE               .status.phase, such as Running
  jsonpath={.path}=VALUE    any field; without =VALUE: it is there
  create                    it exists
  delete                    it is gone

Examples:
  tombolo wait app/web --for=condition=Ready
  tombolo wait app/web --for=phase=Running --timeout 2m
  tombolo wait nodes --all --for=condition=Ready=False
  tombolo wait app/web --for=delete")]
pub(crate) struct WaitArgs {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all.
    #[arg(value_name = "WHAT", required = true)]
    pub(crate) what: Vec<String>,
    /// What to wait for.
    #[arg(long = "for", value_name = "GOAL")]
    pub(crate) goal: String,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// All objects of the kind that are there now.
    #[arg(long)]
    pub(crate) all: bool,
    /// For how long at most, all objects together.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// Show what happened, the newest last.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo events
  tombolo events --for app/web
  tombolo events -A --watch")]
pub(crate) struct EventsArgs {
    /// Only what happened to this object.
    #[arg(long = "for", value_name = "KIND/NAME")]
    pub(crate) about: Option<String>,
    /// In all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Stay, and print what happens.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Say what a kind and its fields mean.
///
/// Asks the server; for Tombolo's own kinds no server is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo explain app
  tombolo explain app.spec.components
  tombolo explain node --recursive")]
pub(crate) struct ExplainArgs {
    /// KIND, or KIND.field.path.
    #[arg(value_name = "KIND[.FIELD…]")]
    pub(crate) what: String,
    /// Show the fields of fields as well, without their texts.
    #[arg(long)]
    pub(crate) recursive: bool,
}

/// Print the JSON Schema of one of Tombolo's kinds, for editors. Needs no server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo schema app > app.schema.json")]
pub(crate) struct SchemaArgs {
    /// One of Tombolo's kinds.
    pub(crate) kind: String,
}

/// Print Tombolo's kinds as CustomResourceDefinitions, for a Kubernetes cluster. Needs no server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo crds | kubectl apply --server-side -f -")]
pub(crate) struct CrdsArgs {}

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

/// Save everything the server knows into a file, while it runs.
///
/// The file is encrypted with a key of yours, which never leaves this machine. Keep the key elsewhere than
/// the backup: without it nobody reads the backup, nor do you.
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

/// Put back what `backup` saved, in place of everything that is there now.
///
/// Revisions go on growing, so that clients notice. What was revoked since the backup was made stays
/// revoked. Shows what it does and asks.
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
    /// Do not ask.
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
    /// Only what came after this revision.
    #[arg(long, value_name = "REVISION")]
    pub(crate) after: Option<u64>,
    /// At most so many.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
}

/// Show how the server's loops fare: what each is doing, its last report and its last error.
///
/// Ends with 0 if all are well, and with 1 if one is dead or late.
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

/// Print a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo completion bash > ~/.local/share/bash-completion/completions/tombolo
  tombolo completion zsh > ~/.zfunc/_tombolo
  tombolo completion fish > ~/.config/fish/completions/tombolo.fish")]
pub(crate) struct CompletionArgs {
    /// Which shell: bash, zsh or fish.
    #[arg(value_parser = completion_shell)]
    pub(crate) shell: CompletionShell,
}

/// Show the version of this binary, and of the server if one answers within a second.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo version
  tombolo version -o json")]
pub(crate) struct VersionArgs {
    /// How to print: table, json or yaml.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Listed in the help and by the completion.
fn descriptor_format() -> impl clap::builder::TypedValueParser<Value = Descriptor> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Descriptor::ALL.iter().map(|format| format.as_str()))
        .try_map(|word| word.parse::<Descriptor>())
}

fn target_format() -> impl clap::builder::TypedValueParser<Value = Target> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Target::ALL.iter().map(|target| target.as_str()))
        .try_map(|word| word.parse::<Target>())
}

fn completion_shell(text: &str) -> Result<CompletionShell, String> {
    match text {
        "bash" => Ok(CompletionShell::Bash),
        "zsh" => Ok(CompletionShell::Zsh),
        "fish" => Ok(CompletionShell::Fish),
        other => Err(format!("`{other}` is not one of bash, zsh, fish")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    /// A change of any help text shows up in `tests/help/`, where a reviewer reads it.
    #[test]
    fn every_help_text_is_as_in_its_snapshot() {
        let command = Arguments::command().term_width(100);
        check_help(command, "tombolo");
    }

    fn check_help(mut command: clap::Command, name: &str) {
        command.build();
        let text = command.render_long_help().to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let path = format!("{}/tests/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        expect_test::expect_file![path].assert_eq(&format!("{}\n", lines.join("\n")));
        // What `tombolo help` says of a command is what `--help` says.
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let inner_name = format!("{name}-{}", inner.get_name());
            check_help(inner.clone().term_width(100), &inner_name);
        }
    }

    #[test]
    fn every_help_text_has_an_example() {
        fn without(command: &clap::Command, name: &str, found: &mut Vec<String>) {
            let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
            inner.for_each(|one| without(one, &format!("{name} {}", one.get_name()), found));
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if !after.contains("Examples:\n") {
                found.push(name.to_owned());
            }
        }
        let mut found = Vec::new();
        without(&Arguments::command(), "tombolo", &mut found);
        assert_eq!(found, [] as [&str; 0]);
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        for exit in crate::failure::Exit::ALL {
            assert!(AFTER_HELP.contains(&format!("\n  {}  ", exit.code())), "{exit:?}");
        }
    }
}
