//! The addresses of a kind and what can be done at each, in a form that both versions of OpenAPI
//! are written from.

use serde_json::Value;

use super::{component_name, group_version_kind, meta};
use crate::{
    discovery::Review,
    kinds::{Kind, Scope},
};

/// One method at one address.
pub(super) struct Route {
    pub(super) path: String,
    pub(super) method: &'static str,
    /// The verb in the words of `x-kubernetes-action`.
    pub(super) action: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) group_version_kind: Value,
    pub(super) body: Option<Body>,
    /// The component that a success answers with.
    pub(super) answer: String,
    pub(super) success: u16,
    query: &'static [&'static [Parameter]],
}

pub(super) struct Body {
    pub(super) component: String,
    pub(super) types: &'static [&'static str],
    pub(super) required: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) type_: &'static str,
    pub(super) description: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    Path,
    Query,
}

impl Place {
    pub(super) fn word(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }

    pub(super) fn required(self) -> bool {
        match self {
            Place::Path => true,
            Place::Query => false,
        }
    }
}

const fn query(name: &'static str, type_: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, type_, description }
}

const PATH: &[Parameter] = &[
    Parameter {
        name: "namespace",
        place: Place::Path,
        type_: "string",
        description: "The namespace of the object.",
    },
    Parameter {
        name: "name",
        place: Place::Path,
        type_: "string",
        description: "The name of the object.",
    },
];

/// The whole point of these being in the document: kubectl looks for `fieldValidation` and
/// `dryRun` on the patch of a kind before it trusts the server with them.
const WRITE: &[Parameter] = &[
    query("dryRun", "string", "With All, everything is checked and nothing is changed."),
    query("fieldManager", "string", "Who is to own the fields that are set."),
    query(
        "fieldValidation",
        "string",
        "Unknown and repeated fields: Strict refuses, Warn warns, Ignore drops them.",
    ),
];

const FORCE: &[Parameter] =
    &[query("force", "boolean", "For apply: takes fields over from other managers.")];

const SELECT: &[Parameter] = &[
    query("labelSelector", "string", "Only objects whose labels pass."),
    query("fieldSelector", "string", "Only objects whose fields pass."),
    query("limit", "integer", "At most so many objects; the rest by continue."),
    query("continue", "string", "Goes on where the last part of the list ended."),
    query("resourceVersion", "string", "The revision to read at, or to watch from."),
    query("resourceVersionMatch", "string", "Exact, or NotOlderThan the revision."),
    query("timeoutSeconds", "integer", "Ends the call after so long."),
];

const WATCH: &[Parameter] = &[
    query("watch", "boolean", "Sends changes as they happen instead of a list."),
    query("allowWatchBookmarks", "boolean", "Sends the current revision from time to time."),
    query("sendInitialEvents", "boolean", "Begins a watch with the objects that are there."),
];

const DELETE: &[Parameter] = &[
    query("dryRun", "string", "With All, everything is checked and nothing is changed."),
    query("gracePeriodSeconds", "integer", "How long the object may take to go."),
    query(
        "propagationPolicy",
        "string",
        "What becomes of what the object owns: Orphan, Background or Foreground.",
    ),
];

const READ: &[Parameter] = &[query("resourceVersion", "string", "The revision to read at.")];

const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml"];
/// Strategic merge patch is not among them: kubectl would compute it from this document.
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];

/// One row for each thing that can be done; the components are filled in for each kind.
struct Verb {
    method: &'static str,
    action: &'static str,
    /// What the operation is called and does, before the name of the kind.
    id: &'static str,
    sentence: &'static str,
    query: &'static [&'static [Parameter]],
    sends: Sends,
    answer: Answer,
    success: u16,
}

#[derive(Clone, Copy)]
enum Sends {
    Nothing,
    Object,
    Patch,
    DeleteOptions,
}

#[derive(Clone, Copy)]
enum Answer {
    Object,
    List,
    Status,
}

const LIST_VERB: Verb = Verb {
    method: "get",
    action: "list",
    id: "list",
    sentence: "Lists or watches",
    query: &[SELECT, WATCH],
    sends: Sends::Nothing,
    answer: Answer::List,
    success: 200,
};

const CREATE_VERB: Verb = Verb {
    method: "post",
    action: "post",
    id: "create",
    sentence: "Creates",
    query: &[WRITE],
    sends: Sends::Object,
    answer: Answer::Object,
    success: 201,
};

const DELETE_COLLECTION_VERB: Verb = Verb {
    method: "delete",
    action: "deletecollection",
    id: "deleteCollection",
    sentence: "Deletes all that are selected of",
    query: &[SELECT, DELETE],
    sends: Sends::DeleteOptions,
    answer: Answer::Status,
    success: 200,
};

const DELETE_VERB: Verb = Verb {
    method: "delete",
    action: "delete",
    id: "delete",
    sentence: "Deletes",
    query: &[DELETE],
    sends: Sends::DeleteOptions,
    answer: Answer::Status,
    success: 200,
};

const ITEM_VERBS: &[Verb] = &[
    Verb {
        method: "get",
        action: "get",
        id: "read",
        sentence: "Reads",
        query: &[READ],
        sends: Sends::Nothing,
        answer: Answer::Object,
        success: 200,
    },
    Verb {
        method: "put",
        action: "put",
        id: "replace",
        sentence: "Replaces",
        query: &[WRITE],
        sends: Sends::Object,
        answer: Answer::Object,
        success: 200,
    },
    Verb {
        method: "patch",
        action: "patch",
        id: "patch",
        sentence: "Changes a part of",
        query: &[WRITE, FORCE],
        sends: Sends::Patch,
        answer: Answer::Object,
        success: 200,
    },
];

/// Everything that can be done with objects of the kind.
pub(super) fn of_kind(kind: &Kind) -> Vec<Route> {
    let root = root(&kind.group, &kind.version);
    let own = Target::of(kind);
    let everywhere = format!("{root}/{}", kind.plural);
    let collection = match kind.scope {
        Scope::Cluster => everywhere.clone(),
        Scope::Namespaced => format!("{root}/namespaces/{{namespace}}/{}", kind.plural),
    };
    let item = format!("{collection}/{{name}}");
    let mut routes = Vec::new();
    for verb in [&LIST_VERB, &CREATE_VERB, &DELETE_COLLECTION_VERB] {
        routes.push(own.route(verb, &collection, ""));
    }
    if kind.scope == Scope::Namespaced {
        routes.push(own.route(&LIST_VERB, &everywhere, "ForAllNamespaces"));
    }
    for verb in ITEM_VERBS.iter().chain([&DELETE_VERB]) {
        routes.push(own.route(verb, &item, ""));
    }
    if kind.status_subresource {
        let path = format!("{item}/status");
        routes.extend(ITEM_VERBS.iter().map(|verb| own.route(verb, &path, "Status")));
    }
    if kind.scale.is_some() {
        let path = format!("{item}/scale");
        let scale = Target {
            object: meta::SCALE.to_owned(),
            group_version_kind: group_version_kind("autoscaling", "v1", "Scale"),
            ..own
        };
        routes.extend(ITEM_VERBS.iter().map(|verb| scale.route(verb, &path, "Scale")));
    }
    routes
}

/// A review is posted, and that is all.
pub(super) fn of_review(review: &Review) -> Route {
    let object = component_name(review.group, review.version, review.kind);
    let target = Target {
        name: review.kind.to_owned(),
        id: identifier(review.group, review.version, review.kind),
        list: object.clone(),
        object,
        group_version_kind: group_version_kind(review.group, review.version, review.kind),
    };
    let path = format!("{}/{}", root(review.group, review.version), review.plural);
    target.route(&CREATE_VERB, &path, "")
}

/// What the verbs are done to.
struct Target {
    name: String,
    /// For operation ids, which are unique in a document.
    id: String,
    object: String,
    list: String,
    group_version_kind: Value,
}

impl Target {
    fn of(kind: &Kind) -> Target {
        Target {
            name: kind.kind.clone(),
            id: identifier(&kind.group, &kind.version, &kind.kind),
            object: component_name(&kind.group, &kind.version, &kind.kind),
            list: component_name(&kind.group, &kind.version, &kind.list_kind),
            group_version_kind: group_version_kind(&kind.group, &kind.version, &kind.kind),
        }
    }

    fn route(&self, verb: &Verb, path: &str, suffix: &str) -> Route {
        let body = match verb.sends {
            Sends::Nothing => None,
            Sends::Object => Some((self.object.as_str(), OBJECT_TYPES, true)),
            Sends::Patch => Some((meta::PATCH, PATCH_TYPES, true)),
            Sends::DeleteOptions => Some((meta::DELETE_OPTIONS, OBJECT_TYPES, false)),
        };
        let answer = match verb.answer {
            Answer::Object => &self.object,
            Answer::List => &self.list,
            Answer::Status => meta::STATUS,
        };
        let part = match suffix {
            "Status" => "the status of ",
            "Scale" => "the scale of ",
            _ => "",
        };
        Route {
            path: path.to_owned(),
            method: verb.method,
            action: verb.action,
            id: format!("{}{}{suffix}", verb.id, self.id),
            description: format!("{} {part}objects of the kind {}.", verb.sentence, self.name),
            group_version_kind: self.group_version_kind.clone(),
            body: body.map(|(component, types, required)| Body {
                component: component.to_owned(),
                types,
                required,
            }),
            answer: answer.to_owned(),
            success: verb.success,
            query: verb.query,
        }
    }
}

impl Route {
    /// Those that stand in the path, then those of the query.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let in_path = PATH.iter().filter(|parameter| {
            self.path.split('/').any(|part| {
                part.strip_prefix('{').and_then(|part| part.strip_suffix('}'))
                    == Some(parameter.name)
            })
        });
        in_path.chain(self.query.iter().copied().flatten())
    }
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// `TomboloDevV1alpha1App`.
fn identifier(group: &str, version: &str, kind: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    let mut identifier = String::new();
    for part in group.split(['.', '-']).chain([version, kind]) {
        let mut characters = part.chars();
        identifier.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        identifier.push_str(characters.as_str());
    }
    identifier
}
