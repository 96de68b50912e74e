//! The head of an object of another project: its metadata, as far as an App has the same. Called by
//! the readers of CodecoApps and LowLevelOrchestrations.

use std::collections::BTreeMap;

use tombolo_model::{App, AppSpec};

use crate::fields::{Field, Fields, Rest};
use crate::path::shown;
use crate::reader::Reader;

/// What an App takes over from the object it is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) name: Option<Field<'a>>,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

const KNOWN: &[&str] = &["name", "namespace", "labels", "annotations"];
const BY_THE_SERVER: &str = "the server that holds the object keeps it";
const OF_THE_OBJECT: &str = "it is about the object that was read, not about the App";
const DROPPED: &[(&str, &str)] = &[
    ("creationTimestamp", BY_THE_SERVER),
    ("deletionGracePeriodSeconds", BY_THE_SERVER),
    ("deletionTimestamp", BY_THE_SERVER),
    ("finalizers", OF_THE_OBJECT),
    ("generateName", OF_THE_OBJECT),
    ("generation", BY_THE_SERVER),
    ("managedFields", BY_THE_SERVER),
    ("ownerReferences", OF_THE_OBJECT),
    ("resourceVersion", BY_THE_SERVER),
    ("selfLink", BY_THE_SERVER),
    ("uid", BY_THE_SERVER),
];
/// What kubectl keeps for itself: the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl<'a> Head<'a> {
    /// Takes `apiVersion`, `kind`, `metadata` and `status`. Who forces a format may have a text that
    /// says another kind, so that is only warned about.
    pub(crate) fn take(
        fields: &mut Fields<'a>,
        version: &str,
        kind: &str,
        reader: &mut Reader<'_>,
    ) -> Head<'a> {
        let mut head = Head::default();
        for (key, expected) in [("apiVersion", version), ("kind", kind)] {
            check(fields, key, expected, reader);
        }
        if let Some(status) = fields.take("status") {
            status.dropped(reader, "a status is written by whoever runs the application");
        }
        let Some(metadata) = fields.take("metadata") else { return head };
        let Some(mut metadata) = metadata.fields(reader) else { return head };
        head.name = metadata.take("name");
        head.namespace = metadata.take("namespace").and_then(|field| field.text(reader));
        head.labels = texts(metadata.take("labels"), reader);
        head.annotations = texts(metadata.take("annotations"), reader);
        metadata.finish(Rest::Foreign { known: KNOWN, dropped: DROPPED }, reader);
        head
    }

    /// About how many bytes each App takes over.
    pub(crate) fn bytes(&self) -> usize {
        let pairs = self.labels.iter().chain(&self.annotations);
        pairs.map(|(key, value)| key.len() + value.len()).sum()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Adds an annotation of the App.
    pub(crate) fn annotate(&mut self, key: &str, value: impl Into<String>) {
        self.annotations.insert(key.to_owned(), value.into());
    }

    /// An App under this head.
    pub(crate) fn app(&self, name: &str, spec: AppSpec) -> App {
        let mut app = App::new(name, spec);
        app.metadata.namespace.clone_from(&self.namespace);
        app.metadata.labels = (!self.labels.is_empty()).then(|| self.labels.clone());
        app.metadata.annotations = (!self.annotations.is_empty()).then(|| self.annotations.clone());
        app
    }
}

fn check(fields: &mut Fields<'_>, key: &str, expected: &str, reader: &mut Reader<'_>) {
    let Some(field) = fields.take(key) else {
        fields.warn_missing(reader, key, expected);
        return;
    };
    if field.node.as_str() != Some(expected) {
        let found = shown(field.node.raw().unwrap_or_default());
        let message = format!("{found} is read as {expected}");
        field
            .warning(reader, "unknown-version", message)
            .expecting(expected)
            .mended_by(field.node.span, expected);
    }
}

fn texts(field: Option<Field<'_>>, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let fields = field.and_then(|field| field.fields(reader));
    let mut texts = BTreeMap::new();
    for (key, field) in fields.into_iter().flat_map(Fields::entries) {
        if key.text == LAST_APPLIED {
            field.dropped(reader, "it is a copy of the object for kubectl");
        } else if let Some(text) = field.text(reader) {
            texts.insert(key.text.clone(), text);
        }
    }
    texts
}
