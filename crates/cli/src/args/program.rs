//! What can be typed about the program itself: `completion` and `version`. Part of [`super`].

use clap::Args;
use clap_complete::Shell as CompletionShell;

use crate::output::Format;

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

fn completion_shell(text: &str) -> Result<CompletionShell, String> {
    match text {
        "bash" => Ok(CompletionShell::Bash),
        "zsh" => Ok(CompletionShell::Zsh),
        "fish" => Ok(CompletionShell::Fish),
        other => Err(format!("`{other}` is not one of bash, zsh, fish")),
    }
}
