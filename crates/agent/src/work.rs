//! The working half of the agent: wakes [`crate::converge`], feeds it with news, and writes what it
//! has to tell to the server and to the disk. Started by [`crate::run()`]; start at [`run`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{SelectAll, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tombolo_model::Assignment;
use tombolo_plan::Monotonic;

use crate::cache::Cache;
use crate::clock::{self, Clock};
use crate::connection::Connection;
use crate::converge::{Converge, Drivers, Now, Report};
use crate::credentials::Folder;
use crate::desired::{self, Place};
use crate::held::News;
use crate::node::{Disk, Inside, Learnt};
use crate::offer::Offer;
use crate::tell::{self, Failed, Write};
use crate::{Error, errands, feed, load, node, peer_files};

/// Something may have been missed: nobody waits longer for a look.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A burst of changes is one look.
const LOOK_GAP_MIN: Duration = Duration::from_millis(15);
const WRITES_AT_ONCE_MAX: usize = 8;
/// After a write that failed, for the same Assignment.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
const SAVE_AGAIN: Duration = Duration::from_secs(1);
const NEWS_MAX: usize = 256;

/// What the agent works with.
#[derive(Debug)]
pub(crate) struct Workplace {
    pub(crate) place: Place,
    pub(crate) machine: String,
    pub(crate) folder: Arc<Folder>,
    pub(crate) connection: Connection,
    pub(crate) drivers: Drivers,
    pub(crate) clock: Clock,
    /// When the server was last heard.
    pub(crate) heard: watch::Receiver<Monotonic>,
    pub(crate) offer: Offer,
}

type Written = (String, Result<Option<Assignment>, Failed>);

struct Worker {
    workplace: Workplace,
    converge: Converge,
    cache: Cache,
    writes: JoinSet<Written>,
    /// Assignments that are being written, or were in vain a moment ago.
    resting: BTreeMap<String, Option<Monotonic>>,
    saving: JoinSet<Result<(), Error>>,
    address: watch::Receiver<String>,
    inside: watch::Sender<Inside>,
    drained: watch::Receiver<bool>,
    /// Not before this is the disk tried again.
    save_at: Option<Monotonic>,
    strays: usize,
}

/// Works for ever; ends when it is dropped, and leaves everything running.
pub(crate) async fn run(workplace: Workplace) {
    let (sender, mut news) = mpsc::channel(NEWS_MAX);
    let (cache, held) =
        Cache::open(Arc::clone(&workplace.folder), &workplace.machine, &workplace.place);
    let (place, drivers) = (workplace.place.clone(), workplace.drivers.clone());
    let peers = workplace.folder.path().join(peer_files::FOLDER);
    // A program may be anywhere when it reads the file.
    let peers = std::path::absolute(&peers).unwrap_or(peers);
    let converge = Converge::new(place.clone(), drivers.clone(), held).with_peer_files(peers);
    let (sources, wanted) = watch::channel(converge.held.sources(&place));
    let (address_sender, address) = watch::channel(node::address(&workplace.offer));
    let (drained_sender, mut drained) = watch::channel(false);

    let connection = workplace.connection.clone();
    let mut helpers = JoinSet::new();
    helpers.spawn(feed::assignments(connection.clone(), place.site.clone(), sender.clone()));
    helpers.spawn(feed::entries(connection.clone(), wanted, sender));
    helpers.spawn(errands::run(connection.clone(), drivers.clone()));
    let folder = Arc::clone(&workplace.folder);
    let disk = folder.path().display().to_string();
    helpers.spawn(load::keep(connection.clone(), place.node.clone(), disk));
    let subject = node::Subject {
        place: place.clone(),
        folder,
        drivers: drivers.clone(),
        offer: workplace.offer.clone(),
    };
    let (inside, seen) = watch::channel(Inside::default());
    let learnt = Learnt { address: address_sender, drained: drained_sender };
    helpers.spawn(node::keep(connection, subject, learnt, seen));

    let mut events: SelectAll<_> = drivers.values().map(|driver| driver.events()).collect();
    let health = converge.health_changed();
    let (clock, mut wake_at) = (workplace.clock, workplace.clock.now());
    let mut earliest = wake_at;
    let (writes, saving) = (JoinSet::new(), JoinSet::new());
    let (resting, save_at, strays) = (BTreeMap::new(), None, 0);
    let mut worker = Worker {
        workplace,
        converge,
        cache,
        writes,
        resting,
        saving,
        address,
        inside,
        drained: drained.clone(),
        save_at,
        strays,
    };
    loop {
        tokio::select! {
            Some(first) = news.recv() => worker.hear(first, &mut news),
            Some(()) = events.next() => (),
            () = health.notified() => (),
            Ok(()) = drained.changed() => (),
            () = worker.converge.next_done() => (),
            Some(written) = worker.writes.join_next() => worker.written(written.ok()),
            Some(saved) = worker.saving.join_next() => worker.saved(saved.ok()),
            () = clock.sleep_until(wake_at) => (),
        }
        clock.sleep_until(earliest).await;
        while let Ok(more) = news.try_recv() {
            worker.converge.held.note(more);
        }
        worker.converge.held.tidy(&place);
        worker.see_to_the_forgotten();
        let wanted = worker.converge.held.sources(&place);
        sources.send_if_modified(|known| put(known, wanted));
        wake_at = worker.activate().await;
        earliest = clock.now() + LOOK_GAP_MIN;
    }
}

impl Worker {
    fn hear(&mut self, first: News, news: &mut mpsc::Receiver<News>) {
        self.converge.held.note(first);
        while let Ok(more) = news.try_recv() {
            self.converge.held.note(more);
        }
    }

    /// Returns when to look again at the latest.
    async fn activate(&mut self) -> Monotonic {
        let clock = self.workplace.clock;
        let heard = *self.workplace.heard.borrow();
        let looked_at = clock.now();
        let silent_at = heard + self.workplace.offer.pace().silent_after();
        let now = Now {
            clock: looked_at,
            time: clock::time_of_day(),
            unheard: heard == Monotonic::default(),
            cut_off_since: Some(heard).filter(|_| looked_at >= silent_at),
            address: self.address.borrow().clone(),
        };
        let report = self.converge.activate(&now).await;
        self.tell_strays(&report);
        self.save();
        let later = self.write(report.writes, looked_at);
        // What is to stop when it is cut off must stop before another is started elsewhere.
        let silent = Some(silent_at).filter(|at| *at > looked_at);
        let wakes = [report.wake_at, later, self.save_at, silent, Some(looked_at + LOOK_EVERY)];
        let again = (report.deferred > 0).then_some(looked_at);
        wakes.into_iter().chain([again]).flatten().min().unwrap_or(looked_at)
    }

    fn tell_strays(&mut self, report: &Report) {
        if report.strays.len() != self.strays {
            self.strays = report.strays.len();
            let strays: Vec<&str> =
                report.strays.iter().map(|stray| stray.assignment.as_str()).collect();
            tracing::warn!(?strays, "nobody is known to want these; they are kept");
        }
    }

    /// Begins as many writes as may be, one for each Assignment. Returns when one that has to wait
    /// may be tried again.
    fn write(&mut self, writes: Vec<Write>, now: Monotonic) -> Option<Monotonic> {
        self.resting.retain(|_, until| until.is_none_or(|until| until > now));
        for write in writes {
            let uid = write.assignment.metadata.uid.clone().unwrap_or_default();
            if self.resting.contains_key(&uid) || self.writes.len() >= WRITES_AT_ONCE_MAX {
                continue;
            }
            self.resting.insert(uid.clone(), None);
            let connection = self.workplace.connection.clone();
            self.writes.spawn(async move {
                let written = connection.ask(async |client| tell::write(client, write).await).await;
                (uid, written.unwrap_or_else(|| Err(Failed::Unheard("given up".into()))))
            });
        }
        self.resting.values().flatten().min().copied()
    }

    fn written(&mut self, written: Option<Written>) {
        let Some((uid, result)) = written else {
            // A task that panicked has not said whose it was.
            self.resting.clear();
            return;
        };
        let until = match result {
            Ok(Some(assignment)) => {
                self.converge.held.note(News::Applied(Box::new(assignment)));
                None
            }
            Ok(None) => Some(WRITE_AGAIN),
            Err(Failed::Raced) => Some(WRITE_AGAIN / 10),
            Err(Failed::Unknown) => Some(LOOK_EVERY),
            Err(Failed::Unheard(error)) => {
                tracing::debug!(error = desired::chain(&*error), "cannot tell the server");
                Some(WRITE_AGAIN)
            }
        };
        match until {
            Some(pause) => {
                let until = self.workplace.clock.now() + pause;
                self.resting.insert(uid, Some(until));
            }
            None => _ = self.resting.remove(&uid),
        }
    }

    /// One write to the disk at a time; the next has all that changed meanwhile.
    fn save(&mut self) {
        let too_early = self.save_at.is_some_and(|at| self.workplace.clock.now() < at);
        if too_early || !self.saving.is_empty() {
            return;
        }
        if let Some(draft) = self.cache.changed(&self.converge.held, &self.workplace.place) {
            self.saving.spawn(async move {
                let written = tokio::task::spawn_blocking(move || draft.write()).await;
                written.unwrap_or(Ok(()))
            });
        }
    }

    fn saved(&mut self, saved: Option<Result<(), Error>>) {
        match saved {
            Some(Ok(())) => {
                self.save_at = None;
                self.tell_disk(Disk::Well);
            }
            Some(Err(error)) => {
                // A full disk is not helped by asking it all the time.
                self.save_at = Some(self.workplace.clock.now() + SAVE_AGAIN);
                let why = desired::chain(&error);
                tracing::warn!(error = why, "cannot keep the assignments");
                self.tell_disk(Disk::CannotWrite(format!(
                    "what is assigned cannot be kept for a reboot without the server: {why}. What \
                     runs goes on. Free some room in the agent's folder; it is tried again every \
                     second"
                )));
                self.cache.failed();
            }
            None => self.cache.failed(),
        }
    }

    fn tell_disk(&self, disk: Disk) {
        self.inside.send_if_modified(|known| put(&mut known.disk, disk));
    }

    /// Whoever empties the node means what the server has forgotten, too.
    fn see_to_the_forgotten(&mut self) {
        if *self.drained.borrow() {
            self.converge.held.end_forgotten();
        }
        let forgotten = self.converge.held.forgotten_here(&self.workplace.place);
        self.inside.send_if_modified(|known| put(&mut known.forgotten, forgotten));
    }
}

/// Whether it was another before.
fn put<T: PartialEq>(known: &mut T, value: T) -> bool {
    let is_news = *known != value;
    *known = value;
    is_news
}
