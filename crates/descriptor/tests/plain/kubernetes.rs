//! Plain Kubernetes manifests.

use expect_test::expect;
use tombolo_descriptor::{Files, NoFiles, Options};
use tombolo_model::component::{Affinity, Expose, Protocol, Spread};
use tombolo_model::needs::{TaintEffect, Toleration};
use tombolo_model::run::{File, KeyRef};
use tombolo_model::{Arch, Duration};

use crate::{check_notes, clean, component, example, together};

/// A Deployment `a` whose pod has these lines.
fn deployment(pod: &str) -> String {
    let pod: String = pod.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec:\n  selector: \
         {{matchLabels: {{app: a}}}}\n  template:\n    metadata: {{labels: {{app: a}}}}\n    \
         spec:\n{pod}"
    )
}

#[test]
fn the_sample_becomes_an_app_field_by_field() {
    let reading = clean(&example("kubernetes.yaml"), &NoFiles);
    assert_eq!(reading.apps[0].metadata.name.as_deref(), Some("cameras"));

    let viewer = component(&reading, "viewer");
    assert_eq!(viewer.replicas, Some(3));
    let kinds: Vec<&str> =
        viewer.run[0].manifests.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Deployment", "Service", "ConfigMap"]);
    assert_eq!(viewer.run[0].manifests[0]["spec"]["replicas"], 1);
    let run = viewer.run[1].container.as_ref().unwrap();
    assert_eq!(run.image, "registry.example/viewer:3.2");
    assert_eq!(run.args, ["--store", "http://store:8000"]);
    assert_eq!(run.env["LEVEL"], "info");
    let login = KeyRef { name: "store-login".into(), key: "password".into() };
    assert_eq!(run.secret_env["PASSWORD"], login);
    assert_eq!(run.ports, [8080]);
    let config = KeyRef { name: "viewer-settings".into(), key: "viewer.conf".into() };
    let path = "/etc/viewer/viewer.conf".to_owned();
    assert_eq!(run.files, [File { path, config: Some(config), ..File::default() }]);
    let needs = viewer.needs.unwrap();
    assert_eq!(needs.cpu.unwrap().to_string(), "250m");
    assert_eq!(needs.memory.unwrap().to_string(), "128Mi");
    assert_eq!(needs.gpu, Some(1));
    assert_eq!(needs.arch, [Arch::Arm64]);
    assert_eq!(needs.labels["zone"], "hall-3");
    assert_eq!(
        needs.tolerations,
        [Toleration {
            key: Some("dedicated".into()),
            value: Some("vision".into()),
            effect: Some(TaintEffect::NoSchedule),
        }]
    );
    assert_eq!(
        viewer.affinity,
        Some(Affinity { apart: vec!["viewer".into()], ..Affinity::default() })
    );
    let health = viewer.health.unwrap();
    assert_eq!(health.http.unwrap().port, 8080);
    assert_eq!(health.interval, Some(Duration::from_secs(5)));
    assert_eq!(
        viewer.expose,
        [Expose {
            port: 8080,
            protocol: Protocol::Tcp,
            name: Some("http".into()),
            public: true,
            published: Some(80),
        }]
    );
    assert_eq!((viewer.connects[0].to.as_str(), viewer.connects[0].port), ("store", Some(8000)));
    assert_eq!(viewer.connects[0].protocol, Protocol::Http);

    // Named after its Service, for so the viewer calls it.
    let store = component(&reading, "store");
    assert!(store.stateful);
    assert_eq!(store.stop_grace, Some(Duration::from_secs(30)));
    let volume = &store.run[1].container.as_ref().unwrap().volumes[0];
    assert_eq!(volume.name.as_deref(), Some("frames"));
    assert_eq!(volume.size.unwrap().to_string(), "2Gi");
    let kinds: Vec<&str> =
        store.run[0].manifests.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["StatefulSet", "Service", "PersistentVolumeClaim"]);

    // A Secret is in no manifest of an App that others may read.
    let kinds: Vec<&str> = reading.others.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"]);
}

#[test]
fn the_sample_tells_what_was_assumed_and_changed() {
    let text = example("kubernetes.yaml");
    check_notes(
        &text,
        &clean(&text, &NoFiles),
        expect![[r#"
            test.yaml:26:3: assumed metadata.name: it calls "store", whose name is in its environment
            test.yaml:29:3: changed spec.replicas: the component counts the instances; each runs the manifests with one pod
            test.yaml:76:12: changed metadata.name: the component is named "store" like its Service, because others call it that
        "#]],
    );
}

#[test]
fn a_pod_that_is_no_plain_container_runs_on_kubernetes_only() {
    let text = deployment(
        "hostNetwork: true\ninitContainers: [{image: \"b:1\"}]\ncontainers:\n- image: i:1\n- image: \
         j:1\n  resources: {requests: {cpu: 1, memory: 1Gi}}",
    );
    let reading = clean(&text, &NoFiles);
    let component = component(&reading, "a");
    assert_eq!(component.run.len(), 1);
    assert_eq!(component.run[0].manifests.len(), 1);
    // Needs of all containers add up.
    assert_eq!(component.needs.unwrap().cpu.unwrap().to_string(), "1");
    check_notes(
        &text,
        &reading,
        expect![[r#"
        test.yaml:9:7: changed spec.template.spec.hostNetwork: runs only on Kubernetes sites: a container cannot use the host's network
        test.yaml:10:7: changed spec.template.spec.initContainers: runs only on Kubernetes sites: a container has no init containers
        test.yaml:11:7: changed spec.template.spec.containers: runs only on Kubernetes sites: a component is one container, and this pod has several
    "#]],
    );
}

#[test]
fn what_placement_does_not_know_is_told_although_the_manifests_have_it() {
    let text = deployment(
        "priorityClassName: high\nnodeSelector: {kubernetes.io/os: linux, \
         topology.kubernetes.io/region: eu}\naffinity:\n  nodeAffinity:\n    \
         requiredDuringSchedulingIgnoredDuringExecution:\n      nodeSelectorTerms:\n      - \
         matchExpressions:\n        - {key: a, operator: Exists}\n        - {key: \
         kubernetes.io/arch, operator: In, values: [amd64, aarch64]}\ntopologySpreadConstraints:\n\
         - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: \
         DoNotSchedule}\ncontainers: [{image: \"i:1\"}]",
    );
    let reading = clean(&text, &NoFiles);
    let component = component(&reading, "a");
    let needs = component.needs.unwrap();
    assert_eq!(needs.arch, [Arch::Amd64, Arch::Arm64]);
    assert_eq!(needs.regions, ["eu"]);
    assert_eq!(needs.label_rules.len(), 1, "{:?}", needs.label_rules);
    assert!(needs.label_rules[0].admits(Some("anything")) && !needs.label_rules[0].admits(None));
    assert_eq!(component.affinity.unwrap().spread, Some(Spread::Site));
    check_notes(
        &text,
        &reading,
        expect![[r#"
        test.yaml:9:7: changed spec.template.spec.priorityClassName: holds only within a Kubernetes site; placement does not know it: importance is the App's qos
    "#]],
    );
}

/// How many more pods one zone may have, and with as many domains as pods one for each.
#[test]
fn pods_that_are_spread_evenly_may_share_a_zone() {
    let spread = |more: &str| {
        let text = deployment(&format!(
            "topologySpreadConstraints:\n- {{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, \
             whenUnsatisfiable: DoNotSchedule{more}}}\ncontainers: [{{image: \"i:1\"}}]"
        ));
        let reading = clean(&text, &NoFiles);
        check_notes(&text, &reading, expect![""]);
        let affinity = component(&reading, "a").affinity.unwrap();
        (affinity.spread, affinity.skew)
    };
    assert_eq!(spread(""), (Some(Spread::Site), Some(2)));
    assert_eq!(spread(", minDomains: 9"), (Some(Spread::Site), Some(2)));
    let text = deployment(
        "topologySpreadConstraints:\n- {maxSkew: 1, topologyKey: kubernetes.io/hostname, \
         whenUnsatisfiable: DoNotSchedule, minDomains: 9}\ncontainers: [{image: \"i:1\"}]",
    );
    let affinity = component(&clean(&text, &NoFiles), "a").affinity.unwrap();
    assert_eq!((affinity.spread, affinity.skew), (Some(Spread::Node), None));
}

#[test]
fn a_wish_to_be_spread_is_no_rule() {
    let text = deployment(
        "topologySpreadConstraints:\n- {maxSkew: 1, topologyKey: kubernetes.io/hostname, \
         whenUnsatisfiable: ScheduleAnyway}\ncontainers: [{image: \"i:1\"}]",
    );
    let reading = clean(&text, &NoFiles);
    let component = component(&reading, "a");
    assert_eq!(component.affinity, None);
    assert_eq!(component.prefers[0].spread, Some(Spread::Node));
    check_notes(&text, &reading, expect![""]);
}

#[test]
fn preferred_terms_are_wishes_with_their_weights() {
    let term = |topology: &str| {
        format!(
            "{{weight: 7, podAffinityTerm: {{labelSelector: {{matchLabels: {{app: a}}}}, \
             topologyKey: {topology}}}}}"
        )
    };
    let text = deployment(&format!(
        "affinity:\n  nodeAffinity:\n    preferredDuringSchedulingIgnoredDuringExecution:\n    - \
         {{weight: 30, preference: {{matchExpressions: [{{key: disk, operator: In, values: [ssd, \
         nvme]}}, {{key: cores, operator: Gt, values: [\"8\"]}}]}}}}\n  podAntiAffinity:\n    \
         preferredDuringSchedulingIgnoredDuringExecution:\n    - {}\ntolerations:\n- {{key: spot, \
         operator: Exists, effect: PreferNoSchedule}}\ncontainers: [{{image: \"i:1\"}}]",
        term("kubernetes.io/hostname")
    ));
    let reading = clean(&text, &NoFiles);
    let component = component(&reading, "a");
    let [disk, apart] = component.prefers.as_slice() else { panic!("{:?}", component.prefers) };
    let rules: Vec<String> = disk.labels.iter().map(ToString::to_string).collect();
    assert_eq!(
        (disk.weight, rules.join("; ").as_str()),
        (30, "label disk in ssd, nvme; label cores above 8")
    );
    assert_eq!((apart.weight, apart.apart.as_slice()), (7, ["a".to_owned()].as_slice()));
    let tolerations = component.needs.unwrap().tolerations;
    assert_eq!(tolerations[0].effect, Some(TaintEffect::PreferNoSchedule));
}

#[test]
fn jobs_and_daemons_say_what_becomes_of_them() {
    let text = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: \
                \"0 3 * * *\"\n  jobTemplate: {spec: {template: {spec: {containers: [{image: \
                \"i:1\"}]}}}}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: \
                each}\nspec: {selector: {}, template: {spec: {containers: [{image: \"i:1\"}]}}}\n";
    let reading = clean(text, &NoFiles);
    assert_eq!(component(&reading, "nightly").run.len(), 1);
    assert_eq!(component(&reading, "each").run.len(), 2);
    check_notes(
        text,
        &reading,
        expect![[r#"
            test.yaml:3:12: changed metadata.name: runs only on Kubernetes sites: a CronJob runs on a schedule, a container all the time
            test.yaml:3:12: assumed metadata.name: the App is named "nightly" like its first workload; the label app.kubernetes.io/part-of would name it
            test.yaml:10:12: changed metadata.name: on each node of the chosen Kubernetes site; anywhere else one instance runs, use onEach for more
        "#]],
    );
}

#[test]
fn a_list_is_its_items() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: \
                a}, spec: {containers: [{image: \"i:1\", envFrom: [{configMapRef: {name: c}, \
                prefix: P_}]}]}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: \
                {X: y}}\n";
    let reading = clean(text, &NoFiles);
    let run = component(&reading, "a").run;
    assert_eq!(run[1].container.as_ref().unwrap().env["P_X"], "y");
}

#[test]
fn what_older_files_and_clients_write_is_read() {
    let controller = deployment("containers: [{name: web, image: nginx:1}]")
        .replace("apps/v1", "v1")
        .replace("Deployment", "ReplicationController")
        .replace("{matchLabels: {app: a}}", "{app: a}");
    let reading = clean(&controller, &NoFiles);
    assert_eq!(component(&reading, "a").run[1].container.as_ref().unwrap().image, "nginx:1");

    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  type: NodePort\n  \
                   selector: {app: a}\n  ports: [{port: 80, nodePort: 0}]\n";
    let text = deployment("containers: [{name: web, image: nginx:1}]") + service;
    let exposed = component(&clean(&text, &NoFiles), "a").expose;
    assert_eq!((exposed[0].port, exposed[0].public, exposed[0].published), (80, true, None));
}

#[test]
fn a_name_that_a_cluster_would_draw_is_its_beginning() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: build-}\nspec:\n  \
                containers: [{name: web, image: nginx:1}]\n";
    let reading = clean(text, &NoFiles);
    assert_eq!(component(&reading, "build").run[1].container.as_ref().unwrap().image, "nginx:1");
    let said = reading.notes.iter().any(|note| note.message.contains("this beginning"));
    assert!(said, "{:?}", reading.notes);
}

/// A folder of this name, with nothing else in it.
struct In(&'static str);

impl Files for In {
    fn read(&self, _path: &str) -> Option<String> {
        None
    }

    fn folder(&self) -> Option<String> {
        Some(self.0.to_owned())
    }
}

#[test]
fn objects_in_files_of_their_own_are_one_app() {
    let service = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: \
             {name}}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
        )
    };
    let a = deployment(
        "containers: [{image: \"i:1\", envFrom: [{configMapRef: {name: c}}], env: [{name: B, \
         value: \"http://b:80/x\"}]}]",
    );
    let b = deployment("containers: [{image: \"i:1\"}]")
        .replace("name: a", "name: b")
        .replace("app: a", "app: b");
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {X: y}\n";
    let (first, second) = (service("a"), service("b"));
    let texts = [
        ("a-service.yaml", first.as_str()),
        ("a.yaml", a.as_str()),
        ("b-service.yaml", second.as_str()),
        ("b.yaml", b.as_str()),
        ("config.yaml", config),
    ];
    let reading = together(&texts, &Options::default(), &In("Guest Book"));
    assert_eq!(reading.apps[0].metadata.name.as_deref(), Some("guest-book"));
    let a = component(&reading, "a");
    let run = a.run[1].container.as_ref().unwrap();
    assert_eq!(run.env["X"], "y");
    assert_eq!((a.connects[0].to.as_str(), a.connects[0].port), ("b", Some(8080)));
    assert_eq!(a.expose[0].port, 8080);
    // Without a Service in between, the other is called where it listens; a node has port 80 once.
    assert_eq!(run.env["B"], "http://b:8080/x");
    assert_eq!(
        a.run[0].manifests[0]["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"],
        "http://b:80/x"
    );
    assert!(reading.apps[0].spec.components.iter().all(|one| one.expose[0].published.is_none()));
}

#[test]
fn each_namespace_with_something_to_run_is_an_app() {
    let one = |name: &str, namespace: &str| {
        deployment("containers: [{image: \"i:1\"}]").replace(
            "metadata: {name: a}",
            &format!("metadata: {{name: {name}, namespace: {namespace}}}"),
        )
    };
    let text = format!("{}---\n{}", one("a", "left"), one("b", "right"));
    let reading = clean(&text, &NoFiles);
    let apps: Vec<(&str, &str)> = reading
        .apps
        .iter()
        .map(|app| {
            (app.metadata.name.as_deref().unwrap(), app.metadata.namespace.as_deref().unwrap())
        })
        .collect();
    assert_eq!(apps, [("a", "left"), ("b", "right")]);
}

#[test]
fn what_a_container_engine_can_do_is_carried() {
    let text = deployment(
        "serviceAccountName: robot\nsecurityContext: {fsGroup: 2000, supplementalGroups: [44], \
         runAsUser: 1000}\ncontainers: [{image: \"i:1\", securityContext: {capabilities: {add: \
         [NET_ADMIN], drop: [ALL]}}}]",
    );
    let reading = clean(&text, &NoFiles);
    let run = component(&reading, "a").run[1].container.clone().unwrap();
    assert_eq!(run.user.as_deref(), Some("1000"));
    assert_eq!(
        (run.groups.join(" ").as_str(), run.capabilities.join(" ").as_str()),
        ("2000 44", "NET_ADMIN")
    );
    check_notes(
        &text,
        &reading,
        expect![[r#"
        test.yaml:9:7: dropped spec.template.spec.serviceAccountName: outside of a cluster there is no service account
    "#]],
    );
}

#[test]
fn a_folded_text_behind_the_dashes_of_a_document_is_read() {
    let text = "--- >+\n  a text\n--- \napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: \
                {containers: [{image: \"i:1\"}]}\n";
    let reading = clean(text, &NoFiles);
    assert_eq!(component(&reading, "a").run.len(), 2);
}
