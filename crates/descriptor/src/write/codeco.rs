//! An App as a CodecoApp: each component a service with its podspec, each connection a channel.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tombolo_model::app::{Grade, Profile, Qos};
use tombolo_model::component::{Component, Connection, Expose, Protocol, ServiceClass};
use tombolo_model::needs::Needs;
use tombolo_model::quantity::{Duration, Level};
use tombolo_model::{App, AppSpec};

use super::emit::{self, Style};
use super::unsaid::{self, Unsaid};
use super::{Target, Written, pod, put};

const NAME: &str = "CODECO";
/// The score that CODECO's class between medium and high stands for.
const GOOD: u8 = 50;

pub(super) fn write(app: &App) -> Written {
    let mut rest = app.clone();
    rest.status = None;
    let name = app.metadata.name.clone().unwrap_or_default();
    let mut metadata = Map::new();
    metadata.insert("name".into(), name.clone().into());
    put(&mut metadata, "namespace", rest.metadata.namespace.take());
    let texts = |map: Option<BTreeMap<String, String>>| {
        map.filter(|map| !map.is_empty()).map(|map| json!(map))
    };
    put(&mut metadata, "labels", texts(rest.metadata.labels.take()));
    put(&mut metadata, "annotations", texts(rest.metadata.annotations.take()));

    let mut spec = Map::new();
    spec.insert("appName".into(), name.clone().into());
    classes(&mut rest.spec, &mut spec);
    let mut documents = Vec::new();
    let mut notes = Vec::new();
    let mut services = Vec::new();
    let components = app.spec.components.iter().filter(|one| Target::Codeco.runs(one));
    let known: BTreeSet<String> = components.map(|one| one.name.clone()).collect();
    for (index, component) in rest.spec.components.iter_mut().enumerate() {
        services.extend(service(&name, &known, index, component, &mut documents, &mut notes));
    }
    spec.insert("codecoapp-msspec".into(), services.into());
    documents.insert(
        0,
        json!({
            "apiVersion": "codeco.he-codeco.eu/v1alpha1",
            "kind": "CodecoApp",
            "metadata": metadata,
            "spec": spec,
        }),
    );
    notes.extend(unsaid::notes(&rest, NAME));
    Written { text: emit::documents(&documents, Style::Block), notes }
}

fn classes(rest: &mut AppSpec, spec: &mut Map<String, Value>) {
    let qos = rest.qos.take().map(|qos| match qos {
        Qos::Gold => "Gold",
        Qos::Silver => "Silver",
        Qos::BestEffort => "BestEffort",
    });
    put(spec, "qosClass", qos);
    let security = shared(rest, |needs| &mut needs.security, security_word);
    put(spec, "securityClass", security);
    let compliance = shared(rest, |needs| &mut needs.compliance, compliance_word);
    put(spec, "complianceClass", compliance);
    put(spec, "appEnergyLimit", rest.energy_limit.take().map(|limit| limit.to_string()));
    let tolerance = rest.failure_tolerance.take().map(|grade| match grade {
        Grade::Low => "Low",
        Grade::Medium => "Medium",
        Grade::High => "High",
    });
    put(spec, "appFailureTolerance", tolerance);
    let profile = rest.profile.and_then(|profile| match profile {
        Profile::Balanced => Some("Balanced"),
        Profile::Greenness => Some("Greenness"),
        Profile::Resilience => Some("Resilience"),
        Profile::Performance => Some("Performance"),
        // It has no word there, and is told as left out.
        Profile::Pack => None,
    });
    rest.profile.take_if(|_| profile.is_some());
    put(spec, "performanceProfile", profile);
}

/// A class of the whole application: said when all components ask for the same.
fn shared(
    rest: &mut AppSpec,
    level: fn(&mut Needs) -> &mut Option<Level>,
    word: fn(Level) -> Option<&'static str>,
) -> Option<&'static str> {
    let mut levels: Vec<Option<Level>> = Vec::new();
    for component in &mut rest.components {
        levels.push(component.needs.as_mut().and_then(|needs| *level(needs)));
    }
    let (first, others) = levels.split_first()?;
    let said = first.and_then(word).filter(|_| others.iter().all(|other| other == first))?;
    for needs in rest.components.iter_mut().filter_map(|component| component.needs.as_mut()) {
        *level(needs) = None;
    }
    Some(said)
}

fn security_word(level: Level) -> Option<&'static str> {
    match level {
        level if level.score() == GOOD => Some("Good"),
        level => compliance_word(level),
    }
}

fn compliance_word(level: Level) -> Option<&'static str> {
    match level {
        Level::LOW => Some("Low"),
        Level::MEDIUM => Some("Medium"),
        Level::HIGH => Some("High"),
        _ => None,
    }
}

/// Nothing for a component without a container.
fn service(
    app: &str,
    services: &BTreeSet<String>,
    index: usize,
    rest: &mut Component,
    documents: &mut Vec<Value>,
    notes: &mut Vec<Unsaid>,
) -> Option<Value> {
    let container = pod::take_container(rest)?;
    let name = std::mem::take(&mut rest.name);
    let ports = container.ports.clone();
    // Nobody reads the affinities of a podspec as those of services.
    let affinity = rest.affinity.take();
    let made = pod::pod(app, &name, rest, container);
    rest.affinity = affinity;
    for (claim, size) in made.claims {
        let message = match size {
            Some(size) => format!("the claim {claim:?} of {size} must be there before"),
            None => format!("the claim {claim:?} must be there before"),
        };
        let path = format!("spec.components[{index}].run.container.volumes");
        notes.push(Unsaid { path, message });
    }
    if !made.contents.is_empty() {
        documents.push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": pod::config_name(&name)},
            "data": made.contents,
        }));
    }
    for expose in &mut rest.expose {
        // Every port of the container is one that others may reach.
        if ports.contains(&expose.port) {
            let said = matches!(expose.protocol, Protocol::Tcp | Protocol::Udp);
            let protocol = if said { Protocol::Tcp } else { expose.protocol };
            *expose = Expose { port: 0, protocol, ..std::mem::take(expose) };
        }
    }
    let mut service = Map::new();
    service.insert("serviceName".into(), name.clone().into());
    service.insert("podspec".into(), made.spec);
    // A channel leads to a service that is written, or to another application.
    let leads = |connection: &&mut Connection| {
        connection.app.is_some() || services.contains(&connection.to)
    };
    let channels = rest.connects.iter_mut().filter(leads);
    let channels: Vec<Value> = channels.map(|connection| channel(app, &name, connection)).collect();
    put(&mut service, "serviceChannels", (!channels.is_empty()).then_some(channels));
    Some(service.into())
}

fn channel(app: &str, from: &str, connection: &mut Connection) -> Value {
    let to = std::mem::take(&mut connection.to);
    let mut other = Map::new();
    let mut channel = Map::new();
    channel.insert("channelName".into(), format!("{from}-{to}").into());
    other.insert("serviceName".into(), to.into());
    let other_app = connection.app.take().unwrap_or_else(|| app.to_owned());
    other.insert("appName".into(), other_app.into());
    put(&mut other, "port", connection.port.take());
    channel.insert("otherService".into(), other.into());
    let class = connection.class.take().map(|class| match class {
        ServiceClass::BestEffort => "BESTEFFORT",
        ServiceClass::Assured => "ASSURED",
    });
    put(&mut channel, "serviceClass", class);
    let mut settings = Map::new();
    let rate = connection.bandwidth.take().map(|rate| rate.to_string());
    let rate = rate.map(|rate| rate.trim_end_matches("bps").to_owned());
    put(&mut settings, "minBandwidth", rate);
    put(&mut settings, "maxDelay", connection.latency.take().map(seconds));
    put(&mut settings, "frameSize", connection.frame_size.take().map(|size| size.to_string()));
    put(&mut settings, "sendInterval", connection.send_interval.take().map(seconds));
    put(&mut channel, "advancedChannelSettings", (!settings.is_empty()).then_some(settings));
    channel.into()
}

/// A Kubernetes quantity of seconds.
fn seconds(duration: Duration) -> String {
    let micros = duration.micros();
    match micros {
        micros if micros.is_multiple_of(1_000_000) => (micros / 1_000_000).to_string(),
        micros if micros.is_multiple_of(1_000) => format!("{}m", micros / 1_000),
        micros => format!("{micros}u"),
    }
}
