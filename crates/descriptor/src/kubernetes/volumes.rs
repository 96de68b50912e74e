//! The volumes of a pod, and how each mount of them becomes a volume or files of a container.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::quantity::Bytes;
use tombolo_model::run::{Container, File, KeyRef, Volume};

use crate::beyond::{Beyond, foreign};
use crate::fields::Field;
use crate::kubernetes::pod::Objects;
use crate::reader::Reader;

/// The volumes of one pod by name.
#[derive(Debug)]
pub(super) struct Volumes<'a> {
    by_name: BTreeMap<String, Declared<'a>>,
    mounted: RefCell<BTreeSet<String>>,
}

#[derive(Debug)]
struct Declared<'a> {
    field: Option<Field<'a>>,
    source: Source,
    /// Parts of the source that a container does without.
    minor: Vec<(Field<'a>, &'static str)>,
}

#[derive(Debug)]
enum Source {
    /// Lives as long as the pod.
    Empty {
        size: Option<Bytes>,
    },
    Claim {
        name: String,
        size: Option<Bytes>,
        read_only: bool,
    },
    Host {
        path: String,
    },
    /// Key and path of every file.
    Files {
        kind: Kind,
        name: String,
        files: Vec<(String, String)>,
    },
    /// Nothing that a container has.
    Other {
        why: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Secret,
}

/// Sources that a container cannot mount.
const OTHER: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "downwardAPI",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

impl<'a> Volumes<'a> {
    pub(super) fn read(
        list: Option<Field<'a>>,
        claims: &BTreeMap<String, Option<Bytes>>,
        objects: &Objects,
        reader: &mut Reader<'_>,
    ) -> Volumes<'a> {
        let mut by_name = BTreeMap::new();
        for (name, size) in claims {
            let source = Source::Claim { name: name.clone(), size: *size, read_only: false };
            by_name.insert(name.clone(), Declared { field: None, source, minor: Vec::new() });
        }
        for field in list.map(|list| list.list(reader)).unwrap_or_default() {
            if let Some((name, declared)) = declared(&field, objects, reader) {
                by_name.insert(name, declared);
            }
        }
        Volumes { by_name, mounted: RefCell::default() }
    }

    /// One entry of `volumeMounts`.
    pub(super) fn mount(
        &self,
        field: &Field<'a>,
        container: &mut Container,
        beyond: &mut Beyond<'a>,
        reader: &mut Reader<'_>,
    ) {
        let Some(mut fields) = field.fields(reader) else { return };
        let name = fields.need("name", reader, "a name");
        let path =
            fields.need("mountPath", reader, "an absolute path").and_then(|path| path.text(reader));
        let sub_path = fields.take("subPath");
        let read_only = fields.take("readOnly").and_then(|flag| flag.boolean(reader));
        for key in ["mountPropagation", "recursiveReadOnly"] {
            if let Some(field) = fields.take(key) {
                beyond.minor(&field, "mounts are private to the container");
            }
        }
        if let Some(field) = fields.take("subPathExpr") {
            beyond.major(&field, "a container does not know its pod");
        }
        fields.finish(
            foreign(&[
                "mountPath",
                "mountPropagation",
                "name",
                "readOnly",
                "recursiveReadOnly",
                "subPath",
                "subPathExpr",
            ]),
            reader,
        );
        let (Some(name_field), Some(path)) = (name, path) else { return };
        let Some(name) = name_field.text(reader) else { return };
        let Some(declared) = self.by_name.get(&name) else {
            let known = self.by_name.keys().map(String::as_str);
            let message = format!("the pod has no volume named {name:?}");
            let diagnostic = name_field.error(reader, "volume-unknown", message);
            diagnostic.mended_by_nearest(name_field.node.span, &name, known);
            return;
        };
        if self.mounted.borrow_mut().insert(name) {
            for (field, why) in &declared.minor {
                beyond.minor(field, why);
            }
        }
        let mount = Mount { field, path, sub_path, read_only: read_only.unwrap_or(false) };
        mount.put(declared, container, beyond, reader);
    }

    /// A volume that no container mounts changes nothing.
    pub(super) fn tell_unused(&self, beyond: &mut Beyond<'a>) {
        for (name, declared) in &self.by_name {
            if let Some(field) = &declared.field
                && !self.mounted.borrow().contains(name)
            {
                beyond.minor(field, "no container mounts it");
            }
        }
    }
}

struct Mount<'m, 'a> {
    field: &'m Field<'a>,
    path: String,
    sub_path: Option<Field<'a>>,
    read_only: bool,
}

impl<'a> Mount<'_, 'a> {
    fn put(
        self,
        declared: &Declared<'a>,
        container: &mut Container,
        beyond: &mut Beyond<'a>,
        reader: &mut Reader<'_>,
    ) {
        if let Source::Files { kind, name, files } = &declared.source {
            self.put_files(*kind, name, files, container, beyond, reader);
            return;
        }
        if let Some(sub_path) = &self.sub_path {
            beyond.major(sub_path, "a container mounts whole volumes");
        }
        let mut volume = Volume { path: self.path, read_only: self.read_only, ..Volume::default() };
        match &declared.source {
            Source::Empty { size } => volume.size = *size,
            Source::Claim { name, size, read_only } => {
                volume.name = Some(name.clone());
                volume.size = *size;
                volume.read_only |= read_only;
            }
            Source::Host { path } => volume.host_path = Some(path.clone()),
            Source::Other { why } => {
                beyond.major(self.field, why);
                if let Some(field) = &declared.field {
                    beyond.minor(field, why);
                }
                return;
            }
            Source::Files { .. } => return,
        }
        container.volumes.push(volume);
    }

    fn put_files(
        &self,
        kind: Kind,
        name: &str,
        files: &[(String, String)],
        container: &mut Container,
        beyond: &mut Beyond<'a>,
        reader: &mut Reader<'_>,
    ) {
        let sub_path = self.sub_path.as_ref().and_then(|path| path.text(reader));
        let mut found = false;
        for (key, path) in files {
            let place = match &sub_path {
                Some(only) if only == path => self.path.clone(),
                Some(_) => continue,
                None => format!("{}/{path}", self.path.trim_end_matches('/')),
            };
            found = true;
            if !self.field.may_copy(place.len() + name.len() + key.len(), reader) {
                return;
            }
            let reference = Some(KeyRef { name: name.to_owned(), key: key.clone() });
            let (secret, config) = match kind {
                Kind::Secret => (reference, None),
                Kind::Config => (None, reference),
            };
            container.files.push(File { path: place, content: None, secret, config });
        }
        if let (Some(field), false) = (&self.sub_path, found) {
            beyond.major(field, "the volume is known to have no such file");
        }
    }
}

/// One entry of `volumes`.
fn declared<'a>(
    field: &Field<'a>,
    objects: &Objects,
    reader: &mut Reader<'_>,
) -> Option<(String, Declared<'a>)> {
    let mut fields = field.fields(reader)?;
    let name = fields.need("name", reader, "a name")?.text(reader)?;
    let mut minor = Vec::new();
    let mut source = Source::Other { why: "the volume does not say where it comes from" };
    if let Some(empty) = fields.take_even_null("emptyDir") {
        source = read_empty(&empty, &mut minor, reader);
    }
    if let Some(claim) = fields.take("persistentVolumeClaim") {
        source = read_claim(&claim, objects, reader)?;
    }
    if let Some(host) = fields.take("hostPath") {
        let mut inner = host.fields(reader)?;
        let path = inner.need("path", reader, "a path")?.text(reader)?;
        if let Some(kind) = inner.take("type") {
            minor.push((kind, "a missing folder of the host is made by its engine"));
        }
        inner.finish(foreign(&["path", "type"]), reader);
        source = Source::Host { path };
    }
    for (key, kind) in [("configMap", Kind::Config), ("secret", Kind::Secret)] {
        if let Some(files) = fields.take(key) {
            source = read_files(&files, kind, objects, &mut minor, reader)?;
        }
    }
    for key in OTHER {
        if fields.take(key).is_some() {
            source = Source::Other { why: "a container cannot mount this kind of volume" };
        }
    }
    let taken = ["configMap", "emptyDir", "hostPath", "name", "persistentVolumeClaim", "secret"];
    let known: Vec<&str> = taken.into_iter().chain(OTHER.iter().copied()).collect();
    fields.finish(foreign(&known), reader);
    Some((name, Declared { field: Some(field.clone()), source, minor }))
}

fn read_empty<'a>(
    field: &Field<'a>,
    minor: &mut Vec<(Field<'a>, &'static str)>,
    reader: &mut Reader<'_>,
) -> Source {
    let mut size = None;
    if !field.node.is_null()
        && let Some(mut fields) = field.fields(reader)
    {
        size = fields.take("sizeLimit").and_then(|size| size.bytes(reader));
        if let Some(medium) = fields.take("medium") {
            minor.push((medium, "the volume is on disk"));
        }
        fields.finish(foreign(&["medium", "sizeLimit"]), reader);
    }
    Source::Empty { size }
}

fn read_claim(field: &Field, objects: &Objects, reader: &mut Reader<'_>) -> Option<Source> {
    let mut fields = field.fields(reader)?;
    let name =
        fields.need("claimName", reader, "the name of a PersistentVolumeClaim")?.text(reader)?;
    let read_only = fields.take("readOnly").and_then(|flag| flag.boolean(reader));
    fields.finish(foreign(&["claimName", "readOnly"]), reader);
    let size = objects.claims.get(&name).copied().flatten();
    Some(Source::Claim { name, size, read_only: read_only.unwrap_or(false) })
}

fn read_files<'a>(
    field: &Field<'a>,
    kind: Kind,
    objects: &Objects,
    minor: &mut Vec<(Field<'a>, &'static str)>,
    reader: &mut Reader<'_>,
) -> Option<Source> {
    let name_key = match kind {
        Kind::Config => "name",
        Kind::Secret => "secretName",
    };
    let mut fields = field.fields(reader)?;
    let name = fields.need(name_key, reader, "a name")?.text(reader)?;
    for key in ["defaultMode", "optional"] {
        if let Some(field) = fields.take(key) {
            minor.push((field, "files are there, and readable by their user"));
        }
    }
    let items = fields.take("items");
    fields.finish(foreign(&["defaultMode", "items", name_key, "optional"]), reader);
    if let Some(items) = items {
        let mut files = Vec::new();
        for item in items.list(reader) {
            let mut entry = item.fields(reader)?;
            let key = entry.need("key", reader, "a key")?.text(reader)?;
            let path = entry.need("path", reader, "a path")?.text(reader)?;
            if let Some(mode) = entry.take("mode") {
                minor.push((mode, "files are readable by their user"));
            }
            entry.finish(foreign(&["key", "mode", "path"]), reader);
            files.push((key, path));
        }
        return Some(Source::Files { kind, name, files });
    }
    let all: Option<Vec<String>> = match kind {
        Kind::Config => objects.configs.get(&name).map(|all| all.keys().cloned().collect()),
        Kind::Secret => objects.secrets.get(&name).map(|all| all.iter().cloned().collect()),
    };
    Some(match all {
        Some(keys) if field.may_copy(keys.iter().map(|key| 2 * key.len()).sum(), reader) => {
            let files = keys.into_iter().map(|key| (key.clone(), key)).collect();
            Source::Files { kind, name, files }
        }
        Some(_) => Source::Files { kind, name, files: Vec::new() },
        None => Source::Other { why: "what the ConfigMap or Secret holds is not in this file" },
    })
}
