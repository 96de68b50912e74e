//! `tombolo completion` and `tombolo man`: what is made of the definitions of the commands.

use std::{fs, path::Path};

use clap::{Command, CommandFactory as _};
use clap_complete::env::Shells;

use crate::{
    args::{Arguments, CompletionArgs, ManArgs},
    failure::{Exit, Failure},
    shell::Shell,
};

/// By which a completion script says that it asks, in the environment.
pub(crate) const VARIABLE: &str = "COMPLETE";
const NAME: &str = "tombolo";

/// The script asks this program at each Tab, so that it knows the names on the server.
pub(super) fn run(shell: &mut Shell, args: &CompletionArgs) -> Result<Exit, Failure> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name);
    let completer =
        completer.ok_or_else(|| Failure::usage(format!("there is no completion for {name}")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    shell.out.bytes(&script)?;
    Ok(Exit::Ok)
}

pub(super) fn manual(shell: &mut Shell, args: &ManArgs) -> Result<Exit, Failure> {
    let mut command = Arguments::command();
    command.build();
    let Some(folder) = &args.dir else {
        shell.out.bytes(&page(&command)?)?;
        return Ok(Exit::Ok);
    };
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    let count = write_pages(&command, NAME, folder)?;
    shell.out.line(&format!("wrote {count} pages to {}", folder.display()))?;
    Ok(Exit::Ok)
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

/// `tombolo-get.1` and so on, as git and others name theirs.
fn write_pages(command: &Command, name: &str, folder: &Path) -> Result<usize, Failure> {
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page(command)?).map_err(|error| Failure::file(&path, &error))?;
    let mut count = 1;
    let inner = command.get_subcommands();
    for one in inner.filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
        count += write_pages(one, &format!("{name}-{}", one.get_name()), folder)?;
    }
    Ok(count)
}
