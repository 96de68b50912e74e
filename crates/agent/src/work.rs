//! The working half of the agent: wakes [`crate::converge`], feeds it with news, and writes what it
//! has to tell to the server and to the disk. Started by [`crate::run()`]; start at [`run`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{SelectAll, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tombolo_driver::Machines;
use tombolo_identity::Remit;
use tombolo_model::Assignment;
use tombolo_model::phrase::with_causes;
use tombolo_plan::Monotonic;
use tombolo_plan::agent::silence::{Deadlines, Orders, Silence};
use tombolo_plan::agent::telling::{Outcome, Saves, Writes};
use tombolo_plan::instances::Authority;

use crate::cache::Cache;
use crate::clock::{self, Clock, Heard};
use crate::connection::Connection;
use crate::converge::{Converge, Drivers, Now, Report};
use crate::credentials::Folder;
use crate::desired::Wishes;
use crate::kept::Keeper;
use crate::leaf::{self, Desk, Sink};
use crate::node::{Disk, Inside, Learnt};
use crate::offer::Offer;
use crate::orders::News;
use crate::tell::{self, Failed, Spoken, Write};
use crate::{Error, errands, feed, load, machine, machines, node, peer_files, probing};

/// Something may have been missed: nobody waits longer for a look.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A burst of changes is one look.
const LOOK_GAP_MIN: Duration = Duration::from_millis(15);
const NEWS_MAX: usize = 256;

/// What the agent works with.
#[derive(Debug)]
pub(crate) struct Workplace {
    pub(crate) remit: Remit,
    pub(crate) machine: String,
    pub(crate) folder: Arc<Folder>,
    pub(crate) connection: Connection,
    pub(crate) drivers: Drivers,
    /// Of an engine that spreads over many, whose agent stands for a whole site.
    pub(crate) machines: Option<Arc<dyn Machines>>,
    pub(crate) clock: Clock,
    /// When the server was last heard.
    pub(crate) heard: watch::Receiver<Option<Heard>>,
    pub(crate) offer: Offer,
}

type Written = (String, Result<Option<Assignment>, Failed>);

struct Worker {
    workplace: Workplace,
    converge: Converge,
    cache: Cache,
    writes: JoinSet<Written>,
    /// Which of them are under way, and which rest.
    telling: Writes,
    saving: JoinSet<Result<(), Error>>,
    saves: Saves,
    address: watch::Sender<String>,
    inside: watch::Sender<Inside>,
    drained: watch::Sender<bool>,
    /// Where parts of the agent put what they measure.
    sink: Sink,
    known: watch::Sender<leaf::Known>,
    owners: watch::Sender<leaf::Owners>,
    strays: usize,
    silence: Silence,
    list_again: watch::Sender<u64>,
    spoken: Spoken,
}

/// Works for ever; ends when it is dropped, and leaves everything running. Comes back only when the
/// folder of the agent is gone: an agent that sees nothing there would start everything a second time.
pub(crate) async fn run(workplace: Workplace) -> Error {
    let (sender, mut news) = mpsc::channel(NEWS_MAX);
    let mut worker = Worker::new(workplace);
    let (wanted_sender, wanted) = watch::channel(worker.wanted());
    let _kept = worker.begin(sender, wanted);

    let drivers = worker.workplace.drivers.clone();
    let mut events: SelectAll<_> = drivers.values().map(|driver| driver.events()).collect();
    let health = worker.converge.health_changed();
    let (clock, mut heard) = (worker.workplace.clock, worker.workplace.heard.clone());
    let mut drained = worker.drained.subscribe();
    let (mut wake_at, mut earliest) = (clock.now(), clock.now());
    loop {
        tokio::select! {
            Some(first) = news.recv() => worker.hear(first, &mut news),
            Some(()) = events.next() => (),
            () = health.notified() => (),
            Ok(()) = drained.changed() => (),
            // Their deadlines are put off.
            Ok(()) = heard.changed(), if worker.converge.has_deadlines() => (),
            () = worker.converge.next_done() => (),
            Some(written) = worker.writes.join_next() => worker.written(written.ok()),
            Some(saved) = worker.saving.join_next() => worker.saved(saved.ok()),
            () = clock.sleep_until(wake_at) => (),
        }
        clock.sleep_until(earliest).await;
        while let Ok(more) = news.try_recv() {
            worker.converge.orders.note(more);
        }
        worker.converge.orders.tidy(&worker.workplace.remit);
        worker.see_to_the_forgotten();
        worker.tell_owners();
        let wanted = worker.wanted();
        wanted_sender.send_if_modified(|known| put(known, wanted));
        if !worker.workplace.folder.is_whole() {
            break;
        }
        wake_at = worker.activate().await;
        if worker.converge.lost_host() {
            break;
        }
        earliest = clock.now() + LOOK_GAP_MIN;
    }
    Error::FolderGone { path: worker.workplace.folder.path().to_owned() }
}

impl Worker {
    fn new(workplace: Workplace) -> Worker {
        let folder = Arc::clone(&workplace.folder);
        let (cache, orders) = Cache::open(folder, &workplace.machine, &workplace.remit);
        let peers = workplace.folder.path().join(peer_files::FOLDER);
        // A program may be anywhere when it reads the file.
        let peers = std::path::absolute(&peers).unwrap_or(peers);
        let (remit, drivers) = (workplace.remit.clone(), workplace.drivers.clone());
        let address = node::address(&workplace.offer);
        let sink = match leaf::Settings::of(&workplace.offer) {
            Some(_) => Sink::open(),
            None => Sink::closed(),
        };
        Worker {
            workplace,
            converge: Converge::new(remit, drivers, orders).with_peer_files(peers),
            cache,
            writes: JoinSet::new(),
            telling: Writes::default(),
            saving: JoinSet::new(),
            saves: Saves::default(),
            address: watch::Sender::new(address),
            inside: watch::Sender::new(Inside::default()),
            drained: watch::Sender::new(false),
            sink,
            known: watch::Sender::new(None),
            owners: watch::Sender::default(),
            strays: 0,
            silence: Silence::default(),
            list_again: watch::Sender::new(0),
            spoken: Spoken::default(),
        }
    }

    /// Starts what brings news and tells of the node, each kept alive. It ends when the set is dropped.
    fn begin(&self, news: mpsc::Sender<News>, wanted: watch::Receiver<Wishes>) -> JoinSet<()> {
        let Workplace { remit, connection, drivers, clock, machines, .. } = &self.workplace;
        let node = match remit {
            Remit::Node { node, .. } => Some(node.clone()),
            Remit::Site { .. } => None,
        };
        let keeper = Keeper { clock: *clock, connection: connection.clone(), node: node.clone() };
        let keeper = || keeper.clone();
        let mut kept = JoinSet::new();
        let (to, again, sender) = (connection.clone(), self.list_again.clone(), news.clone());
        let site = remit.site().to_owned();
        kept.spawn(keeper().keep("assignments", move || {
            feed::assignments(to.clone(), site.clone(), again.subscribe(), sender.clone())
        }));
        let to = connection.clone();
        kept.spawn(
            keeper()
                .keep("entries", move || feed::entries(to.clone(), wanted.clone(), news.clone())),
        );
        let (to, engines) = (connection.clone(), drivers.clone());
        kept.spawn(keeper().keep("errands", move || errands::run(to.clone(), engines.clone())));
        if let Some(settings) = leaf::Settings::of(&self.workplace.offer) {
            let desk = self.desk(settings);
            kept.spawn(keeper().keep("metrics", move || leaf::keep(desk.clone())));
        }
        match (node, machines) {
            (Some(node), _) => self.begin_for_a_node(node, &keeper, &mut kept),
            (None, Some(engine)) => {
                let (to, engine) = (connection.clone(), Arc::clone(engine));
                let site = remit.site().to_owned();
                kept.spawn(keeper().keep("machines", move || {
                    machines::keep(to.clone(), site.clone(), Arc::clone(&engine))
                }));
            }
            (None, None) => (),
        }
        kept
    }

    /// What tells of the one machine that this agent stands for.
    fn begin_for_a_node(&self, node: String, keeper: &impl Fn() -> Keeper, kept: &mut JoinSet<()>) {
        let Workplace { connection, folder, .. } = &self.workplace;
        let disk = folder.path().display().to_string();
        let subject = self.subject(node.clone());
        let (address, drained) = (self.address.clone(), self.drained.clone());
        let learnt = Learnt { address, drained, known: self.known.clone() };
        let to = connection.clone();
        kept.spawn(
            keeper().keep("load", move || load::keep(to.clone(), node.clone(), disk.clone())),
        );
        let (to, place, clock) = (connection.clone(), self.address.clone(), self.workplace.clock);
        let name = subject.node.clone();
        kept.spawn(keeper().keep("probing", move || {
            probing::keep(to.clone(), name.clone(), place.subscribe(), clock)
        }));
        let (to, inside) = (connection.clone(), self.inside.clone());
        kept.spawn(keeper().keep("node", move || {
            node::keep(to.clone(), subject.clone(), learnt.clone(), inside.subscribe())
        }));
    }

    fn subject(&self, node: String) -> node::Subject {
        let Workplace { remit, drivers, folder, offer, .. } = &self.workplace;
        node::Subject {
            site: remit.site().to_owned(),
            node,
            folder: Arc::clone(folder),
            drivers: drivers.clone(),
            offer: offer.clone(),
        }
    }

    fn desk(&self, settings: leaf::Settings) -> Desk {
        let Workplace { remit, connection, drivers, clock, folder, .. } = &self.workplace;
        let subject = match remit {
            Remit::Node { node, .. } => Some(self.subject(node.clone())),
            Remit::Site { .. } => None,
        };
        Desk {
            settings,
            remit: remit.clone(),
            connection: connection.clone(),
            clock: *clock,
            folder: Arc::clone(folder),
            drivers: drivers.clone(),
            subject,
            sink: self.sink.clone(),
            known: self.known.subscribe(),
            owners: self.owners.subscribe(),
        }
    }

    /// For those who measure: which App each instance is of.
    fn tell_owners(&self) {
        if self.owners.receiver_count() == 0 {
            return;
        }
        let owner = |(uid, assignment): (&String, &Assignment)| {
            let owners = assignment.metadata.owner_references.as_ref()?;
            let app = owners.iter().find(|owner| owner.kind == "App")?;
            Some((uid.clone(), app.uid.clone()))
        };
        let owners = self.converge.orders.assignments.iter().filter_map(owner).collect();
        self.owners.send_if_modified(|known| put(known, Arc::new(owners)));
    }

    /// The Secrets and ConfigMaps that what is assigned here needs.
    fn wanted(&self) -> Wishes {
        self.converge.orders.wishes(&self.workplace.remit)
    }

    fn hear(&mut self, first: News, news: &mut mpsc::Receiver<News>) {
        self.converge.orders.note(first);
        while let Ok(more) = news.try_recv() {
            self.converge.orders.note(more);
        }
    }

    /// Returns when to look again at the latest.
    async fn activate(&mut self) -> Monotonic {
        let clock = self.workplace.clock;
        let silent_after = self.workplace.offer.pace().silent_after();
        let heard = *self.workplace.heard.borrow();
        self.listen(heard, silent_after);
        let looked_at = clock.now();
        let word = self.silence.word(silent_after, looked_at);
        let address = self.address();
        let now = Now {
            clock: looked_at,
            time: clock::time_of_day(),
            unheard: word.unheard,
            cut_off_since: word.cut_off_since,
            heard_since_boot: heard.map(|heard| heard.since_boot),
            silent_after,
            own_address: address.as_deref().and_then(machine::own_address),
            address,
        };
        let report = self.converge.activate(&now).await;
        self.tell_strays(&report);
        if report.open_ports.is_some() {
            self.inside.send_if_modified(|known| put(&mut known.open_ports, report.open_ports));
        }
        self.save();
        self.write(report.writes, looked_at);
        let again = (report.deferred > 0).then_some(looked_at);
        let usual = Some(looked_at + LOOK_EVERY);
        let later = [self.telling.wake_at(), self.saves.wake_at(), word.silent_at];
        let wakes = [report.wake_at, again, usual].into_iter().chain(later);
        wakes.flatten().min().unwrap_or(looked_at)
    }

    /// Where this machine is reached, if what runs here runs on it.
    fn address(&self) -> Option<String> {
        match self.workplace.remit {
            Remit::Node { .. } => Some(self.address.borrow().clone()),
            Remit::Site { .. } => None,
        }
    }

    fn listen(&mut self, heard: Option<Heard>, silent_after: Duration) {
        let deadlines = match self.converge.has_deadlines() {
            true => Deadlines::Some,
            false => Deadlines::None,
        };
        let heard = heard.map(|heard| heard.clock);
        let authority = self.converge.orders.authority;
        match self.silence.listen(heard, silent_after, deadlines, authority) {
            Orders::Stand => (),
            Orders::ListAnew => {
                self.converge.orders.authority = Authority::Doubtful;
                self.list_again.send_modify(|count| *count = count.wrapping_add(1));
            }
        }
    }

    fn tell_strays(&mut self, report: &Report) {
        if report.strays.len() != self.strays {
            self.strays = report.strays.len();
            let strays: Vec<&str> =
                report.strays.iter().map(|stray| stray.assignment.as_str()).collect();
            tracing::warn!(?strays, "nobody is known to want these; they are kept");
        }
    }

    /// Begins as many writes as may be, one for each Assignment.
    fn write(&mut self, writes: Vec<Write>, now: Monotonic) {
        let uid = |write: &Write| write.assignment.metadata.uid.clone().unwrap_or_default();
        let uids: Vec<String> = writes.iter().map(uid).collect();
        let wanted: Vec<&str> = uids.iter().map(String::as_str).collect();
        let chosen: BTreeSet<usize> = self.telling.choose(&wanted, now).into_iter().collect();
        for (at, write) in writes.into_iter().enumerate().filter(|(at, _)| chosen.contains(at)) {
            let uid = uids[at].clone();
            let (connection, spoken) = (self.workplace.connection.clone(), self.spoken.clone());
            self.writes.spawn(async move {
                let written =
                    connection.ask(async |client| tell::write(client, &spoken, write).await);
                let written = written.await;
                (uid, written.unwrap_or_else(|| Err(Failed::Unheard("given up".into()))))
            });
        }
    }

    fn written(&mut self, written: Option<Written>) {
        let Some((uid, result)) = written else {
            // A task that panicked has not said which Assignment it was about.
            self.telling.lost_count();
            return;
        };
        let outcome = match result {
            Ok(Some(assignment)) => {
                self.converge.orders.note(News::Applied(Box::new(assignment)));
                Outcome::Written
            }
            Ok(None) => Outcome::LetGo,
            Err(Failed::Raced) => Outcome::Raced,
            Err(Failed::Unknown) => Outcome::Unknown,
            Err(Failed::Unheard(error)) => {
                tracing::debug!(error = with_causes(&*error), "cannot tell the server");
                Outcome::Unheard
            }
        };
        self.telling.ended(uid, outcome, self.workplace.clock.now());
    }

    /// One write to the disk at a time; the next has all that changed meanwhile.
    fn save(&mut self) {
        if !self.saving.is_empty() || !self.saves.may_begin(self.workplace.clock.now()) {
            return;
        }
        if let Some(draft) = self.cache.changed(&self.converge.orders, &self.workplace.remit) {
            self.saving.spawn(async move {
                let written = tokio::task::spawn_blocking(move || draft.write()).await;
                written.unwrap_or(Ok(()))
            });
        }
    }

    fn saved(&mut self, saved: Option<Result<(), Error>>) {
        match saved {
            Some(Ok(())) => {
                self.saves.succeeded();
                self.tell_disk(Disk::Well);
            }
            Some(Err(error)) => {
                self.saves.failed(self.workplace.clock.now());
                let why = with_causes(&error);
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

    /// Somebody who drains the node means what the server has forgotten, too.
    fn see_to_the_forgotten(&mut self) {
        if *self.drained.borrow() {
            self.converge.orders.end_forgotten();
        }
        let forgotten = self.converge.orders.forgotten_here(&self.workplace.remit);
        self.inside.send_if_modified(|known| put(&mut known.forgotten, forgotten));
    }
}

/// Whether it was another before.
fn put<T: PartialEq>(known: &mut T, value: T) -> bool {
    let is_news = *known != value;
    *known = value;
    is_news
}

#[cfg(test)]
mod tests;
