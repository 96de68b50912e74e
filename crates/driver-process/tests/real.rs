//! Real processes, real supervisors: whatever is killed, nothing is lost and nothing is left behind.
//! Each test has a folder of its own, and its instances are shell scripts.

mod deleted;
mod escape;
mod rig;

use std::time::Duration;

use futures::StreamExt;
use tombolo_driver::{
    CheckOutcome, Deadline, Driver, ExecRequest, LogRequest, State, TerminalSize,
};
use tombolo_model::needs::Resources;
use tombolo_model::{Bytes, Cpu};

use rig::{Rig, eventually, exited, kill, running, skip};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn it_runs_and_its_exit_code_and_last_lines_are_kept() {
    let rig = Rig::new();
    let id = rig.start("a.1", "echo hello; echo oops >&2; exit 7").await;
    let exit = exited(&rig, &id).await;
    assert_eq!((exit.code, exit.signal, exit.reason.word()), (Some(7), None, "Error"));
    let mut log = exit.log.clone();
    log.sort();
    assert_eq!(log, ["hello", "oops"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_changes_nothing() {
    let rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    rig.start("a.1", "exec sleep 1000").await;
    assert_eq!(running(&rig, &id).await, pid);
    assert_eq!(rig.instance(&id).await.unwrap().restarts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_finds_it_again_under_the_same_number() {
    let mut rig = Rig::new();
    let id = rig.start("a.1", "echo before; sleep 0.2; echo after; exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    rig.reopen();
    assert_eq!(running(&rig, &id).await, pid);
    eventually("it goes on writing", async || rig.log(&id).await.contains("after").then_some(()))
        .await;
    // And the new one can stop it.
    rig.driver().stop(&id, LONG).await.unwrap();
    assert_eq!(exited(&rig, &id).await.reason, "Stopped");
}

/// A deadline so far from now.
fn deadline(from_now: Duration) -> Option<Deadline> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = Duration::from_secs(u64::try_from(now.tv_sec).expect("it counts up"));
    Some(Deadline { at: since_boot + from_now, after: Duration::ZERO, grace: LONG })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_kept_without_an_agent_and_by_another_supervisor_too() {
    let mut rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    rig.driver().end_at(&id, deadline(LONG)).await.unwrap();
    let supervisor = rig.supervisor("a.1");
    kill(supervisor);
    eventually("another supervisor is there", async || {
        rig.driver().list().await.unwrap();
        (rig.supervisor("a.1") != supervisor).then_some(())
    })
    .await;
    assert_eq!(running(&rig, &id).await, pid);
    // The agent says good-bye, and nobody puts the deadline off any more.
    rig.driver().part().await.unwrap();
    rig.close();
    rig.wait_for_file("a.1/exit.json").await;
    rig.reopen();
    let exit = exited(&rig, &id).await;
    assert_eq!(exit.reason, "Stopped");
    assert_eq!(exit.message.as_deref(), Some("the controller was out of reach for too long"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_is_put_off_or_taken_back_ends_nothing() {
    let rig = Rig::new();
    let ids = [
        rig.start("put-off.1", "exec sleep 1000").await,
        rig.start("taken-back.1", "exec sleep 1000").await,
        rig.start("kept.1", "exec sleep 1000").await,
    ];
    let soon = Duration::from_secs(5);
    for id in &ids {
        rig.driver().end_at(id, deadline(soon)).await.unwrap();
    }
    rig.driver().end_at(&ids[0], deadline(LONG)).await.unwrap();
    rig.driver().end_at(&ids[1], None).await.unwrap();
    // All three had the same deadline: once one has ended by it, it is over for the others too.
    exited(&rig, &ids[2]).await;
    running(&rig, &ids[0]).await;
    running(&rig, &ids[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_while_no_agent_is_there_is_found_later() {
    let mut rig = Rig::new();
    let id = rig.start("a.1", "sleep 0.3; exit 5").await;
    rig.close();
    rig.wait_for_file("a.1/exit.json").await;
    rig.reopen();
    assert_eq!(exited(&rig, &id).await.code, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_is_killed_wakes_the_loop_and_is_told_as_killed() {
    let rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    let mut events = rig.driver().events();
    kill(pid);
    // It is the event that is waited for, not a look that happens to find it.
    tokio::time::timeout(LONG, events.next()).await.unwrap().unwrap();
    let exit = exited(&rig, &id).await;
    assert_eq!((exit.code, exit.signal, exit.reason.word()), (None, Some(9), "Killed"));
    assert_eq!(exit.message.as_deref(), Some("signal 9 (KILL) ended it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_outlives_its_supervisor_and_is_adopted() {
    let rig = Rig::new();
    let script = "n=0; while true; do n=$((n+1)); echo line $n; sleep 0.02; done";
    let id = rig.start("a.1", script).await;
    let pid = running(&rig, &id).await;
    for _ in 0..2 {
        let supervisor = rig.supervisor("a.1");
        kill(supervisor);
        eventually("another supervisor", async || {
            rig.driver().list().await.unwrap();
            (rig.supervisor("a.1") != supervisor).then_some(())
        })
        .await;
        assert_eq!(running(&rig, &id).await, pid);
    }
    // Nothing that it wrote in between is lost, nor written twice.
    let count = rig.log(&id).await.lines().count();
    eventually("more lines", async || {
        (rig.log(&id).await.lines().count() > count + 3).then_some(())
    })
    .await;
    for (position, line) in rig.log(&id).await.lines().enumerate() {
        assert_eq!(line, format!("line {}", position + 1));
    }
    kill(pid);
    assert_eq!(exited(&rig, &id).await.reason, "Lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_agent_and_supervisor_are_both_killed_the_next_agent_adopts_it() {
    let mut rig = Rig::new();
    let id = rig.start("a.1", "sleep 1000 & exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    rig.close();
    kill(rig.supervisor("a.1"));
    rig.reopen();
    assert_eq!(running(&rig, &id).await, pid);
    rig.driver().stop(&id, Duration::ZERO).await.unwrap();
    exited(&rig, &id).await;
    assert_eq!(rig.marked("a.1"), [] as [u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_gives_time_and_then_no_more() {
    let rig = Rig::new();
    let polite = rig
        .start("polite.1", "trap 'echo bye; exit 0' TERM; while true; do sleep 0.01; done")
        .await;
    let deaf =
        rig.start("deaf.1", "trap '' TERM; echo deaf; while true; do sleep 0.01; done").await;
    eventually("it is deaf", async || rig.log(&deaf).await.contains("deaf").then_some(())).await;
    rig.driver().stop(&polite, LONG).await.unwrap();
    let exit = exited(&rig, &polite).await;
    assert_eq!((exit.code, exit.reason.word()), (Some(0), "Stopped"));
    assert!(exit.log.iter().any(|line| line == "bye"), "{:?}", exit.log);

    rig.driver().stop(&deaf, LONG).await.unwrap();
    let stopping = rig.instance(&deaf).await.unwrap().state;
    assert!(matches!(stopping, State::Stopping(_)), "{stopping:?}");
    rig.driver().stop(&deaf, Duration::from_millis(50)).await.unwrap();
    let exit = exited(&rig, &deaf).await;
    assert_eq!((exit.signal, exit.reason.word()), (Some(9), "Stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_carried_out_without_the_agent_and_by_the_next_supervisor() {
    let mut rig = Rig::new();
    let script = "trap '' TERM; echo deaf; while true; do sleep 0.01; done";
    let alone = rig.start("alone.1", script).await;
    let orphan = rig.start("orphan.1", script).await;
    for id in [&alone, &orphan] {
        eventually("it is deaf", async || rig.log(id).await.contains("deaf").then_some(())).await;
        rig.driver().stop(id, Duration::from_millis(500)).await.unwrap();
    }
    rig.close();
    kill(rig.supervisor("orphan.1"));
    rig.wait_for_file("alone.1/exit.json").await;
    rig.reopen();
    assert_eq!(exited(&rig, &alone).await.reason, "Stopped");
    exited(&rig, &orphan).await;
    assert_eq!(rig.marked("orphan.1"), [] as [u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_it_started_have_the_same_grace() {
    let rig = Rig::new();
    // The shell ends at once, its child takes a moment to say goodbye.
    let child =
        "trap 'sleep 0.2; echo goodbye; exit' TERM; echo ready; while true; do sleep 0.01; done";
    let id = rig.start("a.1", &format!("sh -c \"{child}\" & wait")).await;
    eventually("it is ready", async || rig.log(&id).await.contains("ready").then_some(())).await;
    rig.driver().stop(&id, LONG).await.unwrap();
    let exit = exited(&rig, &id).await;
    assert!(exit.log.iter().any(|line| line == "goodbye"), "{:?}", exit.log);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_it_started_is_left_behind() {
    let rig = Rig::new();
    // One in its group, one in a session of its own, one that ends before its child.
    let script = "sleep 1000 & setsid sleep 1001 & (setsid sh -c 'sleep 1002 & sleep 1003' &) ; \
                  echo ready; sleep 0.2; exit 3";
    let id = rig.start("a.1", script).await;
    assert_eq!(exited(&rig, &id).await.code, Some(3));
    assert_eq!(rig.marked("a.1"), [] as [u32; 0]);
    let deaf = rig.start("b.1", "trap '' TERM; setsid sh -c 'trap \"\" TERM; while true; do sleep 1; done' & while true; do sleep 1; done").await;
    running(&rig, &deaf).await;
    rig.driver().remove(&deaf).await.unwrap();
    assert_eq!(rig.marked("b.1"), [] as [u32; 0]);
    assert!(rig.instance(&deaf).await.is_none());
    assert!(!rig.path("b.1").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_started_again_and_counted() {
    let rig = Rig::new();
    let id = rig.start("a.1", "exit 4").await;
    exited(&rig, &id).await;
    let id = rig.start("a.1", "exec sleep 1000").await;
    running(&rig, &id).await;
    let instance = rig.instance(&id).await.unwrap();
    assert_eq!(instance.restarts, 1);
    assert_eq!(instance.last_exit.unwrap().code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_and_new_stand_side_by_side() {
    let rig = Rig::new();
    let old = rig.start("a.1", "exec sleep 1000").await;
    let new = rig.start("a.2", "exec sleep 1000").await;
    assert_ne!(running(&rig, &old).await, running(&rig, &new).await);
    rig.driver().remove(&old).await.unwrap();
    running(&rig, &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_it_has_ended() {
    let mut rig = Rig::new();
    let id = rig.start("a.1", "echo here; exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    eventually("it wrote", async || rig.log(&id).await.contains("here").then_some(())).await;
    rig.close();
    // As the power went: both are gone, nothing was written, and the boot is another one.
    let supervisor = rig.supervisor("a.1");
    kill(supervisor);
    kill(pid);
    rig.edit("a.1/run.json", |run| run["boot_id"] = "another".into());
    rig.reopen();
    let exit = exited(&rig, &id).await;
    assert_eq!(exit.reason, "Rebooted");
    assert_eq!(exit.log, ["here"]);
    rig.start("a.1", "exec sleep 1000").await;
    running(&rig, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_process_with_the_same_number_is_not_taken_for_it() {
    let mut rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    rig.close();
    kill(rig.supervisor("a.1"));
    kill(pid);
    let own = std::process::id();
    rig.edit("a.1/run.json", |run| {
        run["main"]["pid"] = own.into();
        run["supervisor"]["pid"] = own.into();
    });
    rig.reopen();
    assert_eq!(exited(&rig, &id).await.reason, "Lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_before_anything_runs() {
    let rig = Rig::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let unreadable = rig.script("no-interpreter", "#!/no/such/interpreter\n");
    let garbage = rig.script("garbage", "\u{1}\u{2}\u{3}");
    let cases = [
        (rig.spec("a.1", &["no-such-program"]), "CommandNotFound"),
        (rig.spec("a.1", &["/no/such/program"]), "CommandNotFound"),
        (rig.spec("a.1", &[unreadable.as_str()]), "CommandNotFound"),
        (rig.spec("a.1", &[garbage.as_str()]), "NotExecutable"),
        (rig.spec("a.1", &["/etc/passwd"]), "NotExecutable"),
        (rig.spec("a.1", &[]), "Invalid"),
        (rig.spec("a.1", &["true"]).workdir("/no/such/folder"), "NoSuchFolder"),
        (rig.spec("a.1", &["true"]).user("no-such-user-here"), "NoSuchUser"),
        (rig.spec("a.1", &["true"]).port(port), "PortTaken"),
        (rig.spec("a.1", &["true"]).file("/../escape", "x"), "Invalid"),
    ];
    for (spec, reason) in cases {
        let error = rig.driver().start(&spec.0).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.help().ends_with('.'), "{}", error.help());
        assert!(rig.driver().list().await.unwrap().is_empty(), "{reason} left something");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_fails_leaves_the_last_exit_in_place() {
    let rig = Rig::new();
    let id = rig.start("a.1", "exit 4").await;
    exited(&rig, &id).await;
    // The first fails before anything is written, the second when the supervisor executes it.
    let garbage = rig.script("garbage", "\u{1}\u{2}\u{3}");
    for command in ["no-such-program", garbage.as_str()] {
        let spec = rig.spec("a.1", &[command]);
        rig.driver().start(&spec.0).await.unwrap_err();
        assert_eq!(exited(&rig, &id).await.code, Some(4), "{command}");
        assert_eq!(rig.instance(&id).await.unwrap().restarts, 0, "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn environment_files_and_ports_are_in_place_and_secrets_in_no_argument() {
    let rig = Rig::new();
    let script = "cat etc/app.conf; echo $PASSWORD $PORT_80 $1 $2 $(pwd); exec sleep 1000";
    let spec = rig
        .spec("a.1", &["sh", "-c", script, "sh", "$(PORT_80)", "$(ADDRESS)"])
        .env("PASSWORD", "hunter2")
        .file("/etc/app.conf", "from a file\n")
        .port(80);
    rig.driver().start(&spec.0).await.unwrap();
    let id = spec.0.id.clone();
    let pid = running(&rig, &id).await;
    let State::Running(state) = rig.instance(&id).await.unwrap().state else { panic!() };
    let port = state.ports[0].published.unwrap();
    let work = rig.path("a.1/work");
    let expected = format!("from a file\nhunter2 {port} {port} 127.0.0.1 {}\n", work.display());
    eventually("all of it", async || (rig.log(&id).await == expected).then_some(())).await;
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("hunter2"));
    for name in ["instance.json", "run.json"] {
        let text = std::fs::read_to_string(rig.path("a.1").join(name)).unwrap();
        assert!(!text.contains("hunter2"), "{name}");
    }
    // Nothing listens there but this very test.
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(rig.driver().connect(&id, 80).await.is_ok());
    drop(listener);
    let Err(error) = rig.driver().connect(&id, 80).await else { panic!("it listens on nothing") };
    assert_eq!(error.reason(), "ConnectionRefused");
    let Err(error) = rig.driver().connect(&id, 81).await else { panic!("it has no port 81") };
    assert_eq!(error.reason(), "NoSuchPort");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_bounded_and_can_be_followed() {
    let rig = Rig::new();
    let script = "i=0; while [ $i -lt 2000 ]; do echo line $i of a log that is long; i=$((i+1)); done; exec sleep 1000";
    let id = rig.start("a.1", script).await;
    let follow = LogRequest { follow: true, ..LogRequest::default() };
    let mut lines = rig.driver().logs(&id, follow).await.unwrap();
    let last = async {
        while let Some(line) = lines.next().await {
            if line.unwrap().text.starts_with(b"line 1999 ") {
                return;
            }
        }
        panic!("the log ended");
    };
    tokio::time::timeout(LONG, last).await.unwrap();
    let files: Vec<u64> = std::fs::read_dir(rig.path("a.1/log"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    assert!(files.len() <= 3, "{files:?}");
    assert!(files.iter().sum::<u64>() < 3 * 8192 + 3 * 65536, "{files:?}");
    let tail = LogRequest { tail: Some(2), ..LogRequest::default() };
    let tail: Vec<_> = rig.driver().logs(&id, tail).await.unwrap().collect().await;
    assert_eq!(tail.len(), 2);
    assert!(tail[1].as_ref().unwrap().text.starts_with(b"line 1999 "));
    // It ends when there is nothing left to follow.
    rig.driver().remove(&id).await.unwrap();
    let rest = async { while lines.next().await.is_some() {} };
    tokio::time::timeout(LONG, rest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_inside_with_its_environment() {
    let rig = Rig::new();
    let spec = rig.spec("a.1", &["sh", "-c", "exec sleep 1000"]).env("COLOUR", "green");
    rig.driver().start(&spec.0).await.unwrap();
    let id = spec.0.id.clone();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let command = words(&["sh", "-c", "echo $COLOUR; pwd; exit 3"]);
    let outcome = rig.driver().check_exec(&id, &command, LONG).await;
    let work = rig.path("a.1/work");
    let output = format!("green\n{}\n", work.display());
    assert_eq!(outcome.unwrap(), CheckOutcome::Ended { code: 3, output });
    let error = rig.driver().check_exec(&id, &words(&["no-such"]), LONG).await.unwrap_err();
    assert_eq!(error.reason(), "CommandNotFound");
    let slow = words(&["sh", "-c", "sleep 1004 & sleep 1005"]);
    let outcome = rig.driver().check_exec(&id, &slow, Duration::from_millis(100)).await.unwrap();
    assert_eq!(outcome, CheckOutcome::TimedOut);
    eventually("the slow one is gone", async || (rig.marked("a.1").len() == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_agents_environment_reaches_an_instance() {
    let rig = Rig::new();
    // This test has what an agent has, and more: a home, a path, and what its build tool gave it.
    for name in ["PATH", "HOME", "CARGO_MANIFEST_DIR"] {
        assert!(std::env::var_os(name).is_some(), "{name} is there to leak");
    }
    let spec = rig.spec("a.1", &["sh", "-c", "env; exec sleep 1000"]).env("COLOUR", "green");
    rig.driver().start(&spec.0).await.unwrap();
    let id = spec.0.id.clone();
    let log = eventually("its environment", async || {
        let log = rig.log(&id).await;
        log.contains("COLOUR=green").then_some(log)
    });
    let command = ["env".to_owned()];
    let CheckOutcome::Ended { code: 0, output } =
        rig.driver().check_exec(&id, &command, LONG).await.unwrap()
    else {
        panic!("it cannot be seen")
    };
    for shown in [log.await, output] {
        for line in shown.lines() {
            let (name, value) = line.split_once('=').unwrap();
            let inside = rig.path("a.1").display().to_string();
            let is_ours = match name {
                // The shell's own.
                "PWD" | "OLDPWD" | "SHLVL" | "_" | "COLOUR" | "ADDRESS" => true,
                "PATH" => value == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME" => value.starts_with(&inside),
                name => name.starts_with("TOMBOLO_"),
            };
            assert!(is_ours, "{line}");
        }
        assert!(shown.contains("HOME="), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_programs_together_leave_room_for_the_machine() {
    let rig = Rig::new();
    let probe = rig.driver().probe().await.unwrap();
    if let Some(why) = probe.confinement.and_then(|found| found.together) {
        skip("all_programs_together_leave_room_for_the_machine", &why);
        return;
    }
    for id in ["a.1", "b.1"] {
        let id = rig.start(id, "exec sleep 1000").await;
        running(&rig, &id).await;
    }
    let number = |path: &std::path::Path| {
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok())
    };
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
    let processes_max = number("/proc/sys/kernel/pid_max".as_ref()).unwrap();
    let (mut memory, mut processes, mut share) = (None, None, None);
    for group in rig.groups("a.1") {
        let parent = group.parent().unwrap();
        assert!(parent.join("b.1").is_dir(), "both are in it: {parent:?}");
        let both = |file: &str, old: &str| number(&parent.join(file)).or(number(&parent.join(old)));
        memory = memory.or(both("memory.max", "memory.limit_in_bytes").filter(|max| *max < total));
        processes = processes.or(number(&parent.join("pids.max")));
        share = share.or(both("cpu.weight", "cpu.shares"));
    }
    assert!(memory.is_some_and(|max| max >= total / 4), "{memory:?} of {total}");
    assert!(processes.is_some_and(|max| max < processes_max), "{processes:?}");
    assert!(matches!(share, Some(50 | 512)), "half of what others get: {share:?}");

    // The bound of all holds for each: where it is a few, the second cannot make more, whatever its own is.
    let groups = rig.groups("b.1");
    let parents = groups.iter().filter_map(|group| group.parent());
    let bounds: Vec<_> = parents.map(|parent| parent.join("pids.max")).collect();
    let bound = bounds.iter().find(|path| path.exists()).unwrap();
    std::fs::write(bound, "12").unwrap();
    let bomb =
        "i=0; while [ $i -lt 16 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; echo more";
    let command = ["sh", "-c", bomb].map(str::to_owned);
    let id = "b.1".parse().unwrap();
    let CheckOutcome::Ended { output, .. } =
        rig.driver().check_exec(&id, &command, LONG).await.unwrap()
    else {
        panic!("it ends, for want of processes")
    };
    assert!(!output.contains("more"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_can_talk_to_a_command_inside() {
    use tokio::io::AsyncWriteExt;
    let rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let request = ExecRequest { command: vec!["cat".to_owned()], terminal: None, part: None };
    let mut session = rig.driver().exec(&id, request).await.unwrap();
    session.input.write_all(b"hello\n").await.unwrap();
    session.input.shutdown().await.unwrap();
    drop(session.input);
    let mut said = Vec::new();
    while let Some(output) = session.output.next().await {
        said.extend_from_slice(&output.unwrap().bytes);
    }
    assert_eq!(said, b"hello\n");
    assert_eq!(session.exit.await.unwrap().code, Some(0));

    let script = "test -t 0 && stty size; read word; echo got $word; exit 2";
    let request = ExecRequest {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        terminal: Some(TerminalSize { columns: 100, rows: 30 }),
        part: None,
    };
    let mut session = rig.driver().exec(&id, request).await.unwrap();
    session.input.write_all(b"it\n").await.unwrap();
    session.input.flush().await.unwrap();
    let mut said = String::new();
    while let Some(output) = session.output.next().await {
        said += &String::from_utf8_lossy(&output.unwrap().bytes);
    }
    assert!(said.contains("30 100\r\n") && said.contains("got it\r\n"), "{said:?}");
    assert_eq!(session.exit.await.unwrap().code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_dropped_ends_its_command() {
    let rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let command = ["sh", "-c", "sleep 1006 & sleep 1007"].map(str::to_owned).to_vec();
    let request = ExecRequest { command, terminal: None, part: None };
    let session = rig.driver().exec(&id, request).await.unwrap();
    // The instance, the shell and both of its sleeps.
    eventually("it runs", async || (rig.marked("a.1").len() == 4).then_some(())).await;
    drop(session);
    eventually("it is gone", async || (rig.marked("a.1").len() == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_where_cgroups_can_be_used() {
    let rig = Rig::new();
    let notes = rig.driver().probe().await.unwrap().notes;
    if !notes.is_empty() {
        skip("limits_hold_where_cgroups_can_be_used", &notes.join("; "));
        return;
    }
    let resources = Resources {
        memory: Some(Bytes::new(32 << 20)),
        cpu: Some(Cpu::from_millis(500)),
        ..Resources::default()
    };
    // Twice as much as it may, in a shell variable.
    let script = "a=$(head -c 64000000 /dev/zero | tr '\\0' x); echo survived; exec sleep 1000";
    let spec = rig.spec("a.1", &["sh", "-c", script]).resources(resources.clone());
    rig.driver().start(&spec.0).await.unwrap();
    let exit = exited(&rig, &spec.0.id).await;
    assert_eq!(exit.reason, "OutOfMemory", "{exit:?}");
    assert!(rig.instance(&spec.0.id).await.unwrap().notes.is_empty());

    let spec = rig.spec("b.1", &["sh", "-c", "while true; do :; done"]).resources(resources);
    rig.driver().start(&spec.0).await.unwrap();
    eventually("usage is counted", async || {
        let usage = rig.driver().usage().await.unwrap();
        let (_, usage) = usage.into_iter().find(|(id, _)| *id == spec.0.id)?;
        (usage.cpu_micros > 0 && usage.memory_bytes > 0 && usage.processes == 1).then_some(())
    })
    .await;
    let groups = rig.groups("b.1");
    assert!(!groups.is_empty());
    rig.driver().remove(&spec.0.id).await.unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_owns_what_is_its_own() {
    let rig = Rig::new();
    if !rustix::process::geteuid().is_root() {
        skip("another_user_owns_what_is_its_own", "only root can become another user");
        return;
    }
    let script = "id -u; cat etc/conf; touch mine; echo again > /dev/stdout; exec sleep 1000";
    let spec = rig.spec("a.1", &["sh", "-c", script]).user("12345:12346").file("/etc/conf", "c\n");
    rig.driver().start(&spec.0).await.unwrap();
    let id = spec.0.id.clone();
    eventually("all of it", async || (rig.log(&id).await == "12345\nc\nagain\n").then_some(()))
        .await;
    let command = ["id", "-g"].map(str::to_owned);
    let outcome = rig.driver().check_exec(&id, &command, LONG).await.unwrap();
    assert_eq!(outcome, CheckOutcome::Ended { code: 0, output: "12346\n".to_owned() });

    // In its own view the folders above are open to it, whatever they are outside.
    let command = ["sh", "-c", "cat $TOMBOLO_DIR/etc/conf"].map(str::to_owned);
    let by_name = async || rig.driver().check_exec(&id, &command, LONG).await.unwrap();
    rig.set_mode(0o700);
    let notes = rig.driver().probe().await.unwrap().notes.join("; ");
    if notes.contains("see the machine's own files") {
        skip("another_user_owns_what_is_its_own (by name)", &notes);
        return;
    }
    assert_eq!(by_name().await, CheckOutcome::Ended { code: 0, output: "c\n".to_owned() });
    assert_eq!(rig.instance(&id).await.unwrap().notes, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_hides_no_exit() {
    let Some(rig) = Rig::on_small_disk("a_full_disk_is_told_and_hides_no_exit") else { return };
    let other = rig.start("c.1", "exec sleep 1000").await;
    let id = rig.start("a.1", "echo before; sleep 0.3; echo during; exit 9").await;
    eventually("it wrote", async || rig.log(&id).await.contains("before").then_some(())).await;
    rig.fill_disk();
    let exit = exited(&rig, &id).await;
    assert_eq!(exit.code, Some(9));
    assert_eq!(exit.log, ["before", "during"]);
    rig.driver().stop(&other, LONG).await.unwrap();
    assert_eq!(exited(&rig, &other).await.reason, "Stopped");
    let spec = rig.spec("b.1", &["sh", "-c", "exec sleep 1000"]).file("/big", &"x".repeat(100_000));
    assert_eq!(rig.driver().start(&spec.0).await.unwrap_err().reason(), "DiskFull");
    rig.empty_disk();
    rig.driver().start(&spec.0).await.unwrap();
    running(&rig, &spec.0.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_folder_has_one_driver() {
    let rig = Rig::new();
    let error = rig.open_again().unwrap_err();
    assert_eq!(error.reason(), "Invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_listens_on_all_addresses_is_told_so() {
    let rig = Rig::new();
    if !rig::has("busybox") {
        return skip("listens_on_all_addresses", "this machine has no busybox");
    }
    // Any port that is free.
    let id = rig.start("a.1", "exec busybox httpd -f -p 0.0.0.0:0").await;
    eventually("it is told", async || {
        let notes = rig.instance(&id).await?.notes;
        notes.iter().any(|note| note.contains("0.0.0.0:")).then_some(())
    })
    .await;
}
