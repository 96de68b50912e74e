//! The objects of a selection, gathered in bounded steps: a small collection at once, a large one on
//! threads of its own, where the steps of different clients take turns. Called by lists, by watches that
//! begin with what is there, and by deletecollection.

use std::sync::Arc;

use tombolo_store::{At, Object, Store};

use crate::encode::ListMeta;
use crate::kinds::Kind;
use crate::select::{Continue, Selection};
use crate::server::Call;
use crate::status::Failure;
use crate::traffic::Place;
use crate::write::store_failure;

/// What a step may look at.
#[derive(Clone, Copy, Debug)]
struct Pace {
    objects: usize,
    /// Of objects that must be parsed to know whether they are meant.
    bytes: usize,
}

/// Takes well under a millisecond, so that it is done where the request is.
const LIGHT: Pace = Pace { objects: 512, bytes: 64 * 1024 };
/// Takes some ten milliseconds: so long do the steps of others wait.
const HEAVY: Pace = Pace { objects: 4096, bytes: 1024 * 1024 };

/// A look through the objects of a selection.
#[derive(Debug)]
pub(crate) struct Gather {
    store: Store,
    kind: Arc<Kind>,
    selection: Arc<Selection>,
    at: At,
    after: Option<String>,
    limit: usize,
    chosen: Vec<Arc<Object>>,
    looked_at_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Gathered {
    pub meta: ListMeta,
    pub objects: Vec<Arc<Object>>,
    /// Of the objects.
    pub bytes: usize,
    /// Of everything that had to be looked at for them.
    pub looked_at_bytes: usize,
}

impl Gather {
    pub(crate) fn all(call: &Call, selection: Arc<Selection>) -> Gather {
        Gather {
            store: call.api.store.clone(),
            kind: call.served.kind.clone(),
            selection,
            at: At::Latest,
            after: None,
            limit: usize::MAX,
            chosen: Vec::new(),
            looked_at_bytes: 0,
        }
    }

    /// Only a page: of which state, after which key, how many.
    pub(crate) fn page(self, at: At, after: Option<String>, limit: usize) -> Gather {
        Gather { at, after, limit, ..self }
    }

    pub(crate) async fn run(mut self, call: &Call) -> Result<Gathered, Failure> {
        if let Some(meta) = self.step(LIGHT)? {
            return Ok(self.gathered(meta));
        }
        let flow = call.flow();
        call.place.iter().for_each(Place::leave);
        let meta = loop {
            let turn = call.api.traffic.turn(&flow).await?;
            let step = move || {
                let done = self.step(HEAVY);
                (self, done)
            };
            let (rest, done) = turn.work(step).await?;
            self = rest;
            if let Some(meta) = done? {
                break meta;
            }
        };
        if let Some(place) = &call.place {
            place.take_again().await?;
        }
        Ok(self.gathered(meta))
    }

    fn gathered(self, meta: ListMeta) -> Gathered {
        let bytes = self.chosen.iter().map(|object| object.bytes.len()).sum();
        let looked_at_bytes = self.looked_at_bytes.max(bytes);
        Gathered { meta, objects: self.chosen, bytes, looked_at_bytes }
    }

    /// Looks at some objects; what the list says about itself if those were the last.
    fn step(&mut self, pace: Pace) -> Result<Option<ListMeta>, Failure> {
        let failed = |error| store_failure(&self.kind, "", &error);
        let prefix = &self.selection.prefix;
        let page = self
            .store
            .scan(prefix, self.at, self.after.as_deref(), pace.objects)
            .map_err(failed)?;
        let revision = page.revision;
        // Further pages are of the same state.
        self.at = At::Revision(revision);
        let mut looked_at_bytes = 0;
        let mut objects = page.objects.into_iter().peekable();
        while let Some(object) = objects.next() {
            let is_last = objects.peek().is_none() && !page.more;
            if !self.selection.takes_all() {
                looked_at_bytes += object.bytes.len();
            }
            let key = object.key.to_string();
            if self.selection.matches(&object) {
                self.chosen.push(object);
                if self.chosen.len() == self.limit && !is_last {
                    self.looked_at_bytes += looked_at_bytes;
                    return self.cut(revision, key).map(Some);
                }
            }
            self.after = Some(key);
            if looked_at_bytes > pace.bytes && !is_last {
                self.looked_at_bytes += looked_at_bytes;
                return Ok(None);
            }
        }
        self.looked_at_bytes += looked_at_bytes;
        Ok((!page.more).then(|| ListMeta { revision, ..ListMeta::default() }))
    }

    /// A list that ends before all is told, and where the next one goes on.
    fn cut(&self, revision: u64, after: String) -> Result<ListMeta, Failure> {
        let remaining = match self.selection.takes_all() {
            false => None,
            true => {
                let rest = self.store.list(&self.selection.prefix, self.at, Some(&after), 0);
                Some(rest.map_err(|error| store_failure(&self.kind, "", &error))?.remaining)
            }
        };
        let token = Continue { revision, after };
        Ok(ListMeta { revision, continue_: Some(token.encode()), remaining })
    }
}
