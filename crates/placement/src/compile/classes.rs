//! Classes of instances: all that share needs and wishes share one list of candidates. What tells
//! two classes apart is in [`Key`]; amounts do not, the search counts those. Several classes share
//! what they have in common: which nodes meet a need, and how a wish values them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use tombolo_model::App;
use tombolo_model::component::Component;
use tombolo_solver::problem::{Class, Scope};

use super::edges::{self, FixedEnd};
use super::{Compiled, Kind, Options, index, scope};
use crate::affinity;
use crate::ask::{Ask, Leads, Reach, Slot};
use crate::filter::{self, Look, Question, Sieve};
use crate::paths::WayBook;
use crate::score::{Mix, Wish};

/// Which instance: App, component, replica.
type Instance = (usize, usize, u32);

/// A part of the nodes below this is scored one by one.
const FEW: usize = 16;

#[derive(Debug)]
pub(super) struct Classes<'c, 'a> {
    by_key: BTreeMap<Key, u32>,
    sieve: Sieve<'a>,
    /// The value of every node, by [`wish_key`].
    values: BTreeMap<String, Arc<[i32]>>,
    book: WayBook,
    /// The last ask, for the replicas that follow.
    last: Option<((usize, usize), Slot<'c>, usize, u32)>,
    /// Somebody talks to somebody: locations are more than sites.
    is_wired: bool,
    pub crossing: edges::Crossing,
}

impl<'c, 'a> Classes<'c, 'a> {
    pub(super) fn new(compiled: &Compiled<'c, 'a>) -> Classes<'c, 'a> {
        let crossing = edges::Crossing::of(&compiled.apps, &compiled.ids, &compiled.scoped);
        let scoped = &compiled.scoped;
        let is_wired = scoped.planned.iter().chain(&scoped.standing).any(|app| {
            compiled.apps[*app].spec.components.iter().any(|part| !part.connects.is_empty())
        });
        Classes {
            is_wired,
            by_key: BTreeMap::new(),
            sieve: Sieve::default(),
            values: BTreeMap::new(),
            book: WayBook::default(),
            last: None,
            crossing,
        }
    }

    /// The ask and the class of an instance, made if nobody had them before.
    pub(super) fn class_of(
        &mut self,
        compiled: &mut Compiled<'c, 'a>,
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
        compiled: &mut Compiled<'c, 'a>,
        (app, component): (usize, usize),
        slot: Slot<'c>,
        options: &Options,
    ) -> (usize, u32) {
        let app_of: &'c App = compiled.apps[app];
        let mut ask = Ask::new(&app_of.spec.components[component], slot);
        ask.reaches = scope::users(compiled.continuum, ask.component, &mut self.book);
        for end in self.crossing.fixed_ends(compiled, app, component) {
            ask.reaches.extend(self.reach(compiled, &end));
        }
        let mix = Mix::of(&app_of.spec, ask.component, options.weights.as_ref());
        let class = self.class(compiled, app, &ask, mix);
        compiled.asks.push(ask);
        (compiled.asks.len() - 1, class)
    }

    /// An instance may stay where new ones are not let in; it gets a class of its own then.
    fn staying(
        &mut self,
        compiled: &mut Compiled<'c, 'a>,
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
        compiled: &mut Compiled<'c, 'a>,
        app: usize,
        ask: &Ask<'c>,
        mix: Mix,
    ) -> u32 {
        let spec = &compiled.apps[app].spec;
        let over = affinity::even(ask.component).map(|(scope, _)| scope);
        let one_zone = affinity::spread(ask.component).or(over) == Some(Scope::Zone);
        let key = key(ask, &mix, spec.energy_limit, one_zone);
        if let Some(class) = self.by_key.get(&key) {
            return *class;
        }
        let mut wish = Wish::new(compiled.continuum, ask, mix, spec.energy_limit);
        self.add_places(compiled, ask.component, &mut wish);
        let mut admitted = self.sieve.admitted(compiled.continuum, &compiled.free, ask);
        if one_zone && self.is_wired {
            let all = admitted.count();
            keep_one_zone_a_site(compiled, &mut admitted);
            compiled.is_narrowed |= admitted.count() < all;
        }
        let few = admitted.count() * FEW < compiled.continuum.nodes.len();
        let values = match self.values.get(&key.wish) {
            Some(values) => Some(Arc::clone(values)),
            None if few => None,
            None => {
                let values: Arc<[i32]> = wish.values(&compiled.ground).into();
                self.values.insert(key.wish.clone(), Arc::clone(&values));
                Some(values)
            }
        };
        let class = index(compiled.problem.classes.len());
        // The candidates follow when the nodes have their numbers.
        compiled.problem.classes.push(Class::default());
        let runs = ask.runs();
        compiled.kinds.push(Kind { wish: Some(wish), admitted, values, runs });
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
        let (place, ways) = match end.calls {
            edges::Calls::Out => (Leads::To(zone), self.book.to(&continuum.network, zone)),
            edges::Calls::In => (Leads::From(zone), self.book.from(&continuum.network, zone)),
        };
        Some(Reach {
            to: format!(
                "{} of {} on {}",
                component.name,
                compiled.ids[end.app],
                continuum.node(end.node).name
            ),
            place,
            ways,
            latency_us_max: end.bounds.latency_us_max,
            jitter_us_max: end.bounds.jitter_us_max,
            bandwidth_bps: end.bounds.bandwidth_bps,
        })
    }
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

/// What tells two classes apart.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    questions: Vec<Question>,
    wish: String,
    staying: Option<u32>,
    one_zone: bool,
}

fn key(ask: &Ask<'_>, mix: &Mix, energy_limit: Option<f64>, one_zone: bool) -> Key {
    let asked = filter::asked(ask).into_iter().zip(filter::questions(ask));
    let questions = asked.filter(|(asked, _)| !asked.need.amount).map(|(_, question)| question);
    Key {
        questions: questions.collect(),
        wish: wish_key(ask, mix, energy_limit),
        staying: ask.staying,
        one_zone,
    }
}

/// All that a [`Wish`] is made of.
fn wish_key(ask: &Ask<'_>, mix: &Mix, energy_limit: Option<f64>) -> String {
    let component = ask.component;
    let mut key = String::new();
    // Writing to a String cannot fail.
    for (criterion, weight) in mix.bits() {
        let _ = write!(key, ";{criterion}={weight:x}");
    }
    if let Some(level) = ask.needs.security {
        let _ = write!(key, ";security {}", level.score());
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
    if component.prefers.iter().any(|wish| !wish.labels.is_empty()) {
        let _ = write!(key, ";{:?}", component.prefers);
    }
    if !ask.needs.tolerations.is_empty() {
        let _ = write!(key, ";{:?}", ask.needs.tolerations);
    }
    if let Some(limit) = energy_limit {
        let _ = write!(key, ";limit {limit} {}", ask.demand.cpu_millis);
    }
    key
}
