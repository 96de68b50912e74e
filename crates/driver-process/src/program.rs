//! The program of an instance: which file it is, as which user it runs, and what `$(NAME)` in its
//! arguments stands for. Found out before anything is started, so that the message can help.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tombolo_driver::{Error, Result, Secret};

/// Where programs are looked for when nobody says.
pub(crate) const PATH_DEFAULT: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The file of a command: a path, from the working directory on, or a name that is looked for.
pub(crate) fn find(command: &str, workdir: &Path, path: &str) -> Result<PathBuf> {
    if command.is_empty() || command.contains('\0') {
        return Err(Error::Invalid { what: format!("{command:?} is not a command") });
    }
    let folders: Vec<&str> = match command.contains('/') {
        true => Vec::new(),
        false => path.split(':').filter(|folder| !folder.is_empty()).collect(),
    };
    let candidates = match command.contains('/') {
        true => vec![workdir.join(command)],
        false => folders.iter().map(|folder| Path::new(folder).join(command)).collect(),
    };
    let is_file = |candidate: &&PathBuf| fs::metadata(candidate).is_ok_and(|found| found.is_file());
    let may = |candidate: &&PathBuf| {
        fs::metadata(candidate).is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
    };
    let found: Vec<&PathBuf> = candidates.iter().filter(is_file).collect();
    match (found.iter().copied().find(may), found.first()) {
        (Some(program), _) => Ok(program.clone()),
        (None, Some(_)) => Err(Error::NotExecutable {
            command: command.to_owned(),
            source: Arc::new(io::Error::from(io::ErrorKind::PermissionDenied)),
        }),
        (None, None) => Err(Error::CommandNotFound {
            command: command.to_owned(),
            looked_in: folders.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// Whether the kernel takes the file for a program. Asked before the file is executed, because the C
/// library has a shell run whatever the kernel refuses.
pub(crate) fn check_format(program: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    // Who may execute a file need not be allowed to read it.
    let Ok(file) = fs::File::open(program) else { return Ok(()) };
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    match is_program(&head, &formats()) {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(NOT_A_PROGRAM)),
    }
}

/// `ENOEXEC`: a file that may be executed and is no program for this machine.
pub(crate) const NOT_A_PROGRAM: i32 = 8;
/// As much as tells a script and a program of the machine from others.
const HEAD_BYTES: u64 = 4;

/// `formats` are those that were registered with the kernel beside its own; they look at more than the
/// head, so with one of them it is left to the kernel.
fn is_program(head: &[u8], formats: &[String]) -> bool {
    head.starts_with(b"#!") || head.starts_with(b"\x7fELF") || !formats.is_empty()
}

fn formats() -> Vec<String> {
    let entries = fs::read_dir("/proc/sys/fs/binfmt_misc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name != "register" && name != "status").collect()
}

/// The program that the first line of a script names.
pub(crate) fn interpreter(script: &Path) -> Option<String> {
    let bytes = fs::read(script).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?.strip_prefix(b"#!")?;
    let line = String::from_utf8_lossy(line).into_owned();
    line.split_ascii_whitespace().next().map(str::to_owned)
}

/// User and group by number, if they differ from the agent's own. Only root can become another.
pub(crate) fn user(wanted: Option<&str>) -> Result<Option<(u32, u32)>> {
    let Some(wanted) = wanted else { return Ok(None) };
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let no_such = || Error::NoSuchUser { user: wanted.to_owned() };
    let found = look_up(wanted, &passwd, &groups).ok_or_else(no_such)?;
    let own = rustix::process::geteuid().as_raw();
    match (own, found.0) {
        (0, _) => Ok(Some(found)),
        (own, user) if own == user => Ok(None),
        (_, _) => Err(Error::NotPermitted {
            doing: format!("run as user {wanted:?}"),
            source: Arc::new(io::Error::from(io::ErrorKind::PermissionDenied)),
        }),
    }
}

/// `name`, `number`, or either with `:group`.
fn look_up(wanted: &str, passwd: &str, groups: &str) -> Option<(u32, u32)> {
    let (user, group) = match wanted.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (wanted, None),
    };
    let fields = |line: &str, name: &str| {
        let fields: Vec<String> = line.split(':').map(str::to_owned).collect();
        (fields.first()? == name).then_some(fields)
    };
    let row = passwd.lines().find_map(|line| fields(line, user));
    let by_number = || passwd.lines().find(|line| line.split(':').nth(2) == Some(user));
    let row = row.or_else(|| by_number().map(|line| line.split(':').map(str::to_owned).collect()));
    let number = |position: usize| row.as_ref()?.get(position)?.parse::<u32>().ok();
    let user = number(2).or_else(|| user.parse().ok())?;
    let group = match group {
        Some(group) => {
            let row = groups.lines().find_map(|line| fields(line, group));
            row.and_then(|row| row.get(2)?.parse().ok()).or_else(|| group.parse().ok())?
        }
        // A number that nobody has is its own group.
        None => number(3).unwrap_or(user),
    };
    Some((user, group))
}

/// Puts in place of `$(NAME)` what the variable holds. A variable that is not there stays as it is
/// written, and so does `$$(NAME)`, without its first letter.
fn expand(text: &str, env: &BTreeMap<String, Secret>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
            continue;
        }
        let named = rest.strip_prefix("$(").and_then(|named| named.split_once(')'));
        let value = named.and_then(|(name, after)| Some((env.get(name)?, after)));
        match value {
            Some((value, after)) => {
                out.push_str(&String::from_utf8_lossy(value.expose()));
                rest = after;
            }
            None => {
                out.push('$');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

pub(crate) fn expand_all(texts: &[String], env: &BTreeMap<String, Secret>) -> Vec<String> {
    texts.iter().map(|text| expand(text, env)).collect()
}

/// As [`expand`]; what is no text stays as it is.
pub(crate) fn expand_secret(value: &Secret, env: &BTreeMap<String, Secret>) -> Secret {
    match str::from_utf8(value.expose()) {
        Ok(text) => Secret::from(expand(text, env).as_str()),
        Err(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_place_and_nothing_else_is() {
        let env = BTreeMap::from([("PORT_80".to_owned(), Secret::from("20080"))]);
        let check = |text: &str, expected: &str| assert_eq!(expand(text, &env), expected, "{text}");
        check("--port=$(PORT_80)", "--port=20080");
        check("$(PORT_80)$(PORT_80)", "2008020080");
        check("$(PORT_81) $PORT_80 $( $(", "$(PORT_81) $PORT_80 $( $(");
        check("$$(PORT_80) costs 5$", "$(PORT_80) costs 5$");
    }

    #[test]
    fn what_is_no_program_is_left_to_formats_that_the_kernel_was_taught() {
        let check = |head: &[u8], formats: &[String], expected: bool| {
            assert_eq!(is_program(head, formats), expected, "{head:?} {formats:?}");
        };
        check(b"#!/b", &[], true);
        check(b"\x7fELF", &[], true);
        check(b"\x01\x02\x03", &[], false);
        check(b"", &[], false);
        check(b"\x01\x02\x03", &["qemu-arm".to_owned()], true);
    }

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34::/:/bin/false\n";
        let groups = "root:x:0:\nvideo:x:44:web\n";
        let check = |wanted: &str, expected: Option<(u32, u32)>| {
            assert_eq!(look_up(wanted, passwd, groups), expected, "{wanted}");
        };
        check("web", Some((33, 34)));
        check("33", Some((33, 34)));
        check("web:video", Some((33, 44)));
        check("web:7", Some((33, 7)));
        check("1234", Some((1234, 1234)));
        check("nobody-here", None);
        check("web:no-such", None);
    }

    #[test]
    fn a_command_is_found_or_the_message_says_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_str().unwrap();
        fs::write(folder.path().join("plain"), "").unwrap();
        assert!(find("sh", folder.path(), PATH_DEFAULT).is_ok());
        let error = find("no-such", folder.path(), &format!("{here}:/nowhere")).unwrap_err();
        let expected = format!("command \"no-such\" was not found in {here}:/nowhere");
        assert_eq!(error.to_string(), expected);
        assert_eq!(find("plain", folder.path(), here).unwrap_err().reason(), "NotExecutable");
        assert_eq!(find("./no", folder.path(), here).unwrap_err().reason(), "CommandNotFound");
        assert_eq!(find("", folder.path(), here).unwrap_err().reason(), "Invalid");
    }
}
