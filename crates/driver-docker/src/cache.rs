//! What was learnt about containers, so that a look need not ask for all of it again. It holds only what
//! cannot have changed unseen: while the engine's events are followed, of containers that run or have
//! ended, as long as the fresh list says the same of them. Used by `list`, emptied by `watch` and by
//! everything that acts on a container.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bollard::models::ContainerSummaryStateEnum;

use crate::look::Seen;

/// As much as the list tells. The list itself is never kept: an end shows in it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) state: Option<ContainerSummaryStateEnum>,
    pub(crate) names: Option<Vec<String>>,
}

/// When an answer was asked for: an answer from before the last change is not kept for later looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Whether changes are told at all.
    followed: bool,
    /// Counts all that may have changed something.
    changes: u64,
    known: BTreeMap<String, (Glance, Arc<Seen>)>,
}

impl Cache {
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.changes)
    }

    pub(crate) fn find(&self, container: &str, glance: &Glance) -> Option<Arc<Seen>> {
        let (known, seen) = self.known.get(container).filter(|_| self.followed)?;
        (known == glance).then(|| Arc::clone(seen))
    }

    pub(crate) fn keep(&mut self, asked: Moment, glance: Glance, seen: &Arc<Seen>) {
        let settled = match glance.state {
            Some(ContainerSummaryStateEnum::RUNNING) => seen.is_running(),
            Some(ContainerSummaryStateEnum::EXITED) => seen.has_exited(),
            // What failed before it ran is written down without any event.
            Some(
                ContainerSummaryStateEnum::CREATED
                | ContainerSummaryStateEnum::PAUSED
                | ContainerSummaryStateEnum::RESTARTING
                | ContainerSummaryStateEnum::STOPPING
                | ContainerSummaryStateEnum::REMOVING
                | ContainerSummaryStateEnum::DEAD
                | ContainerSummaryStateEnum::EMPTY,
            )
            | None => false,
        };
        if settled && self.followed && asked == self.moment() {
            self.known.insert(seen.container.clone(), (glance, Arc::clone(seen)));
        }
    }

    /// Something happened to this container, or is about to.
    pub(crate) fn forget(&mut self, container: &str) {
        self.changes = self.changes.wrapping_add(1);
        self.known.remove(container);
    }

    pub(crate) fn follow(&mut self) {
        self.forget_all();
        self.followed = true;
    }

    /// Nothing that was known before counts: it may be another engine that comes back.
    pub(crate) fn lose(&mut self) {
        self.forget_all();
        self.followed = false;
    }

    /// Forgets what is not there any more.
    pub(crate) fn retain(&mut self, there: &BTreeSet<&str>) {
        self.known.retain(|container, _| there.contains(container.as_str()));
    }

    fn forget_all(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum};

    use super::*;
    use crate::tag::Tag;

    fn glance(state: ContainerSummaryStateEnum) -> Glance {
        Glance { state: Some(state), names: Some(vec!["/one".to_owned()]) }
    }

    fn seen(status: ContainerStateStatusEnum) -> Arc<Seen> {
        let state = ContainerState { status: Some(status), ..ContainerState::default() };
        let inspected =
            ContainerInspectResponse { state: Some(state), ..ContainerInspectResponse::default() };
        Arc::new(Seen {
            container: "one".to_owned(),
            name: "/one".to_owned(),
            tag: Tag::default(),
            inspected,
            log: Vec::new(),
        })
    }

    fn kept(cache: &Cache, state: ContainerSummaryStateEnum) -> bool {
        cache.find("one", &glance(state)).is_some()
    }

    const RUNNING: ContainerSummaryStateEnum = ContainerSummaryStateEnum::RUNNING;
    const EXITED: ContainerSummaryStateEnum = ContainerSummaryStateEnum::EXITED;
    const CREATED: ContainerSummaryStateEnum = ContainerSummaryStateEnum::CREATED;

    #[test]
    fn an_end_that_the_list_shows_is_always_asked_for() {
        let mut cache = Cache::default();
        cache.follow();
        cache.keep(cache.moment(), glance(RUNNING), &seen(ContainerStateStatusEnum::RUNNING));
        assert!(kept(&cache, RUNNING) && !kept(&cache, EXITED));
        let renamed = Glance { names: Some(vec!["/two".to_owned()]), ..glance(RUNNING) };
        assert!(cache.find("one", &renamed).is_none(), "a new name is a new state");
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_kept() {
        let mut cache = Cache::default();
        cache.follow();
        let asked = cache.moment();
        cache.forget("one");
        cache.keep(asked, glance(RUNNING), &seen(ContainerStateStatusEnum::RUNNING));
        assert!(!kept(&cache, RUNNING));
    }

    #[test]
    fn nothing_is_kept_while_nobody_tells_of_changes() {
        let mut cache = Cache::default();
        cache.keep(cache.moment(), glance(RUNNING), &seen(ContainerStateStatusEnum::RUNNING));
        assert!(!kept(&cache, RUNNING));
        cache.follow();
        cache.keep(cache.moment(), glance(RUNNING), &seen(ContainerStateStatusEnum::RUNNING));
        cache.lose();
        assert!(!kept(&cache, RUNNING));
    }

    #[test]
    fn what_the_two_answers_disagree_on_is_not_kept() {
        let mut cache = Cache::default();
        cache.follow();
        cache.keep(cache.moment(), glance(RUNNING), &seen(ContainerStateStatusEnum::EXITED));
        assert!(!kept(&cache, RUNNING));
        cache.keep(cache.moment(), glance(CREATED), &seen(ContainerStateStatusEnum::CREATED));
        assert!(!kept(&cache, CREATED), "it may fail without an event");
    }
}
