//! What a service says to the engine alone: capabilities, devices, limits of the kernel. A key is a
//! row in [`BEYOND`]. Called by [`super`].

use bollard::models::{ContainerCreateBody, DeviceMapping, HostConfig, ResourcesUlimits};
use serde_json::{Map, Value};
use tombolo_driver::{Error, Result};
use tombolo_model::Engine;

/// The network of services that name none.
pub(crate) const DEFAULT_NETWORK: &str = "default";

/// How a value gets into the request; nothing if it is no value for this key.
type Put = fn(&mut ContainerCreateBody, &mut HostConfig, &Value) -> Option<()>;

const BEYOND: &[(&str, Put)] = &[
    ("cap_add", |_, host, value| set(&mut host.cap_add, texts(value))),
    ("cap_drop", |_, host, value| set(&mut host.cap_drop, texts(value))),
    ("cgroup_parent", |_, host, value| set(&mut host.cgroup_parent, text(value))),
    ("cpu_shares", |_, host, value| set(&mut host.cpu_shares, number(value))),
    ("cpuset", |_, host, value| set(&mut host.cpuset_cpus, text(value))),
    ("device_cgroup_rules", |_, host, value| set(&mut host.device_cgroup_rules, texts(value))),
    ("devices", |_, host, value| {
        let devices: Option<Vec<_>> = value.as_array()?.iter().map(device).collect();
        set(&mut host.devices, devices)
    }),
    ("dns", |_, host, value| set(&mut host.dns, texts(value))),
    ("dns_opt", |_, host, value| set(&mut host.dns_options, texts(value))),
    ("dns_search", |_, host, value| set(&mut host.dns_search, texts(value))),
    ("domainname", |body, _, value| set(&mut body.domainname, text(value))),
    ("extra_hosts", |_, host, value| {
        let pairs = pairs(value, &['=', ':'])?;
        let lines = pairs.into_iter().map(|(name, address)| format!("{name}:{address}"));
        set(&mut host.extra_hosts, Some(lines.collect()))
    }),
    ("group_add", |_, host, value| set(&mut host.group_add, texts(value))),
    ("hostname", |body, _, value| set(&mut body.hostname, text(value))),
    ("init", |_, host, value| set(&mut host.init, value.as_bool())),
    ("ipc", |_, host, value| set(&mut host.ipc_mode, alone(value))),
    ("labels", |body, _, value| {
        let pairs = pairs(value, &['='])?.into_iter();
        // Ours are ours alone: by them everything is found again.
        let pairs = pairs.filter(|(name, _)| !name.starts_with("tombolo.dev/"));
        body.labels.get_or_insert_default().extend(pairs);
        Some(())
    }),
    ("network_mode", |_, host, value| set(&mut host.network_mode, alone(value))),
    ("oom_score_adj", |_, host, value| set(&mut host.oom_score_adj, number(value))),
    ("pid", |_, host, value| set(&mut host.pid_mode, alone(value))),
    ("pids_limit", |_, host, value| set(&mut host.pids_limit, number(value))),
    ("read_only", |_, host, value| set(&mut host.readonly_rootfs, value.as_bool())),
    ("runtime", |_, host, value| set(&mut host.runtime, text(value))),
    ("security_opt", |_, host, value| set(&mut host.security_opt, texts(value))),
    ("shm_size", |_, host, value| set(&mut host.shm_size, size(value))),
    ("stdin_open", |body, _, value| set(&mut body.open_stdin, value.as_bool())),
    ("stop_signal", |body, _, value| set(&mut body.stop_signal, text(value))),
    ("sysctls", |_, host, value| {
        set(&mut host.sysctls, pairs(value, &['=']).map(|all| all.into_iter().collect()))
    }),
    ("tmpfs", |_, host, value| {
        let folder = |one: String| {
            let (path, options) = one.split_once(':').unwrap_or((&one, ""));
            (path.to_owned(), options.to_owned())
        };
        let folders = texts(value)?.into_iter().map(folder);
        set(&mut host.tmpfs, Some(folders.collect()))
    }),
    ("tty", |body, _, value| set(&mut body.tty, value.as_bool())),
    ("ulimits", |_, host, value| {
        let limits: Option<Vec<_>> = value.as_object()?.iter().map(ulimit).collect();
        set(&mut host.ulimits, limits)
    }),
    ("userns_mode", |_, host, value| set(&mut host.userns_mode, text(value))),
    ("uts", |_, host, value| set(&mut host.uts_mode, text(value))),
];

fn set<T>(into: &mut Option<T>, value: Option<T>) -> Option<()> {
    *into = Some(value?);
    Some(())
}

/// Takes out what the engine alone understands.
pub(super) fn take_beyond(service: &mut Map<String, Value>) -> Map<String, Value> {
    let taken =
        BEYOND.iter().filter_map(|(key, _)| Some(((*key).to_owned(), service.remove(*key)?)));
    taken.filter(|(_, value)| !value.is_null()).collect()
}

pub(super) fn put_beyond(
    beyond: &Map<String, Value>,
    body: &mut ContainerCreateBody,
) -> Result<()> {
    let mut host = body.host_config.take().unwrap_or_default();
    for (key, put) in BEYOND {
        let Some(value) = beyond.get(*key) else { continue };
        if put(body, &mut host, value).is_none() {
            return Err(match value.as_str().is_some_and(|text| text.contains(':')) {
                true => Error::Unsupported {
                    engine: Engine::Docker,
                    what: format!("set {key:?} of a service to that of another"),
                },
                false => Error::Invalid { what: format!("{value} is no {key:?} of a service") },
            });
        }
    }
    body.host_config = Some(host);
    Ok(())
}

/// Other names under which the rest of the project calls it, on every network.
pub(super) fn aliases(service: &Map<String, Value>) -> Vec<String> {
    let named = ["container_name", "hostname"].iter().filter_map(|key| service.get(*key));
    named.filter_map(text).collect()
}

/// A network of the project that a service is on.
#[derive(Debug)]
pub(super) struct Joined {
    /// Its key at the top of the project.
    pub(super) network: String,
    pub(super) aliases: Vec<String>,
    /// It leads nowhere else.
    pub(super) internal: bool,
}

/// The networks that the service names; if it names none, the network that all such services share.
pub(super) fn networks(
    service: &Map<String, Value>,
    declared: Option<&Value>,
) -> Result<Vec<Joined>> {
    let named: Vec<(String, Vec<String>)> = match service.get("networks") {
        Some(Value::Array(list)) => {
            list.iter().filter_map(text).map(|key| (key, Vec::new())).collect()
        }
        Some(Value::Object(map)) => {
            let aliases = |own: &Value| texts(own.get("aliases")?);
            map.iter().map(|(key, own)| (key.clone(), aliases(own).unwrap_or_default())).collect()
        }
        Some(_) | None => Vec::new(),
    };
    let all = match named.is_empty() {
        true => vec![(DEFAULT_NETWORK.to_owned(), Vec::new())],
        false => named,
    };
    let joined = all.into_iter().map(|(network, aliases)| {
        let said = |key: &str| declared?.get(&network)?.get(key);
        let is = |key: &str| said(key).is_some_and(|value| value.as_bool().unwrap_or(true));
        if is("external") {
            let what = format!("put a service on network {network:?} of another project");
            return Err(Error::Unsupported { engine: Engine::Docker, what });
        }
        let internal = is("internal");
        Ok(Joined { network, aliases, internal })
    });
    joined.collect()
}

/// `$$` is how compose writes a `$`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.replace("$$", "$")),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Not the namespace of another container, whose name only the engine knows.
fn alone(value: &Value) -> Option<String> {
    text(value).filter(|text| !text.contains(':'))
}

/// A list, or one alone.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value.as_array() {
        Some(list) => list.iter().map(text).collect(),
        None => Some(vec![text(value)?]),
    }
}

/// A mapping, or a list of lines with one of these between name and value.
fn pairs(value: &Value, between: &[char]) -> Option<Vec<(String, String)>> {
    if let Some(map) = value.as_object() {
        let pair = |(name, value): (&String, &Value)| Some((name.clone(), text(value)?));
        return map.iter().map(pair).collect();
    }
    let pair = |line: String| {
        let (name, value) = line.split_once(between).unwrap_or((&line, ""));
        (name.to_owned(), value.to_owned())
    };
    Some(texts(value)?.into_iter().map(pair).collect())
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// `64m`, `1gb`, or bytes.
fn size(value: &Value) -> Option<i64> {
    let text = text(value)?.to_ascii_lowercase();
    let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    digits.trim().parse::<i64>().ok()?.checked_mul(1 << shift)
}

/// `/dev/video0`, `/dev/video0:/dev/camera`, `/dev/video0:/dev/camera:r`
fn device(value: &Value) -> Option<DeviceMapping> {
    let text = text(value)?;
    let mut words = text.split(':');
    let host = words.next().filter(|path| path.starts_with('/'))?;
    let inside = words.next().unwrap_or(host);
    Some(DeviceMapping {
        path_on_host: Some(host.to_owned()),
        path_in_container: Some(inside.to_owned()),
        cgroup_permissions: Some(words.next().unwrap_or("rwm").to_owned()),
    })
}

/// A number, or `{soft, hard}`.
fn ulimit((name, value): (&String, &Value)) -> Option<ResourcesUlimits> {
    let both = number(value);
    let soft = both.or_else(|| number(value.get("soft")?))?;
    let hard = both.or_else(|| number(value.get("hard")?))?;
    Some(ResourcesUlimits { name: Some(name.clone()), soft: Some(soft), hard: Some(hard) })
}
