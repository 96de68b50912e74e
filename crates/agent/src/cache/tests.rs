//! What is on the disk is what comes back, on the same machine.

use serde_json::json;
use tombolo_plan::instances::Authority;

use crate::desired::{Source, SourceKind};
use crate::orders::News;
use tombolo_identity::Remit;

use super::*;

fn remit() -> Remit {
    Remit::Node { site: "north".to_owned(), node: "crane".to_owned() }
}

fn assignment(uid: &str, version: &str) -> Assignment {
    serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": uid, "uid": uid, "resourceVersion": version},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north", "node": "crane",
            "engine": "host", "run": {"process": {"command": ["web"],
                "secretEnv": {"KEY": {"name": "keys", "key": "a"}}}}},
        "status": {"restarts": 4},
    }))
    .unwrap()
}

fn entries() -> Entries {
    let (namespace, name) = (String::new(), "keys".to_owned());
    let source = Source { namespace, kind: SourceKind::Secret, name };
    Entries::from([(source, BTreeMap::from([("a".to_owned(), b"hunter2".to_vec())]))])
}

#[test]
fn what_was_told_comes_back_sealed_and_only_on_the_same_machine() {
    let data = tempfile::tempdir().unwrap();
    let folder = Arc::new(Folder::open(data.path()).unwrap());
    let (mut cache, mut orders) = Cache::open(Arc::clone(&folder), "machine", &remit());
    assert_eq!(orders, Orders::default());
    let assignments = vec![assignment("a", "7")];
    orders.note(News::Listed { assignments, version: Some(9) });
    orders.note(News::Answered(entries()));
    let good = Good { revision: 3, assignment: bare(&assignment("a", "7")), entries: entries() };
    orders.good.insert("a".to_owned(), good);
    orders.forgotten.insert("b".to_owned());
    cache.changed(&orders, &remit()).unwrap().write().unwrap();

    orders.note(News::Applied(Box::new(assignment("a", "8"))));
    assert!(cache.changed(&orders, &remit()).is_none(), "a status is worth no write");
    let text = std::fs::read_to_string(data.path().join(FILE)).unwrap();
    assert!(text.contains(r#""command":["web"]"#) && !text.contains("hunter2"), "{text}");

    let (mut cache, back) = Cache::open(Arc::clone(&folder), "machine", &remit());
    assert_eq!(back.entries, orders.entries);
    assert_eq!(back.good, orders.good);
    assert_eq!(back.forgotten, orders.forgotten);
    assert_eq!((back.newest, back.authority), (9, Authority::Doubtful));
    assert_eq!(back.assignments["a"].spec, orders.assignments["a"].spec);
    assert!(cache.changed(&back, &remit()).is_none(), "it is all there already");

    let mut leapt = back.clone();
    leapt.newest += RESTORE_LEAP;
    cache.changed(&leapt, &remit()).expect("a restore is worth a write");
    cache.failed();
    cache.changed(&back, &remit()).expect("it did not reach the disk").write().unwrap();

    let anew = tombolo_identity::request::new_key().unwrap();
    folder.write("agent.key", &anew).unwrap();
    cache.changed(&back, &remit()).expect("it is sealed anew").write().unwrap();
    let (mut cache, joined_anew) = Cache::open(Arc::clone(&folder), "machine", &remit());
    assert_eq!(joined_anew.entries, orders.entries, "a reboot without the server finds them");
    let mut ended = joined_anew;
    ended.end_forgotten();
    assert!(cache.changed(&ended, &remit()).is_some(), "else it would be back with the next start");

    let (_, elsewhere) = Cache::open(folder, "another", &remit());
    assert_eq!(elsewhere, Orders::default(), "a copy runs nothing");
}
