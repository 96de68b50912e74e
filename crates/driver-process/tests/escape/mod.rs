//! Escape attempts: what a hostile process tries, each with the reason why it fails. Real processes.

use std::os::unix::fs::PermissionsExt as _;

use tombolo_driver::Driver as _;

use crate::rig::{Rig, eventually, exited, running, skip};

/// Runs a script to its end, beside a key of the agent's in the folder above the instances.
async fn attempt(rig: &Rig, id: &str, script: &str) -> String {
    let id = rig.start(id, &format!("({script}) 2>&1; echo over; exec sleep 1000")).await;
    running(rig, &id).await;
    eventually("it is over", async || {
        let log = rig.log(&id).await;
        log.lines().any(|line| line == "over").then_some(log)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_somebody_else_without_privileges() {
    let rig = Rig::new();
    let script = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
    let log = attempt(&rig, "a.1", script).await;
    assert!(log.contains("NoNewPrivs:\t1"), "{log}");
    assert!(log.contains("Seccomp:\t2"), "{log}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(log.contains(&format!("{set}:\t0000000000000000")), "{set}: {log}");
    }
    if rustix::process::geteuid().is_root() {
        assert!(!log.contains("Uid:\t0"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_ours_are_not_there() {
    let rig = Rig::new();
    let key = rig.path("../agent.key");
    std::fs::write(&key, "the key").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let script = format!(
        "cat {0}; cat ../../../agent.key; ls -a {1}; cat {1}/a.1/instance.json; ls -a /root /home; \
         ln -s {0} l; cat l; true",
        key.display(),
        rig.path("").display()
    );
    let log = attempt(&rig, "a.1", &script).await;
    assert!(!log.contains("the key") && !log.contains("origin"), "{log}");
    assert!(log.contains("No such file or directory"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_is_read_signalled_or_traced() {
    let rig = Rig::new();
    let own = std::process::id();
    let script = format!(
        "cat /proc/{own}/environ | wc -c; kill -9 {own}; ls /proc/{own}/root/ /proc/1/root/; \
         ls /proc/{own}/fd; kill -0 {own} && echo REACHED; true"
    );
    let log = attempt(&rig, "a.1", &script).await;
    assert!(log.lines().next().is_some(), "{log}");
    assert!(!log.contains("REACHED"), "{log}");
    assert!(!log.lines().any(|line| line == "usr"), "a root is listed: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_mounted_and_no_namespace_is_made() {
    let rig = Rig::new();
    let script = "mount -t tmpfs x /tmp && echo REACHED; umount /tmp && echo REACHED; \
                  unshare -Ur true && echo REACHED; unshare -m true && echo REACHED; \
                  chroot / true && echo REACHED; mknod d c 1 1 && echo REACHED; \
                  touch /etc/x && echo REACHED; touch /usr/x && echo REACHED; touch /x && echo REACHED; \
                  echo 1 > /proc/sys/kernel/printk && echo REACHED; true";
    let log = attempt(&rig, "a.1", script).await;
    assert!(!log.contains("REACHED"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_files_are_its_own() {
    let rig = Rig::new();
    let ours = tempfile::NamedTempFile::new().unwrap();
    let script =
        format!("ls {}; echo mine > /tmp/mine; cat /tmp/mine /var/tmp/mine", ours.path().display());
    let log = attempt(&rig, "a.1", &script).await;
    assert!(log.contains("No such file") && log.contains("mine\nmine"), "{log}");
    assert!(!std::path::Path::new("/tmp/mine").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_root_gives_nothing() {
    let rig = Rig::new();
    let script = "for program in su mount umount passwd newgrp chsh; do \
                  file=$(command -v $program) && ls -l $file; done; \
                  su -c id root </dev/null && echo REACHED; newgrp root </dev/null && echo REACHED; \
                  test $(id -u) = 0 && echo REACHED; true";
    check(&attempt(&rig, "a.1", script).await, &["su: "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_of_an_engine_is_not_there() {
    let rig = Rig::new();
    let script = "for path in /run/docker.sock /var/run/docker.sock /run/containerd/containerd.sock \
                  /run/podman/podman.sock /run/crio/crio.sock /run/systemd/private /run/dbus/system_bus_socket; \
                  do ls $path && echo REACHED; done; true";
    check(&attempt(&rig, "a.1", script).await, &["No such file or directory"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_the_machine_are_not_there() {
    let rig = Rig::new();
    let script = "for path in /dev/mem /dev/kmsg /dev/kvm /dev/sda /dev/vda /dev/fuse /dev/net/tun \
                  /dev/loop-control; do ls $path && echo REACHED; done; \
                  mknod mem c 1 1 && echo REACHED; ls /dev; true";
    check(
        &attempt(&rig, "a.1", script).await,
        &["No such file or directory", "Operation not permitted"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn its_group_and_that_of_others_stay_as_they_are() {
    let rig = Rig::new();
    let script = "for file in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs \
                  /sys/fs/cgroup/*/tombolo*/*/*.max /sys/fs/cgroup/*/tombolo*/*/tasks \
                  /sys/fs/cgroup/tombolo*/*/pids.max /proc/self/cgroup; do \
                  test -e $file || continue; sh -c \"echo $$ > $file\" && echo REACHED $file; done; \
                  mkdir /sys/fs/cgroup/mine && echo REACHED; mkdir /sys/fs/cgroup/pids/mine && echo REACHED; true";
    check(&attempt(&rig, "a.1", script).await, &["cannot create"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_files_end_at_their_bound() {
    let rig = Rig::new();
    let script = "test $(ulimit -Hn) -le 65536 || echo REACHED; \
                  sh -c 'ulimit -n 1000000' && echo REACHED; \
                  ulimit -n 20; i=3; while [ $i -lt 9 ]; do eval \"exec $i< /dev/null\"; i=$((i+1)); done; \
                  perl -e 'my @all; for (1..100) { open(my $f, \"<\", \"/dev/null\") or die \"$!\n\"; push @all, $f } print \"REACHED\n\"'; true";
    if !std::path::Path::new("/usr/bin/perl").exists() {
        skip("open_files_end_at_their_bound", "there is no perl here");
        return;
    }
    check(&attempt(&rig, "a.1", script).await, &["Too many open files"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_ends_at_its_bound() {
    let rig = Rig::new();
    if !rustix::process::geteuid().is_root() {
        skip("a_fork_bomb_ends_at_its_bound", "the bound counts all processes of the user");
        return;
    }
    let script = "i=0; while [ $i -lt 1500 ]; do sleep 100 & i=$((i+1)); done";
    let id = rig.start("a.1", script).await;
    eventually("it is refused", async || {
        let log = rig.log(&id).await;
        (log.contains("fork") || log.contains("Resource temporarily")).then_some(())
    })
    .await;
    assert!(rig.marked("a.1").len() <= 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_of_the_instances_is_not_loaded_by_us() {
    let rig = Rig::new();
    let spec =
        rig.spec("a.1", &["sh", "-c", "exec sleep 1000"]).env("LD_PRELOAD", "/nowhere/evil.so");
    use tombolo_driver::CheckOutcome;
    rig.driver().start(&spec.0).await.unwrap();
    running(&rig, &spec.0.id).await;
    let command =
        ["sh", "-c", "grep -E '^(CapBnd|NoNewPrivs|Seccomp:)' /proc/self/status; ls /root"];
    let command = command.map(str::to_owned);
    let outcome =
        rig.driver().check_exec(&spec.0.id, &command, std::time::Duration::from_secs(60)).await;
    let CheckOutcome::Ended { output, .. } = outcome.unwrap() else { panic!("it timed out") };
    assert!(output.contains("CapBnd:\t0000000000000000"), "{output}");
    assert!(output.contains("NoNewPrivs:\t1") && output.contains("Seccomp:\t2"), "{output}");
}

/// Every command of the script fails, and somebody says why.
#[track_caller]
fn check(log: &str, reasons: &[&str]) {
    assert!(!log.contains("REACHED"), "{log}");
    for reason in reasons {
        assert!(log.contains(reason), "{reason:?} is not told: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_setuid_gains_nothing() {
    let rig = Rig::new();
    if !rustix::process::geteuid().is_root() {
        skip("a_program_that_is_setuid_gains_nothing", "only root can make one of root's");
        return;
    }
    // The first run leaves its folder behind, in which somebody careless puts the program.
    let id = rig.start("a.1", "true").await;
    exited(&rig, &id).await;
    let program = rig.path("a.1/work/id");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let log = attempt(&rig, "a.1", "./id -u; test $(./id -u) = 0 && echo REACHED").await;
    check(&log, &[]);
    assert!(log.lines().next().is_some_and(|user| user.parse::<u32>().is_ok()), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_namespace_of_others_is_entered() {
    let rig = Rig::new();
    let own = std::process::id();
    let script = format!(
        "for kind in m u i n p; do nsenter -t {own} -$kind true && echo REACHED; done; \
         nsenter -t 1 -m true && echo REACHED; nsenter -t $$ -m true && echo REACHED; true"
    );
    check(&attempt(&rig, "a.1", &script).await, &["nsenter"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_traced_not_even_itself() {
    let rig = Rig::new();
    if !std::path::Path::new("/usr/bin/strace").exists() {
        skip("nothing_is_traced_not_even_itself", "there is no strace here");
        return;
    }
    let own = std::process::id();
    let script = format!(
        "strace -o /dev/null true && echo REACHED; timeout 5 strace -p {own} && echo REACHED; true"
    );
    check(&attempt(&rig, "a.1", &script).await, &["Operation not permitted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_priorities_of_others_stay() {
    let rig = Rig::new();
    let own = std::process::id();
    let before = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let script = format!(
        "prlimit --pid {own} --nofile=100000 && echo REACHED; \
         renice -n 1 -p {own} && echo REACHED; chrt -i -p 0 {own} && echo REACHED; \
         ionice -c 3 -p {own} && echo REACHED; ulimit -s 1024 || echo FAILED; \
         echo 1000 > /proc/{own}/oom_score_adj && echo REACHED; \
         echo -1000 > /proc/self/oom_score_adj && echo REACHED; \
         ulimit -n 1000000 && echo REACHED; ulimit -c 1 && echo REACHED; true"
    );
    let log = attempt(&rig, "a.1", &script).await;
    check(&log, &["not permitted"]);
    assert!(!log.contains("FAILED"), "its own limits are its own: {log}");
    assert_eq!(std::fs::read_to_string("/proc/self/oom_score_adj").unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_its_clock_and_its_name_stay() {
    let rig = Rig::new();
    // Whether they may be written is asked without writing: some of them end the machine.
    let script = "date -s 2000-01-01 && echo REACHED; hostname evil && echo REACHED; \
                  dmesg && echo REACHED; \
                  for file in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe \
                  /sys/kernel/uevent_helper /sys/power/state /proc/kcore; do \
                  test -w $file && echo REACHED $file; done; true";
    check(&attempt(&rig, "a.1", script).await, &["not permitted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_steers_an_instance_is_not_there_for_it() {
    let rig = Rig::new();
    let script = "for name in control alive lock run.json stop.json exit.json log out.spool; do \
                  test -e $TOMBOLO_DIR/../$name && echo REACHED $name; done; \
                  mv $TOMBOLO_DIR /tmp/moved && echo REACHED; rmdir $TOMBOLO_DIR && echo REACHED; \
                  touch $TOMBOLO_DIR/../exit.json; true";
    check(&attempt(&rig, "a.1", script).await, &["cannot move", "failed to remove"]);
    assert!(!rig.path("a.1/exit.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_it_lays_lead_us_nowhere() {
    let rig = Rig::new();
    let victim = tempfile::tempdir().unwrap();
    let file = victim.path().join("ours");
    std::fs::write(&file, "before").unwrap();
    let script = format!(
        "ln -s {0} conf; ln -s {0} folder; mkdir /tmp/a; ln -s {0} /tmp/a/b; ln {0} hard; true",
        victim.path().display()
    );
    let id = rig.start("a.1", &script).await;
    exited(&rig, &id).await;
    // At the next start we empty its `/tmp`, place files and give it its folder: as root, maybe.
    let spec = rig.spec("a.1", &["sh", "-c", "exec sleep 1000"]).file("/conf/ours", "after");
    let error = rig.driver().start(&spec.0).await.unwrap_err();
    assert!(error.to_string().contains("in place"), "{error}");
    let spec = rig.spec("a.1", &["sh", "-c", "exec sleep 1000"]).file("/folder", "after");
    rig.driver().start(&spec.0).await.unwrap();
    running(&rig, &spec.0.id).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(victim.path()).unwrap());
    assert_eq!(owner, rustix::process::geteuid().as_raw());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_of_another_app_is_out_of_reach() {
    let rig = Rig::new();
    let mut theirs =
        rig.spec("theirs.1", &["sh", "-c", "umask 0; echo secret > s; exec sleep 1000"]);
    theirs.0.origin.app = "theirs".to_owned();
    let theirs = theirs.env("PASSWORD", "hunter2");
    rig.driver().start(&theirs.0).await.unwrap();
    let pid = running(&rig, &theirs.0.id).await;
    rig.wait_for_file("theirs.1/work/s").await;
    let script = format!(
        "cat {0}/s && echo REACHED; cat /proc/{pid}/environ && echo REACHED; \
         cat /proc/{pid}/cwd/s && echo REACHED; cat /proc/{pid}/root{0}/s && echo REACHED; \
         kill -9 {pid} && echo REACHED; true",
        rig.path("theirs.1/work").display()
    );
    let log = attempt(&rig, "a.1", &script).await;
    check(&log, &["No such file or directory"]);
    assert!(!log.contains("hunter2") && !log.contains("secret"), "{log}");
    assert_eq!(running(&rig, &theirs.0.id).await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_memory_is_its_own_and_bounded() {
    let rig = Rig::new();
    let made = std::process::Command::new("ipcmk").args(["-M", "64"]).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        skip("shared_memory_is_its_own_and_bounded", "there is no ipcmk here");
        return;
    };
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    let id = text.rsplit(' ').next().unwrap().trim().to_owned();
    let script = format!(
        "ipcs -m -i {id} | grep Segment && echo REACHED; echo mine > /dev/shm/tombolo-escape; \
         head -c 100000000 /dev/zero > /dev/shm/big && echo REACHED; rm /dev/shm/big; true"
    );
    let log = attempt(&rig, "a.1", &script).await;
    _ = std::process::Command::new("ipcrm").args(["-m", &id]).status();
    check(&log, &["No space left on device"]);
    assert!(!std::path::Path::new("/dev/shm/tombolo-escape").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_ours_are_not_there() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let rig = Rig::new();
    if !std::path::Path::new("/usr/bin/perl").exists() {
        skip("sockets_of_ours_are_not_there", "there is no perl here");
        return;
    }
    let path = rig.path("../agent.sock");
    let _named = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let name = format!("tombolo-escape-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let dial = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0) or die; \
                connect(S, pack_sockaddr_un($ARGV[0] =~ s/^@/\\0/r)) ? print \"REACHED\\n\" : print \"$!\\n\"";
    let script = format!("perl -e '{dial}' {}; perl -e '{dial}' @{name}", path.display());
    let log = attempt(&rig, "a.1", &script).await;
    let notes = rig.driver().probe().await.unwrap().confinement.unwrap();
    if notes.signals.is_some() {
        skip("sockets_of_ours_are_not_there (abstract)", "the kernel has no such scope");
        return;
    }
    check(&log, &["No such file or directory", "Operation not permitted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_end_ends_at_its_bound() {
    let rig = Rig::new();
    let script = "truncate -s 17G sparse && echo REACHED; ls -s sparse; true";
    check(&attempt(&rig, "a.1", script).await, &["ile size limit"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_lines_fills_no_disk_and_drowns_nobody() {
    let rig = Rig::new();
    let flood =
        rig.start("flood.1", "yes flood | head -c 20000000; echo over; exec sleep 1000").await;
    let quiet = rig.start("quiet.1", "echo heard; exec sleep 1000").await;
    eventually("the other is heard", async || {
        rig.log(&quiet).await.contains("heard").then_some(())
    })
    .await;
    eventually("it is over", async || rig.log(&flood).await.contains("over").then_some(())).await;
    let files = std::fs::read_dir(rig.path("flood.1/log")).unwrap().flatten();
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    // Three files, each too long by what one read of short lines becomes with its times.
    assert!(bytes < 3 * (8192 + 8 * 65536), "{bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_site_does_not_allow_is_refused_with_its_name() {
    use tombolo_model::Privilege;
    let rig = Rig::new();
    for privilege in [Privilege::Process, Privilege::HostUser, Privilege::Privileged] {
        let mut spec = rig.spec("a.1", &["true"]);
        spec.0.asks.insert(privilege);
        let error = rig.driver().start(&spec.0).await.unwrap_err();
        assert_eq!(error.reason(), tombolo_model::Reason::NotAllowed);
        assert!(error.help().contains(privilege.as_str()), "{}", error.help());
        spec.0.allow.insert(privilege);
        rig.driver().start(&spec.0).await.unwrap();
        exited(&rig, &spec.0.id).await;
        rig.driver().remove(&spec.0.id).await.unwrap();
    }
}
