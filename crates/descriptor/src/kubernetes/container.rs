//! One container of a pod: image, command, environment, ports, resources, user, mounts. Called by
//! [`super::pod`] for each container; needs and ports of all of them come together in the pod.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::component::Protocol;
use tombolo_model::needs::Needs;
use tombolo_model::quantity::{Bytes, Cpu};
use tombolo_model::run::{Container, KeyRef};

use crate::beyond::{Beyond, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::pod::{Matters, Objects, Pod, Unsaid, unsaid};
use crate::kubernetes::security::Who;
use crate::kubernetes::volumes::Volumes;
use crate::kubernetes::{expand, probes, security};
use crate::mentions;
use crate::reader::Reader;

/// Of all containers of a pod, and of a Service: more than a component may have, and few enough to
/// look for each among the others.
pub(super) const PORTS_MAX: usize = 256;
/// More than a component may ask for; the model tells.
const DEVICES_MAX: usize = 256;

/// A port of a container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodPort {
    pub(crate) name: Option<String>,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    /// The port of the host that is bound to it.
    pub(crate) host_port: Option<u16>,
    /// That port is for the host itself alone.
    pub(crate) host_alone: bool,
}

/// What a container takes from its pod and its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'c, 'a> {
    pub(super) objects: &'c Objects,
    pub(super) volumes: &'c Volumes<'a>,
    /// The user and the groups of the whole pod.
    pub(super) who: &'c Who,
}

const UNSAID: &[Unsaid] = &[
    ("imagePullPolicy", Matters::Little, "an image is pulled when it is missing"),
    ("lifecycle", Matters::Much, "a container has no hooks at its start and stop"),
    ("name", Matters::Little, "a container is named after its component"),
    ("resizePolicy", Matters::Little, "resources are changed by a restart"),
    ("restartPolicy", Matters::Little, "an instance that ends is started again"),
    ("stdin", Matters::Much, "a container has no standard input"),
    ("stdinOnce", Matters::Much, "a container has no standard input"),
    ("terminationMessagePath", Matters::Little, "the last log lines are reported"),
    ("terminationMessagePolicy", Matters::Little, "the last log lines are reported"),
    ("tty", Matters::Much, "a container has no terminal"),
    ("volumeDevices", Matters::Much, "a container has no raw block devices"),
];

const TAKEN: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "startupProbe",
    "volumeMounts",
    "workingDir",
];

/// Nothing when there is no image.
pub(super) fn read<'a>(
    field: &Field<'a>,
    context: &Context<'_, 'a>,
    pod: &mut Pod<'a>,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<Container> {
    let mut fields = field.fields(reader)?;
    let mut container = Container::default();
    match fields.take("image") {
        Some(image) => container.image = image.text(reader).unwrap_or_default(),
        None => {
            fields.missing(reader, "image", "the image of the container, with its tag");
        }
    }
    read_environment(&mut fields, context, &mut container, beyond, reader);
    for (key, into) in [("command", &mut container.command), ("args", &mut container.args)] {
        if let Some(list) = fields.take(key) {
            for text in list.texts(reader) {
                into.push(expanded(&text, &list, &container.env, reader));
            }
        }
    }
    let said = mentions::said_by(&container);
    pod.texts.extend(said.map(|said| (said.variable.map(str::to_owned), said.text.to_owned())));
    if let Some(ports) = fields.take("ports") {
        let most = PORTS_MAX.saturating_sub(pod.ports.len());
        for port in ports.at_most(ports.list(reader), most, reader) {
            if let Some(read) = read_port(&port, beyond, reader) {
                if !container.ports.contains(&read.port) {
                    container.ports.push(read.port);
                }
                pod.ports.push(read);
            }
        }
    }
    if let Some(resources) = fields.take("resources") {
        read_resources(&resources, &mut pod.needs, beyond, reader);
    }
    if let Some(mounts) = fields.take("volumeMounts") {
        for mount in mounts.list(reader) {
            context.volumes.mount(&mount, &mut container, beyond, reader);
        }
    }
    container.workdir = fields.take("workingDir").and_then(|path| path.text(reader));
    container.user.clone_from(&context.who.user);
    container.groups.clone_from(&context.who.groups);
    if let Some(security) = fields.take("securityContext") {
        security::read(&security, &mut container, beyond, reader);
    }
    let health = probes::read(&mut fields, &pod.ports, beyond, reader);
    pod.health = pod.health.take().or(health);
    unsaid(&mut fields, UNSAID, beyond, reader);
    let known: Vec<&str> =
        TAKEN.iter().copied().chain(UNSAID.iter().map(|(key, _, _)| *key)).collect();
    fields.finish(foreign(&known), reader);
    (!container.image.is_empty()).then_some(container)
}

fn read_environment<'a>(
    fields: &mut Fields<'a>,
    context: &Context<'_, 'a>,
    container: &mut Container,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    if let Some(sources) = fields.take("envFrom") {
        for source in sources.list(reader) {
            read_source(&source, context.objects, container, beyond, reader);
        }
    }
    let Some(variables) = fields.take("env") else { return };
    for variable in variables.list(reader) {
        let Some(mut entry) = variable.fields(reader) else { continue };
        let Some(name) = entry.need("name", reader, "a name").and_then(|name| name.text(reader))
        else {
            continue;
        };
        container.secret_env.remove(&name);
        if let Some(value) = entry.take("value") {
            let text = value.text(reader).unwrap_or_default();
            let text = expanded(&text, &value, &container.env, reader);
            container.env.insert(name, text);
        } else if let Some(from) = entry.take("valueFrom") {
            read_value_from(&variable, &from, name, context.objects, container, beyond, reader);
        } else {
            container.env.insert(name, String::new());
        }
        entry.finish(foreign(&["name", "value", "valueFrom"]), reader);
    }
}

/// A text with its references to variables filled in; as it is once that would be too much.
fn expanded(
    text: &str,
    field: &Field<'_>,
    env: &BTreeMap<String, String>,
    reader: &mut Reader<'_>,
) -> String {
    let bytes_max = text.len().saturating_add(reader.copies_left());
    let filled = expand(text, env, bytes_max);
    // What did not fit is more than is left.
    let more = filled.as_ref().map_or(usize::MAX, |filled| filled.len().saturating_sub(text.len()));
    let fits = field.may_copy(more, reader);
    filled.filter(|_| fits).unwrap_or_else(|| text.to_owned())
}

fn read_value_from<'a>(
    variable: &Field<'a>,
    from: &Field<'a>,
    name: String,
    objects: &Objects,
    container: &mut Container,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = from.fields(reader) else { return };
    if let Some(secret) = fields.take("secretKeyRef") {
        if let Some(key) = read_key(&secret, beyond, reader) {
            container.env.remove(&name);
            container.secret_env.insert(name, key);
        }
    } else if let Some(config) = fields.take("configMapKeyRef") {
        let key = read_key(&config, beyond, reader);
        let value = key.and_then(|key| objects.configs.get(&key.name)?.get(&key.key));
        match value {
            Some(value) if variable.may_copy(value.len(), reader) => {
                container.env.insert(name, value.clone());
            }
            Some(_) => (),
            None => beyond.major(variable, "the ConfigMap is not in this file"),
        }
    }
    for key in ["fieldRef", "fileKeyRef", "resourceFieldRef"] {
        if fields.take(key).is_some() {
            beyond.major(variable, "a container does not know its pod");
        }
    }
    let known = ["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"];
    fields.finish(foreign(&known), reader);
}

fn read_key<'a>(
    field: &Field<'a>,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<KeyRef> {
    let mut fields = field.fields(reader)?;
    let name = fields.need("name", reader, "a name")?.text(reader)?;
    let key = fields.need("key", reader, "a key")?.text(reader)?;
    if let Some(optional) = fields.take("optional") {
        beyond.minor(&optional, "the entry must be there");
    }
    fields.finish(foreign(&["key", "name", "optional"]), reader);
    Some(KeyRef { name, key })
}

/// An entry of `envFrom`.
fn read_source<'a>(
    source: &Field<'a>,
    objects: &Objects,
    container: &mut Container,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = source.fields(reader) else { return };
    let prefix = fields.take("prefix").and_then(|prefix| prefix.text(reader)).unwrap_or_default();
    if let Some(config) = fields.take("configMapRef") {
        let name = read_name(&config, beyond, reader);
        match name.as_ref().and_then(|name| objects.configs.get(name)) {
            Some(entries) => {
                for (key, value) in entries {
                    if !source.may_copy(prefix.len() + key.len() + value.len(), reader) {
                        break;
                    }
                    container.env.insert(format!("{prefix}{key}"), value.clone());
                }
            }
            None => beyond.major(source, "the ConfigMap is not in this file"),
        }
    }
    if let Some(secret) = fields.take("secretRef") {
        let name = read_name(&secret, beyond, reader);
        match name.as_ref().and_then(|name| Some((name, objects.secrets.get(name)?))) {
            Some((name, keys)) => {
                for key in keys {
                    if !source.may_copy(prefix.len() + name.len() + 2 * key.len(), reader) {
                        break;
                    }
                    let reference = KeyRef { name: name.clone(), key: key.clone() };
                    container.secret_env.insert(format!("{prefix}{key}"), reference);
                }
            }
            None => beyond.major(source, "the Secret is not in this file, its entries are unknown"),
        }
    }
    fields.finish(foreign(&["configMapRef", "prefix", "secretRef"]), reader);
}

fn read_name<'a>(
    field: &Field<'a>,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<String> {
    let mut fields = field.fields(reader)?;
    let name = fields.need("name", reader, "a name")?.text(reader);
    if let Some(optional) = fields.take("optional") {
        beyond.minor(&optional, "the object must be there");
    }
    fields.finish(foreign(&["name", "optional"]), reader);
    name
}

fn read_port<'a>(
    field: &Field<'a>,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<PodPort> {
    let mut fields = field.fields(reader)?;
    let port = fields.need("containerPort", reader, "a port, such as 8080")?.port(reader)?;
    let name = fields.take("name");
    if let Some(name) = &name {
        beyond.minor(name, "a port is known by its number");
    }
    let name = name.and_then(|name| name.text(reader));
    let host_port = fields.take("hostPort").and_then(|port| port.port(reader));
    let ip = fields.take("hostIP");
    let address = ip.as_ref().and_then(|ip| ip.str(reader));
    let host_alone = matches!(address, Some("127.0.0.1" | "::1"));
    if let Some(ip) = ip.filter(|_| !host_alone) {
        beyond.minor(&ip, "a published port is open on all addresses of its node");
    }
    let protocol = match fields.take("protocol") {
        None => Protocol::Tcp,
        Some(word) => read_protocol(&word, beyond, reader)?,
    };
    fields.finish(foreign(&["containerPort", "hostIP", "hostPort", "name", "protocol"]), reader);
    Some(PodPort { name, port, protocol, host_port, host_alone })
}

/// Nothing for SCTP, which no component speaks.
pub(super) fn read_protocol<'a>(
    field: &Field<'a>,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<Protocol> {
    let words = [("TCP", Some(Protocol::Tcp)), ("UDP", Some(Protocol::Udp)), ("SCTP", None)];
    let protocol = field.one_of(reader, &words)?;
    if protocol.is_none() {
        beyond.major(field, "a component speaks TCP or UDP");
    }
    protocol
}

/// What is asked for counts; where nothing is asked for, the limit does.
fn read_resources<'a>(
    field: &Field<'a>,
    needs: &mut Needs,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    let requests = fields.take("requests").map(|all| all.pairs(reader)).unwrap_or_default();
    let limits = fields.take("limits").map(|all| all.pairs(reader)).unwrap_or_default();
    let requested: BTreeSet<&str> = requests.iter().map(|(name, _)| name.as_str()).collect();
    for (name, amount) in &requests {
        read_amount(name, amount, needs, beyond, reader);
    }
    for (name, amount) in &limits {
        match requested.contains(name.as_str()) {
            true => beyond.minor(amount, "the request counts, the limit does not"),
            false => read_amount(name, amount, needs, beyond, reader),
        }
    }
    if let Some(claims) = fields.take("claims") {
        beyond.major(&claims, "a container cannot claim devices dynamically");
    }
    fields.finish(foreign(&["claims", "limits", "requests"]), reader);
}

fn read_amount<'a>(
    name: &str,
    amount: &Field<'a>,
    needs: &mut Needs,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let add = |sum: &mut Option<Bytes>, more: Option<Bytes>| {
        let Some(more) = more else { return };
        *sum = Some(Bytes::new(sum.unwrap_or_default().get().saturating_add(more.get())));
    };
    match name {
        "cpu" => {
            let Some(more) = amount.cpu(reader) else { return };
            let sum = needs.cpu.unwrap_or_default().millis().saturating_add(more.millis());
            needs.cpu = Some(Cpu::from_millis(sum));
        }
        "memory" => add(&mut needs.memory, amount.bytes(reader)),
        "ephemeral-storage" => add(&mut needs.storage, amount.bytes(reader)),
        name if name.ends_with("/gpu") => {
            let count = amount.integer(reader, 0..=1024).unwrap_or(0);
            let count = u32::try_from(count).unwrap_or(0);
            needs.gpu = Some(needs.gpu.unwrap_or(0).saturating_add(count));
            if name != "nvidia.com/gpu" {
                amount.assumed(reader, "counted as graphics processors of any make");
            }
        }
        name if name.contains('/') => {
            let count = amount.integer(reader, 0..=i64::from(u32::MAX)).unwrap_or(0);
            let is_new = || !needs.devices.iter().any(|known| known == name);
            if count > 0 && needs.devices.len() < DEVICES_MAX && is_new() {
                needs.devices.push(name.to_owned());
            }
            if count > 1 {
                amount.changed(reader, "one device of a kind is asked for, not several");
            }
        }
        _ => beyond.placing(amount, "there is no such resource", reader),
    }
}

/// The texts of a map of texts, for callers that have one.
pub(super) fn text_map(field: &Field, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let entries = field.pairs(reader);
    entries.into_iter().filter_map(|(key, value)| Some((key, value.text(reader)?))).collect()
}
