//! The table of hard needs, in the order in which a person would check them.

use tombolo_model::Engine;
use tombolo_model::keys::TAINT_DRAIN;
use tombolo_model::needs::{Place, PlaceKey, PlaceOperator, Taint, TaintEffect, Toleration};
use tombolo_model::ports::NodePort;

use super::{Look, Mend, Need, allowed};
use crate::ask::{Ask, Slot};
use crate::words;

/// Its nodes are found by an index; see [`super::Labels`].
pub(super) const LABELS: &str = "labels";

pub(crate) const NEEDS: &[Need] = &[
    Need {
        name: "ready",
        amount: false,
        granted: true,
        count: |_| 1,
        asks: |_, _| String::new(),
        admits: |look, _| look.row().not_ready.is_none() || look.stays(),
        wants: |_, _| "a node that is ready".into(),
        has: |look, _| {
            let why = look.row().not_ready.map_or("nothing heard of it", |ready| &ready.message);
            format!("is not: {why}")
        },
        mend: |_, _| mend(4.0, "if it were ready"),
    },
    Need {
        name: "cordon",
        amount: false,
        granted: true,
        count: |_| 1,
        asks: |_, _| String::new(),
        admits: |look, _| !look.row().cordoned || look.stays(),
        wants: |_, _| "a node that takes new work".into(),
        has: |_, _| "is cordoned".into(),
        mend: |_, _| mend(3.0, "if it were not cordoned"),
    },
    Need {
        name: "taints",
        amount: false,
        granted: true,
        count: |_| 1,
        asks: |ask, _| format!("{:?}", ask.needs.tolerations),
        admits: |look, _| !look.row().tainted || keeping_away(look).next().is_none(),
        wants: |_, _| "a node without taints that it does not tolerate".into(),
        has: |look, _| match keeping_away(look).next() {
            Some(taint) if taint.key == TAINT_DRAIN => "is being drained".into(),
            Some(taint) => format!("has {}", taint_words(taint)),
            None => "has none".into(),
        },
        mend: |look, _| {
            let (drains, taints): (Vec<&Taint>, Vec<&Taint>) =
                keeping_away(look).partition(|taint| taint.key == TAINT_DRAIN);
            let taints: Vec<String> = taints.into_iter().map(taint_words).collect();
            let drained = (!drains.is_empty()).then(|| "if it were not drained".to_owned());
            let tolerated =
                (!taints.is_empty()).then(|| format!("if it tolerated {}", words::list(&taints)));
            let changes: Vec<String> = drained.into_iter().chain(tolerated).collect();
            mend(2.5, words::list(&changes))
        },
    },
    Need {
        name: "engine",
        amount: false,
        granted: true,
        count: |_| 1,
        asks: |ask, _| format!("{:?}", ask.runs()),
        admits: |look, _| look.ask.engine_on(look.row()).is_some(),
        wants: |ask, _| format!("an engine that can run it ({})", engines(ask)),
        has: |look, _| match look.row().also {
            None => format!("has {}", look.row().engine),
            Some(also) => format!("has {} and {also}", look.row().engine),
        },
        mend: |look, _| {
            let engine = look.row().engine;
            let has_none = engine == Engine::Host && look.row().also.is_none();
            let more = match has_none && look.ask.run_on(Engine::Docker).is_some() {
                true => ", or with a Docker engine on its machine",
                false => "",
            };
            mend(3.0, format!("with a way to run it on {engine}{more}"))
        },
    },
    Need {
        name: "allowed",
        amount: false,
        granted: true,
        count: |ask| usize::from(allowed::asks_any(ask)),
        asks: |ask, _| allowed::asks(ask),
        admits: |look, _| allowed::missing(look).is_empty(),
        wants: |ask, _| allowed::wants(ask),
        has: |look, _| allowed::has(look),
        mend: |look, _| allowed::mend(look),
    },
    Need {
        name: "architecture",
        amount: false,
        granted: false,
        count: |ask| usize::from(!ask.needs.arch.is_empty()),
        asks: |ask, _| format!("{:?}", ask.needs.arch),
        admits: |look, _| look.row().arch.is_some_and(|arch| look.ask.needs.arch.contains(&arch)),
        wants: |ask, _| format!("architecture {}", words::any_of(&ask.needs.arch)),
        has: |look, _| match look.row().arch {
            Some(arch) => format!("is {arch}"),
            None => "states none".into(),
        },
        mend: |look, _| match look.row().arch {
            Some(arch) => mend(2.0, format!("if it could run on {arch}")),
            None => mend(2.0, "if it stated its architecture"),
        },
    },
    Need {
        name: "cpu",
        amount: true,
        granted: false,
        count: |ask| usize::from(ask.demand.cpu_millis > 0),
        asks: |ask, _| ask.demand.cpu_millis.to_string(),
        admits: |look, _| look.left.cpu_millis >= look.ask.demand.cpu_millis,
        wants: |ask, _| format!("{} cpu", words::cpu(ask.demand.cpu_millis)),
        has: |look, _| format!("has {}", words::cpu(look.left.cpu_millis)),
        mend: |look, _| {
            let (need, has) = (look.ask.demand.cpu_millis, look.left.cpu_millis);
            let (asked, left) = (words::cpu(need), words::cpu(has));
            lacking(need, has, format!("with {left} cpu instead of {asked}"))
        },
    },
    Need {
        name: "memory",
        amount: true,
        granted: false,
        count: |ask| usize::from(ask.demand.memory_bytes > 0),
        asks: |ask, _| ask.demand.memory_bytes.to_string(),
        admits: |look, _| look.left.memory_bytes >= look.ask.demand.memory_bytes,
        wants: |ask, _| format!("{} memory", words::bytes(ask.demand.memory_bytes)),
        has: |look, _| format!("has {}", words::bytes_left(look.left.memory_bytes)),
        mend: |look, _| {
            let (need, has) = (look.ask.demand.memory_bytes, look.left.memory_bytes);
            let (asked, left) = words::bytes_both(need, has);
            lacking(need, has, format!("with {left} memory instead of {asked}"))
        },
    },
    Need {
        name: "storage",
        amount: true,
        granted: false,
        count: |ask| usize::from(ask.demand.storage_bytes > 0),
        asks: |ask, _| ask.demand.storage_bytes.to_string(),
        admits: |look, _| look.left.storage_bytes >= look.ask.demand.storage_bytes,
        wants: |ask, _| format!("{} storage", words::bytes(ask.demand.storage_bytes)),
        has: |look, _| format!("has {}", words::bytes_left(look.left.storage_bytes)),
        mend: |look, _| {
            let (need, has) = (look.ask.demand.storage_bytes, look.left.storage_bytes);
            let (asked, left) = words::bytes_both(need, has);
            lacking(need, has, format!("with {left} storage instead of {asked}"))
        },
    },
    Need {
        name: "gpu",
        amount: true,
        granted: false,
        count: |ask| usize::from(ask.demand.gpu > 0),
        asks: |ask, _| ask.demand.gpu.to_string(),
        admits: |look, _| look.left.gpu >= look.ask.demand.gpu,
        wants: |ask, _| format!("{} gpu", ask.demand.gpu),
        has: |look, _| format!("has {}", look.left.gpu),
        mend: |look, _| {
            let (need, has) = (look.ask.demand.gpu, look.left.gpu);
            lacking(need, has, format!("with {has} gpu instead of {need}"))
        },
    },
    Need {
        name: "gpu memory",
        amount: false,
        granted: false,
        count: |ask| usize::from(ask.needs.gpu_memory.is_some()),
        asks: |ask, _| format!("{:?} {}", ask.needs.gpu_memory, ask.demand.gpu),
        admits: |look, _| large_gpus(look) >= look.ask.demand.gpu,
        wants: |ask, _| {
            let memory = ask.needs.gpu_memory.map_or(0, |memory| memory.get());
            format!("{} gpu with {} memory", ask.demand.gpu, words::bytes(memory))
        },
        has: |look, _| format!("has {} of them", large_gpus(look)),
        mend: |look, _| {
            let asked = look.ask.needs.gpu_memory.map_or(0, |memory| memory.get());
            match look.left.gpu_memory_of(look.ask.demand.gpu) {
                Some(has) => {
                    let (has, asked) = (words::bytes_left(has), words::bytes(asked));
                    mend(2.0, format!("with gpu memory {has} instead of {asked}"))
                }
                None => mend(2.0, "without gpu memory"),
            }
        },
    },
    Need {
        name: "devices",
        amount: false,
        granted: false,
        count: |ask| ask.needs.devices.len(),
        asks: |ask, k| ask.needs.devices[k].clone(),
        admits: |look, k| look.left.device(&look.ask.needs.devices[k]) > 0,
        wants: |ask, k| format!("device {}", ask.needs.devices[k]),
        has: |look, k| match look.row().total.device(&look.ask.needs.devices[k]) {
            0 => "has none that is free".into(),
            count => format!("has {count}, in use"),
        },
        mend: |look, k| mend(2.0, format!("without device {}", look.ask.needs.devices[k])),
    },
    Need {
        name: "ports",
        amount: false,
        granted: false,
        count: |ask| ask.demand.ports.len(),
        asks: |ask, k| port(ask, k).to_string(),
        admits: |look, k| holder(look, k).is_none(),
        wants: |ask, k| format!("port {} of the node", port(ask, k)),
        has: |look, k| match holder(look, k) {
            Some(holder) => format!("has given it to {holder}"),
            None => "has it".into(),
        },
        mend: |look, k| mend(1.5, format!("with another port than {}", port(look.ask, k))),
    },
    Need {
        name: "label rules",
        amount: false,
        granted: false,
        count: |ask| ask.needs.label_rules.len(),
        asks: |ask, k| format!("{:?}", ask.needs.label_rules[k]),
        admits: |look, k| {
            let rule = &look.ask.needs.label_rules[k];
            rule.admits(look.label(&rule.key))
        },
        wants: |ask, k| ask.needs.label_rules[k].to_string(),
        has: |look, k| match look.label(&look.ask.needs.label_rules[k].key) {
            Some(value) => format!("has {value}"),
            None => "has no such label".into(),
        },
        mend: |look, k| mend(2.0, format!("without the rule {}", look.ask.needs.label_rules[k])),
    },
    Need {
        name: LABELS,
        amount: false,
        granted: false,
        count: |ask| ask.needs.labels.len() + usize::from(matches!(ask.slot, Slot::Label(..))),
        asks: |ask, k| format!("{:?}", label(ask, k)),
        admits: |look, k| {
            let (key, value) = label(look.ask, k);
            look.label(key) == Some(value)
        },
        wants: |ask, k| {
            let (key, value) = label(ask, k);
            format!("label {key}={value}")
        },
        has: |look, k| match look.label(label(look.ask, k).0) {
            Some(other) => format!("has {other}"),
            None => "does not have it".into(),
        },
        mend: |look, k| {
            let (key, value) = label(look.ask, k);
            mend(1.5, format!("with the label {key}={value} on it"))
        },
    },
    Need {
        name: "security",
        amount: false,
        granted: false,
        count: |ask| usize::from(ask.needs.security.is_some_and(|level| level.score() > 0)),
        asks: |ask, _| format!("{:?}", ask.needs.security),
        admits: |look, _| look.row().security >= look.ask.needs.security.map(|l| l.score()),
        wants: |ask, _| format!("security {}", ask.needs.security.map_or(0, |l| l.score())),
        has: |look, _| score_words(look.row().security),
        mend: |look, _| {
            let level = look.ask.needs.security.map_or(0, |l| l.score());
            lower_floor("security", level, look.row().security)
        },
    },
    Need {
        name: "compliance",
        amount: false,
        granted: false,
        count: |ask| usize::from(ask.needs.compliance.is_some_and(|level| level.score() > 0)),
        asks: |ask, _| format!("{:?}", ask.needs.compliance),
        admits: |look, _| look.row().compliance >= look.ask.needs.compliance.map(|l| l.score()),
        wants: |ask, _| format!("compliance {}", ask.needs.compliance.map_or(0, |l| l.score())),
        has: |look, _| score_words(look.row().compliance),
        mend: |look, _| {
            let level = look.ask.needs.compliance.map_or(0, |l| l.score());
            lower_floor("compliance", level, look.row().compliance)
        },
    },
    Need {
        name: "regions",
        amount: false,
        granted: false,
        count: |ask| usize::from(!ask.needs.regions.is_empty()),
        asks: |ask, _| format!("{:?}", ask.needs.regions),
        admits: |look, _| {
            let wanted = &look.ask.needs.regions;
            look.regions().any(|region| wanted.iter().any(|wish| same(wish, region)))
        },
        wants: |ask, _| format!("region {}", words::any_of(&ask.needs.regions)),
        has: |look, _| {
            let regions: Vec<&str> = look.regions().collect();
            if regions.is_empty() {
                "states none".into()
            } else {
                format!("is in {}", regions.join(", "))
            }
        },
        mend: |look, _| match look.regions().last() {
            Some(region) => mend(2.0, format!("if region {region} would do")),
            None => mend(2.0, "if its site stated its region"),
        },
    },
    Need {
        name: "sites",
        amount: false,
        granted: false,
        count: |ask| usize::from(!ask.needs.sites.is_empty()),
        asks: |ask, _| format!("{:?}", ask.needs.sites),
        admits: |look, _| look.ask.needs.sites.iter().any(|site| site == look.site()),
        wants: |ask, _| format!("site {}", words::any_of(&ask.needs.sites)),
        has: |look, _| format!("is at {}", look.site()),
        mend: |look, _| mend(2.0, format!("if site {} would do", look.site())),
    },
    Need {
        name: "nodes",
        amount: false,
        granted: false,
        count: |ask| usize::from(!ask.needs.nodes.is_empty()),
        asks: |ask, _| format!("{:?}", ask.needs.nodes),
        admits: |look, _| look.ask.needs.nodes.iter().any(|node| node == look.row().name),
        wants: |ask, _| format!("node {}", words::any_of(&ask.needs.nodes)),
        has: |look, _| format!("is {}", look.row().name),
        mend: |look, _| mend(2.0, format!("if node {} would do", look.row().name)),
    },
    Need {
        name: "layers",
        amount: false,
        granted: false,
        count: |ask| usize::from(!ask.needs.layers.is_empty()),
        asks: |ask, _| format!("{:?}", ask.needs.layers),
        admits: |look, _| look.layer().is_some_and(|layer| look.ask.needs.layers.contains(&layer)),
        wants: |ask, _| format!("layer {}", words::any_of(&ask.needs.layers)),
        has: |look, _| match look.layer() {
            Some(layer) => format!("is {layer}"),
            None => "states none".into(),
        },
        mend: |look, _| match look.layer() {
            Some(layer) => mend(2.0, format!("if layer {layer} would do")),
            None => mend(2.0, "if its site stated its layer"),
        },
    },
    Need {
        name: "near",
        amount: false,
        granted: false,
        count: |ask| usize::from(ask.needs.near.is_some()),
        asks: |ask, _| format!("{:?}", ask.needs.near),
        admits: |look, _| {
            let max = look.ask.needs.near.as_ref().map_or(f64::MAX, |near| near.distance_km_max);
            look.distance_km().is_some_and(|distance| distance <= max)
        },
        wants: |ask, _| match &ask.needs.near {
            Some(near) => format!(
                "to be within {} km of {}, {}",
                near.distance_km_max, near.latitude, near.longitude
            ),
            None => "any place".into(),
        },
        has: |look, _| match look.distance_km() {
            Some(distance) => format!("is {distance:.0} km away"),
            None => "states no coordinates".into(),
        },
        mend: |look, _| match look.distance_km() {
            Some(distance) => {
                let max = look.ask.needs.near.as_ref().map_or(0.0, |near| near.distance_km_max);
                let effort = ((distance - max) / distance.max(1.0)).clamp(0.0, 1.0);
                mend(effort, format!("if {:.0} km were near enough", distance.ceil()))
            }
            None => mend(2.0, "if it stated its coordinates"),
        },
    },
    Need {
        name: "places",
        amount: false,
        granted: false,
        count: |ask| {
            let kept_from = usize::from(
                ask.component.places.iter().any(|place| place.operator == PlaceOperator::NotIn),
            );
            kept_from + usize::from(matches!(ask.slot, Slot::Place(..) | Slot::AnyPlace))
        },
        asks: |ask, k| format!("{k} {:?} {:?}", ask.slot, ask.component.places),
        admits: |look, k| match (look.ask.slot, k) {
            (Slot::Place(by, value), 0) => {
                look.place(by).is_some_and(|here| is_place(by, value, here))
            }
            (Slot::AnyPlace, 0) => look.in_any_place(PlaceOperator::In),
            (_, _) => !look.in_any_place(PlaceOperator::NotIn),
        },
        wants: |ask, k| match (ask.slot, k) {
            (Slot::Place(by, value), 0) => format!("{by} {value}"),
            (Slot::AnyPlace, 0) => "one of its places".into(),
            (_, _) => "a place that is not ruled out".into(),
        },
        has: |look, k| match (look.ask.slot, k) {
            (Slot::Place(by, _), 0) => match look.place(by) {
                Some(place) => format!("is in {place}"),
                None => format!("states no {by}"),
            },
            (_, _) => "is elsewhere".into(),
        },
        mend: |look, k| {
            let places = &look.ask.component.places;
            let by = |operator| places.iter().find(|place| place.operator == operator);
            let by = match (look.ask.slot, k) {
                (Slot::Place(by, _), 0) => Some(by),
                (Slot::AnyPlace, 0) => by(PlaceOperator::In).map(|place| place.by),
                (_, _) => {
                    let ruled_out = places.iter().find_map(|place| look.ruled_out(place));
                    let place = ruled_out.unwrap_or("its place");
                    return mend(2.0, format!("if {place} were not ruled out"));
                }
            };
            match by.and_then(|by| Some((by, look.place(by)?))) {
                Some((by, here)) => mend(2.0, format!("if {by} {here} would do")),
                None => mend(2.0, "if its site stated its place"),
            }
        },
    },
    Need {
        name: "reach",
        amount: false,
        granted: false,
        count: |ask| ask.reaches.len(),
        asks: |ask, k| super::reach::asks(&ask.reaches[k]),
        admits: |look, k| super::reach::admits(look, k),
        wants: |ask, k| super::reach::wants(&ask.reaches[k]),
        has: |look, k| super::reach::has(look, k),
        mend: |look, k| super::reach::mend(look, k),
    },
];

pub(super) fn mend(effort: f64, says: impl Into<String>) -> Mend {
    Mend { effort, says: says.into() }
}

#[expect(clippy::cast_precision_loss, reason = "a share for comparing, not for counting")]
fn lacking(need: u64, has: u64, says: String) -> Mend {
    mend(need.saturating_sub(has) as f64 / need.max(1) as f64, says)
}

fn lower_floor(what: &str, level: u8, score: Option<u8>) -> Mend {
    match score {
        Some(score) => {
            let effort = f64::from(level.saturating_sub(score)) / 100.0;
            mend(effort, format!("with {what} {score} instead of {level}"))
        }
        None => mend(2.0, format!("if it had a {what} score of {level}")),
    }
}

fn score_words(score: Option<u8>) -> String {
    match score {
        Some(score) => format!("has {score}"),
        None => "has no score".into(),
    }
}

pub(crate) fn taint_words(taint: &Taint) -> String {
    let value = taint.value.as_deref().map_or(String::new(), |value| format!("={value}"));
    format!("taint {}{value}:{}", taint.key, taint.effect)
}

/// The taints that the instance does not tolerate.
fn keeping_away<'a>(look: &Look<'_, 'a>) -> impl Iterator<Item = &'a Taint> {
    look.continuum.taints(look.node).filter(|taint| {
        let passed_over = match taint.effect {
            TaintEffect::NoExecute => false,
            TaintEffect::NoSchedule => look.stays(),
            // A wish; the score has it.
            TaintEffect::PreferNoSchedule => true,
        };
        !passed_over
            && !look.ask.needs.tolerations.iter().any(|tolerates| tolerated(taint, tolerates))
    })
}

pub(crate) fn tolerated(taint: &Taint, by: &Toleration) -> bool {
    by.key.as_ref().is_none_or(|key| *key == taint.key)
        && by.value.as_ref().is_none_or(|value| Some(value) == taint.value.as_ref())
        && by.effect.is_none_or(|effect| effect == taint.effect)
}

fn engines(ask: &Ask<'_>) -> String {
    let able = Engine::ALL.iter().filter(|engine| ask.run_on(**engine).is_some());
    let able: Vec<String> = able.map(ToString::to_string).collect();
    words::any_of(&able)
}

pub(super) fn label<'a>(ask: &Ask<'a>, number: usize) -> (&'a str, &'a str) {
    match (ask.needs.labels.iter().nth(number), ask.slot) {
        (Some((key, value)), _) => (key, value),
        (None, Slot::Label(key, value)) => (key, value),
        (None, Slot::Alike | Slot::Place(..) | Slot::AnyPlace) => ("", ""),
    }
}

fn port(ask: &Ask<'_>, number: usize) -> NodePort {
    *ask.demand.ports.keys().nth(number).expect("`count` counts these")
}

/// Who has the port already. A cluster has ports of its own.
fn holder<'l>(look: &Look<'l, '_>, number: usize) -> Option<&'l str> {
    let holder = look.left.ports.get(&port(look.ask, number)).map(AsRef::as_ref);
    holder.filter(|_| look.row().engine != Engine::Kubernetes)
}

fn large_gpus(look: &Look<'_, '_>) -> u64 {
    look.left.gpus_with(look.ask.needs.gpu_memory.map_or(0, |memory| memory.get()))
}

/// Names of places are compared as people read them.
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || !(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase()
}

fn is_place(by: PlaceKey, asked: &str, here: &str) -> bool {
    match by {
        PlaceKey::Continent => same_continent(asked, here),
        PlaceKey::Country | PlaceKey::Region | PlaceKey::City | PlaceKey::Site => same(asked, here),
    }
}

/// By their codes, or as they are written out: a file says Europe, a site EU.
fn same_continent(a: &str, b: &str) -> bool {
    let plain = |name: &str| {
        let letters = name.chars().filter(char::is_ascii_alphabetic);
        let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        let known = CONTINENTS.iter().find(|(_, whole)| *whole == name);
        known.map_or(name, |(code, _)| (*code).to_owned())
    };
    same(a, b) || plain(a) == plain(b) && !plain(a).is_empty()
}

/// The codes of the continents and their names.
const CONTINENTS: &[(&str, &str)] = &[
    ("af", "africa"),
    ("an", "antarctica"),
    ("as", "asia"),
    ("eu", "europe"),
    ("na", "northamerica"),
    ("oc", "oceania"),
    ("sa", "southamerica"),
];

impl Look<'_, '_> {
    fn in_any_place(&self, operator: PlaceOperator) -> bool {
        let places = self.ask.component.places.iter().filter(|place| place.operator == operator);
        places.into_iter().any(|place| {
            let here = self.place(place.by);
            here.is_some_and(|here| {
                place.values.iter().any(|value| is_place(place.by, value, here))
            })
        })
    }

    /// The place by which a rule keeps the instance off the node.
    fn ruled_out<'p>(&self, place: &'p Place) -> Option<&'p str> {
        let here = self.place(place.by).filter(|_| place.operator == PlaceOperator::NotIn)?;
        place.values.iter().find(|value| is_place(place.by, value, here)).map(String::as_str)
    }

    fn place(&self, by: PlaceKey) -> Option<&str> {
        match by {
            PlaceKey::Continent => self.continuum.place(self.node, |at| at.continent.as_deref()),
            PlaceKey::Country => self.continuum.place(self.node, |at| at.country.as_deref()),
            PlaceKey::Region => self.continuum.place(self.node, |at| at.region.as_deref()),
            PlaceKey::City => self.continuum.place(self.node, |at| at.city.as_deref()),
            PlaceKey::Site => Some(self.site()),
        }
    }
}
