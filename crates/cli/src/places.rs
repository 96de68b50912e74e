//! Where things lie on this machine: the data folder and the kubeconfig in it.
//!
//! `tombolo up` writes there, the shell reads there; both ask here, so that they agree.

use std::path::{Path, PathBuf};

/// `$XDG_DATA_HOME/tombolo`, else `~/.local/share/tombolo`; `None` if there is no home either.
pub(crate) fn default_data_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    data_folder(variable("XDG_DATA_HOME"), variable("HOME"))
}

/// Where `tombolo up --demo` keeps everything: beside the folder of an ordinary server.
pub(crate) fn demo_folder() -> Option<PathBuf> {
    default_data_folder().map(|data| data.with_file_name("tombolo-demo"))
}

/// What `tombolo login` writes: `$XDG_CONFIG_HOME/tombolo/kubeconfig`, else `~/.config/tombolo/kubeconfig`.
pub(crate) fn login_file() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let base = below(variable("XDG_CONFIG_HOME"), variable("HOME"), ".config");
    base.map(|base| base.join("tombolo/kubeconfig"))
}

/// The client configuration within a data folder.
pub(crate) fn kubeconfig_in(data: &Path) -> PathBuf {
    data.join("kubeconfig")
}

fn data_folder(xdg_data_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    below(xdg_data_home, home, ".local/share").map(|base| base.join("tombolo"))
}

/// Relative values of the variables are to be ignored, says their specification.
fn below(xdg: Option<PathBuf>, home: Option<PathBuf>, usual: &str) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    xdg.filter(absolute).or_else(|| home.filter(absolute).map(|home| home.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(xdg_data_home: Option<&str>, home: Option<&str>, expected: Option<&str>) {
        let found = data_folder(xdg_data_home.map(PathBuf::from), home.map(PathBuf::from));
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn the_data_folder_follows_the_environment() {
        check(Some("/x"), Some("/home/a"), Some("/x/tombolo"));
        check(None, Some("/home/a"), Some("/home/a/.local/share/tombolo"));
        check(Some("relative"), Some("/home/a"), Some("/home/a/.local/share/tombolo"));
        check(Some(""), None, None);
        check(None, None, None);
    }
}
