//! What a container tries that somebody else controls: each attempt is made by a real program in a real container,
//! as root in there, and fails. What asks for more is refused before: `testkit/tests/docker/escape.rs`.

#![expect(clippy::unwrap_used, reason = "the lint takes what is no test function for a product")]

use std::collections::BTreeSet;
use std::path::Path;

use futures::StreamExt as _;
use tombolo_driver::{Driver as _, InstanceId, LogRequest};

use crate::rig::{Rig, eventually, exited, running, spec};

/// Says of each attempt whether it came off. An attempt that only reads says so by what it prints.
const TRY: &str = r#"
    try() {
        name=$1; shift
        if "$@" >/tmp/out 2>/tmp/err; then echo "$name: came off: $(cat /tmp/out)"; else echo "$name: refused"; fi
    }
"#;

/// `$1` is a process of the machine, `$2` a file of it.
const ATTEMPTS: &str = r#"
    b=/bin/busybox
    try mount_something $b mount -t tmpfs none /tmp
    try mount_the_disk $b mount -t proc proc /tmp
    try make_a_device $b mknod /tmp/mem c 1 1
    try change_its_root $b chroot / /bin/true
    try make_a_namespace $b unshare -m /bin/true
    try enter_the_machine $b nsenter -t 1 -n /bin/true
    try make_a_user_namespace $b unshare -U /bin/true
    try name_the_machine $b hostname other
    try set_a_kernel_setting $b sysctl -w kernel.core_pattern=x
    try set_it_by_file $b sh -c 'echo x >/proc/sys/kernel/core_pattern'
    try press_a_key_of_the_kernel $b sh -c 'echo h >/proc/sysrq-trigger'
    try write_below_sys $b sh -c 'echo 1 >/sys/kernel/mm/transparent_hugepage/defrag'
    try make_a_group_of_processes $b sh -c 'for g in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $g/x && test -e $g/x/cgroup.procs && exit 0; done; exit 1'
    try take_off_its_own_bound $b sh -c 'for f in /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max; do test -e $f && echo max >$f && exit 0; done; exit 1'
    try read_the_memory_of_the_kernel $b sh -c 'test -n "$(/bin/busybox head -c 1 /proc/kcore)"'
    try read_the_log_of_the_kernel $b dmesg
    try load_a_module $b insmod /bin/busybox
    try attach_a_loop_device $b losetup -f /bin/busybox
    try see_a_process_of_the_machine $b test -d "/proc/$1"
    try signal_a_process_of_the_machine $b kill -0 "$1"
    try see_a_file_of_the_machine $b test -e "$2"
    try see_it_through_the_first_process $b test -e "/proc/1/root/$2"
    try find_the_socket_of_the_engine $b sh -c 'test -S /var/run/docker.sock || test -S /run/docker.sock'
    try find_a_disk $b sh -c '/bin/busybox ls /dev/sd* >/tmp/x || /bin/busybox ls /dev/vd* >/tmp/x || /bin/busybox ls /dev/nvme* >/tmp/x || test -e /dev/mem || test -e /dev/kmsg'
    try gain_privileges $b sh -c '/bin/busybox grep -q "NoNewPrivs:.0" /proc/self/status'
    try make_system_calls_unfiltered $b sh -c '/bin/busybox grep -q "Seccomp:.0" /proc/self/status'
"#;

/// What anybody may do: if one of these is refused, the attempts are made in a wrong way and prove nothing.
const ALLOWED: &str = r#"
    try do_nothing $b true
    try see_its_own_first_process $b test -d /proc/1
    try see_its_own_files $b test -e /proc/1/root/bin/busybox
    try see_a_harmless_device $b sh -c '/bin/busybox ls /dev/null >/tmp/x'
    try be_without_new_privileges $b sh -c '/bin/busybox grep -q "NoNewPrivs:.1" /proc/self/status'
    try read_a_kernel_setting $b sysctl kernel.core_pattern
    try make_a_folder $b sh -c 'mkdir /tmp/x.d'
"#;

async fn log(rig: &Rig, id: &InstanceId) -> String {
    let lines = rig.driver().logs(id, LogRequest::default()).await.unwrap();
    let lines: Vec<_> = lines.collect().await;
    let text = |line: tombolo_driver::LogLine| String::from_utf8_lossy(&line.text).into_owned();
    lines.into_iter().map(|line| text(line.unwrap())).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_root_in_a_container_tries_is_refused() {
    let Some(rig) = Rig::new("a_root_tries").await else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let (own, secret) = (std::process::id(), file.path().display());
    let id =
        rig.start("tries.1", &format!("set -- {own} {secret}; {TRY} {ATTEMPTS} {ALLOWED}")).await;
    exited(&rig, &id).await;
    let told = log(&rig, &id).await;
    let attempts = ATTEMPTS.matches("    try ").count();
    let lines: Vec<&str> = told.lines().collect();
    let (tried, allowed) = lines.split_at(attempts.min(lines.len()));
    assert_eq!(allowed.len(), ALLOWED.matches("    try ").count(), "{told}");
    let came_off: Vec<_> = tried.iter().filter(|line| !line.ends_with(": refused")).collect();
    assert!(attempts >= 20 && came_off.is_empty(), "{came_off:#?}");
    let refused: Vec<_> = allowed.iter().filter(|line| !line.contains(": came off")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    rig.driver().remove(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_agents_environment_reaches_a_container() {
    let Some(rig) = Rig::new("environment").await else { return };
    let mut spec = spec("env.1", &["/bin/env"]);
    spec.env.insert("COLOUR".to_owned(), "green".into());
    rig.driver().start(&spec).await.unwrap();
    exited(&rig, &spec.id).await;
    let told = log(&rig, &spec.id).await;
    let names: BTreeSet<&str> =
        told.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert_eq!(names, BTreeSet::from(["COLOUR", "HOME", "HOSTNAME", "PATH"]), "{told}");
    let own = std::env::var("PATH").unwrap();
    assert!(!told.contains(&own) && told.contains("HOME=/"), "{told}");
    rig.driver().remove(&spec.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_says_how_it_confines() {
    let Some(rig) = Rig::new("how_it_confines").await else { return };
    let said = tombolo_driver_docker::security_options(rig.socket()).unwrap();
    let shown = rig.docker(&["info", "-f", "{{range .SecurityOptions}}{{println .}}{{end}}"]);
    let shown: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(said, shown, "as its own client says it");
    assert!(said.iter().any(|option| option.starts_with("name=seccomp")), "{said:?}");
    let nobody = rig.socket().with_file_name("nobody.sock");
    assert!(tombolo_driver_docker::security_options(&nobody).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_in_a_container_ends_at_its_bound() {
    let Some(rig) = Rig::new("fork_bomb").await else { return };
    let bomb = "(while true; do sleep 1000 & done) 2>/dev/null; echo over; exec sleep 1000";
    let id = rig.start("bomb.1", bomb).await;
    eventually("it has all that it gets", async || {
        log(&rig, &id).await.contains("over").then_some(())
    })
    .await;
    let (_, container) = running(&rig, &id).await;
    let processes = rig.docker(&["top", &container, "-o", "pid"]).lines().count() - 1;
    assert!((2..=1024).contains(&processes), "{processes}");
    let beside = rig.start("beside.1", "echo here; exit 0").await;
    assert_eq!(exited(&rig, &beside).await.log, ["here"], "others go on");
    rig.driver().remove(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_lines_of_a_container_ends_at_its_bound() {
    let Some(rig) = Rig::new("log_flood").await else { return };
    let line = "x".repeat(1000);
    let flood = format!("busybox yes {line} | busybox head -c 100000000; echo; echo over");
    let id = rig.start("flood.1", &flood).await;
    eventually("it runs or ran", async || rig.instance(&id).await.map(drop)).await;
    let exit = exited(&rig, &id).await;
    assert_eq!(exit.log.last().map(String::as_str), Some("over"), "the last lines are kept");
    let name = rig.instance(&id).await.unwrap();
    let all = rig.docker(&["ps", "-aq", "--no-trunc", "--filter", "status=exited"]);
    let root = rig.docker(&["info", "-f", "{{.DockerRootDir}}"]);
    let folder = Path::new(root.trim()).join("containers");
    let sizes = all.lines().map(|container| size(&folder.join(container)));
    let largest = sizes.max().unwrap();
    assert!((1_000_000..=35_000_000).contains(&largest), "{largest} bytes of {name:?}");
    rig.driver().remove(&id).await.unwrap();
}

/// Of all files in a folder and those below.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}
