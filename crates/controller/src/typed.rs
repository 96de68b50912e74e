//! The objects of one kind by their type, brought up to what a [`crate::mirror`] holds. Giving an
//! object its type takes long against all else that a look does, so it is done once for each version
//! of it. Start at [`Typed::refresh`].

use std::sync::Arc;

use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

/// Sorted by namespace and name, so that the same world is always seen in the same order.
#[derive(Debug)]
pub(crate) struct Typed<K> {
    /// What was seen, and whether it had the form of its kind.
    seen: Vec<(Arc<DynamicObject>, bool)>,
    /// Those that had, in the same order. Empty while they are lent.
    items: Vec<K>,
}

impl<K> Default for Typed<K> {
    fn default() -> Typed<K> {
        Typed { seen: Vec::new(), items: Vec::new() }
    }
}

impl<K: DeserializeOwned> Typed<K> {
    /// Takes over what is new and drops what is gone. An object that does not have its form is told
    /// once and left out: one that a stranger's server let in must not hide all others.
    pub(crate) fn refresh(&mut self, kind: &str, mut objects: Vec<Arc<DynamicObject>>) {
        objects.sort_by(|a, b| key(a).cmp(&key(b)));
        let known = self.seen.iter().map(|(object, _)| object);
        if known.len() == objects.len() && known.zip(&objects).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return;
        }
        let mut before = std::mem::take(&mut self.seen).into_iter().peekable();
        let mut items = std::mem::take(&mut self.items).into_iter();
        for object in objects {
            while let Some((_, had)) = before.next_if(|(old, _)| key(old) < key(&object)) {
                drop(had.then(|| items.next()));
            }
            let known = before.next_if(|(old, _)| key(old) == key(&object));
            let item = known.as_ref().and_then(|(_, had)| had.then(|| items.next())?);
            let same = known.is_some_and(|(old, _)| Arc::ptr_eq(&old, &object));
            let item = if same { item } else { read(kind, &object) };
            self.seen.push((object, item.is_some()));
            self.items.extend(item);
        }
    }

    pub(crate) fn items(&self) -> &[K] {
        &self.items
    }

    /// All of them, until they are given back: a decision may take them to another thread. If they
    /// are not given back, the next refresh begins anew.
    pub(crate) fn lend(&mut self) -> (Vec<K>, Loan) {
        let seen = std::mem::take(&mut self.seen);
        (std::mem::take(&mut self.items), Loan(seen))
    }

    pub(crate) fn give_back(&mut self, items: Vec<K>, loan: Loan) {
        (self.items, self.seen) = (items, loan.0);
    }
}

/// Whose objects were lent.
#[derive(Debug)]
pub(crate) struct Loan(Vec<(Arc<DynamicObject>, bool)>);

fn key(object: &DynamicObject) -> (Option<&str>, Option<&str>) {
    (object.metadata.namespace.as_deref(), object.metadata.name.as_deref())
}

fn read<K: DeserializeOwned>(kind: &str, object: &DynamicObject) -> Option<K> {
    let value = serde_json::to_value(object).and_then(serde_json::from_value);
    value
        .inspect_err(|error| {
            let name = object.metadata.name.as_deref();
            tracing::warn!(kind, name, %error, "an object does not have its form");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tombolo_model::Node;

    use super::*;

    /// `a1` is node `a` with one core; an upper-case letter has not the form of a Node.
    fn object(name: &str) -> Arc<DynamicObject> {
        let site = if name.starts_with(char::is_uppercase) { json!(7) } else { json!(&name[1..]) };
        let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
            "metadata": {"name": &name[..1]}, "spec": {"site": site}});
        Arc::new(serde_json::from_value(made).unwrap())
    }

    fn shown(typed: &Typed<Node>) -> Vec<String> {
        let name =
            |node: &Node| format!("{}{}", node.metadata.name.as_ref().unwrap(), node.spec.site);
        typed.items.iter().map(name).collect()
    }

    #[test]
    fn an_object_is_read_again_only_when_it_has_changed() {
        let mut typed = Typed::<Node>::default();
        let first: Vec<_> = ["b1", "A1", "a1"].map(object).into();
        typed.refresh("Node", first.clone());
        assert_eq!(shown(&typed), ["a1", "b1"]);
        // A mark that a second reading would wipe away.
        typed.items[1].spec.site = "kept".to_owned();
        typed.refresh("Node", vec![first[0].clone(), first[1].clone(), object("a2"), object("c1")]);
        assert_eq!(shown(&typed), ["a2", "bkept", "c1"]);
        typed.refresh("Node", vec![first[0].clone()]);
        assert_eq!(shown(&typed), ["bkept"]);
    }

    #[test]
    fn what_was_lent_and_not_given_back_is_read_again() {
        let mut typed = Typed::<Node>::default();
        let objects = vec![object("a1"), object("b1")];
        typed.refresh("Node", objects.clone());
        let (items, loan) = typed.lend();
        assert_eq!(shown(&typed), Vec::<String>::new());
        typed.give_back(items, loan);
        assert_eq!(shown(&typed), ["a1", "b1"]);
        drop(typed.lend());
        typed.refresh("Node", objects);
        assert_eq!(shown(&typed), ["a1", "b1"]);
    }

    proptest! {
        #[test]
        fn it_always_holds_what_was_seen_last(
            looks in prop::collection::vec(prop::collection::btree_map(0..6usize, 0..3u8, 0..6), 1..12),
        ) {
            let mut typed = Typed::<Node>::default();
            let mut kept: Vec<(String, Arc<DynamicObject>)> = Vec::new();
            for look in looks {
                let names: Vec<String> = look.iter().map(|(at, version)| {
                    format!("{}{version}", ["a", "B", "c", "d", "E", "f"][*at])
                }).collect();
                let known = |name: &String| kept.iter().find(|(known, _)| known == name).cloned();
                let next: Vec<(String, Arc<DynamicObject>)> = names.iter().map(|name| {
                    known(name).unwrap_or_else(|| (name.clone(), object(name)))
                }).collect();
                typed.refresh("Node", next.iter().map(|(_, object)| Arc::clone(object)).collect());
                let expected: Vec<String> = names.into_iter()
                    .filter(|name| !name.starts_with(char::is_uppercase)).collect();
                prop_assert_eq!(shown(&typed), expected);
                kept = next;
            }
        }
    }
}
