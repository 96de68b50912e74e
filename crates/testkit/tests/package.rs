//! The Debian package: what is in it, and that it works where it is unpacked.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use tombolo_testkit::{binary, tools};

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {said}");
    String::from_utf8(stdout).unwrap().trim().to_owned()
}

#[test]
fn a_package_has_all_that_an_installation_takes() {
    let test = "package::a_package_has_all_that_an_installation_takes";
    let Some(dpkg_deb) = tools::program(test, "dpkg-deb") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/package.sh");
    let mut make = Command::new(script);
    let package = run(make.arg(binary::path()).arg(folder.path()).env("COMPRESSION", "none"));
    let name = run(Command::new(&dpkg_deb).args(["--field", &package, "Package"]));
    assert_eq!(name, "tombolo");
    let depends = run(Command::new(&dpkg_deb).args(["--field", &package, "Depends"]));
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");

    let root = folder.path().join("root");
    run(Command::new(&dpkg_deb).arg("--extract").arg(&package).arg(&root));
    let version = run(Command::new(root.join("usr/bin/tombolo")).arg("--version"));
    let told = run(Command::new(&dpkg_deb).args(["--field", &package, "Version"]));
    assert_eq!(version, format!("tombolo {told}"));
    for path in [
        "usr/lib/systemd/system/tombolo.service",
        "usr/share/man/man1/tombolo.1.gz",
        "usr/share/man/man1/tombolo-agent-install.1.gz",
        "usr/share/bash-completion/completions/tombolo",
        "usr/share/zsh/vendor-completions/_tombolo",
        "usr/share/fish/vendor_completions.d/tombolo.fish",
    ] {
        assert!(root.join(path).metadata().is_ok_and(|file| file.len() > 0), "no {path}");
    }
    // The unit calls the program where the package puts it, and in words that it knows.
    let unit =
        std::fs::read_to_string(root.join("usr/lib/systemd/system/tombolo.service")).unwrap();
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tombolo ")).unwrap();
    let mut help = Command::new(root.join("usr/bin/tombolo"));
    run(help.args(line.split(' ')).arg("--help"));
}
