//! Who is connected: strangers, by address, and those who have authenticated, by subject. Pure; the
//! listener asks it for every connection.
//!
//! A newcomer is never turned away, because nobody can tell whether it is the operator. When there is
//! no room for another stranger, the oldest one of the address that has most goes. So an address that
//! takes more than its share takes it from itself.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::flow::{Flow, network};
use super::ledger::{ConnectionId, Full};
use super::limits::Limits;

#[derive(Debug)]
pub(crate) struct Roster {
    limits: Limits,
    next: ConnectionId,
    /// In the order in which they came.
    strangers: BTreeMap<ConnectionId, IpAddr>,
    by_address: BTreeMap<IpAddr, usize>,
    strangers_of_loopback: usize,
    known: BTreeMap<ConnectionId, Flow>,
    by_subject: BTreeMap<Flow, usize>,
}

/// A connection that was taken in, and the one that must go for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub id: ConnectionId,
    pub evicted: Option<ConnectionId>,
}

impl Roster {
    pub(crate) fn new(limits: Limits) -> Roster {
        Roster {
            limits,
            next: 0,
            strangers: BTreeMap::new(),
            by_address: BTreeMap::new(),
            strangers_of_loopback: 0,
            known: BTreeMap::new(),
            by_subject: BTreeMap::new(),
        }
    }

    pub(crate) fn arrive(&mut self, address: IpAddr) -> Arrived {
        let address = network(address);
        let evicted = self.make_room(address);
        if let Some(evicted) = evicted {
            self.leave(evicted);
        }
        let id = self.next;
        self.next += 1;
        self.strangers.insert(id, address);
        *self.by_address.entry(address).or_default() += 1;
        self.strangers_of_loopback += usize::from(address.is_loopback());
        Arrived { id, evicted }
    }

    /// The connection belongs to somebody whom we know now. It counts for whom it was first used by.
    /// When there is no room for more, the subject that has most loses its oldest connection, which is
    /// returned, unless the newcomer would have as many as that subject.
    pub(crate) fn vouch(
        &mut self,
        id: ConnectionId,
        flow: &Flow,
    ) -> Result<Option<ConnectionId>, Full> {
        if self.known.contains_key(&id) {
            return Ok(None);
        }
        let own = self.by_subject.get(flow).copied().unwrap_or(0);
        if own >= self.limits.known_per_subject {
            return Err(Full);
        }
        let mut evicted = None;
        if self.known.len() >= self.limits.known {
            let oldest = self.oldest_of_who_has_most(own + 1).ok_or(Full)?;
            self.leave(oldest);
            evicted = Some(oldest);
        }
        self.remove_stranger(id);
        self.known.insert(id, flow.clone());
        *self.by_subject.entry(flow.clone()).or_default() += 1;
        Ok(evicted)
    }

    pub(crate) fn leave(&mut self, id: ConnectionId) {
        self.remove_stranger(id);
        if let Some(flow) = self.known.remove(&id) {
            decrease(&mut self.by_subject, &flow);
        }
    }

    fn remove_stranger(&mut self, id: ConnectionId) {
        let Some(address) = self.strangers.remove(&id) else { return };
        decrease(&mut self.by_address, &address);
        self.strangers_of_loopback -= usize::from(address.is_loopback());
    }

    /// Who must go, so that one more of `address` fits.
    fn make_room(&self, address: IpAddr) -> Option<ConnectionId> {
        let near = self.strangers_of_loopback;
        let (held, bound, bound_each) = match address.is_loopback() {
            true => (near, self.limits.strangers_of_loopback, self.limits.strangers_of_loopback),
            false => (
                self.strangers.len() - near,
                self.limits.strangers,
                self.limits.strangers_per_address,
            ),
        };
        let own = self.by_address.get(&address).copied().unwrap_or(0);
        if own >= bound_each {
            return self.oldest(&address);
        }
        if held < bound {
            return None;
        }
        let is_alike = |other: &IpAddr| other.is_loopback() == address.is_loopback();
        let alike = self.by_address.iter().filter(|(other, _)| is_alike(other));
        // Of addresses that have as many, the newcomer's own loses.
        let (most, _) = alike.max_by_key(|(other, count)| (**count, **other == address))?;
        self.oldest(most)
    }

    fn oldest(&self, of: &IpAddr) -> Option<ConnectionId> {
        self.strangers.iter().find(|(_, address)| *address == of).map(|(id, _)| *id)
    }

    /// Of the subject with most connections, if it has more than `than`.
    fn oldest_of_who_has_most(&self, than: usize) -> Option<ConnectionId> {
        let (most, count) = self.by_subject.iter().max_by_key(|(_, count)| **count)?;
        let mut its = self.known.iter().filter(|(_, flow)| *flow == most).map(|(id, _)| *id);
        (*count > than).then(|| its.next()).flatten()
    }
}

fn decrease<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOODER: [u8; 4] = [10, 0, 0, 1];
    const OTHER: [u8; 4] = [10, 0, 0, 2];
    const NOBODY: [ConnectionId; 0] = [];

    fn roster() -> Roster {
        Roster::new(Limits {
            strangers_per_address: 3,
            strangers: 5,
            strangers_of_loopback: 2,
            known_per_subject: 2,
            known: 3,
            ..Limits::default()
        })
    }

    fn anna() -> Flow {
        Flow::Subject("anna".into())
    }

    /// The connections that had to go while these came, by their number.
    fn evicted(roster: &mut Roster, addresses: &[[u8; 4]]) -> Vec<ConnectionId> {
        let arrived = addresses.iter().map(|address| roster.arrive((*address).into()));
        arrived.filter_map(|arrived| arrived.evicted).collect()
    }

    #[test]
    fn an_address_past_its_share_loses_its_own_oldest() {
        let mut roster = roster();
        assert_eq!(evicted(&mut roster, &[FLOODER, OTHER, FLOODER, FLOODER]), NOBODY);
        assert_eq!(evicted(&mut roster, &[FLOODER, FLOODER, OTHER]), [0, 2]);
    }

    #[test]
    fn when_all_is_full_the_address_with_most_loses_its_oldest() {
        let mut roster = roster();
        let third = [10, 0, 0, 3];
        assert_eq!(evicted(&mut roster, &[OTHER, OTHER, FLOODER, FLOODER, FLOODER]), NOBODY);
        assert_eq!(evicted(&mut roster, &[third]), [2]);
    }

    #[test]
    fn who_has_signed_in_is_not_evicted_and_takes_no_strangers_room() {
        let mut roster = roster();
        let first = roster.arrive(FLOODER.into()).id;
        roster.vouch(first, &anna()).unwrap();
        roster.vouch(first, &anna()).unwrap();
        assert_eq!(evicted(&mut roster, &[FLOODER; 3]), NOBODY);
        assert_eq!(evicted(&mut roster, &[FLOODER]), [1]);
    }

    #[test]
    fn a_subject_has_its_bound_of_connections_and_gets_them_back() {
        let mut roster = roster();
        let ids: Vec<ConnectionId> = (0..3).map(|_| roster.arrive(OTHER.into()).id).collect();
        roster.vouch(ids[0], &anna()).unwrap();
        roster.vouch(ids[1], &anna()).unwrap();
        assert_eq!(roster.vouch(ids[2], &anna()), Err(Full));
        roster.leave(ids[0]);
        roster.vouch(ids[2], &anna()).unwrap();
    }

    #[test]
    fn who_has_most_makes_room_for_others_who_sign_in() {
        let mut roster = roster();
        let bert = Flow::Subject("bert".into());
        let ids: Vec<ConnectionId> = (0..6).map(|_| roster.arrive(OTHER.into()).id).collect();
        roster.vouch(ids[0], &anna()).unwrap();
        roster.vouch(ids[1], &anna()).unwrap();
        roster.vouch(ids[2], &Flow::Subject("cleo".into())).unwrap();
        assert_eq!(roster.vouch(ids[3], &bert), Ok(Some(ids[0])));
        // All have one now, and nobody loses it for the second one of somebody else.
        assert_eq!(roster.vouch(ids[4], &bert), Err(Full));
        assert_eq!(roster.vouch(ids[5], &Flow::Subject("dora".into())), Err(Full));
    }

    #[test]
    fn one_address_of_this_machine_does_not_crowd_out_another() {
        let mut roster = roster();
        let (flooder, other) = ([127, 0, 0, 1], [127, 0, 0, 2]);
        assert_eq!(evicted(&mut roster, &[flooder, flooder]), NOBODY);
        assert_eq!(evicted(&mut roster, &[other, flooder]), [0, 1]);
        assert_eq!(evicted(&mut roster, &[flooder]), [3]);
    }

    #[test]
    fn loopback_has_room_of_its_own() {
        let mut roster = roster();
        let loopback = [127, 0, 0, 1];
        evicted(&mut roster, &[OTHER, OTHER, FLOODER, FLOODER, FLOODER]);
        assert_eq!(evicted(&mut roster, &[loopback, loopback]), NOBODY);
        assert_eq!(evicted(&mut roster, &[loopback]), [5]);
        assert_eq!(evicted(&mut roster, &[FLOODER]), [2]);
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let mut roster = roster();
        let ids: Vec<ConnectionId> = (0..3).map(|_| roster.arrive(OTHER.into()).id).collect();
        roster.vouch(ids[1], &anna()).unwrap();
        for id in ids {
            roster.leave(id);
            roster.leave(id);
        }
        assert!(roster.strangers.is_empty() && roster.known.is_empty());
        assert!(roster.by_address.is_empty() && roster.by_subject.is_empty());
    }
}
