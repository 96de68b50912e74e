//! Classes of instances: all that share needs and wishes share one list of candidates. What tells
//! two classes apart is spelt out in [`Classes::key`]; amounts do not, the search counts those.

use std::collections::BTreeMap;
use std::fmt::Write;

use tombolo_model::App;
use tombolo_model::component::Component;
use tombolo_model::needs::Needs;

use super::edges::{self, FixedEnd};
use super::{Candidates, Compiled, Kind, Options, index, scope};
use crate::affinity;
use crate::ask::{Ask, Reach, Slot};
use crate::filter::{self, Look};
use crate::paths::WayBook;
use crate::problem::{Candidate, Class, Scope};
use crate::score::{Mix, Wish};

/// Which instance: App, component, replica.
type Instance = (usize, usize, u32);

#[derive(Debug)]
pub(super) struct Classes<'c> {
    by_key: BTreeMap<String, u32>,
    book: WayBook,
    /// The last ask, for the replicas that follow.
    last: Option<((usize, usize), Slot<'c>, usize, u32)>,
    pub crossing: edges::Crossing,
}

impl<'c> Classes<'c> {
    pub(super) fn new(compiled: &Compiled<'c, '_>) -> Classes<'c> {
        let crossing = edges::Crossing::of(compiled.apps, &compiled.ids, &compiled.scoped);
        Classes { by_key: BTreeMap::new(), book: WayBook::default(), last: None, crossing }
    }

    /// The ask and the class of an instance, made if nobody had them before.
    pub(super) fn class_of(
        &mut self,
        compiled: &mut Compiled<'c, '_>,
        (app, component, replica): Instance,
        slot: Slot<'c>,
        options: &Options,
    ) -> (usize, u32) {
        let known =
            self.last.filter(|(which, like, _, _)| *which == (app, component) && *like == slot);
        let (ask, class) = match known {
            Some((_, _, ask, class)) => (ask, class),
            None => self.first_of(compiled, (app, component), slot, options),
        };
        self.last = Some(((app, component), slot, ask, class));
        self.staying(compiled, (app, component, replica), ask, class, options)
    }

    fn first_of(
        &mut self,
        compiled: &mut Compiled<'c, '_>,
        (app, component): (usize, usize),
        slot: Slot<'c>,
        options: &Options,
    ) -> (usize, u32) {
        let apps: &'c [App] = compiled.apps;
        let mut ask = Ask::new(&apps[app].spec.components[component], slot);
        ask.reaches = scope::users(compiled.continuum, ask.component, &mut self.book);
        for end in self.crossing.fixed_ends(compiled, app, component) {
            ask.reaches.extend(self.reach(compiled, &end));
        }
        let mix = Mix::of(&apps[app].spec, ask.component, options.weights.as_ref());
        let class = self.class(compiled, app, &ask, mix);
        compiled.asks.push(ask);
        (compiled.asks.len() - 1, class)
    }

    /// An instance may stay where new ones are not let in; it gets a class of its own then.
    fn staying(
        &mut self,
        compiled: &mut Compiled<'c, '_>,
        (app, component, replica): Instance,
        ask: usize,
        class: u32,
        options: &Options,
    ) -> (usize, u32) {
        let Some(node) = compiled.runs_on(app, component, replica) else { return (ask, class) };
        if compiled.kinds[class as usize].admitted.contains(node) {
            return (ask, class);
        }
        let stays = Ask { staying: Some(node), ..compiled.asks[ask].clone() };
        let left = &compiled.free[node as usize];
        let look = Look { continuum: compiled.continuum, left, ask: &stays, node };
        if filter::failing(&look).iter().any(|asked| !asked.need.amount) {
            return (ask, class);
        }
        let mix = Mix::of(&compiled.apps[app].spec, stays.component, options.weights.as_ref());
        let class = self.class(compiled, app, &stays, mix);
        compiled.asks.push(stays);
        (compiled.asks.len() - 1, class)
    }

    fn class(
        &mut self,
        compiled: &mut Compiled<'c, '_>,
        app: usize,
        ask: &Ask<'c>,
        mix: Mix,
    ) -> u32 {
        let spec = &compiled.apps[app].spec;
        let one_zone = affinity::spread(ask.component) == Some(Scope::Zone);
        let key = key(ask, &mix, spec.energy_limit, one_zone);
        if let Some(class) = self.by_key.get(&key) {
            return *class;
        }
        let mut wish = Wish::new(compiled.continuum, ask, mix, spec.energy_limit);
        self.add_places(compiled, ask.component, &mut wish);
        let mut admitted = filter::admitted(compiled.continuum, &compiled.free, ask);
        if one_zone {
            keep_one_zone_a_site(compiled, &mut admitted);
        }
        let ground = &compiled.ground;
        let engines = compiled.continuum;
        let candidates: Candidates = admitted
            .iter()
            .map(|node| Candidate {
                node,
                engine: engine_number(engines.node(node).engine),
                value: wish.value(ground, node),
            })
            .collect();
        let class = index(compiled.problem.classes.len());
        compiled.problem.classes.push(Class { candidates });
        compiled.kinds.push(Kind { wish: Some(wish), admitted });
        self.by_key.insert(key, class);
        class
    }

    /// Ways to the users and from the data.
    fn add_places(&mut self, compiled: &Compiled<'c, '_>, component: &Component, wish: &mut Wish) {
        let continuum = compiled.continuum;
        let zone = |site: &str| Some(continuum.sites[continuum.site_index(site)? as usize].zone);
        for site in component.users.iter().flat_map(|users| &users.sites) {
            if let Some(zone) = zone(site) {
                wish.users.push(self.book.to(&continuum.network, zone));
            }
        }
        let from = component.data.as_ref().and_then(|data| data.from.as_deref());
        if let Some(zone) = from.and_then(zone) {
            wish.data = Some(self.book.from(&continuum.network, zone));
        }
    }

    fn reach(&mut self, compiled: &Compiled<'c, '_>, end: &FixedEnd) -> Option<Reach> {
        if !end.bounds.promised() {
            return None;
        }
        let continuum = compiled.continuum;
        let zone = continuum.node(end.node).zone;
        let component = &compiled.apps[end.app].spec.components[end.component];
        Some(Reach {
            to: format!(
                "{} of {} on {}",
                component.name,
                compiled.ids[end.app],
                continuum.node(end.node).name
            ),
            ways: match end.calls {
                edges::Calls::Out => self.book.to(&continuum.network, zone),
                edges::Calls::In => self.book.from(&continuum.network, zone),
            },
            latency_us_max: end.bounds.latency_us_max,
            jitter_us_max: end.bounds.jitter_us_max,
            bandwidth_bps: end.bounds.bandwidth_bps,
        })
    }
}

/// The order of the engines in the problem.
pub(super) fn engine_number(engine: tombolo_model::Engine) -> u8 {
    let position = tombolo_model::Engine::ALL.iter().position(|known| *known == engine);
    u8::try_from(position.unwrap_or(0)).unwrap_or(0)
}

/// A site whose nodes have Links of their own is several locations. Whoever wants to be spread over
/// sites is offered one of them, so that two locations are two sites.
fn keep_one_zone_a_site(compiled: &Compiled<'_, '_>, admitted: &mut crate::bits::Bits) {
    let continuum = compiled.continuum;
    let mut chosen: BTreeMap<u32, u32> = BTreeMap::new();
    for node in admitted.iter() {
        let row = continuum.node(node);
        let zone = chosen.entry(row.site).or_insert(row.zone);
        *zone = (*zone).min(row.zone);
    }
    admitted.retain(|node| {
        let row = continuum.node(node);
        chosen.get(&row.site) == Some(&row.zone)
    });
}

fn key(ask: &Ask<'_>, mix: &Mix, energy_limit: Option<f64>, one_zone: bool) -> String {
    let mut key = String::new();
    let component = ask.component;
    // Writing to a String cannot fail.
    let _ = write!(key, "{:?}", ask.slot);
    for engine in tombolo_model::Engine::ALL {
        key.push(if ask.run_on(*engine).is_some() { '1' } else { '0' });
    }
    for (criterion, weight) in mix.bits() {
        let _ = write!(key, ";{criterion}={weight:x}");
    }
    if has_more_than_amounts(ask.needs) {
        let needs = Needs { cpu: None, memory: None, storage: None, ..ask.needs.clone() };
        let _ = write!(key, ";{needs:?}");
    }
    if !component.places.is_empty() {
        let _ = write!(key, ";{:?}", component.places);
    }
    if component.users.is_some()
        || component.data.is_some()
        || !component.recommendations.is_empty()
    {
        let _ = write!(
            key,
            ";{:?}{:?}{:?}",
            component.users, component.data, component.recommendations
        );
    }
    if let Some(limit) = energy_limit {
        let _ = write!(key, ";limit {limit} {}", ask.demand.cpu_millis);
    }
    for reach in &ask.reaches {
        let _ = write!(
            key,
            ";{} {:?} {:?} {}",
            reach.to, reach.latency_us_max, reach.jitter_us_max, reach.bandwidth_bps
        );
    }
    if let Some(node) = ask.staying {
        let _ = write!(key, ";stays {node}");
    }
    if one_zone {
        key.push_str(";one zone");
    }
    key
}

fn has_more_than_amounts(needs: &Needs) -> bool {
    !(needs.gpu_memory.is_none()
        && needs.gpu.is_none()
        && needs.arch.is_empty()
        && needs.devices.is_empty()
        && needs.labels.is_empty()
        && needs.security.is_none()
        && needs.compliance.is_none()
        && needs.regions.is_empty()
        && needs.sites.is_empty()
        && needs.nodes.is_empty()
        && needs.layers.is_empty()
        && needs.engines.is_empty()
        && needs.near.is_none()
        && needs.tolerations.is_empty())
}
