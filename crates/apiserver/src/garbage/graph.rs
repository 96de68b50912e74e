//! Who depends on whom: told of every object, asked what has to go.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use tombolo_store::{Event, Kind as Change};

use crate::object::{CRD_CLEANUP, FOREGROUND, NAMESPACE_FINALIZER, ORPHAN};
use crate::registry::CRD_PREFIX;

/// One thing to do, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Delete {
        key: String,
        uid: String,
        why: &'static str,
    },
    /// Takes away a finalizer whose work is done.
    Release {
        key: String,
        finalizer: &'static str,
    },
    /// Takes away the reference to an owner who leaves its dependents behind.
    Disown {
        key: String,
        owner: String,
    },
}

#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<String, Node>,
    /// Every uid that lives, with its key.
    uids: BTreeMap<String, String>,
    /// Owner's uid to the keys of its dependents.
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// Owners that have dependents and do not live: kept, so that a plan need not search.
    missing: BTreeSet<String>,
    /// Keys of the objects that name an owner of another namespace: to Kubernetes, there is no such owner.
    astray: BTreeSet<String>,
    /// Keys of the objects whose deletion was asked for.
    deleting: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Node {
    uid: String,
    owners: Vec<Owner>,
    finalizers: Vec<String>,
    /// Of a definition: the prefix of its objects.
    defines: Option<String>,
}

#[derive(Clone, Debug)]
struct Owner {
    uid: String,
    /// Whether the owner's foreground deletion waits for the dependent.
    is_blocked: bool,
}

/// As much of an object as matters here; the rest is skipped without being built.
#[derive(Deserialize)]
struct Outline {
    metadata: OutlineMetadata,
}

/// As much of a definition as says where its objects are.
#[derive(Default, Deserialize)]
struct Definition {
    #[serde(default)]
    spec: DefinitionSpec,
}

#[derive(Default, Deserialize)]
struct DefinitionSpec {
    #[serde(default)]
    group: String,
    #[serde(default)]
    names: DefinitionNames,
}

#[derive(Default, Deserialize)]
struct DefinitionNames {
    #[serde(default)]
    plural: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineMetadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    uid: String,
    #[serde(default)]
    block_owner_deletion: Option<bool>,
}

impl Graph {
    pub fn observe(&mut self, event: &Event) {
        match event.kind {
            Change::Created | Change::Updated => self.insert(event.key(), &event.object.bytes),
            Change::Deleted => self.remove(event.key()),
        }
    }

    pub fn insert(&mut self, key: &str, bytes: &[u8]) {
        let key = key.to_owned();
        self.remove(&key);
        let Ok(outline) = serde_json::from_slice::<Outline>(bytes) else { return };
        let metadata = outline.metadata;
        let owner = |reference: OwnerReference| Owner {
            uid: reference.uid,
            is_blocked: reference.block_owner_deletion == Some(true),
        };
        let owners: Vec<Owner> = metadata.owner_references.into_iter().map(owner).collect();
        for Owner { uid, .. } in &owners {
            self.dependents.entry(uid.clone()).or_default().insert(key.clone());
            match self.uids.get(uid) {
                None => {
                    self.missing.insert(uid.clone());
                }
                Some(owner) if !may_own(owner, &key) => {
                    self.astray.insert(key.clone());
                }
                Some(_) => (),
            }
        }
        for dependent in self.dependents.get(&metadata.uid).into_iter().flatten() {
            if !may_own(&key, dependent) {
                self.astray.insert(dependent.clone());
            }
        }
        if metadata.deletion_timestamp.is_some() {
            self.deleting.insert(key.clone());
        }
        self.uids.insert(metadata.uid.clone(), key.clone());
        self.missing.remove(&metadata.uid);
        let defines = key.starts_with(CRD_PREFIX).then(|| {
            let definition: Definition = serde_json::from_slice(bytes).unwrap_or_default();
            let DefinitionSpec { group, names } = definition.spec;
            format!("{group}/{}/", names.plural)
        });
        let finalizers = metadata.finalizers;
        self.nodes.insert(key, Node { uid: metadata.uid, owners, finalizers, defines });
    }

    fn remove(&mut self, key: &str) {
        let Some(node) = self.nodes.remove(key) else { return };
        self.uids.remove(&node.uid);
        self.deleting.remove(key);
        self.astray.remove(key);
        if self.dependents.contains_key(&node.uid) {
            self.missing.insert(node.uid.clone());
        }
        for Owner { uid, .. } in &node.owners {
            if let Some(keys) = self.dependents.get_mut(uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(uid);
                    self.missing.remove(uid);
                }
            }
        }
    }

    /// What has to be done now, at most `limit` actions, the same for the same graph.
    pub fn plan(&self, limit: usize) -> Vec<Action> {
        let bereft = self.missing.iter().flat_map(|owner| self.dependents_of(owner));
        let bereft: BTreeSet<&String> = bereft.chain(&self.astray).collect();
        let orphans = bereft.into_iter().filter(|key| !self.deleting.contains(*key));
        let orphans = orphans.flat_map(|key| self.plan_bereft(key));
        let deleting = self.deleting.iter().flat_map(|key| self.plan_deleting(key));
        let mut actions: Vec<Action> = orphans.chain(deleting).take(limit).collect();
        actions.dedup();
        actions
    }

    /// A dependent goes with its last owner; until then it loses those that are gone.
    fn plan_bereft(&self, key: &str) -> Vec<Action> {
        let owners = &self.nodes[key].owners;
        if !owners.iter().any(|owner| self.is_owned_by(key, &owner.uid)) {
            return vec![self.delete(key, "every owner of it is gone")];
        }
        let gone = owners.iter().filter(|owner| !self.is_owned_by(key, &owner.uid));
        gone.map(|owner| Action::Disown { key: key.to_owned(), owner: owner.uid.clone() }).collect()
    }

    /// Whether the owner lives where it may own the dependent.
    fn is_owned_by(&self, key: &str, uid: &str) -> bool {
        self.uids.get(uid).is_some_and(|owner| may_own(owner, key))
    }

    fn plan_deleting(&self, key: &str) -> Vec<Action> {
        let node = &self.nodes[key];
        let mut actions = Vec::new();
        for finalizer in &node.finalizers {
            match finalizer.as_str() {
                FOREGROUND => actions.extend(self.foreground(key, &node.uid)),
                ORPHAN => actions.extend(self.orphan(key, &node.uid)),
                CRD_CLEANUP => {
                    let prefix = node.defines.clone().unwrap_or_else(|| "\0".to_owned());
                    actions.extend(self.clear(
                        key,
                        CRD_CLEANUP,
                        self.under(&prefix),
                        "its kind is being deleted",
                    ));
                }
                _ => (),
            }
        }
        if let Some(namespace) = key.strip_prefix("/namespaces//") {
            let infix = format!("/{namespace}/");
            let inside: Vec<&String> =
                self.nodes.keys().filter(|key| is_inside(key, &infix)).collect();
            actions.extend(self.clear(
                key,
                NAMESPACE_FINALIZER,
                inside,
                "its namespace is being deleted",
            ));
        }
        actions
    }

    /// Deletes what is left; when nothing is, takes the finalizer away.
    fn clear(
        &self,
        holder: &str,
        finalizer: &'static str,
        keys: Vec<&String>,
        why: &'static str,
    ) -> Vec<Action> {
        if keys.is_empty() {
            return vec![Action::Release { key: holder.to_owned(), finalizer }];
        }
        let waiting = |key: &&String| !self.deleting.contains(*key);
        keys.into_iter().filter(waiting).map(|key| self.delete(key, why)).collect()
    }

    /// A dependent that has another owner loses this one and stays; the others go first.
    fn foreground(&self, holder: &str, uid: &str) -> Vec<Action> {
        let dependents = self.dependents_of(uid).into_iter().filter(|key| *key != holder);
        let (shared, own): (Vec<&String>, Vec<&String>) = dependents.partition(|key| {
            let others = self.nodes[*key].owners.iter().filter(|owner| owner.uid != uid);
            others.into_iter().any(|owner| self.is_owned_by(key, &owner.uid))
        });
        let disown = |key: &String| Action::Disown { key: key.clone(), owner: uid.to_owned() };
        let mut actions: Vec<Action> = shared.into_iter().map(disown).collect();
        if !actions.is_empty() && own.is_empty() {
            return actions;
        }
        // All of them go; the owner waits only for those that say so.
        let blocks = |key: &&String| {
            self.nodes[*key].owners.iter().any(|owner| owner.uid == uid && owner.is_blocked)
        };
        let is_blocked = own.iter().any(blocks);
        let left = own.into_iter().filter(|key| !self.deleting.contains(*key));
        actions.extend(left.map(|key| self.delete(key, "its owner is being deleted")));
        if !is_blocked {
            actions.push(Action::Release { key: holder.to_owned(), finalizer: FOREGROUND });
        }
        actions
    }

    fn orphan(&self, holder: &str, uid: &str) -> Vec<Action> {
        let dependents = self.dependents_of(uid);
        if dependents.is_empty() {
            return vec![Action::Release { key: holder.to_owned(), finalizer: ORPHAN }];
        }
        let disown = |key: &String| Action::Disown { key: key.clone(), owner: uid.to_owned() };
        dependents.into_iter().map(disown).collect()
    }

    fn dependents_of(&self, uid: &str) -> Vec<&String> {
        self.dependents.get(uid).into_iter().flatten().collect()
    }

    fn under(&self, prefix: &str) -> Vec<&String> {
        self.nodes
            .range(prefix.to_owned()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(prefix))
            .collect()
    }

    fn delete(&self, key: &str, why: &'static str) -> Action {
        Action::Delete { key: key.to_owned(), uid: self.nodes[key].uid.clone(), why }
    }
}

/// An owner lives in the namespace of its dependent, or in none. What lives in none may be owned by
/// anything: which kinds have a namespace is not known here.
fn may_own(owner: &str, dependent: &str) -> bool {
    let (owner, dependent) = (namespace(owner), namespace(dependent));
    owner.is_empty() || dependent.is_empty() || owner == dependent
}

fn namespace(key: &str) -> &str {
    key.split('/').nth(2).unwrap_or_default()
}

/// Whether the third part of a key is this namespace.
fn is_inside(key: &str, infix: &str) -> bool {
    let after_group =
        key.find('/').and_then(|at| key[at + 1..].find('/').map(|more| at + 1 + more));
    after_group.is_some_and(|at| key[at..].starts_with(infix))
}

/// Whether an event was last seen longer ago than events are kept.
pub(super) fn is_stale(event: &Value, now_seconds: i64, life_seconds: i64) -> bool {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    let seen = times.into_iter().filter_map(|time| {
        let time: jiff::Timestamp = time.as_str()?.parse().ok()?;
        Some(time.as_second())
    });
    seen.max().is_some_and(|seen| now_seconds - seen > life_seconds)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    /// `"g/things/ns/a uid=1 owner=2 deleting finalizer=orphan"`.
    fn insert(graph: &mut Graph, text: &str) {
        let mut words = text.split(' ');
        let key = words.next().unwrap_or_default();
        let mut value =
            json!({"metadata": {}, "spec": {"group": "g", "names": {"plural": "things"}}});
        let metadata = &mut value["metadata"];
        for word in words {
            match word.split_once('=') {
                Some(("uid", uid)) => metadata["uid"] = json!(uid),
                Some((owner @ ("owner" | "blocked"), uid)) => {
                    let mut owners =
                        metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
                    let blocks = owner == "blocked";
                    owners.push(json!({"uid": uid, "blockOwnerDeletion": blocks}));
                    metadata["ownerReferences"] = json!(owners);
                }
                Some(("finalizer", name)) => metadata["finalizers"] = json!([name]),
                _ => metadata["deletionTimestamp"] = json!("2030-01-01T00:00:00Z"),
            }
        }
        graph.insert(key, value.to_string().as_bytes());
    }

    fn graph(objects: &[&str]) -> Graph {
        let mut graph = Graph::default();
        objects.iter().for_each(|text| insert(&mut graph, text));
        graph
    }

    #[track_caller]
    fn check(objects: &[&str], expected: &Expect) {
        let lines: Vec<String> = graph(objects)
            .plan(100)
            .into_iter()
            .map(|action| match action {
                Action::Delete { key, why, .. } => format!("delete {key}: {why}\n"),
                Action::Release { key, finalizer } => format!("release {key} from {finalizer}\n"),
                Action::Disown { key, owner } => format!("disown {key} of {owner}\n"),
            })
            .collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn a_dependent_goes_when_its_last_owner_is_gone() {
        check(&["g/t/n/a uid=1", "g/t/n/b uid=2 owner=1"], &expect![""]);
        check(
            &["g/t/n/b uid=2 owner=1", "g/t/n/c uid=3 owner=1 owner=2"],
            &expect![[r#"
                delete g/t/n/b: every owner of it is gone
                disown g/t/n/c of 1
            "#]],
        );
    }

    #[test]
    fn a_dead_owner_beside_a_living_one_is_dropped() {
        check(
            &["g/t/n/a uid=1", "g/t/n/b uid=2 owner=1 owner=9"],
            &expect![[r"
                disown g/t/n/b of 9
            "]],
        );
    }

    #[test]
    fn an_owner_of_another_namespace_is_none() {
        let elsewhere = "g/t/other/a uid=1";
        let expected = expect![[r"
            delete g/t/n/b: every owner of it is gone
        "]];
        check(&[elsewhere, "g/t/n/b uid=2 owner=1"], &expected);
        check(&["g/t/n/b uid=2 owner=1", elsewhere], &expected);
        check(
            &[elsewhere, "g/t/n/c uid=3", "g/t/n/b uid=2 owner=1 owner=3"],
            &expect![[r"
                disown g/t/n/b of 1
            "]],
        );
        check(&["g/t//a uid=1", "g/t/n/b uid=2 owner=1"], &expect![""]);
    }

    #[test]
    fn a_foreground_delete_does_not_wait_for_what_does_not_block_it() {
        check(
            &[
                "g/t/n/a uid=1 deleting finalizer=foregroundDeletion",
                "g/t/n/b uid=2 owner=1 finalizer=x",
            ],
            &expect![[r"
                delete g/t/n/b: its owner is being deleted
                release g/t/n/a from foregroundDeletion
            "]],
        );
    }

    #[test]
    fn a_foreground_delete_waits_for_the_dependents() {
        let owner = "g/t/n/a uid=1 deleting finalizer=foregroundDeletion";
        check(
            &[owner, "g/t/n/b uid=2 blocked=1", "g/t/n/c uid=3 blocked=1 deleting finalizer=x"],
            &expect![[r"
                delete g/t/n/b: its owner is being deleted
            "]],
        );
        check(
            &[owner],
            &expect![[r"
                release g/t/n/a from foregroundDeletion
            "]],
        );
    }

    #[test]
    fn a_foreground_delete_leaves_what_somebody_else_owns_too() {
        let owner = "g/t/n/a uid=1 deleting finalizer=foregroundDeletion";
        check(
            &[owner, "g/t/n/b uid=2", "g/t/n/c uid=3 owner=1 owner=2"],
            &expect![[r"
                disown g/t/n/c of 1
            "]],
        );
        check(
            &["g/t/n/a uid=1 owner=1 deleting finalizer=foregroundDeletion"],
            &expect![[r"
                release g/t/n/a from foregroundDeletion
            "]],
        );
    }

    #[test]
    fn an_orphaning_delete_leaves_the_dependents_behind() {
        check(
            &["g/t/n/a uid=1 deleting finalizer=orphan", "g/t/n/b uid=2 owner=1"],
            &expect![[r"
                disown g/t/n/b of 1
            "]],
        );
    }

    #[test]
    fn a_namespace_is_emptied_before_it_goes() {
        let namespace = "/namespaces//n uid=1 deleting";
        check(
            &[
                namespace,
                "/configmaps/n/a uid=2",
                "g/t/n/b uid=3",
                "g/t/other/n uid=4",
                "g/n/o/x uid=5",
            ],
            &expect![[r"
                delete /configmaps/n/a: its namespace is being deleted
                delete g/t/n/b: its namespace is being deleted
            "]],
        );
        check(
            &[namespace],
            &expect![[r"
                release /namespaces//n from kubernetes
            "]],
        );
    }

    #[test]
    fn the_objects_of_a_deleted_definition_go_first() {
        let definition = format!("{CRD_PREFIX}/things.g uid=1 deleting finalizer={CRD_CLEANUP}");
        check(
            &[&definition, "g/things/n/a uid=2", "g/thingsmore/n/a uid=3"],
            &expect![[r"
                delete g/things/n/a: its kind is being deleted
            "]],
        );
        check(
            &[&definition],
            &expect![[r"
                release apiextensions.k8s.io/customresourcedefinitions//things.g from customresourcecleanup.apiextensions.k8s.io
            "]],
        );
    }

    #[test]
    fn an_owner_that_changes_is_not_taken_for_gone() {
        let mut graph = graph(&["g/t/n/a uid=1", "g/t/n/b uid=2 owner=1"]);
        insert(&mut graph, "g/t/n/a uid=1");
        assert_eq!(graph.plan(100), Vec::new());
        graph.remove("g/t/n/a");
        assert_eq!(graph.plan(100).len(), 1);
        graph.remove("g/t/n/b");
        assert_eq!(graph.plan(100), Vec::new());
    }

    #[test]
    fn an_event_is_stale_by_the_time_it_was_last_seen() {
        let event = json!({"lastTimestamp": "2030-01-01T01:00:00Z",
            "metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}});
        let at = |text: &str| text.parse::<jiff::Timestamp>().expect("a time").as_second();
        assert!(!is_stale(&event, at("2030-01-01T02:00:00Z"), 3600));
        assert!(is_stale(&event, at("2030-01-01T02:00:01Z"), 3600));
        assert!(!is_stale(&json!({}), i64::MAX, 3600), "an event without a time is left alone");
    }
}
