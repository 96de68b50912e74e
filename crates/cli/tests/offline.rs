//! The binary as a script sees it, as far as no server is needed: output, messages, exit codes.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

/// Runs it in a home of its own, without a terminal.
fn tombolo(home: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(arguments.split_whitespace())
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The exit code and what stands on stderr. The home is called `~`.
#[track_caller]
fn check(home: &TempDir, arguments: &str, expect: Expect) {
    let output = tombolo(home.path(), arguments);
    let stderr = String::from_utf8(output.stderr).expect("text");
    let stderr = stderr.replace(&home.path().display().to_string(), "~");
    let code = output.status.code().expect("it ended by itself");
    expect.assert_eq(&format!("{code}\n{stderr}"));
}

#[track_caller]
fn stdout(home: &TempDir, arguments: &str) -> String {
    let output = tombolo(home.path(), arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A kubeconfig for a port at which nobody listens any more.
fn kubeconfig_of_nobody(home: &TempDir) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: top-secret}}}}]\n"
    );
    let folder = home.path().join(".local/share/tombolo");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("kubeconfig"), text).expect("written");
    port
}

#[test]
fn wrong_usage_ends_with_2() {
    let home = home();
    for arguments in [
        "",
        "frobnicate",
        "get",
        "get apps -o xml",
        "apply",
        "get apps --request-timeout 5",
        "completion tcsh",
        "wait app/web",
        "get apps -A -n shop",
        "token create --role guest --whole-site eve",
        "token create --role guest --lighthouse k eve",
    ] {
        assert_eq!(tombolo(home.path(), arguments).status.code(), Some(2), "{arguments}");
    }
    check(
        &home,
        "get app/web api",
        expect![[r#"
        2
        error: `api` is not KIND/NAME
        hint: write `app/web app/api` or `app web api`, not a mix of both
    "#]],
    );
    check(
        &home,
        "wait app/web --for=color=red",
        expect![[r#"
        2
        error: --for=color=red: this is not something that can be waited for
        hint: for example condition=Ready, phase=Running, delete; `tombolo wait --help`
    "#]],
    );
    check(
        &home,
        "delete app",
        expect![[r#"
        2
        error: there is no terminal to ask on
        hint: --yes deletes without asking, --dry-run only shows what would go
    "#]],
    );
    check(
        &home,
        "delete app web",
        expect![[r#"
        2
        error: there is no terminal to ask on
        hint: --yes deletes without asking, --dry-run only shows what would go
    "#]],
    );
    check(
        &home,
        "token create --role guest --ttl 5s eve",
        expect![[r#"
        2
        error: --ttl goes with --site
        hint: --expires-in says how long the token of a person is good
    "#]],
    );
    check(
        &home,
        "get apps app/web --watch",
        expect![[r#"
        2
        error: `apps` is not KIND/NAME
        hint: write `app/web app/api` or `app web api`, not a mix of both
    "#]],
    );
}

#[test]
fn no_kubeconfig_and_no_server_end_with_6_and_say_what_to_do() {
    let home = home();
    check(
        &home,
        "get apps",
        expect![[r#"
            6
            error: there is no kubeconfig at ~/.local/share/tombolo/kubeconfig
            hint: start a server with `tombolo up`, sign in with `tombolo login`, or name a kubeconfig with --kubeconfig
        "#]],
    );
    let port = kubeconfig_of_nobody(&home);
    for command in ["get apps", "describe app web", "delete app web --yes", "events", "audit"] {
        let output = tombolo(home.path(), command);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{command}: {stderr}");
        assert!(stderr.contains(&format!("127.0.0.1:{port}")), "{stderr}");
        assert!(stderr.contains("\nhint: start one with `tombolo up`"), "{stderr}");
        assert!(!stderr.contains('\x1b'), "{stderr}");
    }
}

#[test]
fn the_unit_of_an_agent_is_shown_before_anything_joins() {
    let text = stdout(&home(), "agent install --join-file nowhere.join --name crane-1 --print");
    assert!(text.contains("ExecStart="), "{text}");
}

#[test]
fn bad_files_are_told_before_any_server_is_needed() {
    let home = home();
    fs::write(home.path().join("bad.yaml"), "kind: A\n---\nmetadata: {name: x}\n")
        .expect("written");
    let file = home.path().join("bad.yaml");
    check(
        &home,
        &format!("apply -f {}", file.display()),
        expect![[r#"
        1
        error: ~/bad.yaml:1: apiVersion is missing
               ~/bad.yaml:3: apiVersion is missing
        hint: nothing was sent
    "#]],
    );
    check(
        &home,
        "apply -f /nowhere.yaml",
        expect![[r#"
        1
        error: /nowhere.yaml: No such file or directory
    "#]],
    );
    check(
        &home,
        "diff -f -",
        expect![[r#"
        2
        error: no objects in -
        hint: a file needs apiVersion, kind and metadata.name; see `tombolo explain app`
    "#]],
    );
}

#[test]
fn a_file_that_is_no_text_is_told_and_the_others_are_looked_at() {
    let home = home();
    let utf16: Vec<u8> = "\u{feff}name: x".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files: [(&str, &[u8]); 3] = [
        ("wide.yaml", &utf16),
        ("latin.yaml", b"a: 1\nname: K\xe4se\n"),
        ("right.yaml", b"services: {web: {image: \"web:1\"}}\n"),
    ];
    for (name, bytes) in files {
        fs::write(home.path().join(name), bytes).expect("written");
    }
    fs::create_dir(home.path().join("empty")).expect("a folder");
    let folder = home.path().display();
    let output = tombolo(home.path(), &format!("validate -o json {folder} {folder}/gone.yaml"));
    assert_eq!(output.status.code(), Some(1));
    let reports: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let told: String = reports
        .as_array()
        .expect("a report for each file")
        .iter()
        .map(|report| {
            let message = report["diagnostics"][0]["message"].as_str().unwrap_or("right");
            format!("{}\n", message.replace(&folder.to_string(), "~"))
        })
        .collect();
    expect![[r#"
        ~/latin.yaml:2: not UTF-8 text
        right
        ~/wide.yaml: UTF-16 text, not UTF-8
        ~/gone.yaml: No such file or directory
    "#]]
    .assert_eq(&told);
    check(
        &home,
        &format!("apply -f {folder}/latin.yaml"),
        expect![[r#"
        2
        error: ~/latin.yaml:2: not UTF-8 text
        hint: save the file as UTF-8
    "#]],
    );
    check(
        &home,
        &format!("validate {folder}/empty"),
        expect![[r#"
        2
        error: ~/empty: no file in it ends in .yaml, .yml or .json
        hint: -R looks into the folders within it as well
    "#]],
    );
}

#[test]
fn a_broken_kubeconfig_is_told_with_its_path() {
    let home = home();
    let file = home.path().join("broken");
    fs::write(&file, "clusters: 5").expect("written");
    let output = tombolo(home.path(), &format!("get apps --kubeconfig {}", file.display()));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/broken is not a kubeconfig"));
}

#[test]
fn schemas_definitions_and_completions_need_nothing() {
    let home = home();
    for kind in ["app", "Assignment", "sites", "node", "link", "policies", "jt"] {
        let schema: Value = serde_json::from_str(&stdout(&home, &format!("schema {kind}")))
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(schema["properties"]["spec"].is_object(), "{kind}");
    }
    check(
        &home,
        "schema aps",
        expect![[r#"
        3
        error: `aps` is not one of Tombolo's kinds
        hint: did you mean `apps`?
    "#]],
    );

    let definitions = stdout(&home, "crds");
    let definitions: Vec<Value> = serde_saphyr::from_multiple(&definitions).expect("YAML");
    // Ours, and those of CODECO and CHARITY that our loops translate.
    assert_eq!(definitions.len(), 10);
    assert!(definitions.iter().all(|one| one["kind"] == "CustomResourceDefinition"));

    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&home, &format!("completion {shell}")).contains("tombolo"), "{shell}");
    }
}

#[test]
fn our_own_kinds_are_explained_without_a_server() {
    let home = home();
    let text = stdout(&home, "explain app.spec.components");
    assert!(text.starts_with("KIND:     App\nVERSION:  tombolo.dev/v1alpha1\n"), "{text}");
    assert!(text.contains("FIELDS:\n"), "{text}");
    check(
        &home,
        "explain app.spec.component",
        expect![[r#"
        3
        no server: this is what the kinds of this version say
        error: app.spec has no field `component`
        hint: did you mean `components`?
    "#]],
    );
    assert_eq!(tombolo(home.path(), "explain widget").status.code(), Some(6));
}

#[test]
fn the_version_does_not_wait_for_a_server() {
    let home = home();
    let version = env!("CARGO_PKG_VERSION");
    let text = stdout(&home, "version");
    assert_eq!(text, format!("client: {version}\nserver: not reachable\n"));
    let value: Value = serde_json::from_str(&stdout(&home, "version -o json")).expect("JSON");
    assert_eq!(value["client"]["version"], version);
    assert_eq!(stdout(&home, "--version"), format!("tombolo {version}\n"));
}

#[test]
fn the_configuration_is_shown_without_its_secrets() {
    let home = home();
    kubeconfig_of_nobody(&home);
    let text = stdout(&home, "config view");
    assert!(text.contains("REDACTED") && !text.contains("top-secret"), "{text}");
    let path = home.path().join(".local/share/tombolo/kubeconfig").display().to_string();
    assert_eq!(stdout(&home, "config path"), format!("{path}\n"));
    assert_eq!(stdout(&home, "config env"), format!("export KUBECONFIG='{path}'\n"));
    assert_eq!(stdout(&home, "config path --kubeconfig /x"), "/x\n");
}

#[test]
fn restoring_asks_first_and_refuses_what_is_no_backup() {
    let home = home();
    let file = home.path().join("no.backup");
    fs::write(&file, "hello").expect("written");
    let file = file.display();
    check(
        &home,
        &format!("restore {file}"),
        expect![[r#"
        2
        error: there is no terminal to ask on
        hint: --yes replaces everything without asking
    "#]],
    );
    let output = tombolo(home.path(), &format!("restore --yes --data {file}.d {file}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(!home.path().join("no.backup.d").exists(), "nothing may be touched");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = home();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .arg("crds")
        .env_clear()
        .env("HOME", home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A load that is too high for five minutes, as OpenMetrics text.
fn samples() -> String {
    let line = |number: u32| {
        let value = if (20..40).contains(&number) { 9 } else { 1 };
        format!(
            "load{{icos_app_name=\"shop\",icos_app_component=\"web\"}} {value} {}\n",
            number * 15
        )
    };
    (0..80).map(line).collect::<String>() + "# EOF\n"
}

#[test]
fn a_policy_is_tested_over_recorded_samples() {
    let home = home();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let policy = file(
        "policy.yaml",
        "apiVersion: tombolo.dev/v1alpha1\nkind: Policy\nmetadata: {name: busy}\nspec:\n\
         \x20 subject: {app: shop}\n  condition: {template: mine, variables: {most: 5}}\n\
         \x20 remediation: {action: migrate, cooldown: 5m}\n",
    );
    let templates = file(
        "mine.yaml",
        "name: mine\nexpr: load\nviolatedIf: '> {{most}}'\nvariables: {most: null}\n",
    );
    let samples = file("samples.txt", &samples());
    let arguments = format!("policy test {policy} --templates {templates} --samples {samples}");
    let report: Value =
        serde_json::from_str(&stdout(&home, &format!("{arguments} -o json"))).expect("JSON");
    assert_eq!(report[0]["policy"], "busy");
    assert_eq!(report[0]["firings"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report[0]["acts"][0]["target"], "app/shop/web");
    assert_eq!(report[0]["violatedSeconds"], 300);
    assert_eq!(report[0]["violatedSecondsAfter"], 60);
    let table = stdout(&home, &arguments);
    assert!(table.contains("1970-01-01T00:05:00Z   5m"), "{table}");
    assert!(table.contains("the model: "), "{table}");
    assert!(stdout(&home, &format!("{arguments} -o plot")).contains("violated  "));
    let since = stdout(&home, &format!("{arguments} --since 5m -o json"));
    assert!(since.contains("\"firings\": []"), "{since}");
    let rule = stdout(&home, &format!("policy check {policy} --templates {templates}"));
    assert!(
        rule.ends_with("busy: load{icos_app_component=~\".+\",icos_app_name=\"shop\"} > 5\n"),
        "{rule}"
    );
    let unknown = tombolo(home.path(), &format!("policy check {policy}"));
    assert_eq!(unknown.status.code(), Some(1));
    let told = String::from_utf8(unknown.stdout).expect("text");
    assert!(
        told.contains("busy: error: condition.template: there is no template \"mine\""),
        "{told}"
    );
}
