//! What the TOSCA formats share: the service template with its inputs, node templates and their
//! requirements. Filters of nodes are in `filter.rs`, places on the map in `geolocation.rs`. Start
//! with [`Template::read`].

pub(crate) mod filter;
pub(crate) mod geolocation;
pub(crate) mod host;
mod inputs;

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::suggest;
use tombolo_yaml::{Key, Node};

use crate::fields::{Field, Fields, Rest};
use crate::path::shown;
use crate::reader::Reader;

pub(crate) use inputs::Inputs;

/// As many components as an App has; of a text with more the rest is not read.
pub(crate) const COMPONENTS_MAX: usize = 512;

/// Of one node template; what each asks for is held against what the others do.
const REQUIREMENTS_MAX: usize = 256;

const VERSIONS: &[&str] = &[
    "tosca_simple_yaml_1_0",
    "tosca_simple_yaml_1_1",
    "tosca_simple_yaml_1_2",
    "tosca_simple_yaml_1_3",
];
const TYPES: &str = "the types of the format are built in";
const TEMPLATE_DROPPED: &[(&str, &str)] = &[
    ("artifact_types", TYPES),
    ("capability_types", TYPES),
    ("data_types", TYPES),
    ("dsl_definitions", "what refers to it has been filled in"),
    ("group_types", TYPES),
    ("imports", TYPES),
    ("interface_types", TYPES),
    ("namespace", "it is about the names of types, which are built in"),
    ("node_types", TYPES),
    ("policy_types", TYPES),
    ("relationship_types", TYPES),
    ("repositories", "images name their registry themselves"),
];
const TOPOLOGY_DROPPED: &[(&str, &str)] = &[
    ("description", "the description of the whole is used"),
    ("groups", "there are no groups of components"),
    ("outputs", "addresses are in the App's status"),
    ("policies", "no policy of this template is known"),
    ("relationship_templates", "relationships are taken from the requirements"),
    ("substitution_mappings", "an App is no part of another template"),
    ("workflows", "the steps of deploying are the placer's"),
];
/// Keys of a node template that an App has no place for.
pub(crate) const NODE_DROPPED: &[(&str, &str)] = &[
    ("artifacts", "the image is named by the component"),
    ("attributes", "attributes are known once it runs"),
    ("capabilities", "what it offers is said by its ports"),
    ("copy", "templates are not copied"),
    ("description", "components have no description"),
    ("directives", "there is nothing else that could be substituted"),
    ("interfaces", "the steps of starting and stopping are the engine's"),
    ("metadata", "components have no metadata of their own"),
];

/// A service template.
#[derive(Debug)]
pub(crate) struct Template<'a> {
    pub(crate) name: Option<Field<'a>>,
    pub(crate) author: Option<Field<'a>>,
    pub(crate) version: Option<Field<'a>>,
    pub(crate) description: Option<String>,
    pub(crate) inputs: Inputs<'a>,
    pub(crate) nodes: Vec<NodeTemplate<'a>>,
    /// Places in `nodes` by name: texts with thousands of nodes that refer to each other are read
    /// too.
    places: BTreeMap<&'a str, usize>,
    /// The whole, for errors about it.
    pub(crate) field: Field<'a>,
}

/// A node template: its name, its type and the rest.
#[derive(Clone, Debug)]
pub(crate) struct NodeTemplate<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) kind_field: Field<'a>,
    pub(crate) field: Field<'a>,
}

/// What a node template asks for: another one, and how.
#[derive(Clone, Debug)]
pub(crate) struct Requirement<'a> {
    pub(crate) name: &'a Key,
    pub(crate) field: Field<'a>,
    /// The name of the other node template.
    pub(crate) node: Option<Field<'a>>,
    pub(crate) relationship: Option<Field<'a>>,
    pub(crate) filter: Option<Field<'a>>,
}

impl<'a> Template<'a> {
    /// The first template of a text; the other documents are told.
    pub(crate) fn read(documents: &'a [Node], reader: &mut Reader<'_>) -> Option<Template<'a>> {
        let (first, others) = documents.split_first()?;
        for other in others {
            let field = Field::document(other);
            field.dropped(reader, "only the first template of a text is read");
        }
        let field = Field::document(first);
        let mut fields = field.fields(reader)?;
        check_version(&mut fields, reader);
        let description = fields.take("description").and_then(|field| field.text(reader));
        let (mut name, mut author, mut version) = (None, None, None);
        if let Some(mut metadata) = fields.take("metadata").and_then(|field| field.fields(reader)) {
            name = metadata.take("template_name");
            author = metadata.take("template_author");
            version = metadata.take("template_version");
            metadata
                .finish(Rest::Dropped("an App keeps a template's name and author only"), reader);
        }
        let topology = fields.need("topology_template", reader, "the nodes of the application");
        let known = &["description", "metadata", "topology_template"];
        fields.finish(Rest::Foreign { known, dropped: TEMPLATE_DROPPED }, reader);
        let mut topology = topology?.fields(reader)?;
        let inputs = Inputs::read(topology.take("inputs"), reader);
        let nodes = match topology.need("node_templates", reader, "the nodes, each under its name")
        {
            Some(nodes) => node_templates(&nodes, reader),
            None => Vec::new(),
        };
        let known = &["inputs", "node_templates"];
        topology.finish(Rest::Foreign { known, dropped: TOPOLOGY_DROPPED }, reader);
        let names = nodes.iter().map(|node| node.key.text.as_str());
        let places = names.zip(0..).collect();
        Some(Template { name, author, version, description, inputs, nodes, places, field })
    }

    pub(crate) fn node(&self, name: &str) -> Option<&NodeTemplate<'a>> {
        self.places.get(name).and_then(|place| self.nodes.get(*place))
    }

    /// The node template that a value names, if it is one of `kinds`.
    pub(crate) fn refer(
        &self,
        field: &Field<'a>,
        kinds: &[&str],
        reader: &mut Reader<'_>,
    ) -> Option<&NodeTemplate<'a>> {
        let name = field.str(reader)?;
        let message = match self.node(name) {
            Some(node) if kinds.contains(&node.kind) => return Some(node),
            Some(other) => format!("{} is a {}", shown(name), other.kind),
            None => format!("no node template is named {}", shown(name)),
        };
        let span = field.node.span;
        let diagnostic = field.error(reader, "unknown-reference", message);
        diagnostic.expecting(format!("the name of a {}", suggest::one_of(kinds.iter().copied())));
        let fitting = self.nodes.iter().filter(|node| kinds.contains(&node.kind));
        diagnostic.mended_by_nearest(span, name, fitting.map(|node| node.key.text.as_str()));
        None
    }
}

/// Published templates leave it out, so it is only warned about.
fn check_version(fields: &mut Fields<'_>, reader: &mut Reader<'_>) {
    let key = "tosca_definitions_version";
    let Some(field) = fields.take(key) else {
        fields.warn_missing(reader, key, "tosca_simple_yaml_1_3");
        return;
    };
    if !field.node.as_str().is_some_and(|version| VERSIONS.contains(&version)) {
        let found = shown(field.node.raw().unwrap_or_default());
        let message = format!("{found} is read like tosca_simple_yaml_1_3");
        let expected = suggest::one_of(VERSIONS.iter().copied());
        field.warning(reader, "unknown-version", message).expecting(expected);
    }
}

fn node_templates<'a>(field: &Field<'a>, reader: &mut Reader<'_>) -> Vec<NodeTemplate<'a>> {
    let entries = field.fields(reader).map(Fields::entries).unwrap_or_default();
    let mut nodes = Vec::new();
    for (key, field) in entries {
        let Some(fields) = field.fields(reader) else { continue };
        let Some((kind_key, kind_node)) = field.node.entry("type") else {
            fields.missing(reader, "type", "the type of the node");
            // Without a type there is nobody who would look at the rest.
            fields.finish(Rest::Dropped("the node has no type"), reader);
            continue;
        };
        let kind_field =
            Field { node: kind_node, path: field.path.key("type"), key_span: kind_key.span };
        let _ = fields.entries();
        let Some(kind) = kind_field.str(reader) else { continue };
        nodes.push(NodeTemplate { key, kind, kind_field, field });
    }
    nodes
}

impl<'a> NodeTemplate<'a> {
    /// The keys of the template, without its type.
    pub(crate) fn fields(&self, reader: &mut Reader<'_>) -> Option<Fields<'a>> {
        let mut fields = self.field.fields(reader)?;
        let _ = fields.take("type");
        Some(fields)
    }

    /// The error that nobody knows this type.
    pub(crate) fn unknown_kind(&self, kinds: &[&str], reader: &mut Reader<'_>) {
        let span = self.kind_field.node.span;
        let message = format!("{} is not a type of this format", shown(self.kind));
        let diagnostic = self.kind_field.error(reader, "unknown-type", message);
        diagnostic.expecting(suggest::one_of(kinds.iter().copied()));
        diagnostic.mended_by_nearest(span, self.kind, kinds.iter().copied());
    }
}

/// The requirements of a node template: `- host: other` or `- host: {node: other}`.
pub(crate) fn requirements<'a>(
    field: Option<Field<'a>>,
    reader: &mut Reader<'_>,
) -> Vec<Requirement<'a>> {
    let items = field.map(|field| field.at_most(field.list(reader), REQUIREMENTS_MAX, reader));
    let items = items.unwrap_or_default();
    let mut requirements = Vec::new();
    for item in items {
        let entries = item.fields(reader).map(Fields::entries).unwrap_or_default();
        for (name, field) in entries {
            let mut requirement =
                Requirement { name, field, node: None, relationship: None, filter: None };
            if requirement.field.node.is_scalar() {
                requirement.node = Some(requirement.field.clone());
            } else if let Some(mut fields) = requirement.field.fields(reader) {
                requirement.node = fields.take("node");
                requirement.relationship = fields.take("relationship");
                requirement.filter = fields.take("node_filter");
                let known = &["node", "relationship", "node_filter"];
                let dropped = &[
                    ("capability", "the node that is named is taken as a whole"),
                    ("occurrences", "a requirement holds once"),
                ];
                fields.finish(Rest::Foreign { known, dropped }, reader);
            }
            requirements.push(requirement);
        }
    }
    requirements
}

/// The names that the node templates of some kinds ask for in their requirements.
pub(crate) fn required<'a>(template: &Template<'a>, by: &[&str]) -> BTreeSet<&'a str> {
    let askers = template.nodes.iter().filter(|node| by.contains(&node.kind));
    let lists = askers.filter_map(|node| node.field.node.get("requirements")?.as_list());
    let entries = lists.flatten().filter_map(Node::as_map).flatten();
    let targets = entries.filter_map(|(_, value)| match value.is_scalar() {
        true => value.as_str(),
        false => value.get("node")?.as_str(),
    });
    targets.collect()
}

/// The mappings of a value that is a mapping, or a list of them.
pub(crate) fn blocks<'a>(field: &Field<'a>, reader: &mut Reader<'_>) -> Vec<Fields<'a>> {
    match field.node.as_list() {
        Some(_) => {
            let items = field.list(reader);
            items.iter().filter_map(|item| item.fields(reader)).collect()
        }
        None => field.fields(reader).into_iter().collect(),
    }
}
