//! What the checks decide on: read once, bounded, before any of them runs. Start reading at
//! [`Facts::gather`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::parse::{self, Account, Listening, Mount, Password, Sshd};
use super::workloads::Confinement;
use crate::processor;
use crate::root::{Entry, Root, Seen};
use crate::virtualization::{self, Virtualization};

const INCLUDES_MAX: usize = 64;
const FOLDERS_MAX: usize = 256;
const OWN_FILES_MAX: usize = 512;

/// Files whose text some check reads.
const TEXTS: &[&str] = &[
    "/etc/apt/apt.conf.d/20auto-upgrades",
    "/etc/default/ufw",
    "/etc/dnf/automatic.conf",
    "/etc/firewalld/firewalld.conf",
    "/etc/group",
    "/etc/iptables/rules.v4",
    "/etc/login.defs",
    "/etc/nftables.conf",
    "/etc/systemd/journald.conf",
    "/etc/ufw/ufw.conf",
    "/proc/swaps",
    "/sys/fs/selinux/enforce",
    "/sys/kernel/security/lockdown",
    "/sys/module/apparmor/parameters/enabled",
];

/// Paths whose permissions or existence some check looks at.
const ENTRIES: &[&str] = &[
    "/bin",
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/dev/shm",
    "/etc/cron.d",
    "/etc/cron.daily",
    "/etc/cron.hourly",
    "/etc/cron.monthly",
    "/etc/cron.weekly",
    "/etc/crontab",
    "/etc/docker/daemon.json",
    "/etc/group",
    "/etc/gshadow",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/ssh/sshd_config",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/ostree",
    "/root",
    "/run/chrony/chronyd.pid",
    "/run/chronyd.pid",
    "/run/docker.sock",
    "/run/ntpd.pid",
    "/run/reboot-required",
    "/run/systemd/timesync/synchronized",
    "/sbin",
    "/sys/firmware/efi",
    "/tmp",
    "/usr/bin",
    "/usr/bin/apt-get",
    "/usr/bin/dnf",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/usr/sbin/sshd",
    "/var/cache/apt/pkgcache.bin",
    "/var/lib/apt/lists",
    "/var/lib/apt/periodic/update-success-stamp",
    "/var/log",
    "/var/log/auth.log",
    "/var/log/btmp",
    "/var/log/journal",
    "/var/log/secure",
    "/var/tmp",
];

/// Settings of the kernel that some check reads.
const SYSCTLS: &[&str] = &[
    "fs.protected_fifos",
    "fs.protected_hardlinks",
    "fs.protected_regular",
    "fs.protected_symlinks",
    "fs.suid_dumpable",
    "kernel.dmesg_restrict",
    "kernel.kexec_load_disabled",
    "kernel.kptr_restrict",
    "kernel.perf_event_paranoid",
    "kernel.randomize_va_space",
    "kernel.unprivileged_bpf_disabled",
    "kernel.yama.ptrace_scope",
    "net.ipv4.conf.all.accept_redirects",
    "net.ipv4.conf.all.accept_source_route",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.all.send_redirects",
    "net.ipv4.conf.default.accept_redirects",
    "net.ipv4.conf.default.accept_source_route",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.conf.default.send_redirects",
    "net.ipv4.icmp_echo_ignore_broadcasts",
    "net.ipv4.tcp_syncookies",
    "net.ipv6.conf.all.accept_redirects",
    "net.ipv6.conf.all.accept_source_route",
    "net.ipv6.conf.default.accept_redirects",
];

/// What the machine cannot say of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// Seconds since 1970.
    pub now: i64,
    /// The agent's data folder.
    pub data: Option<&'a str>,
    /// The agent's own program.
    pub program: Option<&'a str>,
    /// How far programs of workloads are confined, if anybody has tried.
    pub confinement: Option<&'a Confinement>,
    /// The security options of the Docker engine in its own words, if it could be asked.
    pub engine: Option<&'a [String]>,
}

/// A block device that the kernel has made out of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// As in `/dev/dm-0`.
    pub node: String,
    /// As in `/dev/mapper/NAME`.
    pub name: String,
    pub encrypted: bool,
    pub made_of: Vec<String>,
}

/// All that the checks know.
#[derive(Clone, Debug)]
pub struct Facts {
    pub now: i64,
    pub container: bool,
    pub virtual_machine: bool,
    pub sshd: Seen<Sshd>,
    pub accounts: Seen<Vec<Account>>,
    pub passwords: Seen<Vec<Password>>,
    /// Lines of `sudoers` and its folder, continued ones joined.
    pub sudoers: Seen<Vec<String>>,
    /// The files of `/etc/pam.d`, as one text.
    pub pam: Seen<String>,
    pub mounts: Seen<Vec<Mount>>,
    /// Names of services that start by themselves; timers have their ending.
    pub services: Seen<BTreeSet<String>>,
    pub listening: Seen<Vec<Listening>>,
    /// What the kernel says of each weakness of the processor.
    pub weaknesses: BTreeMap<String, String>,
    pub mapped: Vec<Mapped>,
    pub secure_boot: Seen<bool>,
    pub docker: Seen<Value>,
    pub homes: BTreeMap<String, Seen<Entry>>,
    pub host_keys: BTreeMap<String, Seen<Entry>>,
    pub sudoers_files: BTreeMap<String, Seen<Entry>>,
    /// The agent's data folder.
    pub data: Option<(String, Seen<Entry>)>,
    /// Files in the data folder that hold secrets.
    pub own_secrets: BTreeMap<String, Seen<Entry>>,
    pub program: Option<(String, Seen<Entry>)>,
    /// How far programs of workloads are confined; nothing if nobody has tried.
    pub confinement: Option<Confinement>,
    /// What the Docker engine says of itself; its settings may have been given to it in other ways than its file.
    pub engine: Option<Vec<String>>,
    texts: BTreeMap<&'static str, Seen<String>>,
    entries: BTreeMap<&'static str, Seen<Entry>>,
    sysctls: BTreeMap<&'static str, Seen<String>>,
}

impl Facts {
    /// Reads everything. Nothing here fails: what cannot be read is a fact as well.
    pub fn gather(root: &Root, ask: &Ask<'_>) -> Facts {
        let (_, info) = processor::read(root);
        let virtualization = virtualization::read(root, info.hypervisor);
        let accounts = root.read("/etc/passwd").map(|text| parse::accounts(&text));
        let entry = |path: &str| (path.to_owned(), root.entry(path));
        let sudoers_files =
            in_folder(root, "/etc/sudoers.d", |name| !name.contains('.') && !name.ends_with('~'));
        Facts {
            now: ask.now,
            container: matches!(virtualization, Some(Virtualization::Container(_))),
            virtual_machine: matches!(virtualization, Some(Virtualization::Machine(_))),
            sshd: sshd(root),
            homes: homes(root, &accounts),
            accounts,
            passwords: root.read("/etc/shadow").map(|text| parse::passwords(&text)),
            sudoers: sudoers(root, sudoers_files.keys()),
            sudoers_files,
            pam: pam(root),
            mounts: root.read("/proc/mounts").map(|text| parse::mounts(&text)),
            services: services(root),
            listening: listening(root),
            weaknesses: weaknesses(root),
            mapped: mapped(root),
            secure_boot: secure_boot(root),
            docker: docker(root),
            host_keys: in_folder(root, "/etc/ssh", |name| {
                name.starts_with("ssh_host_") && name.ends_with("_key")
            }),
            data: ask.data.map(entry),
            own_secrets: ask.data.map(|data| own_secrets(root, data)).unwrap_or_default(),
            program: ask.program.map(entry),
            confinement: ask.confinement.cloned(),
            engine: ask.engine.map(<[String]>::to_vec),
            texts: TEXTS.iter().map(|path| (*path, root.read(path))).collect(),
            entries: ENTRIES.iter().map(|path| (*path, root.entry(path))).collect(),
            sysctls: SYSCTLS
                .iter()
                .map(|key| (*key, root.read(&format!("/proc/sys/{}", key.replace('.', "/")))))
                .collect(),
        }
    }

    /// The text of a file of [`TEXTS`].
    pub(super) fn text(&self, path: &str) -> Seen<&str> {
        debug_assert!(self.texts.contains_key(path), "{path} is not in TEXTS");
        self.texts.get(path).map_or(Seen::Absent, |text| text.as_ref().map(String::as_str))
    }

    /// What is at a path of [`ENTRIES`].
    pub(super) fn entry(&self, path: &str) -> Seen<Entry> {
        debug_assert!(self.entries.contains_key(path), "{path} is not in ENTRIES");
        self.entries.get(path).copied().unwrap_or(Seen::Absent)
    }

    pub(super) fn is_there(&self, path: &str) -> bool {
        self.entry(path) != Seen::Absent
    }

    /// A setting of [`SYSCTLS`].
    pub(super) fn sysctl(&self, key: &str) -> Seen<&str> {
        debug_assert!(self.sysctls.contains_key(key), "{key} is not in SYSCTLS");
        self.sysctls.get(key).map_or(Seen::Absent, |text| text.as_ref().map(|text| text.trim()))
    }

    /// The first of some services that starts by itself.
    pub(super) fn service<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let services = self.services.as_ref().present()?;
        names.iter().find(|name| services.contains(**name)).copied()
    }
}

/// The server's settings with the files that they include; absent where there is no server.
fn sshd(root: &Root) -> Seen<Sshd> {
    if root.entry("/usr/sbin/sshd") == Seen::Absent {
        return Seen::Absent;
    }
    let text = match root.read("/etc/ssh/sshd_config") {
        Seen::Present(text) => text,
        Seen::Absent => String::new(),
        Seen::Unreadable => return Seen::Unreadable,
    };
    let mut included = BTreeMap::new();
    for pattern in parse::sshd_includes(&text).into_iter().take(INCLUDES_MAX) {
        let mut texts = Vec::new();
        for path in matching(root, &pattern) {
            match root.read(&path) {
                Seen::Present(text) => texts.push(text),
                Seen::Absent => (),
                Seen::Unreadable => return Seen::Unreadable,
            }
        }
        included.insert(pattern, texts);
    }
    Seen::Present(parse::sshd(&text, &included))
}

/// Paths for a pattern with at most one star, which is in the last part.
fn matching(root: &Root, pattern: &str) -> Vec<String> {
    let absolute =
        if pattern.starts_with('/') { pattern.to_owned() } else { format!("/etc/ssh/{pattern}") };
    let Some((before, after)) = absolute.split_once('*') else { return vec![absolute] };
    let Some((folder, start)) = before.rsplit_once('/') else { return Vec::new() };
    let names = root.list(folder).into_iter().take(INCLUDES_MAX);
    let fitting = names.filter(|name| {
        name.len() >= start.len() + after.len() && name.starts_with(start) && name.ends_with(after)
    });
    fitting.map(|name| format!("{folder}/{name}")).collect()
}

fn sudoers<'a>(root: &Root, files: impl Iterator<Item = &'a String>) -> Seen<Vec<String>> {
    let mut lines = match root.read("/etc/sudoers") {
        Seen::Present(text) => parse::joined_lines(&text),
        Seen::Absent => return Seen::Absent,
        Seen::Unreadable => return Seen::Unreadable,
    };
    for path in files {
        match root.read(path) {
            Seen::Present(text) => lines.extend(parse::joined_lines(&text)),
            Seen::Absent => (),
            Seen::Unreadable => return Seen::Unreadable,
        }
    }
    Seen::Present(lines)
}

fn pam(root: &Root) -> Seen<String> {
    root.folder("/etc/pam.d").map(|names| {
        let paths = names.iter().take(FOLDERS_MAX).map(|name| format!("/etc/pam.d/{name}"));
        paths.filter_map(|path| root.read(&path).present()).collect::<Vec<_>>().join("\n")
    })
}

/// What systemd or OpenRC starts.
fn services(root: &Root) -> Seen<BTreeSet<String>> {
    let places = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
    let mut found = BTreeSet::new();
    let mut any = false;
    for place in places {
        let Seen::Present(names) = root.folder(place) else { continue };
        any = true;
        let wanted = names.iter().filter(|name| name.ends_with(".wants"));
        for folder in wanted.take(FOLDERS_MAX) {
            let units = root.list(&format!("{place}/{folder}"));
            found.extend(
                units.iter().map(|unit| unit.strip_suffix(".service").unwrap_or(unit).to_owned()),
            );
        }
    }
    if let Seen::Present(levels) = root.folder("/etc/runlevels") {
        any = true;
        for level in levels.iter().take(FOLDERS_MAX) {
            found.extend(root.list(&format!("/etc/runlevels/{level}")));
        }
    }
    if any { Seen::Present(found) } else { Seen::Absent }
}

fn listening(root: &Root) -> Seen<Vec<Listening>> {
    let four = root.read("/proc/net/tcp").map(|text| parse::listening(&text));
    let six = root.read("/proc/net/tcp6").map(|text| parse::listening(&text));
    four.map(|mut all| {
        all.extend(six.present().unwrap_or_default());
        all.sort();
        all.dedup();
        all
    })
}

fn weaknesses(root: &Root) -> BTreeMap<String, String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let names = root.list(folder).into_iter().take(FOLDERS_MAX);
    let told = names.filter_map(|name| Some((root.text(&format!("{folder}/{name}"))?, name)));
    told.map(|(text, name)| (name, text)).collect()
}

fn mapped(root: &Root) -> Vec<Mapped> {
    let names = root.list("/sys/block").into_iter().filter(|name| name.starts_with("dm-"));
    let read = |node: String| {
        let field = |field: &str| root.text(&format!("/sys/block/{node}/dm/{field}"));
        let uuid = field("uuid").unwrap_or_default();
        Mapped {
            name: field("name").unwrap_or_default(),
            encrypted: uuid.starts_with("CRYPT-"),
            made_of: root.list(&format!("/sys/block/{node}/slaves")),
            node,
        }
    };
    names.take(FOLDERS_MAX).map(read).collect()
}

/// The last byte of the variable; four bytes of attributes come before it.
fn secure_boot(root: &Root) -> Seen<bool> {
    let path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    match root.bytes(path) {
        Seen::Present(bytes) if bytes.len() == 5 => Seen::Present(bytes[4] == 1),
        Seen::Present(_) | Seen::Unreadable => Seen::Unreadable,
        Seen::Absent => Seen::Absent,
    }
}

/// The daemon's settings, empty where it has no file; absent where there is no Docker.
fn docker(root: &Root) -> Seen<Value> {
    let there = ["/run/docker.sock", "/usr/bin/dockerd", "/usr/sbin/dockerd"];
    if !there.iter().any(|path| root.exists(path)) {
        return Seen::Absent;
    }
    match root.read("/etc/docker/daemon.json") {
        Seen::Present(text) => match serde_json::from_str(&text) {
            Ok(value) => Seen::Present(value),
            Err(_) => Seen::Unreadable,
        },
        Seen::Absent => Seen::Present(Value::Null),
        Seen::Unreadable => Seen::Unreadable,
    }
}

fn homes(root: &Root, accounts: &Seen<Vec<Account>>) -> BTreeMap<String, Seen<Entry>> {
    let accounts = accounts.as_ref().present().map(Vec::as_slice).unwrap_or_default();
    let people = accounts.iter().filter(|account| account.is_person()).take(FOLDERS_MAX);
    people.map(|person| (person.home.clone(), root.entry(&person.home))).collect()
}

fn in_folder(
    root: &Root,
    folder: &str,
    wanted: impl Fn(&str) -> bool,
) -> BTreeMap<String, Seen<Entry>> {
    let names = root.list(folder).into_iter().filter(|name| wanted(name)).take(FOLDERS_MAX);
    let paths = names.map(|name| format!("{folder}/{name}"));
    paths.map(|path| (path.clone(), root.entry(&path))).collect()
}

/// Keys and tokens in the data folder and in the folders in it.
fn own_secrets(root: &Root, data: &str) -> BTreeMap<String, Seen<Entry>> {
    let mut paths: Vec<String> =
        root.list(data).iter().map(|name| format!("{data}/{name}")).collect();
    let below: Vec<String> = paths
        .iter()
        .take(OWN_FILES_MAX)
        .flat_map(|folder| {
            root.list(folder).into_iter().map(move |name| format!("{folder}/{name}"))
        })
        .collect();
    paths.extend(below);
    paths.retain(|path| parse::holds_secret(path));
    paths.truncate(OWN_FILES_MAX);
    paths.into_iter().map(|path| (path.clone(), root.entry(&path))).collect()
}
