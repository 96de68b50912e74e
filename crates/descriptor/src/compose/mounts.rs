//! What services of one file share: volumes, secrets and configs, and how a service mounts them.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::run::{Container, File, Volume};
use tombolo_yaml::Node;

use crate::Folder;
use crate::beyond::{Beyond, foreign};
use crate::compose::contents::{self, CONTENT_BYTES_MAX, Content};
use crate::compose::interpolate::{self, Variables};
use crate::compose::{extensions, words};
use crate::fields::{Field, Fields};
use crate::reader::Reader;

/// As many as a container may have.
const FILES_MAX: usize = 64;
/// One config can be mounted many times; this bounds what becomes of it.
const CONTENT_TOTAL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The top-level volumes, secrets and configs.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    /// The name of the project.
    app: String,
    variables: Variables,
    volumes: BTreeMap<String, Field<'a>>,
    /// What a secret or a config of that key is.
    secrets: BTreeMap<String, (Field<'a>, Option<Content>)>,
    configs: BTreeMap<String, (Field<'a>, Option<Content>)>,
    used: BTreeSet<(&'static str, String)>,
    /// How much content the files of all services may still have together.
    content_bytes_left: usize,
}

/// What is told about a volume that is more than a name.
const VOLUME_DROPPED: &[(&str, &str)] = &[
    ("driver", "volumes are folders of their node"),
    ("driver_opts", "volumes are folders of their node"),
    ("external", "the volume is made where it is missing"),
    ("labels", "labels are for other tools"),
    ("name", "a volume is known by its key"),
];

impl<'a> Shared<'a> {
    pub(super) fn read(
        fields: &mut Fields<'a>,
        app: &str,
        variables: Variables,
        reader: &mut Reader<'_>,
    ) -> Shared<'a> {
        let mut shared = Shared {
            app: app.to_owned(),
            variables,
            volumes: BTreeMap::new(),
            secrets: BTreeMap::new(),
            configs: BTreeMap::new(),
            used: BTreeSet::new(),
            content_bytes_left: CONTENT_TOTAL_BYTES_MAX,
        };
        for (key, field) in fields.take("volumes").map(|all| all.pairs(reader)).unwrap_or_default()
        {
            if !field.node.is_null()
                && let Some(mut inner) = field.fields(reader)
            {
                extensions(&mut inner, reader);
                inner.finish(
                    crate::fields::Rest::Foreign { known: &[], dropped: VOLUME_DROPPED },
                    reader,
                );
            }
            shared.volumes.insert(key, field);
        }
        for kind in ["secrets", "configs"] {
            let entries = fields.take(kind).map(|all| all.pairs(reader)).unwrap_or_default();
            for (key, field) in entries {
                let content = contents::read(kind, app, &key, &field, &shared.variables, reader);
                let into =
                    if kind == "secrets" { &mut shared.secrets } else { &mut shared.configs };
                into.insert(key, (field, content));
            }
        }
        shared
    }

    pub(super) fn app(&self) -> &str {
        &self.app
    }

    /// The variables of a file that a service names.
    pub(super) fn env_file(
        &self,
        text: &str,
        field: &Field<'_>,
        reader: &mut Reader<'_>,
    ) -> Variables {
        interpolate::env_file(text, &self.variables, field, reader)
    }

    /// A variable that a service passes on from the surrounding shell.
    pub(super) fn variable(
        &self,
        name: &str,
        field: &Field<'_>,
        reader: &mut Reader<'_>,
    ) -> Option<String> {
        let value = self.variables.get(name).cloned();
        match value {
            Some(_) => field.changed(reader, "the value is the one of .env"),
            None => {
                field.dropped(reader, "the variable would come from the shell of whoever starts it")
            }
        }
        value
    }

    /// A volume as it was declared, for a service that is kept in its own words.
    pub(super) fn volume(&self, key: &str) -> Option<&Node> {
        self.volumes.get(key).map(|field| field.node)
    }

    pub(super) fn tell_unused(&self, reader: &mut Reader<'_>) {
        let is_used = |kind: &'static str, key: &String| self.used.contains(&(kind, key.clone()));
        for (key, field) in &self.volumes {
            if !is_used("volumes", key) {
                field.dropped(reader, "no service that runs mounts this volume");
            }
        }
        let of_files = [("secrets", &self.secrets), ("configs", &self.configs)];
        for (kind, all) in of_files {
            for (key, (field, _)) in all {
                if !is_used(kind, key) {
                    field.dropped(reader, "no service that runs mounts this");
                }
            }
        }
    }

    /// The mounts of one service.
    pub(super) fn mount<'s>(
        &mut self,
        fields: &mut Fields<'s>,
        container: &mut Container,
        beyond: &mut Beyond<'s>,
        reader: &mut Reader<'_>,
    ) {
        for mount in fields.take_list("volumes", reader) {
            match mount.node.as_map() {
                Some(_) => self.long(&mount, container, beyond, reader),
                None => self.short(&mount, container, beyond, reader),
            };
        }
        if let Some(tmpfs) = fields.take("tmpfs") {
            for one in tmpfs.list_or_one(reader) {
                let Some(text) = one.str(reader) else { continue };
                let path = text.split(':').next().unwrap_or_default().to_owned();
                container.volumes.push(Volume { path, ..Volume::default() });
                beyond.minor(&one, "the folder is on disk, not in memory");
            }
        }
        for kind in ["secrets", "configs"] {
            for entry in fields.take_list(kind, reader) {
                if let Some(file) = self.file(kind, &entry, beyond, reader) {
                    container.files.push(file);
                }
            }
        }
    }

    /// `[SOURCE:]TARGET[:MODE]`
    fn short<'s>(
        &mut self,
        field: &Field<'s>,
        container: &mut Container,
        beyond: &mut Beyond<'s>,
        reader: &mut Reader<'_>,
    ) -> Option<()> {
        let text = field.str(reader)?;
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, mode) = match parts.as_slice() {
            [target] => (None, *target, ""),
            [source, target] => (Some(*source), *target, ""),
            [source, target, mode] => (Some(*source), *target, *mode),
            _ => {
                let message = format!("{text:?} is not a volume");
                field
                    .error(reader, "invalid-volume", message)
                    .expecting("SOURCE:TARGET or SOURCE:TARGET:ro");
                return None;
            }
        };
        let read_only = mode.split(',').any(|word| word == "ro");
        if mode.split(',').any(|word| !matches!(word, "" | "ro" | "rw")) {
            beyond.minor(field, "a volume is read and written, or read only");
        }
        let mut volume = Volume { path: target.to_owned(), read_only, ..Volume::default() };
        match source {
            None => container.volumes.push(volume),
            Some(path) if path.starts_with(['/', '.', '~']) => {
                bind(path, volume, field, container, beyond, reader);
            }
            Some(name) => {
                volume.name = Some(self.volume_name(name, field, reader)?);
                container.volumes.push(volume);
            }
        }
        Some(())
    }

    fn long<'s>(
        &mut self,
        field: &Field<'s>,
        container: &mut Container,
        beyond: &mut Beyond<'s>,
        reader: &mut Reader<'_>,
    ) -> Option<()> {
        let mut fields = field.fields(reader)?;
        let kind = fields.need("type", reader, "volume, bind or tmpfs")?;
        let words =
            ["volume", "bind", "tmpfs", "npipe", "cluster", "image"].map(|word| (word, word));
        let word = kind.one_of(reader, &words)?;
        let target = fields.need("target", reader, "the path in the container")?.text(reader)?;
        let source = fields.take("source");
        let read_only = fields.take("read_only").and_then(|flag| flag.boolean(reader));
        for key in ["bind", "consistency", "image", "tmpfs", "volume"] {
            if let Some(field) = fields.take(key) {
                beyond.minor(&field, "a volume is mounted as a whole, as its engine does it");
            }
        }
        extensions(&mut fields, reader);
        let known = [
            "bind",
            "consistency",
            "image",
            "read_only",
            "source",
            "target",
            "tmpfs",
            "type",
            "volume",
        ];
        fields.finish(foreign(&known), reader);
        let read_only = read_only.unwrap_or(false);
        let mut volume = Volume { path: target, read_only, ..Volume::default() };
        match (word, source) {
            ("volume", Some(source)) => {
                volume.name = Some(self.volume_name(source.str(reader)?, &source, reader)?);
                container.volumes.push(volume);
            }
            ("volume", None) => container.volumes.push(volume),
            ("bind", Some(source)) => {
                bind(source.str(reader)?, volume, &source, container, beyond, reader);
            }
            ("bind", None) => {
                field.error(reader, "missing-field", "a bind needs its \"source\"");
            }
            ("tmpfs", _) => {
                beyond.minor(&kind, "the folder is on disk, not in memory");
                container.volumes.push(volume);
            }
            (_, _) => beyond.major(&kind, "a container cannot mount this kind of volume"),
        }
        Some(())
    }

    fn volume_name(
        &mut self,
        key: &str,
        field: &Field<'_>,
        reader: &mut Reader<'_>,
    ) -> Option<String> {
        if !self.volumes.contains_key(key) {
            let message = format!("there is no volume named {key:?} at the top of the file");
            let diagnostic = field.error(reader, "volume-unknown", message);
            let meant = diagnostic.nearest(key, self.volumes.keys().map(String::as_str));
            diagnostic.expecting(match meant {
                Some(meant) => format!("\"volumes\" with {key:?} in it; there is {meant:?}"),
                None => {
                    format!("\"volumes\" with {key:?} in it, or a path that begins with ./ or /")
                }
            });
            return None;
        }
        self.used.insert(("volumes", key.to_owned()));
        reader.label(key, &field.path, field.node.span)
    }

    /// An entry of `secrets` or `configs` of a service.
    fn file<'s>(
        &mut self,
        kind: &'static str,
        field: &Field<'s>,
        beyond: &mut Beyond<'s>,
        reader: &mut Reader<'_>,
    ) -> Option<File> {
        let mut target = None;
        let key = match field.node.as_map() {
            None => field.text(reader)?,
            Some(_) => {
                let mut fields = field.fields(reader)?;
                let source = fields.need("source", reader, "the key at the top of the file")?;
                target = fields.take("target").and_then(|target| target.text(reader));
                for key in ["gid", "mode", "uid"] {
                    if let Some(field) = fields.take(key) {
                        beyond.minor(&field, "files are readable by their user");
                    }
                }
                extensions(&mut fields, reader);
                fields.finish(foreign(&["gid", "mode", "source", "target", "uid"]), reader);
                source.text(reader)?
            }
        };
        let all = if kind == "secrets" { &self.secrets } else { &self.configs };
        let Some((_, content)) = all.get(&key) else {
            let message = format!("there is no {key:?} among the {kind} at the top of the file");
            let diagnostic = field.error(reader, "file-unknown", message);
            if let Some(meant) = diagnostic.nearest(&key, all.keys().map(String::as_str)) {
                diagnostic.expecting(format!("{meant:?}"));
            }
            return None;
        };
        self.used.insert((kind, key.clone()));
        let path = match (kind, target) {
            (_, Some(target)) if target.starts_with('/') => target,
            ("secrets", target) => format!("/run/secrets/{}", target.unwrap_or(key)),
            (_, target) => format!("/{}", target.unwrap_or(key)),
        };
        let mut file = File { path, ..File::default() };
        match content.clone()? {
            Content::Text(text) => match self.content_bytes_left.checked_sub(text.len()) {
                Some(left) => {
                    self.content_bytes_left = left;
                    file.content = Some(text);
                }
                None => {
                    field.error(reader, "too-large", "the files of the services are too large");
                    return None;
                }
            },
            Content::Entry(entry) if kind == "secrets" => file.secret = Some(entry),
            Content::Entry(entry) => file.config = Some(entry),
        }
        Some(file)
    }
}

/// A folder of the host; a file that the caller has becomes part of the App.
fn bind<'s>(
    path: &str,
    mut volume: Volume,
    field: &Field<'s>,
    container: &mut Container,
    beyond: &mut Beyond<'s>,
    reader: &mut Reader<'_>,
) {
    if path.starts_with('/') {
        volume.host_path = Some(path.to_owned());
        container.volumes.push(volume);
        return;
    }
    match reader.file(path).filter(|text| text.len() <= CONTENT_BYTES_MAX) {
        Some(text) => {
            field.changed(reader, "the file is part of the App");
            container.files.push(File {
                path: volume.path,
                content: Some(text),
                ..File::default()
            });
        }
        None => bind_folder(path, volume, field, container, beyond, reader),
    }
}

/// A folder beside the text: its files become part of the App, if they are few and small.
fn bind_folder<'s>(
    path: &str,
    volume: Volume,
    field: &Field<'s>,
    container: &mut Container,
    beyond: &mut Beyond<'s>,
    reader: &mut Reader<'_>,
) {
    let target = volume.path.trim_end_matches('/').to_owned();
    let room = FILES_MAX.saturating_sub(container.files.len());
    let why = match reader.folder_at(path) {
        Some(Folder::Texts(texts)) if texts.len() <= room => {
            let size = texts.values().map(String::len).sum();
            if !field.may_copy(size, reader) {
                return;
            }
            let count = texts.len();
            field.changed(
                reader,
                &match count {
                    1 => "its file is part of the App".to_owned(),
                    count => format!("its {count} files are part of the App"),
                },
            );
            container.files.extend(texts.into_iter().map(|(name, content)| File {
                path: format!("{target}/{name}"),
                content: Some(content),
                ..File::default()
            }));
            return;
        }
        Some(Folder::Texts(_)) => format!("a container has {FILES_MAX} files at most"),
        Some(Folder::Unfit(why)) => why,
        None => {
            field.dropped(reader, "the folder is beside the compose file, not on the nodes");
            beyond.minor(field, "the folder is empty");
            container.volumes.push(volume);
            return;
        }
    };
    field
        .warning(
            reader,
            "folder-left-behind",
            format!("the folder {path:?} stays behind, and {target} will be empty: {why}"),
        )
        .expecting(
            "its files in the image, in a volume that is filled otherwise, or fewer of them",
        );
    container.volumes.push(volume);
}

/// A size in the spelling of compose files.
pub(super) fn size(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<tombolo_model::Bytes> {
    field.quantity_as(reader, words::size)
}
