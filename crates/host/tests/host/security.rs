//! A machine that keeps every rule, and for every rule a change that breaks just that one.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use tombolo_host::security::{self, Facts, Report, TABLES, Verdict};

use super::fixture::{self, Fixture};
use super::skip;

/// 2026-01-15, in seconds since 1970.
const NOW: i64 = 1_768_435_200;

const SSHD: &str = "\
Include /etc/ssh/sshd_config.d/*.conf
PermitRootLogin no
MaxAuthTries 3
LoginGraceTime 1m
X11Forwarding no
ClientAliveInterval 300
KexAlgorithms -diffie-hellman-group1-sha1
Match User backup
    PasswordAuthentication yes
";

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
sync:x:4:65534:sync:/bin:/bin/sync
ada:x:1000:1000::/home/ada:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";

const SHADOW: &str =
    "root:!:19000:0:99999:7:::\ndaemon:*:19000::::::\nada:$y$j9T$salt$hash:19000::::::\n";

const MOUNTS: &str = "\
/dev/mapper/luks-top / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw,nosuid,nodev 0 0
tmpfs /var/tmp tmpfs rw,nosuid,nodev 0 0
tmpfs /dev/shm tmpfs rw,nosuid,nodev,noexec 0 0
/dev/mapper/home /home ext4 rw,nodev 0 0
";

const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue
   0: 00000000:0016 00000000:0000 0A 00000000:00000000
   1: 0100007F:0CEA 00000000:0000 0A 00000000:00000000
";

const DAEMON: &str =
    r#"{"no-new-privileges":true,"userns-remap":"default","log-opts":{"max-size":"10m"}}"#;

/// A machine on which all is well.
pub(crate) fn hardened() -> Fixture {
    let secure_boot = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    permissions(settings(fixture::laptop()))
        .bytes("/usr/sbin/sshd", b"")
        .text("/etc/ssh/sshd_config", SSHD)
        .text("/etc/ssh/sshd_config.d/10-keys.conf", "PasswordAuthentication no\n")
        .text("/etc/ssh/ssh_host_ed25519_key", "")
        .text("/etc/passwd", PASSWD)
        .text("/etc/shadow", SHADOW)
        .text("/etc/group", "root:x:0:\ndocker:x:999:\n")
        .text("/etc/login.defs", "ENCRYPT_METHOD YESCRYPT\nUMASK 027\n")
        .text("/etc/pam.d/common-auth", "auth required pam_faillock.so preauth\n")
        .text("/etc/pam.d/common-password", "password requisite pam_pwquality.so retry=3\n")
        .text("/etc/sudoers", "Defaults use_pty\n@includedir /etc/sudoers.d\n")
        .text("/etc/sudoers.d/ada", "ada ALL=(ALL) \\\n  /usr/bin/systemctl\n")
        .text("/proc/mounts", MOUNTS)
        .text("/proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100\n")
        .text("/proc/net/tcp", TCP)
        .text("/etc/ufw/ufw.conf", "ENABLED=yes\n")
        .text("/etc/default/ufw", "DEFAULT_INPUT_POLICY=\"DROP\"\n")
        .text("/etc/apt/apt.conf.d/20auto-upgrades", "APT::Periodic::Unattended-Upgrade \"1\";\n")
        .bytes("/usr/bin/apt-get", b"")
        .folder("/var/lib/apt/lists")
        .text("/run/systemd/timesync/synchronized", "")
        .folder("/var/log/journal")
        .link("/etc/systemd/system/multi-user.target.wants/auditd.service", "/lib/x")
        .bytes(secure_boot, &[6, 0, 0, 0, 1])
        .socket("/run/docker.sock")
        .text("/etc/docker/daemon.json", DAEMON)
        .text("/data/agent.key", "")
        .text("/data/pki/ca.key", "")
        .text("/data/store.redb", "")
        .bytes("/opt/tombolo", b"")
}

/// The kernel's settings.
fn settings(fixture: Fixture) -> Fixture {
    let ipv4 = &[("accept_redirects", "0"), ("accept_source_route", "0"), ("send_redirects", "0")];
    fixture
        .values(
            "/proc/sys/kernel",
            &[
                ("randomize_va_space", "2"),
                ("kptr_restrict", "1"),
                ("dmesg_restrict", "1"),
                ("yama/ptrace_scope", "1"),
                ("unprivileged_bpf_disabled", "2"),
                ("perf_event_paranoid", "3"),
                ("kexec_load_disabled", "1"),
            ],
        )
        .values(
            "/proc/sys/fs",
            &[
                ("suid_dumpable", "0"),
                ("protected_symlinks", "1"),
                ("protected_hardlinks", "1"),
                ("protected_fifos", "1"),
                ("protected_regular", "2"),
            ],
        )
        .values("/proc/sys/net/ipv4/conf/all", ipv4)
        .values("/proc/sys/net/ipv4/conf/default", ipv4)
        .values("/proc/sys/net/ipv4/conf", &[("all/rp_filter", "0"), ("default/rp_filter", "2")])
        .values(
            "/proc/sys/net/ipv4",
            &[("tcp_syncookies", "1"), ("icmp_echo_ignore_broadcasts", "1")],
        )
        .values("/sys/module/apparmor/parameters", &[("enabled", "Y")])
        .values(
            "/sys/devices/system/cpu/vulnerabilities",
            &[("meltdown", "Mitigation: PTI"), ("l1tf", "Not affected")],
        )
}

fn permissions(fixture: Fixture) -> Fixture {
    let folders =
        ["/root", "/home/ada", "/dev/shm", "/var/tmp", "/var/log", "/etc/cron.d", "/usr/local/bin"];
    let fixture = folders.iter().fold(fixture, |fixture, path| fixture.folder(path));
    let fixture = fixture.text("/boot/grub/grub.cfg", "").text("/var/log/auth.log", "");
    let modes = [
        ("/root", 0o700),
        ("/home/ada", 0o750),
        ("/dev/shm", 0o1777),
        ("/tmp", 0o1777),
        ("/var/tmp", 0o1777),
        ("/boot/grub/grub.cfg", 0o600),
        ("/var/log/auth.log", 0o640),
        ("/etc/shadow", 0o640),
        ("/etc/passwd", 0o644),
        ("/etc/group", 0o644),
        ("/etc/sudoers", 0o440),
        ("/etc/sudoers.d/ada", 0o440),
        ("/etc/ssh/ssh_host_ed25519_key", 0o600),
        ("/etc/ssh/sshd_config", 0o600),
        ("/run/docker.sock", 0o660),
        ("/etc/docker/daemon.json", 0o644),
        ("/data", 0o700),
        ("/data/agent.key", 0o600),
        ("/data/pki/ca.key", 0o600),
        ("/opt/tombolo", 0o755),
    ];
    modes.iter().fold(fixture, |fixture, (path, mode)| fixture.mode(path, *mode))
}

/// A machine as careless people leave it.
pub(crate) fn careless() -> Fixture {
    fixture::server()
        .bytes("/usr/sbin/sshd", b"")
        .text("/etc/ssh/sshd_config", "PermitRootLogin yes\nX11Forwarding yes\n")
        .text("/etc/passwd", "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n")
        .text("/etc/shadow", "root:abJnggxhB/yWI:1::::::\ntoor::1::::::\n")
        .mode("/etc/shadow", 0o644)
        .text("/etc/sudoers", "ALL ALL=(ALL) NOPASSWD: ALL\n")
        .text("/proc/mounts", "/dev/sda1 / ext4 rw 0 0\n")
        .text("/proc/net/tcp", "sl\n0: 00000000:0017 0:0 0A\n1: 00000000:0947 0:0 0A\n")
        .text("/etc/docker/daemon.json", r#"{"hosts":["tcp://0.0.0.0:2375"]}"#)
        .folder("/etc/systemd/system")
}

fn judge(fixture: &Fixture) -> Report {
    let written = fixture.write();
    let ask = security::Ask {
        now: NOW,
        data: Some("/data"),
        program: Some("/opt/tombolo"),
        confinement: Some(&fixture.confinement),
        engine: fixture.engine.as_deref(),
    };
    let lists = written.path("/var/lib/apt/lists");
    if lists.exists() {
        let week_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_830_400);
        std::fs::File::open(lists).unwrap().set_modified(week_ago).unwrap();
    }
    security::judge(&Facts::gather(&written.root, &ask))
}

fn verdict(report: &Report, id: &str) -> Verdict {
    report.rows.iter().find(|row| row.id == id).unwrap().outcome.verdict
}

/// The change breaks the one rule, and no other.
#[track_caller]
fn breaks(id: &str, change: fn(Fixture) -> Fixture) {
    let report = judge(&change(hardened()));
    let failed: Vec<&str> = report
        .rows
        .iter()
        .filter(|row| matches!(row.outcome.verdict, Verdict::Fail | Verdict::Unknown))
        .map(|row| row.id)
        .collect();
    assert_eq!(failed, [id], "{:#?}", report.rows.iter().find(|row| row.id == id));
    assert_eq!(verdict(&report, id), Verdict::Fail);
    assert!(report.score < 100);
}

#[test]
fn a_machine_that_keeps_every_rule_has_the_full_score() {
    if skip::unless_root("a_machine_that_keeps_every_rule_has_the_full_score") {
        return;
    }
    let report = judge(&hardened());
    let odd: Vec<_> =
        report.rows.iter().filter(|row| row.outcome.verdict != Verdict::Pass).collect();
    assert!(odd.is_empty(), "{odd:#?}");
    assert_eq!(report.score, 100);
}

#[test]
fn every_rule_can_be_broken_alone() {
    if skip::unless_root("every_rule_can_be_broken_alone") {
        return;
    }
    for (id, change) in BREAKS {
        breaks(id, *change);
    }
    let broken: BTreeSet<&str> = BREAKS.iter().map(|(id, _)| *id).collect();
    let all: BTreeSet<&str> =
        TABLES.iter().flat_map(|table| table.checks).map(|check| check.id).collect();
    assert_eq!(broken, all, "every check needs a change that breaks it");
}

#[test]
fn a_careless_machine_is_told_so() {
    if skip::unless_root("a_careless_machine_is_told_so") {
        return;
    }
    let report = judge(&careless());
    let gravest = [
        "TMB-SSH-001",
        "TMB-ACC-001",
        "TMB-ACC-002",
        "TMB-SUDO-001",
        "TMB-LST-001",
        "TMB-DOCK-002",
    ];
    for id in gravest {
        assert_eq!(verdict(&report, id), Verdict::Fail, "{id}");
    }
    assert!(report.score < 50, "{}", report.score);
}

#[test]
fn what_may_not_be_looked_at_is_unknown_and_counts_as_not_passed() {
    if skip::unless_root("what_may_not_be_looked_at_is_unknown_and_counts_as_not_passed") {
        return;
    }
    let hidden = hardened().without("/etc/shadow").folder("/etc/shadow").mode("/etc/shadow", 0o640);
    let report = judge(&hidden);
    assert_eq!(verdict(&report, "TMB-ACC-002"), Verdict::Unknown);
    assert_eq!(verdict(&report, "TMB-ACC-003"), Verdict::Unknown);
    assert!(report.score < 100);
}

#[test]
fn what_is_not_there_does_not_count() {
    let report = judge(&Fixture::default());
    for id in ["TMB-SSH-001", "TMB-DOCK-001", "TMB-SUDO-001", "TMB-BOOT-001", "TMB-FILE-002"] {
        assert_eq!(verdict(&report, id), Verdict::NotApplicable, "{id}");
    }
    let container = judge(&fixture::container());
    for id in ["TMB-FW-001", "TMB-TIME-001", "TMB-LOG-001", "TMB-BOOT-002", "TMB-MNT-001"] {
        assert_eq!(verdict(&container, id), Verdict::NotApplicable, "{id}");
    }
    let rented = judge(&fixture::virtual_machine());
    assert_eq!(verdict(&rented, "TMB-BOOT-002"), Verdict::NotApplicable);
}

#[test]
fn ids_are_never_used_twice_and_texts_fit_a_table() {
    let mut ids = BTreeSet::new();
    for check in TABLES.iter().flat_map(|table| table.checks) {
        assert!(ids.insert(check.id), "{} is there twice", check.id);
        assert!((1..=10).contains(&check.weight), "{}", check.id);
        for text in [check.title, check.why, check.mend] {
            assert!(!text.contains(['|', '\n']) && !text.contains("  "), "{}", check.id);
        }
        assert!(check.why.ends_with('.') && check.mend.ends_with('.'), "{}", check.id);
        assert!(!check.title.ends_with('.'), "{}", check.id);
    }
    assert!(ids.len() >= 30);
}

/// Other firewalls than that of the machine on which all is well.
#[test]
fn every_kind_of_firewall_is_known() {
    #[track_caller]
    fn check(change: fn(Fixture) -> Fixture, expected: &Expect) {
        let report = judge(&change(hardened().without("/etc/ufw/ufw.conf")));
        let found = report.rows.iter().filter(|row| row.id.starts_with("TMB-FW"));
        let lines: Vec<String> = found
            .map(|row| format!("{} {}", row.outcome.verdict.word(), row.outcome.found))
            .collect();
        expected.assert_eq(&lines.join("\n"));
    }
    check(
        |fixture| {
            fixture
                .link("/etc/systemd/system/sysinit.target.wants/nftables.service", "/x")
                .text("/etc/nftables.conf", "chain in { type filter hook input; policy drop; }\n")
        },
        &expect![[r#"
            pass nftables
            pass nftables denies by default"#]],
    );
    check(
        |fixture| {
            fixture
                .link("/etc/systemd/system/multi-user.target.wants/firewalld.service", "/x")
                .text("/etc/firewalld/firewalld.conf", "DefaultZone=trusted\n")
        },
        &expect![[r#"
            pass firewalld
            FAIL firewalld allows by default"#]],
    );
    check(
        |fixture| {
            fixture.link(
                "/etc/systemd/system/multi-user.target.wants/netfilter-persistent.service",
                "/x",
            )
        },
        &expect![[r#"
            pass iptables
            unknown cannot read the rules of iptables"#]],
    );
    check(
        |fixture| fixture,
        &expect![[r#"
            FAIL none of nftables, ufw, firewalld and iptables is enabled
            n/a there is no firewall"#]],
    );
}

type Change = fn(Fixture) -> Fixture;

fn sshd(fixture: Fixture, line: &str) -> Fixture {
    fixture.text("/etc/ssh/sshd_config", &format!("{line}\n{SSHD}"))
}

fn passwd(fixture: Fixture, line: &str) -> Fixture {
    fixture.text("/etc/passwd", &format!("{PASSWD}{line}\n"))
}

fn sysctl(fixture: Fixture, key: &str, value: &str) -> Fixture {
    fixture.text(&format!("/proc/sys/{}", key.replace('.', "/")), value)
}

fn mounts(fixture: Fixture, line: &str) -> Fixture {
    fixture.text("/proc/mounts", &format!("{MOUNTS}{line}\n"))
}

fn open(fixture: Fixture, port: u16) -> Fixture {
    fixture.text("/proc/net/tcp", &format!("{TCP}   2: 00000000:{port:04X} 00000000:0000 0A 0:0\n"))
}

fn daemon(fixture: Fixture, text: &str) -> Fixture {
    fixture.text("/etc/docker/daemon.json", text)
}

const BREAKS: &[(&str, Change)] = &[
    ("TMB-SSH-001", |machine| sshd(machine, "PermitRootLogin yes")),
    ("TMB-SSH-002", |machine| sshd(machine, "PasswordAuthentication yes")),
    ("TMB-SSH-002", |machine| machine.without("/etc/ssh/sshd_config.d/10-keys.conf")),
    ("TMB-SSH-003", |machine| sshd(machine, "permitemptypasswords YES")),
    ("TMB-SSH-004", |machine| sshd(machine, "MaxAuthTries 10")),
    ("TMB-SSH-005", |machine| sshd(machine, "LoginGraceTime 0")),
    ("TMB-SSH-006", |machine| sshd(machine, "X11Forwarding yes")),
    ("TMB-SSH-007", |machine| sshd(machine, "HostbasedAuthentication yes")),
    ("TMB-SSH-008", |machine| sshd(machine, "Ciphers aes256-gcm@openssh.com,aes128-cbc")),
    ("TMB-SSH-009", |machine| sshd(machine, "ClientAliveInterval 0")),
    ("TMB-SSH-010", |machine| machine.mode("/etc/ssh/ssh_host_ed25519_key", 0o644)),
    ("TMB-SSH-011", |machine| machine.mode("/etc/ssh/sshd_config", 0o666)),
    ("TMB-ACC-001", |machine| passwd(machine, "toor:x:0:0::/:/bin/bash")),
    ("TMB-ACC-002", |machine| machine.text("/etc/shadow", "ada::19000:\n")),
    ("TMB-ACC-003", |machine| machine.text("/etc/shadow", "ada:$1$salt$hash:19000:\n")),
    ("TMB-ACC-004", |machine| machine.text("/etc/login.defs", "ENCRYPT_METHOD MD5\nUMASK 077\n")),
    ("TMB-ACC-005", |machine| machine.without("/etc/pam.d/common-password")),
    ("TMB-ACC-006", |machine| machine.text("/etc/pam.d/common-auth", "# pam_faillock.so\n")),
    ("TMB-ACC-007", |machine| passwd(machine, "www:x:33:33::/var/www:/bin/sh")),
    ("TMB-ACC-008", |machine| passwd(machine, "eve:x:1000:1000::/home/ada:/bin/bash")),
    ("TMB-ACC-009", |machine| {
        machine.text("/etc/login.defs", "ENCRYPT_METHOD SHA512\nUMASK 022\n")
    }),
    ("TMB-SUDO-001", |machine| machine.text("/etc/sudoers.d/ada", "ada ALL=(ALL) NOPASSWD: ALL\n")),
    ("TMB-SUDO-002", |machine| machine.text("/etc/sudoers", "# Defaults use_pty\n")),
    ("TMB-SUDO-003", |machine| machine.mode("/etc/sudoers.d/ada", 0o666)),
    ("TMB-FILE-001", |machine| machine.mode("/etc/passwd", 0o666)),
    ("TMB-FILE-002", |machine| machine.mode("/etc/shadow", 0o644)),
    ("TMB-FILE-003", |machine| machine.mode("/etc/cron.d", 0o777)),
    ("TMB-FILE-004", |machine| machine.mode("/usr/local/bin", 0o777)),
    ("TMB-FILE-005", |machine| machine.mode("/tmp", 0o777)),
    ("TMB-FILE-006", |machine| machine.mode("/root", 0o755)),
    ("TMB-FILE-007", |machine| machine.mode("/home/ada", 0o755)),
    ("TMB-FILE-008", |machine| machine.mode("/boot/grub/grub.cfg", 0o644)),
    ("TMB-KERN-001", |machine| sysctl(machine, "kernel.randomize_va_space", "1")),
    ("TMB-KERN-002", |machine| sysctl(machine, "kernel.kptr_restrict", "0")),
    ("TMB-KERN-003", |machine| sysctl(machine, "kernel.dmesg_restrict", "0")),
    ("TMB-KERN-004", |machine| sysctl(machine, "kernel.yama.ptrace_scope", "0")),
    ("TMB-KERN-005", |machine| sysctl(machine, "fs.suid_dumpable", "1")),
    ("TMB-KERN-006", |machine| sysctl(machine, "kernel.unprivileged_bpf_disabled", "0")),
    ("TMB-KERN-007", |machine| sysctl(machine, "fs.protected_hardlinks", "0")),
    ("TMB-KERN-008", |machine| sysctl(machine, "fs.protected_fifos", "0")),
    ("TMB-KERN-009", |machine| sysctl(machine, "kernel.perf_event_paranoid", "-1")),
    ("TMB-KERN-010", |machine| {
        machine.text("/sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable: no microcode\n")
    }),
    ("TMB-KERN-011", |machine| machine.text("/sys/module/apparmor/parameters/enabled", "N\n")),
    ("TMB-NET-001", |machine| sysctl(machine, "net.ipv4.conf.default.rp_filter", "0")),
    ("TMB-NET-002", |machine| sysctl(machine, "net.ipv6.conf.all.accept_redirects", "1")),
    ("TMB-NET-003", |machine| sysctl(machine, "net.ipv4.conf.all.send_redirects", "1")),
    ("TMB-NET-004", |machine| sysctl(machine, "net.ipv4.conf.all.accept_source_route", "1")),
    ("TMB-NET-005", |machine| sysctl(machine, "net.ipv4.tcp_syncookies", "0")),
    ("TMB-NET-006", |machine| sysctl(machine, "net.ipv4.icmp_echo_ignore_broadcasts", "0")),
    ("TMB-MNT-001", |machine| mounts(machine, "tmpfs /tmp tmpfs rw,nodev 0 0")),
    ("TMB-MNT-002", |machine| {
        machine.text("/proc/mounts", &MOUNTS.replace("tmpfs /var/tmp tmpfs", "tmpfs /srv tmpfs"))
    }),
    ("TMB-MNT-003", |machine| mounts(machine, "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0")),
    ("TMB-MNT-004", |machine| mounts(machine, "/dev/sdb1 /home ext4 rw 0 0")),
    ("TMB-FW-001", |machine| machine.text("/etc/ufw/ufw.conf", "ENABLED=no\n")),
    ("TMB-FW-002", |machine| machine.text("/etc/default/ufw", "DEFAULT_INPUT_POLICY=\"ACCEPT\"\n")),
    ("TMB-LST-001", |machine| open(machine, 23)),
    ("TMB-LST-002", |machine| open(machine, 6379)),
    ("TMB-LST-003", |machine| open(machine, 2049)),
    ("TMB-LST-004", |machine| open(machine, 5900)),
    ("TMB-UPD-001", |machine| {
        machine.text(
            "/etc/apt/apt.conf.d/20auto-upgrades",
            "APT::Periodic::Unattended-Upgrade \"0\";\n",
        )
    }),
    ("TMB-UPD-002", |machine| machine.without("/var/lib/apt/lists")),
    ("TMB-UPD-003", |machine| machine.text("/run/reboot-required", "")),
    ("TMB-TIME-001", |machine| machine.without("/run/systemd/timesync/synchronized")),
    ("TMB-LOG-001", |machine| machine.without("/var/log/journal")),
    ("TMB-LOG-001", |machine| machine.text("/etc/systemd/journald.conf", "Storage=volatile\n")),
    ("TMB-LOG-002", |machine| machine.mode("/var/log/auth.log", 0o644)),
    ("TMB-LOG-003", |machine| {
        let auditd = "/etc/systemd/system/multi-user.target.wants/auditd.service";
        machine.without(auditd).folder("/etc/systemd/system")
    }),
    ("TMB-BOOT-001", |machine| {
        let path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        machine.bytes(path, &[6, 0, 0, 0, 0])
    }),
    ("TMB-BOOT-002", |machine| mounts(machine, "/dev/nvme0n1p2 / ext4 rw 0 0")),
    ("TMB-BOOT-003", |machine| {
        machine.text("/proc/swaps", "Filename Type\n/dev/nvme0n1p4 partition 1 0 -2\n")
    }),
    ("TMB-BOOT-004", |machine| sysctl(machine, "kernel.kexec_load_disabled", "0")),
    ("TMB-DOCK-001", |machine| machine.mode("/run/docker.sock", 0o666)),
    ("TMB-DOCK-002", |machine| open(machine, 2375)),
    ("TMB-DOCK-002", |machine| {
        daemon(machine, &DAEMON.replacen('{', r#"{"hosts":["tcp://0.0.0.0:2376"],"#, 1))
    }),
    ("TMB-DOCK-003", |machine| machine.text("/etc/group", "docker:x:999:ada\n")),
    ("TMB-DOCK-004", |machine| daemon(machine, &DAEMON.replace("true", "false"))),
    ("TMB-DOCK-005", |machine| daemon(machine, &DAEMON.replace("default", ""))),
    ("TMB-DOCK-006", |machine| {
        daemon(machine, &DAEMON.replacen('{', r#"{"insecure-registries":["a.example"],"#, 1))
    }),
    ("TMB-DOCK-007", |machine| daemon(machine, &DAEMON.replace("max-size", "labels"))),
    ("TMB-DOCK-008", |machine| machine.mode("/etc/docker/daemon.json", 0o666)),
    ("TMB-DOCK-009", |machine| {
        daemon(machine, &DAEMON.replacen('{', r#"{"seccomp-profile":"unconfined","#, 1))
    }),
    ("TMB-DOCK-004", |machine| machine.engine(&["name=seccomp,profile=builtin", "name=userns"])),
    ("TMB-DOCK-005", |machine| {
        machine.engine(&["name=seccomp,profile=builtin", "name=no-new-privileges"])
    }),
    ("TMB-DOCK-009", |machine| machine.engine(&["name=rootless", "name=no-new-privileges"])),
    ("TMB-DOCK-009", |machine| {
        let unconfined = "name=seccomp,profile=unconfined";
        machine.engine(&[unconfined, "name=rootless", "name=no-new-privileges"])
    }),
    ("TMB-AGT-001", |machine| machine.mode("/data", 0o755)),
    ("TMB-AGT-002", |machine| machine.mode("/data/pki/ca.key", 0o640)),
    ("TMB-AGT-003", |machine| machine.mode("/opt/tombolo", 0o777)),
    ("TMB-WRK-001", |machine| machine.confined(|found| found.apart = Some("no".into()))),
    ("TMB-WRK-002", |machine| machine.confined(|found| found.view = Some("no".into()))),
    ("TMB-WRK-003", |machine| machine.confined(|found| found.calls = Some("no".into()))),
    ("TMB-WRK-004", |machine| machine.confined(|found| found.signals = Some("no".into()))),
    ("TMB-WRK-005", |machine| machine.confined(|found| found.together = Some("no".into()))),
];
