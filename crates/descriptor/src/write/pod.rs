//! A component as a pod: the way back from [`crate::kubernetes::pod`]. Called by the writers of
//! Kubernetes manifests, CodecoApps and ICOS descriptors. Whatever is written is taken out of the
//! component.

use serde_json::{Map, Value, json};
use tombolo_model::component::{Component, Health, Protocol, Spread};
use tombolo_model::keys;
use tombolo_model::needs::{Needs, Toleration};
use tombolo_model::quantity::Duration;
use tombolo_model::run::{Container, File, Volume};

use super::put;
use crate::kubernetes::scheduling::{ARCH, HOSTNAME, REGION, ZONE};
use crate::kubernetes::{LABEL_NAME, LABEL_PART_OF, escape};

/// A pod and the objects that it needs beside it.
#[derive(Debug)]
pub(super) struct PodOf {
    pub(super) spec: Value,
    /// Name and size of every claim.
    pub(super) claims: Vec<(String, Option<String>)>,
    /// The texts of its files, by key, for a ConfigMap named [`config_name`].
    pub(super) contents: Map<String, Value>,
}

/// The ConfigMap with the texts of a component's files.
pub(super) fn config_name(component: &str) -> String {
    format!("{component}-files")
}

/// The labels of a component's pods.
pub(super) fn labels(app: &str, component: &str) -> Value {
    json!({LABEL_NAME: component, LABEL_PART_OF: app})
}

/// Takes the container out of the first way to run that is one; nothing if none is.
pub(super) fn take_container(component: &mut Component) -> Option<Container> {
    component.run.iter_mut().find_map(|run| run.container.take())
}

/// Writes the container and everything about the component that a pod can say.
pub(super) fn pod(app: &str, name: &str, rest: &mut Component, container: Container) -> PodOf {
    let mut spec = Map::new();
    let mut one = Map::new();
    let mut volumes = Volumes::default();
    let mut left = container;
    one.insert("name".into(), name.into());
    one.insert("image".into(), std::mem::take(&mut left.image).into());
    let escaped = |texts: Vec<String>| {
        (!texts.is_empty()).then(|| texts.iter().map(|text| escape(text)).collect::<Vec<_>>())
    };
    put(&mut one, "command", escaped(std::mem::take(&mut left.command)));
    put(&mut one, "args", escaped(std::mem::take(&mut left.args)));
    put(&mut one, "workingDir", left.workdir.take());
    put(&mut one, "env", environment(&mut left));
    put(&mut one, "ports", ports(&mut left, rest));
    put(&mut one, "securityContext", security(&mut left));
    put(&mut one, "resources", rest.needs.as_mut().and_then(resources));
    if let Some(health) = &mut rest.health {
        put(&mut one, "livenessProbe", probe(health));
        if *health == Health::default() {
            rest.health = None;
        }
    }
    for volume in &mut left.volumes {
        volumes.volume(volume);
    }
    for file in &mut left.files {
        volumes.file(name, file);
    }
    put(&mut one, "volumeMounts", non_empty(volumes.mounts));
    put(&mut spec, "volumes", non_empty(volumes.list));
    spec.insert("containers".into(), json!([one]));
    put(&mut spec, "securityContext", groups(&mut left));
    if let Some(seconds) = rest.stop_grace.and_then(whole_seconds) {
        spec.insert("terminationGracePeriodSeconds".into(), seconds.into());
        rest.stop_grace = None;
    }
    schedule(app, name, rest, &mut spec);
    if left != Container::default()
        && let Some(run) = rest.run.iter_mut().find(|run| run.way().is_none())
    {
        run.container = Some(left);
    }
    PodOf { spec: spec.into(), claims: volumes.claims, contents: volumes.contents }
}

fn non_empty(list: Vec<Value>) -> Option<Value> {
    (!list.is_empty()).then_some(Value::Array(list))
}

fn environment(container: &mut Container) -> Option<Value> {
    let plain = std::mem::take(&mut container.env);
    let secret = std::mem::take(&mut container.secret_env);
    let plain =
        plain.into_iter().map(|(name, value)| json!({"name": name, "value": escape(&value)}));
    let secret = secret
        .into_iter()
        .map(|(name, key)| json!({"name": name, "valueFrom": {"secretKeyRef": key}}));
    non_empty(plain.chain(secret).collect())
}

fn ports(container: &mut Container, component: &Component) -> Option<Value> {
    let udp = |port: u16| {
        let at = component.expose.iter().find(|expose| expose.port == port);
        at.is_some_and(|expose| expose.protocol == Protocol::Udp)
    };
    let ports = std::mem::take(&mut container.ports);
    let ports = ports.into_iter().map(|port| match udp(port) {
        true => json!({"containerPort": port, "protocol": "UDP"}),
        false => json!({"containerPort": port}),
    });
    non_empty(ports.collect())
}

fn security(container: &mut Container) -> Option<Value> {
    let mut context = Map::new();
    if std::mem::take(&mut container.privileged) {
        context.insert("privileged".into(), true.into());
    }
    let capabilities = std::mem::take(&mut container.capabilities);
    if !capabilities.is_empty() {
        context.insert("capabilities".into(), json!({"add": capabilities}));
    }
    if let Some(user) = &container.user {
        // Written otherwise than Kubernetes would, it would not come back.
        let number = |text: &str| text.parse::<u32>().ok().filter(|id| id.to_string() == text);
        let (user, group) = match user.split_once(':') {
            Some((user, group)) => (number(user), Some(number(group))),
            None => (number(user), None),
        };
        // Kubernetes knows users by number only.
        if user.is_some() && group != Some(None) {
            put(&mut context, "runAsUser", user);
            put(&mut context, "runAsGroup", group.flatten());
            container.user = None;
        }
    }
    (!context.is_empty()).then_some(context.into())
}

/// Kubernetes knows groups by number only.
fn groups(container: &mut Container) -> Option<Value> {
    let number = |group: &String| group.parse::<u32>().is_ok_and(|id| id.to_string() == *group);
    let (numbers, names): (Vec<String>, Vec<String>) =
        std::mem::take(&mut container.groups).into_iter().partition(number);
    container.groups = names;
    let numbers: Vec<u32> = numbers.iter().filter_map(|group| group.parse().ok()).collect();
    (!numbers.is_empty()).then(|| json!({"supplementalGroups": numbers}))
}

fn resources(needs: &mut Needs) -> Option<Value> {
    let mut requests = Map::new();
    put(&mut requests, "cpu", needs.cpu.take().map(|cpu| cpu.to_string()));
    put(&mut requests, "memory", needs.memory.take().map(|memory| memory.to_string()));
    put(&mut requests, "ephemeral-storage", needs.storage.take().map(|room| room.to_string()));
    let mut limits = Map::new();
    put(&mut limits, "nvidia.com/gpu", needs.gpu.take());
    for device in std::mem::take(&mut needs.devices) {
        limits.insert(device, 1.into());
    }
    let mut resources = Map::new();
    put(&mut resources, "requests", (!requests.is_empty()).then_some(requests));
    put(&mut resources, "limits", (!limits.is_empty()).then_some(limits));
    (!resources.is_empty()).then_some(resources.into())
}

/// Kubernetes counts in whole seconds.
pub(super) fn whole_seconds(duration: Duration) -> Option<u64> {
    let micros = duration.micros();
    micros.is_multiple_of(1_000_000).then_some(micros / 1_000_000)
}

fn probe(health: &mut Health) -> Option<Value> {
    let mut probe = Map::new();
    if let Some(http) = health.http.take() {
        let mut get = Map::new();
        put(&mut get, "path", http.path);
        get.insert("port".into(), http.port.into());
        probe.insert("httpGet".into(), get.into());
    } else if let Some(tcp) = health.tcp.take() {
        probe.insert("tcpSocket".into(), json!({"port": tcp.port}));
    } else if let Some(exec) = health.exec.take() {
        probe.insert("exec".into(), json!({"command": exec.command}));
    } else {
        return None;
    }
    let times = [
        ("periodSeconds", &mut health.interval),
        ("timeoutSeconds", &mut health.timeout),
        ("initialDelaySeconds", &mut health.startup),
    ];
    for (key, time) in times {
        if let Some(seconds) = time.and_then(whole_seconds) {
            probe.insert(key.into(), seconds.into());
            *time = None;
        }
    }
    put(&mut probe, "failureThreshold", health.failures.take());
    Some(probe.into())
}

#[derive(Default)]
struct Volumes {
    list: Vec<Value>,
    mounts: Vec<Value>,
    claims: Vec<(String, Option<String>)>,
    contents: Map<String, Value>,
}

impl Volumes {
    fn volume(&mut self, volume: &mut Volume) {
        let index = self.list.len();
        let mut mount = Map::new();
        let mut source = Map::new();
        if let Some(claim) = volume.name.take() {
            let size = volume.size.take().map(|size| size.to_string());
            source.insert("name".into(), claim.clone().into());
            source.insert("persistentVolumeClaim".into(), json!({"claimName": claim}));
            self.claims.push((claim, size));
        } else if let Some(path) = volume.host_path.take() {
            source.insert("name".into(), format!("host-{index}").into());
            source.insert("hostPath".into(), json!({"path": path}));
        } else {
            let mut empty = Map::new();
            put(&mut empty, "sizeLimit", volume.size.take().map(|size| size.to_string()));
            source.insert("name".into(), format!("scratch-{index}").into());
            source.insert("emptyDir".into(), empty.into());
        }
        mount.insert("name".into(), source["name"].clone());
        mount.insert("mountPath".into(), std::mem::take(&mut volume.path).into());
        if std::mem::take(&mut volume.read_only) {
            mount.insert("readOnly".into(), true.into());
        }
        // One claim may be mounted at several places.
        if !self.list.iter().any(|known| known["name"] == source["name"]) {
            self.list.push(source.into());
        }
        self.mounts.push(mount.into());
    }

    fn file(&mut self, component: &str, file: &mut File) {
        let index = self.list.len();
        let base = file.path.rsplit('/').next().filter(|base| !base.is_empty());
        let base = base.unwrap_or("file").to_owned();
        let items = |key: &str| json!([{"key": key, "path": base}]);
        let name = format!("file-{index}");
        let source = if let Some(key) = file.secret.take() {
            json!({"name": name, "secret": {"secretName": key.name, "items": items(&key.key)}})
        } else if let Some(key) = file.config.take() {
            json!({"name": name, "configMap": {"name": key.name, "items": items(&key.key)}})
        } else {
            let key = format!("file-{index}");
            let text = file.content.take().unwrap_or_default();
            self.contents.insert(key.clone(), text.into());
            json!({"name": name, "configMap": {"name": config_name(component), "items": items(&key)}})
        };
        self.list.push(source);
        let path = std::mem::take(&mut file.path);
        self.mounts.push(json!({"name": name, "mountPath": path, "subPath": base}));
    }
}

fn schedule(app: &str, name: &str, rest: &mut Component, spec: &mut Map<String, Value>) {
    let mut affinity = Map::new();
    if let Some(needs) = &mut rest.needs {
        let labels = std::mem::take(&mut needs.labels);
        put(spec, "nodeSelector", (!labels.is_empty()).then(|| json!(labels)));
        let arch: Vec<String> =
            std::mem::take(&mut needs.arch).iter().map(|arch| arch.name().to_owned()).collect();
        let wanted = [
            (ARCH, arch),
            (HOSTNAME, std::mem::take(&mut needs.nodes)),
            (REGION, std::mem::take(&mut needs.regions)),
            (keys::LABEL_SITE, std::mem::take(&mut needs.sites)),
        ];
        let expressions: Vec<Value> = wanted
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| json!({"key": key, "operator": "In", "values": values}))
            .collect();
        if !expressions.is_empty() {
            let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
            affinity.insert("nodeAffinity".into(), required(terms));
        }
        put(spec, "tolerations", non_empty(tolerations(needs)));
        if *needs == Needs::default() {
            rest.needs = None;
        }
    }
    if let Some(wish) = &mut rest.affinity {
        let term = |names: Vec<String>, topology: &str| {
            let in_app = json!({LABEL_PART_OF: app});
            let named = json!([{"key": LABEL_NAME, "operator": "In", "values": names}]);
            let selector = json!({"matchLabels": in_app, "matchExpressions": named});
            required(json!([{"labelSelector": selector, "topologyKey": topology}]))
        };
        let (with, apart) = (std::mem::take(&mut wish.with), std::mem::take(&mut wish.apart));
        if !with.is_empty() {
            affinity.insert("podAffinity".into(), term(with, ZONE));
        }
        if !apart.is_empty() {
            affinity.insert("podAntiAffinity".into(), term(apart, HOSTNAME));
        }
        let topology = wish.spread.take().map(|spread| match spread {
            Spread::Node => HOSTNAME,
            Spread::Site => ZONE,
        });
        let skew = wish.skew.take();
        let constraint = topology.map(|topology| {
            let mut constraint = json!({
                "maxSkew": skew.unwrap_or(1),
                "topologyKey": topology,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels(app, name)},
            });
            if skew.is_none() {
                // As long as there are fewer places than pods, each takes one.
                constraint["minDomains"] = rest.replicas.unwrap_or(1).max(1).into();
            }
            json!([constraint])
        });
        put(spec, "topologySpreadConstraints", constraint);
        rest.affinity = None;
    }
    put(spec, "affinity", (!affinity.is_empty()).then_some(affinity));
}

fn required(terms: Value) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
}

fn tolerations(needs: &mut Needs) -> Vec<Value> {
    // A value is compared with that of one key; without the key Kubernetes refuses it.
    let sayable = |one: &Toleration| one.key.is_some() || one.value.is_none();
    let (said, left): (Vec<Toleration>, Vec<Toleration>) =
        std::mem::take(&mut needs.tolerations).into_iter().partition(sayable);
    needs.tolerations = left;
    let write = |one: Toleration| {
        let mut toleration = Map::new();
        put(&mut toleration, "key", one.key);
        let operator = if one.value.is_some() { "Equal" } else { "Exists" };
        toleration.insert("operator".into(), operator.into());
        put(&mut toleration, "value", one.value);
        put(&mut toleration, "effect", one.effect.map(|effect| effect.as_str()));
        Value::Object(toleration)
    };
    said.into_iter().map(write).collect()
}
