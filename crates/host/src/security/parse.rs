//! The files of a system's set-up as values: text in, values out. Called by
//! [`super::facts::Facts::gather`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Lines of one file that are looked at; a longer file is not what it should be.
const LINES_MAX: usize = 65536;

/// Settings of the ssh server that hold for everyone, by name in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sshd {
    settings: BTreeMap<String, String>,
}

impl Sshd {
    /// In lower case; nothing if the file leaves it to the server.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name).map(|value| value.to_lowercase())
    }
}

/// A line of `/etc/passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub user: u32,
    pub home: String,
    pub shell: String,
}

impl Account {
    pub fn can_log_in(&self) -> bool {
        let shell = self.shell.rsplit('/').next().unwrap_or_default();
        !["nologin", "false", "sync", "halt", "shutdown"].contains(&shell)
    }

    pub fn is_person(&self) -> bool {
        (1000..65534).contains(&self.user) && self.can_log_in() && self.home.starts_with('/')
    }
}

/// A line of `/etc/shadow`, as far as anyone needs to know: never the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Password {
    pub name: String,
    pub kind: PasswordKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordKind {
    /// Nobody is asked for a password.
    Empty,
    /// None fits.
    Locked,
    /// Its hash takes long to guess.
    Strong,
    /// Its hash is quickly guessed.
    Weak,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub source: String,
    pub target: String,
    pub kind: String,
    pub options: Vec<String>,
}

/// A port on which someone waits for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listening {
    pub port: u16,
    pub address: IpAddr,
}

impl Listening {
    pub fn is_for_this_machine_only(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.is_loopback(),
            IpAddr::V6(address) => {
                address.is_loopback()
                    || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
            }
        }
    }
}

/// The patterns of the files that the settings include.
pub fn sshd_includes(text: &str) -> Vec<String> {
    let settings = sshd_lines(text).filter(|(name, _)| name == "include");
    settings.flat_map(|(_, value)| words(&value)).collect()
}

/// The first value of a setting counts. What follows a `Match` holds for some only and is left out;
/// that of an included file ends with it.
pub fn sshd(text: &str, included: &BTreeMap<String, Vec<String>>) -> Sshd {
    let mut sshd = Sshd::default();
    for (name, value) in sshd_lines(text) {
        match name.as_str() {
            "match" => break,
            "include" => {
                let texts = words(&value).into_iter().filter_map(|pattern| included.get(&pattern));
                for text in texts.flatten() {
                    let unconditional = sshd_lines(text).take_while(|(name, _)| name != "match");
                    for (name, value) in unconditional {
                        sshd.settings.entry(name).or_insert(value);
                    }
                }
            }
            _ => drop(sshd.settings.entry(name).or_insert(value)),
        }
    }
    sshd
}

fn sshd_lines(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().take(LINES_MAX).map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (name, value) =
            line.split_once(|letter: char| letter.is_whitespace() || letter == '=')?;
        let value =
            value.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '=');
        Some((name.to_lowercase(), value.trim().trim_matches('"').to_owned()))
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect()
}

pub fn accounts(text: &str) -> Vec<Account> {
    let lines = text.lines().take(LINES_MAX);
    lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, user, _, _, home, shell] = fields[..] else { return None };
            Some(Account {
                name: name.to_owned(),
                user: user.parse().ok()?,
                home: home.to_owned(),
                shell: shell.to_owned(),
            })
        })
        .collect()
}

pub fn passwords(text: &str) -> Vec<Password> {
    let lines = text.lines().take(LINES_MAX);
    lines
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
            Some(Password { name, kind: password_kind(fields.next()?) })
        })
        .collect()
}

fn password_kind(hash: &str) -> PasswordKind {
    let strong = ["$y$", "$gy$", "$7$", "$6$", "$5$", "$2a$", "$2b$", "$2y$"];
    match hash {
        "" => PasswordKind::Empty,
        _ if hash.starts_with(['!', '*']) => PasswordKind::Locked,
        _ if strong.iter().any(|start| hash.starts_with(start)) => PasswordKind::Strong,
        _ => PasswordKind::Weak,
    }
}

/// Lines without comments; one that ends in a backslash goes on in the next.
pub fn joined_lines(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    // `#1000` names a user by number; every other `#` begins a comment.
    let comment = |line: &str| {
        line.strip_prefix('#')
            .is_some_and(|rest| !rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let lines = text.lines().take(LINES_MAX).map(str::trim);
    lines.filter(|line| !line.is_empty() && !comment(line)).map(str::to_owned).collect()
}

pub fn mounts(text: &str) -> Vec<Mount> {
    let lines = text.lines().take(LINES_MAX);
    lines
        .filter_map(|line| {
            let mut fields = line.split(' ');
            Some(Mount {
                source: fields.next()?.to_owned(),
                target: fields.next()?.replace("\\040", " "),
                kind: fields.next()?.to_owned(),
                options: fields.next()?.split(',').map(str::to_owned).collect(),
            })
        })
        .collect()
}

/// Reads `/proc/net/tcp` and `tcp6`; 0A is the state of a socket that listens.
pub fn listening(text: &str) -> Vec<Listening> {
    let lines = text.lines().skip(1).take(LINES_MAX);
    lines
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (address, port) = fields.next()?.split_once(':')?;
            if fields.nth(1)? != "0A" {
                return None;
            }
            Some(Listening { port: u16::from_str_radix(port, 16).ok()?, address: ip(address)? })
        })
        .collect()
}

/// Words of four bytes, each in the machine's own order.
fn ip(text: &str) -> Option<IpAddr> {
    let word = |start: usize| {
        let number = u32::from_str_radix(text.get(start..start + 8)?, 16).ok()?;
        Some(number.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// Whether a file in the agent's data folder holds a secret, by its name.
pub fn holds_secret(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    [".key", ".token", ".secret", ".sealed"].iter().any(|ending| name.ends_with(ending))
        || ["token", "secrets", "kubeconfig"].contains(&name)
}

/// Fields `NAME value` of a file such as `login.defs`; the last counts.
pub fn field(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().take(LINES_MAX).map(str::trim);
    let values = lines.filter_map(|line| {
        let (key, value) = line.split_once(char::is_whitespace)?;
        (key == name).then(|| value.trim().to_owned())
    });
    values.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts_and_conditions_do_not() {
        let text = "# PermitRootLogin yes\nInclude /etc/ssh/sshd_config.d/*.conf\n\
                    permitrootlogin No\nPermitRootLogin yes\nPort=2222\nBanner \"a b\"\n\
                    Match User x\nX11Forwarding yes\n";
        assert_eq!(sshd_includes(text), ["/etc/ssh/sshd_config.d/*.conf"]);
        let first = "PasswordAuthentication no\nMatch all\nMaxAuthTries 3\n".to_owned();
        let second = "PasswordAuthentication yes\n".to_owned();
        let pattern = "/etc/ssh/sshd_config.d/*.conf".to_owned();
        let sshd = sshd(text, &BTreeMap::from([(pattern, vec![first, second])]));
        let setting = |name: &str| sshd.setting(name);
        assert_eq!(setting("permitrootlogin").as_deref(), Some("no"));
        assert_eq!(setting("passwordauthentication").as_deref(), Some("no"));
        assert_eq!(setting("port").as_deref(), Some("2222"));
        assert_eq!(setting("banner").as_deref(), Some("a b"));
        assert_eq!(setting("maxauthtries"), None);
        assert_eq!(setting("x11forwarding"), None);
    }

    #[test]
    fn a_hash_is_judged_and_not_kept() {
        let text =
            "a::1:\nb:!:1:\nc:*:1:\nd:$y$j9T$x:1:\ne:$1$x$y:1:\nf:abJnggxhB/yWI:1:\nbroken\n";
        let kinds: Vec<PasswordKind> = passwords(text).iter().map(|found| found.kind).collect();
        use PasswordKind::{Empty, Locked, Strong, Weak};
        assert_eq!(kinds, [Empty, Locked, Locked, Strong, Weak, Weak]);
    }

    #[test]
    fn broken_lines_of_accounts_are_passed_over() {
        let text = "x:x:0:0:root:/x:/bin/bash\nbroken\na:x:nan:1::/:/bin/sh\n\
                    b:x:1000:1000::/home/b:/usr/sbin/nologin\nc:x:1001:1001::/home/c:/bin/zsh\n";
        let found = accounts(text);
        let people: Vec<bool> = found.iter().map(Account::is_person).collect();
        assert_eq!(people, [false, false, true]);
    }

    #[test]
    fn rules_may_go_on_in_the_next_line() {
        let text =
            "# comment\n#1000 ALL=(ALL) ALL\nDefaults use_pty\nx ALL=(ALL) \\\n  NOPASSWD: ALL\n\n";
        assert_eq!(
            joined_lines(text),
            ["#1000 ALL=(ALL) ALL", "Defaults use_pty", "x ALL=(ALL)    NOPASSWD: ALL"]
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn only_who_waits_is_listening() {
        let text = "sl local_address rem_address st\n\
                    0: 00000000:0016 00000000:0000 0A 0\n\
                    1: 0100007F:0CEA 00000000:0000 0A 0\n\
                    2: 020200C0:0016 010200C0:8000 01 0\n\
                    3: 00000000000000000000000001000000:1F90 0:0 0A\n\
                    4: 0000000000000000FFFF00000100007F:1F91 0:0 0A\n\
                    broken\n5: xyz:1 0:0 0A\n";
        let found = listening(text);
        let ports: Vec<(u16, bool)> =
            found.iter().map(|found| (found.port, found.is_for_this_machine_only())).collect();
        assert_eq!(ports, [(22, false), (3306, true), (8080, true), (8081, true)]);
    }

    #[test]
    fn the_last_field_of_a_name_counts() {
        let text = "# UMASK 022\nUMASK\t\t022\nUMASK 027\nUMASKS 1\n";
        assert_eq!(field(text, "UMASK").as_deref(), Some("027"));
        assert_eq!(field(text, "NONE"), None);
    }

    #[test]
    fn secrets_of_the_data_folder_are_known_by_name() {
        for path in ["/d/ca.key", "/d/admin.token", "/d/pki/agent.key", "/d/kubeconfig"] {
            assert!(holds_secret(path), "{path}");
        }
        for path in ["/d/ca.crt", "/d/store.redb", "/d/keys"] {
            assert!(!holds_secret(path), "{path}");
        }
    }
}
