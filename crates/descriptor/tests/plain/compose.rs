//! Compose files.

use expect_test::expect;
use tombolo_descriptor::{NoFiles, Options};
use tombolo_model::component::{Expose, Protocol};
use tombolo_model::run::{Container, File, KeyRef, Volume};
use tombolo_model::{Arch, Duration};

use crate::{check_notes, clean, component, example, files, together};

fn container(text: &str, name: &str) -> Container {
    let reading = clean(text, &NoFiles);
    component(&reading, name).run[0].container.clone().unwrap()
}

/// A file with one service `a`.
fn one(service: &str) -> String {
    format!("name: x\nservices:\n  a:\n    image: i:1\n{service}")
}

#[test]
fn the_sample_becomes_an_app_field_by_field() {
    let reading = clean(&example("compose.yaml"), &NoFiles);
    let app = &reading.apps[0];
    assert_eq!(app.metadata.name.as_deref(), Some("shop"));
    let names: Vec<&str> = app.spec.components.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["web", "api", "store"]);

    let web = component(&reading, "web");
    let run = web.run[0].container.as_ref().unwrap();
    assert_eq!(run.image, "registry.example/shop-web:2.1");
    assert_eq!(run.env["API_URL"], "http://api:9000");
    assert_eq!(run.ports, [80]);
    assert_eq!(run.files[0].path, "/etc/web/front.conf");
    assert_eq!(run.files[0].content.as_deref(), Some("theme = \"sand\"\nitems = 20\n"));
    assert_eq!(web.replicas, Some(2));
    assert_eq!(web.stop_grace, Some(Duration::from_secs(20)));
    let public = Expose { port: 80, public: true, published: Some(8080), ..Expose::default() };
    assert_eq!(web.expose, [public]);
    let needs = web.needs.unwrap();
    assert_eq!(needs.cpu.unwrap().to_string(), "250m");
    assert_eq!(needs.memory.unwrap().to_string(), "64Mi");
    assert_eq!(web.affinity.unwrap().apart, ["web"]);
    assert_eq!(web.connects.len(), 1);
    assert_eq!((web.connects[0].to.as_str(), web.connects[0].port), ("api", Some(9000)));
    assert_eq!(web.connects[0].protocol, Protocol::Http);

    let api = component(&reading, "api");
    let run = api.run[0].container.as_ref().unwrap();
    assert_eq!(run.command, ["/usr/bin/shop-api"]);
    assert_eq!(run.args, ["--listen", "0.0.0.0:9000", "--greeting", "good day"]);
    assert_eq!(run.user.as_deref(), Some("1000:1000"));
    assert_eq!(run.env["LOG_LEVEL"], "info");
    let needs = api.needs.unwrap();
    assert_eq!(needs.arch, [Arch::Amd64]);
    assert_eq!(needs.labels["tier"], "trusted");
    assert_eq!(needs.gpu, Some(1));
    assert_eq!((api.connects[0].to.as_str(), api.connects[0].port), ("store", Some(5432)));
    assert!(!api.expose[0].public);

    let store = component(&reading, "store");
    let volumes = &store.run[0].container.as_ref().unwrap().volumes;
    assert_eq!(volumes[0].name.as_deref(), Some("greetings"));
    assert_eq!(volumes[1].host_path.as_deref(), Some("/srv/backup"));
    assert!(volumes[1].read_only);
    let health = store.health.unwrap();
    assert_eq!(health.exec.unwrap().command, ["pg_isready", "-U", "shop"]);
    assert_eq!(health.interval, Some(Duration::from_secs(10)));
    assert_eq!(health.timeout, Some(Duration::from_secs(2)));
    assert_eq!(health.failures, Some(5));
    assert_eq!(health.startup, Some(Duration::from_secs(30)));
}

#[test]
fn the_sample_tells_what_is_not_carried_over() {
    let text = example("compose.yaml");
    check_notes(
        &text,
        &clean(&text, &NoFiles),
        expect![[r#"
            test.yaml:5:1: dropped x-defaults: extension fields are for other tools
            test.yaml:10:3: assumed services.web: it calls "api", whose name is in its environment
            test.yaml:25:18: dropped services.web.deploy.resources.limits.cpus: the reservation counts, the limit does not
            test.yaml:25:29: dropped services.web.deploy.resources.limits.memory: the reservation counts, the limit does not
            test.yaml:27:3: assumed services.api: it calls "store", whose name is in its environment
            test.yaml:34:15: dropped services.api.depends_on.store.condition: instances start in order, and try again until they succeed
            test.yaml:65:3: dropped services.debug: the service "debug" runs only when asked for: --profile debug
        "#]],
    );
}

#[test]
fn variables_come_from_the_env_file_or_their_defaults() {
    let text =
        one("    environment:\n      A: ${A}-$B\n      C: ${C:-c}\n      D: ${A:+d}\n      \
                    E: ${E:-${C:-deep}}\n      F: cost $$5\n      G:\n");
    let reading = clean(&text, &files(&[(".env", "A=1\nexport B='two' # no\n# x\nG=g\n")]));
    let env = component(&reading, "a").run[0].container.clone().unwrap().env;
    let pairs: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(pairs, ["A=1-two", "C=c", "D=d", "E=deep", "F=cost $5", "G=g"]);
}

#[test]
fn env_files_stand_below_the_environment() {
    let text = one("    env_file: [a.env, {path: b.env, required: false}]\n    \
                    environment: [X=own]\n");
    let reading = clean(&text, &files(&[("a.env", "X=file\nY=\"a\\nb\"\n")]));
    let env = component(&reading, "a").run[0].container.clone().unwrap().env;
    assert_eq!(env["X"], "own");
    assert_eq!(env["Y"], "a\nb");
}

#[test]
fn secrets_become_objects_beside_the_app() {
    let text = one("    secrets: [login, {source: key, target: /etc/key}]\nsecrets:\n  login: \
                    {file: ./login.txt}\n  key: {external: true, name: keys}\n");
    let reading = clean(&text, &files(&[("./login.txt", "word")]));
    let run = component(&reading, "a").run[0].container.clone().unwrap();
    let entry = |name: &str, key: &str| Some(KeyRef { name: name.into(), key: key.into() });
    let file = |path: &str, secret| File { path: path.into(), secret, ..File::default() };
    assert_eq!(
        run.files,
        [
            file("/run/secrets/login", entry("x-login", "login")),
            file("/etc/key", entry("keys", "key")),
        ]
    );
    assert_eq!(reading.others.len(), 1);
    assert_eq!(reading.others[0]["stringData"]["login"], "word");
}

#[test]
fn a_file_beside_the_compose_file_becomes_part_of_the_app() {
    let text = one("    volumes: [\"./web.conf:/etc/web.conf:ro\", \"./data:/data\", /cache]\n");
    let reading = clean(&text, &files(&[("./web.conf", "on")]));
    let run = component(&reading, "a").run[0].container.clone().unwrap();
    assert_eq!(run.files[0].content.as_deref(), Some("on"));
    let empty = |path: &str| Volume { path: path.into(), ..Volume::default() };
    assert_eq!(run.volumes, [empty("/data"), empty("/cache")]);
}

#[test]
fn ports_are_read_in_every_form() {
    let text = one("    ports: [80, \"53:53/udp\", \"127.0.0.1:90:91\", \"7000-7001:8000-8001\", \
                    {target: 443, published: \"8443\", app_protocol: https, name: tls}]\n    \
                    expose: [\"80\", \"99\"]\n");
    let reading = clean(&text, &NoFiles);
    let shown: Vec<String> = component(&reading, "a")
        .expose
        .iter()
        .map(|one| {
            let reach = if one.public { "public" } else { "inside" };
            format!("{} {} {reach} {:?}", one.port, one.protocol, one.published)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "80 tcp public None",
            "53 udp public Some(53)",
            "91 tcp inside Some(90)",
            "8000 tcp public Some(7000)",
            "8001 tcp public Some(7001)",
            "443 https public Some(8443)",
            "99 tcp inside None",
        ]
    );
}

#[test]
fn a_service_takes_over_what_it_extends() {
    let text = "name: x\nservices:\n  base:\n    image: i:1\n    environment: {A: 1, B: 2}\n    \
                command: [x]\n    expose: [\"1\"]\n  a:\n    extends: {service: base}\n    \
                environment: [B=3]\n    command: [y]\n    expose: [\"2\"]\n";
    let run = container(text, "a");
    assert_eq!((run.env["A"].as_str(), run.env["B"].as_str()), ("1", "3"));
    assert_eq!(run.args, ["y"]);
    assert_eq!(run.ports, [1, 2]);
}

#[test]
fn what_a_container_cannot_say_is_kept_in_its_own_words() {
    let text = one("    sysctls: [a=1]\n    labels: {a: b}\n    environment: {P: \"$$x\"}\n");
    let reading = clean(&text, &NoFiles);
    let run = component(&reading, "a").run;
    assert_eq!(run.len(), 1);
    let service = &run[0].compose.as_ref().unwrap()["services"]["a"];
    assert_eq!(service["sysctls"][0], "a=1");
    assert_eq!(service["labels"]["a"], "b");
    assert_eq!(service["environment"]["P"], "$$x");
    check_notes(
        &text,
        &reading,
        expect![[r#"
        test.yaml:5:5: changed services.a.sysctls: runs only on Docker sites: a container cannot set kernel parameters
    "#]],
    );
}

#[test]
fn a_service_with_a_profile_does_not_run() {
    let reading = clean(&example("compose.yaml"), &NoFiles);
    assert!(reading.notes.iter().any(|note| note.path == "services.debug"));
}

#[test]
fn a_small_file_does_not_become_a_large_app() {
    let entries: String = (0..4000).map(|index| format!("X{index}: y, ")).collect();
    let services: String =
        (0..400).map(|index| format!("  s{index}: {{extends: base}}\n")).collect();
    let text = format!(
        "name: x\nservices:\n  base: {{image: \"i:1\", environment: {{{entries}}}}}\n{services}"
    );
    let source = tombolo_descriptor::Source { name: "large.yaml", text: &text };
    let reading = tombolo_descriptor::read(source, None, &NoFiles);
    assert!(reading.diagnostics.iter().any(|one| one.code == "too-large"));
}

#[test]
fn one_long_value_used_often_does_not_become_a_large_app() {
    let uses: String = (0..200).map(|index| format!("      V{index}: ${{LONG}}\n")).collect();
    let text = format!("name: x\nservices:\n  a:\n    image: i\n    environment:\n{uses}");
    let long = format!("LONG={}", "x".repeat(100_000));
    let source = tombolo_descriptor::Source { name: "large.yaml", text: &text };
    let reading = tombolo_descriptor::read(source, None, &files(&[(".env", &long)]));
    let told = reading.diagnostics.iter().filter(|one| one.message.starts_with("the file grows"));
    assert_eq!(told.count(), 1, "{:?}", reading.diagnostics);
}

#[test]
fn a_file_without_a_name_goes_by_its_file_or_folder() {
    let name_of = |file: &str| {
        let source =
            tombolo_descriptor::Source { name: file, text: "services: {a: {image: \"i:1\"}}" };
        tombolo_descriptor::read(source, None, &NoFiles).apps[0].metadata.name.clone().unwrap()
    };
    assert_eq!(name_of("shop/compose.yaml"), "shop");
    assert_eq!(name_of("/srv/My Shop/docker-compose.yml"), "my-shop");
    assert_eq!(name_of("shop/till.yaml"), "till");
    assert_eq!(name_of("compose.yaml"), "compose");
    assert_eq!(name_of("../compose.yaml"), "compose");
    assert_eq!(name_of("stdin"), "compose");
}

#[test]
fn variables_in_the_values_of_env_files_are_filled_in() {
    let text =
        "services:\n  web: {image: \"a:${TAG}\", env_file: web.env, platform: \"${ARCH:-}\"}\n";
    let given = files(&[
        (".env", "MAJOR=2\nTAG=${MAJOR}.1\n"),
        ("web.env", "HOST=store\nURL=\"http://${HOST}:80/${TAG}\"\nRAW='${HOST}'\n"),
    ]);
    let web = component(&clean(text, &given), "web");
    let run = web.run[0].container.as_ref().unwrap();
    assert_eq!(run.image, "a:2.1");
    assert_eq!(run.env["URL"], "http://store:80/2.1");
    assert_eq!(run.env["RAW"], "${HOST}");
    assert!(web.needs.unwrap_or_default().arch.is_empty());
}

#[test]
fn an_env_file_cannot_multiply_itself() {
    let mut lines = format!("A0={}\n", "x".repeat(1000));
    for line in 1..40 {
        let before = line - 1;
        lines += &format!("A{line}=${{A{before}}}${{A{before}}}\n");
    }
    let text = "services:\n  web: {image: a}\n";
    let source = tombolo_descriptor::Source { name: "test.yaml", text };
    let reading = tombolo_descriptor::read(source, None, &files(&[(".env", &lines)]));
    assert!(reading.diagnostics.iter().any(|one| one.message.contains("too long")));
}

#[test]
fn capabilities_and_groups_are_carried() {
    let text = one("    cap_add: [NET_ADMIN]\n    group_add: [\"44\", video]\n");
    let run = container(&text, "a");
    assert_eq!(
        (run.capabilities, run.groups),
        (vec!["NET_ADMIN".to_owned()], vec!["44".to_owned(), "video".to_owned()])
    );
}

#[test]
fn an_image_that_compose_would_build_is_named_as_compose_names_it() {
    let text = "name: shop\nservices:\n  web: {build: ./web}\n  api:\n    build: {context: ., tags: \
                [\"registry.example/api:1\"]}\n";
    let reading = clean(text, &NoFiles);
    let image = |name: &str| component(&reading, name).run[0].container.clone().unwrap().image;
    assert_eq!(
        (image("web").as_str(), image("api").as_str()),
        ("shop-web", "registry.example/api:1")
    );
    let told: Vec<_> =
        reading.diagnostics.iter().map(|one| (one.code, one.path.as_str())).collect();
    assert_eq!(
        told,
        [("image-assumed", "services.web.build"), ("image-assumed", "services.api.build")]
    );
}

#[test]
fn a_file_is_laid_over_another_as_compose_does_it() {
    let base = "name: shop\nservices:\n  web:\n    image: web:1\n    command: [serve]\n    \
                environment: {LEVEL: info, KEEP: \"1\"}\n    ports: [\"8080:80\"]\n    volumes: \
                [\"data:/data\", /cache]\n    expose: [\"90\"]\nvolumes: {data: {}}\n";
    let over = "services:\n  web:\n    image: web:2\n    command: [serve, --fast]\n    environment:\n    \
                - LEVEL=debug\n    ports: [\"8443:443\"]\n    volumes: [\"other:/data:ro\"]\n  \
                extra: {image: \"extra:1\"}\nvolumes: {other: {}}\n";
    let reading =
        together(&[("compose.yaml", base), ("prod.yaml", over)], &Options::default(), &NoFiles);
    let run = component(&reading, "web").run[0].container.clone().unwrap();
    assert_eq!((run.image.as_str(), run.args.join(" ").as_str()), ("web:2", "serve --fast"));
    assert_eq!((run.env["LEVEL"].as_str(), run.env["KEEP"].as_str()), ("debug", "1"));
    assert_eq!(run.ports, [80, 443, 90]);
    let mounts: Vec<_> =
        run.volumes.iter().map(|one| (one.path.as_str(), one.name.as_deref())).collect();
    assert_eq!(mounts, [("/cache", None), ("/data", Some("other"))]);
    assert_eq!(component(&reading, "extra").run[0].container.as_ref().unwrap().image, "extra:1");
}

#[test]
fn a_service_with_a_profile_runs_when_it_is_asked_for() {
    let text = "name: x\nservices:\n  a: {image: \"i:1\"}\n  b: {image: \"i:1\", profiles: [debug]}\n  \
                c: {image: \"i:1\", profiles: [test, ci]}\n";
    let names = |profiles: &[&str], env: &str| {
        let profiles = profiles.iter().map(|name| (*name).to_owned()).collect();
        let options = Options { profiles, ..Options::default() };
        let reading = together(&[("compose.yaml", text)], &options, &files(&[(".env", env)]));
        let names = reading.apps[0].spec.components.iter().map(|one| one.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[], ""), "a");
    assert_eq!(names(&["debug"], ""), "a b");
    assert_eq!(names(&[], "COMPOSE_PROFILES=ci,debug"), "a b c");
    assert_eq!(names(&["*"], ""), "a b c");
}

#[test]
fn services_that_share_a_volume_stay_together() {
    let text = "name: x\nservices:\n  web: {image: \"i:1\", volumes: [\"data:/srv\"]}\n  db: {image: \
                \"i:1\", volumes: [\"data:/data\", \"own:/own\"]}\nvolumes: {data: {}, own: {}}\n";
    let reading = clean(text, &NoFiles);
    assert_eq!(component(&reading, "web").affinity, None);
    assert_eq!(component(&reading, "db").affinity.unwrap().with, ["web"]);
    let note = reading.notes.iter().find(|note| note.path == "services.db").unwrap();
    assert!(note.message.starts_with("shares the volume \"data\" with \"web\""), "{note:?}");
}

#[test]
fn the_files_of_a_folder_become_part_of_the_app_or_it_is_told_first() {
    let text = one("    volumes: [\"./conf:/etc/web:ro\", \"./none:/data\"]\n");
    let given = files(&[("./conf/a.conf", "A"), ("./conf/sub/b.conf", "B")]);
    let reading = clean(&text, &given);
    let run = component(&reading, "a").run[0].container.clone().unwrap();
    let carried: Vec<_> =
        run.files.iter().map(|file| (file.path.as_str(), file.content.as_deref())).collect();
    assert_eq!(carried, [("/etc/web/a.conf", Some("A")), ("/etc/web/sub/b.conf", Some("B"))]);
    assert_eq!(run.volumes.len(), 1);
    assert_eq!(reading.diagnostics, []);

    let many: Vec<(String, String)> =
        (0..65).map(|number| (format!("./conf/{number}"), String::new())).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let reading = clean(&text, &files(&many));
    let run = component(&reading, "a").run[0].container.clone().unwrap();
    assert_eq!((run.files.len(), run.volumes[0].path.as_str()), (0, "/etc/web"));
    let [told] = reading.diagnostics.as_slice() else { panic!("{:?}", reading.diagnostics) };
    assert_eq!(told.code, "folder-left-behind");
}

#[test]
fn a_service_that_others_wait_for_to_end_runs_to_its_end() {
    let text = "name: x\nservices:\n  init:\n    image: i:1\n    command: [migrate]\n    depends_on: \
                [db]\n  web:\n    image: i:1\n    depends_on:\n      init: {condition: \
                service_completed_successfully}\n      db: {condition: service_started}\n  worker:\n    \
                image: i:1\n    depends_on: {init: {condition: service_completed_successfully}}\n  db: \
                {image: \"i:1\", expose: [\"5432\"]}\n";
    let reading = clean(text, &NoFiles);
    let names: Vec<&str> =
        reading.apps[0].spec.components.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["web", "worker", "db"]);
    let web = component(&reading, "web");
    let project = web.run[0].compose.as_ref().unwrap();
    assert_eq!(project["services"]["init"]["command"][0], "migrate");
    assert_eq!(
        project["services"]["web"]["depends_on"]["init"]["condition"],
        "service_completed_successfully"
    );
    let calls = |name: &str| {
        let calls = component(&reading, name).connects;
        calls.into_iter().map(|call| call.to).collect::<Vec<_>>()
    };
    assert_eq!(calls("web"), ["db"]);
    // Whoever else waits for the end waits for the one that it is a part of.
    assert_eq!(calls("worker"), ["web"]);
    let note = reading.notes.iter().find(|note| note.path == "services.init").unwrap();
    assert!(note.message.contains("to its end before \"web\" starts"), "{note:?}");
}

#[test]
fn a_kept_service_has_what_was_looked_up() {
    let text = one(
        "    sysctls: [a=1]\n    env_file: a.env\n    volumes: [\"./web.conf:/etc/web.conf\"]\n    \
                    secrets: [login]\n",
    ) + "secrets: {login: {file: ./login.txt}}\n";
    let given = files(&[("a.env", "X=1\n"), ("./web.conf", "on"), ("./login.txt", "word")]);
    let project = component(&clean(&text, &given), "a").run[0].compose.clone().unwrap();
    let service = &project["services"]["a"];
    assert_eq!(service["environment"]["X"], "1");
    assert!(service.get("env_file").is_none() && service.get("volumes").is_none());
    let config = service["configs"][0]["source"].as_str().unwrap();
    assert_eq!(project["configs"][config]["content"], "on");
    assert_eq!(project["secrets"]["login"]["name"], "x-login");
}
