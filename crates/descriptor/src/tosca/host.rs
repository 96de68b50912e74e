//! What a host asks for, read once however many components name it: that keeps the notes apart, and
//! a text cannot make a small host be read without end.

use std::collections::BTreeMap;

use tombolo_model::needs::{Needs, Place};
use tombolo_model::run::Volume;

use crate::fields::Field;
use crate::reader::Reader;

/// As many values as the model takes where it takes most; a list of more is cut, and told.
const VALUES_MAX: usize = 256;
/// As many volumes as the model takes.
const VOLUMES_MAX: usize = 64;

/// The hosts that were read, by the names of their node templates.
pub(crate) type Hosts<'a> = BTreeMap<&'a str, Host>;

/// What a host asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Host {
    pub(crate) needs: Needs,
    pub(crate) places: Vec<Place>,
    pub(crate) volumes: Vec<Volume>,
}

impl Host {
    /// The host with lists that a component can take over.
    pub(crate) fn bounded(mut self, field: &Field<'_>, reader: &mut Reader<'_>) -> Host {
        let needs = &mut self.needs;
        let lists = [&mut needs.sites, &mut needs.regions, &mut needs.devices];
        let mut is_cut = self.volumes.len() > VOLUMES_MAX;
        self.volumes.truncate(VOLUMES_MAX);
        for list in lists {
            is_cut |= list.len() > VALUES_MAX;
            list.truncate(VALUES_MAX);
        }
        if is_cut {
            let message = format!("it asks for more than {VALUES_MAX} things of one kind");
            reader.error("too-many", &field.path, field.key_span, message);
        }
        self
    }

    /// About how many bytes a component takes over.
    pub(crate) fn bytes(&self) -> usize {
        let Host { needs, places, volumes } = self;
        let lists = [&needs.sites, &needs.regions, &needs.devices];
        let texts = lists.into_iter().chain(places.iter().map(|place| &place.values)).flatten();
        let labels = needs.labels.iter().flat_map(|(key, value)| [key, value]);
        let volumes = volumes.iter().flat_map(|volume| volume.name.iter().chain([&volume.path]));
        texts.chain(labels).chain(volumes).map(String::len).sum()
    }

    /// Adds what the host asks for to what the component itself does; the host's word counts.
    pub(crate) fn join(&self, needs: &mut Needs) {
        let Host { needs: its, places: _, volumes: _ } = self;
        needs.cpu = its.cpu.or(needs.cpu);
        needs.memory = its.memory.or(needs.memory);
        needs.storage = its.storage.or(needs.storage);
        needs.gpu = its.gpu.or(needs.gpu);
        needs.near = its.near.clone().or(needs.near.take());
        needs.labels.extend(its.labels.clone());
        add(&mut needs.arch, &its.arch);
        add(&mut needs.sites, &its.sites);
        add(&mut needs.regions, &its.regions);
        add(&mut needs.devices, &its.devices);
        add(&mut needs.layers, &its.layers);
    }
}

fn add<T: Clone + PartialEq>(list: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !list.contains(one) {
            list.push(one.clone());
        }
    }
}
