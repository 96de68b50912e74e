//! What can be typed about the program itself: `completion` and `version`. Part of [`super`].

use clap::Args;
use clap_complete::Shell as CompletionShell;

use crate::output::Format;

/// Print a completion script for a shell.
///
/// It completes commands, options, and names: of apps, components, nodes, namespaces and contexts, as the
/// server knows them at that moment.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo completion bash > ~/.local/share/bash-completion/completions/tombolo
  tombolo completion zsh > ~/.zfunc/_tombolo
  tombolo completion fish > ~/.config/fish/completions/tombolo.fish
  tombolo completion elvish >> ~/.config/elvish/rc.elv
  tombolo completion powershell >> $PROFILE")]
pub(crate) struct CompletionArgs {
    /// Which shell.
    #[arg(value_enum)]
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
