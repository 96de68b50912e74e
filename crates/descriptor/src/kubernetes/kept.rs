//! Objects that an App keeps in their own words: what of them is kept, and which others they name.
//! Called by `assemble.rs`.

use std::collections::BTreeSet;

use serde_json::Value;
use tombolo_yaml::Node;

/// What the cluster wrote into an object; whoever applies it leaves it out.
pub(super) const WRITTEN_BY_CLUSTER: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The object without what a cluster wrote into it.
pub(super) fn cleaned(node: &Node) -> Value {
    let mut object = node.to_json();
    if let Some(top) = object.as_object_mut() {
        top.remove("status");
        if let Some(metadata) = top.get_mut("metadata").and_then(Value::as_object_mut) {
            for key in WRITTEN_BY_CLUSTER {
                metadata.remove(*key);
            }
            // An object that is applied again and again needs one name.
            if !metadata.contains_key("name")
                && let Some(begin) = metadata.remove("generateName")
            {
                let name = begin.as_str().map(|begin| begin.trim_end_matches('-').to_owned());
                metadata.insert("name".to_owned(), name.into());
            }
        }
    }
    object
}

/// One instance of a component is one pod.
pub(super) fn keep_one_replica(object: &mut Value) {
    if let Some(replicas) = object.pointer_mut("/spec/replicas") {
        *replicas = 1.into();
    }
}

/// The names of other objects that an object speaks of, wherever one does.
pub(super) fn named_objects(node: &Node) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        for (key, value) in node.as_map().into_iter().flatten() {
            // Beside an image it is the name of the container itself.
            let names_one = matches!(key.text.as_str(), "claimName" | "name");
            if names_one && node.get("image").is_none() {
                names.extend(value.as_str());
            }
            waiting.push(value);
        }
        waiting.extend(node.as_list().into_iter().flatten());
    }
    names
}
