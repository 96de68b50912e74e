//! The agent as a service: what is installed, and that an uninstall leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tombolo_testkit::docker::{Engine, IMAGE};
use tombolo_testkit::rig::{Machine, SITE};
use tombolo_testkit::{Rig, Tombolo, binary, eventually, tools};

/// Who has anything to do with the folder, by command or environment.
fn processes(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let about = entries.filter_map(|entry| {
        let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
        let text = [read("cmdline"), read("environ")].concat();
        let text = String::from_utf8_lossy(&text).replace('\0', " ");
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        text.contains(&name).then_some(text)
    });
    about.collect()
}

/// Ends with the test, even if that fails.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn what_is_installed_is_valid_and_an_uninstall_leaves_nothing() {
    let tombolo = Tombolo::start().await;
    let root = tempfile::tempdir().unwrap();
    let [units, data, join, docker] =
        ["units", "agent data", "join", "docker.sock"].map(|name| root.path().join(name));
    fs::create_dir(&units).unwrap();
    let words = |verb: &str| -> Vec<String> {
        let folders = ["agent", verb, "--units", units.to_str().unwrap(), "--data"];
        let words = folders.into_iter().chain([data.to_str().unwrap()]);
        words.map(str::to_owned).collect()
    };
    let run = async |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        tombolo.shell(&words).await
    };
    let refused = run(words("install")).await.failed();
    assert!(refused.contains("has never joined anything"), "{refused}");
    tombolo.shell(&["token", "create", "--site", "north", "-o", join.to_str().unwrap()]).await.ok();
    let (file, socket) = (join.to_str().unwrap(), docker.to_str().unwrap());
    let more = ["--join-file", file, "--name", "n1", "--cpu=3", "--docker", socket];
    // Where no unit can be written, the token is still good afterwards.
    let nowhere = root.path().join("nowhere").display().to_string();
    let lost =
        [&["agent", "install", "--units", &nowhere, "--data", data.to_str().unwrap()], &more[..]];
    let refused = tombolo.shell(&lost.concat()).await.failed();
    assert!(refused.contains("nowhere") && refused.contains("run it as root"), "{refused}");
    let install = words("install").into_iter().chain(more.map(str::to_owned)).collect();
    run(install).await.ok();
    let unit = units.join("tombolo-agent.service");
    let text = fs::read_to_string(&unit).unwrap();
    assert_eq!(tombolo.shell(&["get", "node", "n1", "-o", "name"]).await.ok().trim(), "node/n1");

    let analyze = Command::new("systemd-analyze").arg("verify").arg(&unit).output();
    match analyze {
        Ok(analyzed) => {
            let said = String::from_utf8_lossy(&analyzed.stderr);
            assert!(analyzed.status.success() && !said.contains("tombolo-agent.service"), "{said}");
        }
        Err(_) => tools::skip("the unit is valid", "this machine has no systemd-analyze"),
    }

    // As systemd would start it.
    let exec = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let shell = format!("exec {exec}");
    let service = Command::new("sh").args(["-c", &shell]).stdin(Stdio::null()).spawn().unwrap();
    let mut service = Service(service);
    let app = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "sleeper"},
        "spec": {"components": [{
            "name": "one", "run": [{"process": {"command": ["sleep", "86400"]}}],
        }]},
    });
    tombolo.shell_with(&["apply", "-f", "-"], &app.to_string()).await.ok();
    tombolo.shell(&["wait", "app/sleeper", "--for=phase=Running"]).await.ok();
    let node = tombolo.shell(&["get", "node", "n1", "-o", "json"]).await.json();
    assert_eq!(node["status"]["allocatable"]["cpu"], "3", "it keeps what was said at the install");
    assert!(processes(&data).len() >= 3, "an agent, a supervisor and the program");

    let engines = fs::read_to_string(data.join("engines.json")).unwrap();
    assert!(engines.contains(docker.to_str().unwrap()), "and which engine to use: {engines}");

    run(words("uninstall")).await.failed();
    assert!(unit.exists() && data.exists(), "without --yes nobody is there to agree");
    run(words("uninstall").into_iter().chain(["--yes".to_owned()]).collect()).await.ok();
    eventually("the agent ends", async || service.0.try_wait().unwrap()).await;
    assert_eq!(processes(&data), Vec::<String>::new());
    assert!(!unit.exists() && !data.exists());
    let again = run(words("uninstall")).await;
    assert_eq!(again.code, Some(0), "again is no failure: {again:?}");
    assert!(binary::path().exists(), "the program itself stays");
}

/// Its containers would stay, and nobody would know of them.
#[tokio::test(flavor = "multi_thread")]
async fn an_uninstall_without_the_docker_engine_removes_nothing_unless_it_is_told_to() {
    let Some(mut engine) = Engine::start("uninstall") else { return };
    let tombolo = Tombolo::start().await;
    let site = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
        "metadata": {"name": SITE}, "spec": {"engine": "docker"}});
    tombolo.shell_with(&["apply", "-f", "-"], &site.to_string()).await.ok();
    let arguments = vec!["--docker".to_owned(), engine.socket().display().to_string()];
    let machine = Machine { arguments, ..Machine::beside(&tombolo) };
    let mut rig = Rig::of(tombolo, machine).await;
    let run = json!({"container": {"image": IMAGE, "command": ["/bin/sleep", "86400"]}});
    rig.assign_bare("web", json!({"engine": "docker", "run": run})).await;
    rig.until_up("web").await;
    rig.until_kept("web").await;
    rig.kill9_agent();
    engine.goes();

    let (units, data) = (rig.root().join("units"), rig.folder().display().to_string());
    let uninstall = ["agent", "uninstall", "--yes", "--data", &data, "--units"];
    let uninstall = [&uninstall[..], &[units.to_str().unwrap()]].concat();
    let refused = rig.tombolo.shell(&uninstall).await.failed();
    let filter = "--filter label=tombolo.dev/agent=north/crane@";
    assert!(refused.contains("does not answer") && refused.contains(filter), "{refused}");
    assert!(rig.folder().join("agent.key").exists(), "nothing was removed");

    let left = rig.tombolo.shell(&[&uninstall[..], &["--leave-containers"]].concat()).await;
    assert_eq!(left.code, Some(0), "{left:?}");
    let said = format!("{}{}", left.stdout, left.stderr);
    assert!(!rig.folder().exists() && !said.contains("nothing of it is left"), "{said}");
    engine.comes_back();
    let by_hand = said.lines().find_map(|line| line.split_once("again: ")).unwrap().1;
    let count = || engine.docker(&["ps", "-aq"]).lines().count();
    assert_eq!(count(), 1, "it was left");
    let removed = Command::new("sh").args(["-c", by_hand]).output().unwrap();
    assert!(removed.status.success() && count() == 0, "by hand it goes: {removed:?}");
}

/// An option of today counts more than what was said at the joining, and needs no new token.
#[test]
fn what_is_said_at_the_installation_is_in_the_unit() {
    let print = |more: &[&str], host: &str| {
        let mut install = Command::new(binary::path());
        install.args(["agent", "install", "--print"]).args(more).env("DOCKER_HOST", host);
        let printed = String::from_utf8(install.output().unwrap().stdout).unwrap();
        let exec = printed.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        exec.split_once(" --data /var/lib/tombolo-agent").unwrap().1.to_owned()
    };
    assert_eq!(print(&[], ""), "");
    assert_eq!(print(&["--watts", "4:15"], ""), " --watts=4:15");
    assert_eq!(print(&["--docker", "none"], "unix:///run/d.sock"), " --docker=none");
    assert_eq!(print(&[], "unix:///run/d.sock"), " --docker=/run/d.sock", "a service has none");
}
