//! What a workload says beyond a plain container, gathered while it is read. At its end it is known
//! whether a container will do, and what to tell about the rest. Used by the readers of compose
//! files and of pods, wherever these come from.

use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;

/// Whether the workload is also kept in its own words, as `manifests` or as `compose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Kept in any case, so that nothing is lost where its own engine runs it.
    Always,
    /// Kept only when a container cannot say it.
    WhenNeeded,
    /// Not kept: whatever a container cannot say is lost.
    Never,
}

/// What a container cannot say.
#[derive(Debug)]
pub(crate) struct Beyond<'a> {
    keep: Keep,
    /// The sites that can run it in its own words, for the notes: `Kubernetes`.
    engine: &'static str,
    /// The program runs without it.
    minor: Vec<(Field<'a>, &'static str)>,
    /// The program would not be the same without it.
    major: Vec<(Field<'a>, &'static str)>,
}

impl<'a> Beyond<'a> {
    pub(crate) fn new(keep: Keep, engine: &'static str) -> Beyond<'a> {
        Beyond { keep, engine, minor: Vec::new(), major: Vec::new() }
    }

    /// The program runs without it; `why` says what a container has in its place.
    pub(crate) fn minor(&mut self, field: &Field<'a>, why: &'static str) {
        self.minor.push((field.clone(), why));
    }

    /// The program would not be the same without it.
    pub(crate) fn major(&mut self, field: &Field<'a>, why: &'static str) {
        self.major.push((field.clone(), why));
    }

    /// A wish about the place that the placer does not know. The engine may still heed it, but the
    /// choice of site and node does not, so it is told in any case.
    pub(crate) fn placing(&self, field: &Field<'a>, why: &str, reader: &mut Reader<'_>) {
        match self.keep {
            Keep::Always => {
                let message = format!(
                    "holds only within a {} site; placement does not know it: {why}",
                    self.engine
                );
                field.changed(reader, &message);
            }
            Keep::WhenNeeded | Keep::Never => field.dropped(reader, why),
        }
    }

    /// Tells what is lost and answers whether a plain container will do.
    pub(crate) fn tell(self, reader: &mut Reader<'_>) -> bool {
        let container_does = self.major.is_empty() || self.keep == Keep::Never;
        let minor_is_lost = match self.keep {
            Keep::Always => false,
            Keep::WhenNeeded => container_does,
            Keep::Never => true,
        };
        if minor_is_lost {
            for (field, why) in &self.minor {
                field.dropped(reader, why);
            }
        }
        for (field, why) in &self.major {
            match self.keep {
                Keep::Never => field.dropped(reader, why),
                Keep::Always | Keep::WhenNeeded => {
                    let message = format!("runs only on {} sites: {why}", self.engine);
                    field.changed(reader, &message);
                }
            }
        }
        container_does
    }
}

/// The keys of somebody else's format, all of which were taken: any other is unknown to it.
pub(crate) fn foreign<'r>(known: &'r [&'r str]) -> Rest<'r> {
    Rest::Foreign { known, dropped: &[] }
}

impl<'a> Field<'a> {
    /// What stands for a whole object in a note: its name, or its kind, or the object.
    pub(crate) fn head(&self) -> Field<'a> {
        let name = self.look(&["metadata", "name"]);
        name.or_else(|| self.look(&["kind"])).unwrap_or_else(|| self.clone())
    }

    /// The entries of a mapping whose keys are data.
    pub(crate) fn pairs(&self, reader: &mut Reader<'_>) -> Vec<(String, Field<'a>)> {
        let entries = self.fields(reader).map(|fields| fields.entries()).unwrap_or_default();
        entries.into_iter().map(|(key, field)| (key.text.clone(), field)).collect()
    }
}

impl<'a> Fields<'a> {
    /// The entries of a list that need not be there.
    pub(crate) fn take_list(&mut self, key: &str, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
        self.take(key).map(|list| list.list(reader)).unwrap_or_default()
    }
}
