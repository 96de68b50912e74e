//! The manifests of a descriptor, wherever they stand: in documents beside the header (A), in a list
//! with a name for each (B), or in a list as they are (C). Components refer to them by name.

use std::collections::BTreeMap;

use tombolo_yaml::Node;

use super::unknown_name;
use crate::fields::{Field, Rest};
use crate::path::shown;
use crate::reader::Reader;

/// All manifests of one descriptor.
pub(super) struct Manifests<'a> {
    list: Vec<Manifest<'a>>,
    by_name: BTreeMap<&'a str, usize>,
    /// For those whose name in the list is another than their own.
    by_object: BTreeMap<&'a str, usize>,
    /// Some could not be read, which was told; that they are not found need not be told as well.
    is_partial: bool,
}

/// One Kubernetes object or compose project.
#[derive(Clone, Debug)]
pub(super) struct Manifest<'a> {
    /// The name in the list, or else the object's own.
    pub(super) name: &'a str,
    /// `metadata.name`, when it is a Kubernetes object.
    pub(super) object_name: Option<&'a str>,
    pub(super) content: Field<'a>,
    pub(super) engine: Engine,
    is_used: bool,
}

/// For what a manifest is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Kubernetes,
    Docker,
}

impl<'a> Manifests<'a> {
    pub(super) fn read(
        listed: Option<Field<'a>>,
        beside: &[Field<'a>],
        reader: &mut Reader<'_>,
    ) -> Manifests<'a> {
        let is_partial = listed.as_ref().is_some_and(|field| field.node.as_list().is_none());
        let mut manifests = Manifests {
            list: Vec::new(),
            by_name: BTreeMap::new(),
            by_object: BTreeMap::new(),
            is_partial,
        };
        for field in listed.map(|field| field.list(reader)).unwrap_or_default() {
            manifests.add(&field, reader);
        }
        for document in beside {
            manifests.add(document, reader);
        }
        manifests
    }

    /// Adds an entry: `{name, manifest}`, or the object itself.
    pub(super) fn add(&mut self, entry: &Field<'a>, reader: &mut Reader<'_>) -> Option<usize> {
        let read = match is_object(entry.node) {
            true => bare(entry, reader),
            false => named(entry, reader),
        };
        let Some(manifest) = read else {
            self.is_partial = true;
            return None;
        };
        if let Some(twin) = self.by_name.get(manifest.name) {
            let first = self.list[*twin].content.node.span;
            let message = format!("two manifests are named {}", shown(manifest.name));
            entry.error(reader, "duplicate", message).see(first, "first here");
            return None;
        }
        let index = self.list.len();
        self.by_name.insert(manifest.name, index);
        if let Some(name) = manifest.object_name {
            self.by_object.entry(name).or_insert(index);
        }
        self.list.push(manifest);
        Some(index)
    }

    /// The manifest that a component names, marked as used.
    pub(super) fn find(&mut self, name: &str) -> Option<&Manifest<'a>> {
        let index = self.by_name.get(name).or_else(|| self.by_object.get(name))?;
        self.at(*index)
    }

    pub(super) fn at(&mut self, index: usize) -> Option<&Manifest<'a>> {
        let manifest = self.list.get_mut(index)?;
        manifest.is_used = true;
        Some(manifest)
    }

    /// Says that a name was not found. The manifest that was probably meant is not unused.
    pub(super) fn tell_unknown(&mut self, field: &Field<'_>, reader: &mut Reader<'_>) {
        let names = self.list.iter().map(|manifest| manifest.name);
        let meant = unknown_name(field, reader, "unknown-manifest", "manifest", names);
        if let Some(index) = meant.and_then(|meant| self.by_name.get(meant)) {
            self.list[*index].is_used = true;
        }
    }

    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(super) fn tell_unused(&self, reader: &mut Reader<'_>) {
        // Where a list of names was lost to a missing blank, all of them look unused.
        if reader.has_told("missing-blank") {
            return;
        }
        for manifest in self.list.iter().filter(|manifest| !manifest.is_used) {
            let message = format!("no component names the manifest {}", shown(manifest.name));
            let span = manifest.content.key_span;
            reader
                .warning("unused-manifest", &manifest.content.path, span, message)
                .expecting("its name among the manifests of a component");
            manifest.content.dropped(reader, "no component names this manifest");
        }
    }
}

/// A Kubernetes object has a kind, a compose project has services.
pub(super) fn is_object(node: &Node) -> bool {
    node.get("kind").is_some() || node.get("apiVersion").is_some() || node.get("services").is_some()
}

fn engine_of(node: &Node) -> Engine {
    match node.get("services").is_some() && node.get("kind").is_none() {
        true => Engine::Docker,
        false => Engine::Kubernetes,
    }
}

fn object_name(node: &Node) -> Option<&str> {
    node.at(&["metadata", "name"]).and_then(Node::raw)
}

fn bare<'a>(entry: &Field<'a>, reader: &mut Reader<'_>) -> Option<Manifest<'a>> {
    let own = object_name(entry.node).or_else(|| entry.node.get("name").and_then(Node::raw));
    let Some(name) = own else {
        entry
            .error(
                reader,
                "missing-field",
                "a manifest without a name cannot belong to a component",
            )
            .expecting("metadata.name, or name in a compose project");
        return None;
    };
    Some(Manifest {
        name,
        object_name: object_name(entry.node),
        content: entry.clone(),
        engine: engine_of(entry.node),
        is_used: false,
    })
}

fn named<'a>(entry: &Field<'a>, reader: &mut Reader<'_>) -> Option<Manifest<'a>> {
    let mut fields = entry.fields(reader)?;
    let name = fields.take("name");
    let content = fields.need("manifest", reader, "a Kubernetes object or a compose project");
    let stated = fields.take("type");
    let known = &["name", "manifest", "type"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
    let content = content?;
    if content.node.as_map().is_none() {
        content.wrong_kind(reader, "a Kubernetes object or a compose project");
        return None;
    }
    let engine = engine_of(content.node);
    if let Some(stated) = stated {
        check_type(&stated, engine, reader);
    }
    let name = match name {
        Some(field) => field.str(reader)?,
        None => match object_name(content.node) {
            Some(name) => name,
            None => {
                let message = "a manifest without a name cannot belong to a component";
                entry.error(reader, "missing-field", message).expecting("name");
                return None;
            }
        },
    };
    let object_name = object_name(content.node);
    Some(Manifest { name, object_name, content, engine, is_used: false })
}

fn check_type(stated: &Field<'_>, engine: Engine, reader: &mut Reader<'_>) {
    let words = [
        ("kubernetes", Some(Engine::Kubernetes)),
        ("docker", Some(Engine::Docker)),
        ("docker-compose", Some(Engine::Docker)),
        ("compose", Some(Engine::Docker)),
        ("manifest", None),
    ];
    let Some(Some(said)) = stated.one_of(reader, &words) else { return };
    if said != engine {
        wrong_engine(stated, engine, reader);
        return;
    }
    stated.changed(reader, "the manifest itself shows what it is for");
}

/// The error that a manifest is for the other engine.
pub(super) fn wrong_engine(at: &Field<'_>, engine: Engine, reader: &mut Reader<'_>) {
    let (is, word) = match engine {
        Engine::Kubernetes => ("a Kubernetes object", "kubernetes"),
        Engine::Docker => ("a compose project", "docker"),
    };
    at.error(reader, "wrong-type", format!("the manifest is {is}"))
        .expecting(format!("type {word}, or multiple where a component has both"));
}
