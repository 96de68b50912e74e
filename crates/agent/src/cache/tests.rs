//! What is on the disk is what comes back, on the same machine.

use serde_json::json;
use tombolo_plan::instances::Authority;

use crate::desired::{Source, SourceKind};
use crate::held::News;
use tombolo_identity::Remit;

use super::*;

fn place() -> Remit {
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
    let (mut cache, mut held) = Cache::open(Arc::clone(&folder), "machine", &place());
    assert_eq!(held, Held::default());
    let assignments = vec![assignment("a", "7")];
    held.note(News::Listed { assignments, version: Some(9) });
    held.note(News::Answered(entries()));
    let good = Good { revision: 3, assignment: bare(&assignment("a", "7")), entries: entries() };
    held.good.insert("a".to_owned(), good);
    held.forgotten.insert("b".to_owned());
    cache.changed(&held, &place()).unwrap().write().unwrap();

    held.note(News::Applied(Box::new(assignment("a", "8"))));
    assert!(cache.changed(&held, &place()).is_none(), "a status is worth no write");
    let text = std::fs::read_to_string(data.path().join(FILE)).unwrap();
    assert!(text.contains(r#""command":["web"]"#) && !text.contains("hunter2"), "{text}");

    let (mut cache, back) = Cache::open(Arc::clone(&folder), "machine", &place());
    assert_eq!(back.entries, held.entries);
    assert_eq!(back.good, held.good);
    assert_eq!(back.forgotten, held.forgotten);
    assert_eq!((back.newest, back.authority), (9, Authority::Doubtful));
    assert_eq!(back.assignments["a"].spec, held.assignments["a"].spec);
    assert!(cache.changed(&back, &place()).is_none(), "it is all there already");

    let mut leapt = back.clone();
    leapt.newest += RESTORE_LEAP;
    cache.changed(&leapt, &place()).expect("a restore is worth a write");
    cache.failed();
    cache.changed(&back, &place()).expect("it did not reach the disk").write().unwrap();

    let anew = tombolo_identity::request::new_key().unwrap();
    folder.write("agent.key", &anew).unwrap();
    cache.changed(&back, &place()).expect("it is sealed anew").write().unwrap();
    let (_, joined_anew) = Cache::open(Arc::clone(&folder), "machine", &place());
    assert_eq!(joined_anew.entries, held.entries, "a reboot without the server finds them");

    let (_, elsewhere) = Cache::open(folder, "another", &place());
    assert_eq!(elsewhere, Held::default(), "a copy runs nothing");
}
