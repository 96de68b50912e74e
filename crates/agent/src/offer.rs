//! What an operator says about a machine when its agent starts: how much of it is for workloads,
//! where it is, what it takes in electricity, how it is reached. Kept in the data folder, so that
//! the next start needs none of it; what is said then counts more. Read by [`crate::run()`] and
//! `node`; start at [`Offer::settled`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_host::Machine;
use tombolo_model::needs::Resources;
use tombolo_model::node::Energy;
use tombolo_model::site::Location;
use tombolo_model::{Bytes, Cpu, keys, names};
use tombolo_plan::agent::pace::Pace;

use crate::Error;
use crate::credentials::Folder;

/// Where it is kept, in the agent's folder.
const FILE: &str = "offer.json";
/// What the Node says about figures that came from here.
pub(crate) const SAID: &str = "said by the operator";

/// Everything that is left out is as the agent finds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Offer {
    /// Processor time for workloads. More than there is means that it is shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// For the Node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_watts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_watts: Option<f64>,
    /// Where others reach what runs here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_seconds: Option<u16>,
    #[serde(skip_serializing_if = "Metrics::is_usual")]
    pub metrics: Metrics,
}

/// How the machine is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metrics {
    /// Whether it is measured at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
    /// From one reading to the next, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// From one message to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_every_ms: Option<u64>,
    /// What may wait on the disk while the server is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// What messages may take of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<Bytes>,
}

impl Metrics {
    fn is_usual(&self) -> bool {
        *self == Metrics::default()
    }

    fn or(self, kept: Metrics) -> Metrics {
        Metrics {
            on: self.on.or(kept.on),
            every_ms: self.every_ms.or(kept.every_ms),
            send_every_ms: self.send_every_ms.or(kept.send_every_ms),
            buffer: self.buffer.or(kept.buffer),
            bytes_per_second: self.bytes_per_second.or(kept.bytes_per_second),
        }
    }
}

impl Offer {
    /// What counts from now on: what is said now, and for the rest what was said before. It is kept
    /// for the next start.
    pub(crate) fn settled(said: &Offer, folder: &Folder) -> Result<Offer, Error> {
        let kept = match folder.read(FILE)? {
            Some(text) => serde_json::from_str(&text).map_err(|error| Error::Malformed {
                path: folder.path().join(FILE),
                problem: format!("{error}; remove it and say again what it should be"),
            })?,
            None => Offer::default(),
        };
        let settled = said.clone().or(kept.clone());
        if settled != kept {
            let text = serde_json::to_string_pretty(&settled).expect("plain fields can be written");
            folder.write(FILE, &text)?;
        }
        Ok(settled)
    }

    fn or(self, kept: Offer) -> Offer {
        Offer {
            cpu: self.cpu.or(kept.cpu),
            memory: self.memory.or(kept.memory),
            labels: if self.labels.is_empty() { kept.labels } else { self.labels },
            location: self.location.or(kept.location),
            region: self.region.or(kept.region),
            idle_watts: self.idle_watts.or(kept.idle_watts),
            busy_watts: self.busy_watts.or(kept.busy_watts),
            address: self.address.or(kept.address),
            heartbeat_seconds: self.heartbeat_seconds.or(kept.heartbeat_seconds),
            metrics: self.metrics.or(kept.metrics),
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.heartbeat_seconds.map_or_else(Pace::default, |seconds| {
            Pace::every(Duration::from_secs(u64::from(seconds)))
        })
    }

    /// Puts what was said in place of what was found.
    pub(crate) fn put_on(&self, machine: &mut Machine) {
        let Resources { cpu, memory, .. } = &mut machine.capacity;
        *cpu = self.cpu.or(*cpu);
        *memory = self.memory.or(*memory);
        if let Some(address) = &self.address {
            machine.addresses = vec![address.clone()];
        }
        let Energy { idle_watts, busy_watts, source, .. } = &mut machine.energy;
        if self.idle_watts.or(self.busy_watts).is_some() {
            *idle_watts = self.idle_watts.or(*idle_watts);
            *busy_watts = self.busy_watts.or(*busy_watts);
            *source = Some(SAID.to_owned());
        }
    }
}

/// One label, as `key=value`.
pub fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    names::qualified(key)?;
    names::label_value(value)?;
    if keys::is_own(key) {
        return Err(format!("labels of {} are set by Tombolo alone", keys::GROUP));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_kept_and_what_is_said_later_counts_more() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::open(data.path()).unwrap();
        let said = Offer {
            cpu: Some(Cpu::from_millis(4000)),
            address: Some("10.0.0.7".into()),
            labels: BTreeMap::from([("camera".into(), "yes".into())]),
            ..Offer::default()
        };
        assert_eq!(Offer::settled(&said, &folder).unwrap(), said);
        assert_eq!(Offer::settled(&Offer::default(), &folder).unwrap(), said);
        let more = Offer { cpu: Some(Cpu::from_millis(500)), ..Offer::default() };
        let both = Offer { cpu: more.cpu, ..said };
        assert_eq!(Offer::settled(&more, &folder).unwrap(), both);
        assert_eq!(Offer::settled(&Offer::default(), &folder).unwrap(), both);
    }

    #[test]
    fn a_label_of_our_own_domain_is_not_for_others_to_set() {
        assert_eq!(parse_label("camera=line-1"), Ok(("camera".into(), "line-1".into())));
        assert_eq!(
            parse_label("plant.example/hall="),
            Ok(("plant.example/hall".into(), "".into()))
        );
        for wrong in ["camera", "tombolo.dev/site=x", "a.tombolo.dev/x=y", "=x", "a=b c"] {
            assert!(parse_label(wrong).is_err(), "{wrong}");
        }
    }
}
