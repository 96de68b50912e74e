//! Which kinds there are, and how a word that somebody typed becomes one of them.
//!
//! The kinds that every Tombolo server serves are known without asking, so that the common
//! command costs one request. For all others the server is asked once, by aggregated discovery.
//! Everything here is pure; `connection` does the asking.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// One served kind, as far as the shell needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
}

/// Unreserved characters of RFC 3986 stay as they are.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// For one path segment or one query value.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

impl Resource {
    /// The path of the whole collection, or of the part of it in one namespace.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let base = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{base}/namespaces/{}/{}", encode(namespace), self.plural),
            None => format!("{base}/{}", self.plural),
        }
    }

    pub(crate) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(Some(namespace)), encode(name))
    }

    pub(crate) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `app/web`: what is printed, and what may be typed. A kind that is not known everywhere
    /// carries its group, because two groups may well have a kind of one name.
    pub(crate) fn label(&self, name: &str) -> String {
        match is_built_in(self) {
            true => format!("{}/{name}", self.singular),
            false => format!("{}.{}/{name}", self.singular, self.group),
        }
    }

    fn answers_to(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let (name, group) = match word.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (word.as_str(), None),
        };
        let named = self.plural == name
            || self.singular == name
            || self.kind.to_lowercase() == name
            || self.short_names.iter().any(|short| short == name);
        let grouped = match group {
            None => true,
            Some(group) => {
                group == self.group || group == format!("{}.{}", self.version, self.group)
            }
        };
        named && grouped
    }

    fn is(&self, api_version: &str, kind: &str) -> bool {
        self.kind == kind && self.api_version() == api_version
    }
}

/// A row of what every server has.
struct BuiltIn {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
}

/// Our own kinds come first: on Kubernetes there is another `Node`, and `tombolo get nodes`
/// means ours.
const BUILT_IN: &[BuiltIn] = &[
    ours("App", "apps", &[], true),
    ours("Assignment", "assignments", &["asg"], true),
    ours("Site", "sites", &[], false),
    ours("Node", "nodes", &["tno"], false),
    ours("Link", "links", &["ln"], false),
    ours("Probing", "probings", &["pb"], false),
    ours("Policy", "policies", &["pol"], true),
    ours("JoinToken", "jointokens", &["jt"], false),
    core("Namespace", "namespaces", &["ns"], false),
    core("Event", "events", &["ev"], true),
    core("Secret", "secrets", &[], true),
    core("ConfigMap", "configmaps", &["cm"], true),
    BuiltIn {
        group: "coordination.k8s.io",
        version: "v1",
        kind: "Lease",
        plural: "leases",
        short_names: &[],
        namespaced: true,
    },
    BuiltIn {
        group: "apiextensions.k8s.io",
        version: "v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short_names: &["crd", "crds"],
        namespaced: false,
    },
];

const fn ours(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
) -> BuiltIn {
    BuiltIn { group: "tombolo.dev", version: "v1alpha1", kind, plural, short_names, namespaced }
}

const fn core(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
) -> BuiltIn {
    BuiltIn { group: "", version: "v1", kind, plural, short_names, namespaced }
}

impl From<&BuiltIn> for Resource {
    fn from(row: &BuiltIn) -> Resource {
        Resource {
            group: row.group.to_owned(),
            version: row.version.to_owned(),
            kind: row.kind.to_owned(),
            plural: row.plural.to_owned(),
            singular: row.kind.to_lowercase(),
            short_names: row.short_names.iter().map(|name| (*name).to_owned()).collect(),
            namespaced: row.namespaced,
        }
    }
}

fn is_built_in(resource: &Resource) -> bool {
    BUILT_IN.iter().any(|row| row.group == resource.group && row.kind == resource.kind)
}

/// The kinds that need no server to be known.
pub(crate) fn built_in() -> Vec<Resource> {
    BUILT_IN.iter().map(Resource::from).collect()
}

/// A kind that the code itself names, such as `Event`.
pub(crate) fn known(kind: &str) -> Resource {
    let row = BUILT_IN.iter().find(|row| row.kind == kind);
    Resource::from(row.expect("only kinds of the table are asked for by name"))
}

/// By a word as typed: plural, singular, kind or short name, with or without the group.
pub(crate) fn by_word<'a>(resources: &'a [Resource], word: &str) -> Option<&'a Resource> {
    resources.iter().find(|resource| resource.answers_to(word))
}

/// By what stands in a file.
pub(crate) fn by_kind<'a>(
    resources: &'a [Resource],
    api_version: &str,
    kind: &str,
) -> Option<&'a Resource> {
    resources.iter().find(|resource| resource.is(api_version, kind))
}

/// The nearest word that would have been right, if one is near.
pub(crate) fn suggestion<'a>(resources: &'a [Resource], word: &str) -> Option<&'a str> {
    let words = resources.iter().flat_map(|resource| [&resource.plural, &resource.singular]);
    tombolo_model::suggest::nearest(word, words.map(String::as_str))
}

/// Reads one aggregated discovery document (`APIGroupDiscoveryList`). Subresources are left
/// out, and so is what is malformed: it only means a kind less to choose from.
pub(crate) fn from_discovery(document: &Value) -> Vec<Resource> {
    let mut resources = Vec::new();
    for group in array(&document["items"]) {
        let group_name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in array(&group["versions"]) {
            let version_name = version["version"].as_str().unwrap_or_default();
            for resource in array(&version["resources"]) {
                resources.extend(discovered(group_name, version_name, resource));
            }
        }
    }
    resources
}

fn discovered(group: &str, version: &str, resource: &Value) -> Option<Resource> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = text(&resource["responseKind"]["kind"])?;
    let singular = text(&resource["singularResource"]).filter(|name| !name.is_empty());
    Some(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: text(&resource["resource"])?,
        singular: singular.unwrap_or_else(|| kind.to_lowercase()),
        kind,
        short_names: array(&resource["shortNames"]).iter().filter_map(text).collect(),
        namespaced: resource["scope"] == "Namespaced",
    })
}

/// What a CustomResourceDefinition will serve once it is applied, so that one run can apply
/// both it and its objects.
pub(crate) fn from_definition(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = |version: &Value| Resource {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        kind: text(&names["kind"]),
        plural: text(&names["plural"]),
        singular: match names["singular"].as_str() {
            Some(singular) => singular.to_owned(),
            None => text(&names["kind"]).to_lowercase(),
        },
        short_names: Vec::new(),
        namespaced: spec["scope"] == "Namespaced",
    };
    array(&spec["versions"])
        .iter()
        .filter(|version| version["served"] == true)
        .map(resource)
        .collect()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(word: &str, expected: &str) {
        let resources = built_in();
        let found = match by_word(&resources, word) {
            Some(resource) => resource.collection(Some("here")),
            None => match suggestion(&resources, word) {
                Some(suggestion) => format!("did you mean {suggestion}?"),
                None => "nothing".to_owned(),
            },
        };
        assert_eq!(found, expected, "{word}");
    }

    #[test]
    fn a_kind_answers_to_all_its_names() {
        let apps = "/apis/tombolo.dev/v1alpha1/namespaces/here/apps";
        for word in ["app", "apps", "App", "apps.tombolo.dev", "apps.v1alpha1.tombolo.dev"] {
            check(word, apps);
        }
        check("nodes", "/apis/tombolo.dev/v1alpha1/nodes");
        check("ns", "/api/v1/namespaces");
        check("cm", "/api/v1/namespaces/here/configmaps");
        check("lease", "/apis/coordination.k8s.io/v1/namespaces/here/leases");
    }

    #[test]
    fn a_slip_gets_a_suggestion_and_nonsense_does_not() {
        check("appps", "did you mean apps?");
        check("nods", "did you mean nodes?");
        check("polices", "did you mean policies?");
        check("apps.example.org", "nothing");
        check("xyzzy", "nothing");
    }

    #[test]
    fn names_cannot_leave_their_path_segment() {
        let apps = known("App");
        assert_eq!(
            apps.object("default", "../../nodes/a?x"),
            "/apis/tombolo.dev/v1alpha1/namespaces/default/apps/..%2F..%2Fnodes%2Fa%3Fx"
        );
    }

    #[track_caller]
    fn check_list(resources: &[Resource], expect: Expect) {
        let text: String = resources
            .iter()
            .map(|resource| format!("{} {}\n", resource.collection(Some("n")), resource.label("x")))
            .collect();
        expect.assert_eq(&text);
    }

    #[test]
    fn discovery_lists_every_version_of_every_group() {
        let document = json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "example.org"}, "versions": [
                {"version": "v1", "resources": [
                    {"resource": "widgets", "singularResource": "widget", "scope": "Namespaced",
                     "shortNames": ["wd"],
                     "responseKind": {"group": "example.org", "version": "v1", "kind": "Widget"}},
                    {"resource": "broken"},
                ]},
                {"version": "v1beta1", "resources": [
                    {"resource": "worlds", "scope": "Cluster",
                     "responseKind": {"kind": "World"}},
                ]},
            ]},
        ]});
        let resources = from_discovery(&document);
        check_list(
            &resources,
            expect![[r#"
            /apis/example.org/v1/namespaces/n/widgets widget.example.org/x
            /apis/example.org/v1beta1/worlds world.example.org/x
        "#]],
        );
        assert_eq!(by_word(&resources, "wd").map(|found| found.kind.as_str()), Some("Widget"));
        assert!(from_discovery(&json!("nonsense")).is_empty());
    }

    #[test]
    fn a_definition_tells_what_it_will_serve() {
        let definition = json!({"spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}],
        }});
        check_list(
            &from_definition(&definition),
            expect![[r#"
            /apis/example.org/v1/namespaces/n/widgets widget.example.org/x
        "#]],
        );
    }
}
