//! What the server tells clients that it serves: `/api`, `/apis`, `/apis/GROUP`,
//! `/apis/GROUP/VERSION`, and the aggregated form of the first two.
//!
//! Pure: kinds in, documents out, always in the same order, so that a hash of the bytes can be an
//! ETag. The handlers call it whenever the kinds change and keep the bytes.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tombolo_model::keys;

use crate::kinds::{Kind, Scope};

/// What can be done with a kind; all kinds are stored the same way.
const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];
/// Of what is opened and goes on, whichever way a client opens it.
const SESSION_VERBS: &[&str] = &["create", "get"];

/// A question that is posted and answered, and never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Review {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub kind: &'static str,
    /// For `kubectl explain`.
    pub description: &'static str,
}

pub const REVIEWS: &[Review] = &[
    Review {
        group: "authentication.k8s.io",
        version: "v1",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        kind: "SelfSubjectReview",
        description: "Asks who the caller is, as the server sees it.",
    },
    Review {
        group: "authentication.k8s.io",
        version: "v1",
        plural: "tokenreviews",
        singular: "tokenreview",
        kind: "TokenReview",
        description: "Asks whom a bearer token belongs to, and whether it is good.",
    },
    Review {
        group: "authorization.k8s.io",
        version: "v1",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        kind: "SelfSubjectAccessReview",
        description: "Asks whether the caller may do one thing.",
    },
    Review {
        group: "authorization.k8s.io",
        version: "v1",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        kind: "SelfSubjectRulesReview",
        description: "Asks for everything that the caller may do in a namespace.",
    },
];

/// The half of discovery that an address is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// `/api`: the core group, which has no name.
    Core,
    /// `/apis`: the groups with a name.
    Named,
}

/// The versions of the aggregated form; they differ in nothing but their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregated {
    V2,
    V2Beta1,
}

/// `/api`. `server_address` is `HOST:PORT`, for clients that choose among several.
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address},
        ],
    })
}

/// `/apis`: an APIGroupList.
pub fn group_list(kinds: &[impl Borrow<Kind>]) -> Value {
    let groups: Vec<Value> = catalogue(kinds)
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(Group::summary)
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`: an APIGroup, if there is one of this name.
pub fn group(kinds: &[impl Borrow<Kind>], name: &str) -> Option<Value> {
    let catalogue = catalogue(kinds);
    let group = catalogue.iter().find(|group| group.name == name && !name.is_empty())?;
    let mut document = group.summary();
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

/// `/api/v1` and `/apis/GROUP/VERSION`: an APIResourceList, if the version is served.
pub fn resource_list(kinds: &[impl Borrow<Kind>], group: &str, version: &str) -> Option<Value> {
    let catalogue = catalogue(kinds);
    let group = catalogue.iter().find(|candidate| candidate.name == group)?;
    let (_, resources) = group.versions.iter().find(|(name, _)| *name == version)?;
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": group_version(group.name, version),
        "resources": resources.iter().flat_map(Resource::plain).collect::<Vec<_>>(),
    }))
}

/// `/api` or `/apis` in the aggregated form: an APIGroupDiscoveryList.
pub fn aggregated(kinds: &[impl Borrow<Kind>], area: Area, form: Aggregated) -> Value {
    let items: Vec<Value> = catalogue(kinds)
        .iter()
        .filter(|group| (area == Area::Core) == group.name.is_empty())
        .map(Group::aggregated)
        .collect();
    let version = match form {
        Aggregated::V2 => "v2",
        Aggregated::V2Beta1 => "v2beta1",
    };
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    })
}

/// Every group and version that is served, in the order of discovery; the reviews among them.
pub fn group_versions(kinds: &[impl Borrow<Kind>]) -> Vec<(String, String)> {
    let mut served = Vec::new();
    for group in catalogue(kinds) {
        for (version, _) in group.versions {
            served.push((group.name.to_owned(), version.to_owned()));
        }
    }
    served
}

/// The order in which clients prefer versions, best first: stable before beta before alpha, then
/// the higher number; names that do not look like versions come last, by the alphabet.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (Rank::of(a), Rank::of(b)) {
        (Some(rank_a), Some(rank_b)) => rank_b.cmp(&rank_a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// More is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    stability: Stability,
    major: u32,
    minor: u32,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

impl Rank {
    /// `v2`, `v1beta3`; `None` for anything else.
    fn of(version: &str) -> Option<Rank> {
        let rest = version.strip_prefix('v')?;
        let (major, stability, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
            (major, Stability::Alpha, number(minor)?)
        } else if let Some((major, minor)) = rest.split_once("beta") {
            (major, Stability::Beta, number(minor)?)
        } else {
            (rest, Stability::Stable, 0)
        };
        Some(Rank { stability, major: number(major)?, minor })
    }
}

/// Digits only: `parse` alone would take a sign.
fn number(digits: &str) -> Option<u32> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().ok()).flatten()
}

struct Group<'a> {
    name: &'a str,
    /// Best version first.
    versions: Vec<(&'a str, Vec<Resource<'a>>)>,
}

enum Resource<'a> {
    Kind(&'a Kind),
    Review(&'a Review),
}

/// Everything that is served, sorted.
///
/// The order of groups decides what `kubectl get nodes` means when two groups have nodes: ours
/// come first, then those of Kubernetes, then those that users brought.
fn catalogue<K: Borrow<Kind>>(kinds: &[K]) -> Vec<Group<'_>> {
    let mut resources: BTreeMap<(&str, &str), Vec<Resource<'_>>> = BTreeMap::new();
    for kind in kinds {
        let kind = kind.borrow();
        resources.entry((&kind.group, &kind.version)).or_default().push(Resource::Kind(kind));
    }
    for review in REVIEWS {
        resources.entry((review.group, review.version)).or_default().push(Resource::Review(review));
    }
    let names: BTreeSet<(u8, &str)> =
        resources.keys().map(|(group, _)| (precedence(group), *group)).collect();
    let mut groups: Vec<Group<'_>> =
        names.into_iter().map(|(_, name)| Group { name, versions: Vec::new() }).collect();
    for ((name, version), mut resources) in resources {
        resources.sort_by_key(Resource::plural);
        for group in groups.iter_mut().filter(|group| group.name == name) {
            group.versions.push((version, std::mem::take(&mut resources)));
        }
    }
    for group in &mut groups {
        group.versions.sort_by(|(a, _), (b, _)| compare_versions(a, b));
    }
    groups
}

fn precedence(group: &str) -> u8 {
    match group {
        "" => 0,
        "tombolo.dev" => 1,
        _ if group.ends_with(".k8s.io") => 2,
        _ => 3,
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

impl Group<'_> {
    fn summary(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|(version, _)| {
                json!({"groupVersion": group_version(self.name, version), "version": version})
            })
            .collect();
        json!({"name": self.name, "preferredVersion": versions.first(), "versions": versions})
    }

    fn aggregated(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|(version, resources)| {
                let resources: Vec<Value> = resources.iter().map(Resource::aggregated).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            })
            .collect();
        json!({"metadata": {"name": self.name, "creationTimestamp": null}, "versions": versions})
    }
}

/// One subresource of a kind: `status`, `scale` with a kind of its own, or what an agent serves.
struct Subresource {
    name: &'static str,
    verbs: &'static [&'static str],
    /// Group, version and kind, where they are not those of the resource.
    foreign: Option<[&'static str; 3]>,
}

/// By the alphabet, as in Kubernetes.
fn subresources(kind: &Kind) -> Vec<Subresource> {
    let own = |name, verbs| Subresource { name, verbs, foreign: None };
    let mut subresources = Vec::new();
    if kind.group == keys::GROUP && kind.plural == "assignments" {
        subresources.push(own("exec", SESSION_VERBS));
        subresources.push(own("log", &["get"]));
        subresources.push(own("portforward", SESSION_VERBS));
    }
    if kind.scale.is_some() {
        let foreign = Some(["autoscaling", "v1", "Scale"]);
        subresources.push(Subresource { name: "scale", verbs: SUBRESOURCE_VERBS, foreign });
    }
    if kind.status_subresource {
        subresources.push(own("status", SUBRESOURCE_VERBS));
    }
    subresources
}

impl<'a> Resource<'a> {
    fn plural(&self) -> &'a str {
        match self {
            Resource::Kind(kind) => &kind.plural,
            Resource::Review(review) => review.plural,
        }
    }

    /// An APIResource for the resource and for each of its subresources.
    fn plain(&self) -> Vec<Value> {
        let kind = match self {
            Resource::Kind(kind) => kind,
            Resource::Review(review) => {
                return vec![json!({
                    "name": review.plural, "singularName": review.singular, "namespaced": false,
                    "kind": review.kind, "verbs": ["create"],
                })];
            }
        };
        let namespaced = kind.scope == Scope::Namespaced;
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": namespaced,
            "kind": kind.kind, "verbs": VERBS, "storageVersionHash": storage_version_hash(kind),
        });
        add_names(&mut resource, kind);
        let mut resources = vec![resource];
        for subresource in subresources(kind) {
            let mut document = json!({
                "name": format!("{}/{}", kind.plural, subresource.name), "singularName": "",
                "namespaced": namespaced, "kind": kind.kind, "verbs": subresource.verbs,
            });
            if let Some([group, version, foreign_kind]) = subresource.foreign {
                document["group"] = json!(group);
                document["version"] = json!(version);
                document["kind"] = json!(foreign_kind);
            }
            resources.push(document);
        }
        resources
    }

    fn aggregated(&self) -> Value {
        let kind = match self {
            Resource::Kind(kind) => kind,
            Resource::Review(review) => {
                return json!({
                    "resource": review.plural, "singularResource": review.singular,
                    "responseKind": response_kind(review.group, review.version, review.kind),
                    "scope": "Cluster", "verbs": ["create"],
                });
            }
        };
        let own = response_kind(&kind.group, &kind.version, &kind.kind);
        let subresources: Vec<Value> = subresources(kind)
            .into_iter()
            .map(|subresource| {
                let response_kind = match subresource.foreign {
                    Some([group, version, kind]) => response_kind(group, version, kind),
                    None => own.clone(),
                };
                json!({
                    "subresource": subresource.name, "responseKind": response_kind,
                    "verbs": subresource.verbs,
                })
            })
            .collect();
        let scope = match kind.scope {
            Scope::Cluster => "Cluster",
            Scope::Namespaced => "Namespaced",
        };
        let mut resource = json!({
            "resource": kind.plural, "singularResource": kind.singular, "responseKind": own,
            "scope": scope, "verbs": VERBS,
        });
        add_names(&mut resource, kind);
        if !subresources.is_empty() {
            resource["subresources"] = json!(subresources);
        }
        resource
    }
}

/// Changes with the version that objects are stored in; the same text as in Kubernetes.
fn storage_version_hash(kind: &Kind) -> String {
    let Kind { storage_version, kind: name, .. } = kind;
    let group = kind.storage_group();
    let hash = Sha256::digest(format!("{group}/{storage_version}/{name}"));
    BASE64_STANDARD.encode(&hash[..8])
}

fn add_names(resource: &mut Value, kind: &Kind) {
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
}

fn response_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::sample;

    #[track_caller]
    fn check(document: &Value, expect: Expect) {
        expect.assert_eq(&sample::outline(document));
    }

    #[test]
    fn lists_the_resources_of_a_version_with_their_subresources() {
        check(
            &resource_list(&sample::kinds(), "tombolo.dev", "v1alpha1").unwrap(),
            expect![[r#"
                apiVersion: v1
                groupVersion: tombolo.dev/v1alpha1
                kind: APIResourceList
                resources:
                  -
                    categories: [all]
                    kind: App
                    name: apps
                    namespaced: true
                    shortNames: [ap]
                    singularName: app
                    storageVersionHash: 6KBHVeGTIYE=
                    verbs: [create,delete,deletecollection,get,list,patch,update,watch]
                  - {group:autoscaling,kind:Scale,name:apps/scale,namespaced:true,singularName:,verbs:[get,patch,update],version:v1}
                  - {kind:App,name:apps/status,namespaced:true,singularName:,verbs:[get,patch,update]}
                  -
                    kind: Node
                    name: nodes
                    namespaced: false
                    singularName: node
                    storageVersionHash: 0AwsgMcq30U=
                    verbs: [create,delete,deletecollection,get,list,patch,update,watch]
            "#]],
        );
        check(
            &resource_list(&sample::kinds(), "", "v1").unwrap(),
            expect![[r#"
                apiVersion: v1
                groupVersion: v1
                kind: APIResourceList
                resources:
                  -
                    kind: ConfigMap
                    name: configmaps
                    namespaced: true
                    singularName: configmap
                    storageVersionHash: qFsyl6wFWjQ=
                    verbs: [create,delete,deletecollection,get,list,patch,update,watch]
                  -
                    kind: Namespace
                    name: namespaces
                    namespaced: false
                    singularName: namespace
                    storageVersionHash: Q3oi5N2YM8M=
                    verbs: [create,delete,deletecollection,get,list,patch,update,watch]
            "#]],
        );
        check(
            &resource_list(&sample::kinds(), "authentication.k8s.io", "v1").unwrap(),
            expect![[r#"
                apiVersion: v1
                groupVersion: authentication.k8s.io/v1
                kind: APIResourceList
                resources:
                  - {kind:SelfSubjectReview,name:selfsubjectreviews,namespaced:false,singularName:selfsubjectreview,verbs:[create]}
                  - {kind:TokenReview,name:tokenreviews,namespaced:false,singularName:tokenreview,verbs:[create]}
            "#]],
        );
        assert_eq!(resource_list(&sample::kinds(), "tombolo.dev", "v9"), None);
        assert_eq!(resource_list(&sample::kinds(), "nobody.dev", "v1"), None);
    }

    #[test]
    fn lists_our_groups_first_and_the_best_version_first() {
        check(
            &group_list(&sample::kinds()),
            expect![[r#"
            apiVersion: v1
            groups:
              -
                name: tombolo.dev
                preferredVersion: {groupVersion:tombolo.dev/v1alpha1,version:v1alpha1}
                versions: [{groupVersion:tombolo.dev/v1alpha1,version:v1alpha1}]
              -
                name: authentication.k8s.io
                preferredVersion: {groupVersion:authentication.k8s.io/v1,version:v1}
                versions: [{groupVersion:authentication.k8s.io/v1,version:v1}]
              -
                name: authorization.k8s.io
                preferredVersion: {groupVersion:authorization.k8s.io/v1,version:v1}
                versions: [{groupVersion:authorization.k8s.io/v1,version:v1}]
              -
                name: example.com
                preferredVersion: {groupVersion:example.com/v1,version:v1}
                versions: [{groupVersion:example.com/v1,version:v1},{groupVersion:example.com/v1beta1,version:v1beta1}]
            kind: APIGroupList
        "#]],
        );
    }

    #[test]
    fn describes_one_group() {
        check(
            &group(&sample::kinds(), "example.com").unwrap(),
            expect![[r#"
            apiVersion: v1
            kind: APIGroup
            name: example.com
            preferredVersion: {groupVersion:example.com/v1,version:v1}
            versions: [{groupVersion:example.com/v1,version:v1},{groupVersion:example.com/v1beta1,version:v1beta1}]
        "#]],
        );
        assert_eq!(group(&sample::kinds(), ""), None);
        assert_eq!(group(&sample::kinds(), "nobody.dev"), None);
    }

    #[test]
    fn aggregates_everything_into_one_document() {
        check(
            &aggregated(&sample::kinds(), Area::Core, Aggregated::V2Beta1),
            expect![[r#"
            apiVersion: apidiscovery.k8s.io/v2beta1
            items:
              -
                metadata: {creationTimestamp:null,name:}
                versions:
                  -
                    freshness: Current
                    resources:
                      -
                        resource: configmaps
                        responseKind: {group:,kind:ConfigMap,version:v1}
                        scope: Namespaced
                        singularResource: configmap
                        verbs: [create,delete,deletecollection,get,list,patch,update,watch]
                      -
                        resource: namespaces
                        responseKind: {group:,kind:Namespace,version:v1}
                        scope: Cluster
                        singularResource: namespace
                        verbs: [create,delete,deletecollection,get,list,patch,update,watch]
                    version: v1
            kind: APIGroupDiscoveryList
            metadata: {}
        "#]],
        );
        let named = aggregated(&sample::kinds(), Area::Named, Aggregated::V2);
        check(
            &named["items"][0],
            expect![[r#"
            metadata: {creationTimestamp:null,name:tombolo.dev}
            versions:
              -
                freshness: Current
                resources:
                  -
                    categories: [all]
                    resource: apps
                    responseKind: {group:tombolo.dev,kind:App,version:v1alpha1}
                    scope: Namespaced
                    shortNames: [ap]
                    singularResource: app
                    subresources:
                      - {responseKind:{group:autoscaling,kind:Scale,version:v1},subresource:scale,verbs:[get,patch,update]}
                      - {responseKind:{group:tombolo.dev,kind:App,version:v1alpha1},subresource:status,verbs:[get,patch,update]}
                    verbs: [create,delete,deletecollection,get,list,patch,update,watch]
                  -
                    resource: nodes
                    responseKind: {group:tombolo.dev,kind:Node,version:v1alpha1}
                    scope: Cluster
                    singularResource: node
                    verbs: [create,delete,deletecollection,get,list,patch,update,watch]
                version: v1alpha1
        "#]],
        );
        let names: Vec<_> = named["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["metadata"]["name"])
            .collect();
        expect![[
            r#"["tombolo.dev","authentication.k8s.io","authorization.k8s.io","example.com"]"#
        ]]
        .assert_eq(&json!(names).to_string());
    }

    #[test]
    fn gives_the_same_bytes_whatever_the_order_of_the_kinds() {
        let forwards: Vec<Arc<Kind>> = sample::kinds().into_iter().map(Arc::new).collect();
        let backwards: Vec<Arc<Kind>> = forwards.iter().rev().cloned().collect();
        for area in [Area::Core, Area::Named] {
            assert_eq!(
                aggregated(&forwards, area, Aggregated::V2).to_string(),
                aggregated(&backwards, area, Aggregated::V2).to_string(),
            );
        }
        assert_eq!(group_list(&forwards).to_string(), group_list(&backwards).to_string());
    }

    #[test]
    fn prefers_versions_as_kubernetes_does() {
        let mut versions = [
            "foo", "v1alpha1", "v10", "v2beta1", "v1", "v2", "v1beta2", "v1alpha2", "v1beta", "bar",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));
        expect!["v10 v2 v1 v2beta1 v1beta2 v1alpha2 v1alpha1 bar foo v1beta"]
            .assert_eq(&versions.join(" "));
    }
}
