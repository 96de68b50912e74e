//! Lists, changes and servers that have forgotten.

use serde_json::json;

use super::*;
use tombolo_identity::Remit;
use tombolo_plan::agent::restored::RESTORE_LEAP;

fn assignment(uid: &str, version: u64) -> Assignment {
    serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": uid, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"app": "shop", "component": uid, "replica": 0, "site": "north", "node": "crane",
            "engine": "host", "run": {"process": {"command": ["web"]}}},
    }))
    .unwrap()
}

fn listed(orders: &mut Orders, uids: &[&str], version: u64) {
    let assignments = uids.iter().map(|uid| assignment(uid, version)).collect();
    orders.note(News::Listed { assignments, version: Some(version) });
}

fn uids(orders: &Orders) -> Vec<&str> {
    orders.assignments.keys().map(String::as_str).collect()
}

#[test]
fn nothing_is_sure_before_the_first_list_and_all_is_after_it() {
    let mut orders = Orders::default();
    assert_eq!(orders.authority, Authority::Doubtful);
    listed(&mut orders, &["a", "b"], 10);
    assert_eq!((uids(&orders), orders.authority), (vec!["a", "b"], Authority::Fresh));
    listed(&mut orders, &["b"], 11);
    assert_eq!((uids(&orders), orders.authority), (vec!["b"], Authority::Fresh));
}

#[test]
fn a_server_that_was_set_back_ends_nothing_that_it_does_not_know() {
    let mut orders = Orders::default();
    listed(&mut orders, &["a", "b"], 10);
    orders.note(News::Applied(Box::new(assignment("c", 20))));
    listed(&mut orders, &["a", "d"], 12);
    assert_eq!((uids(&orders), orders.authority), (vec!["a", "b", "c", "d"], Authority::Doubtful));
    orders.note(News::Gone(Box::new(assignment("b", 13))));
    assert_eq!(uids(&orders), ["a", "c", "d"], "what it says is gone is gone");
    listed(&mut orders, &["a", "d"], 21);
    assert_eq!((uids(&orders), orders.authority), (vec!["a", "c", "d"], Authority::Fresh));
    assert_eq!(orders.forgotten, BTreeSet::from(["c".to_owned()]), "until somebody says so");
    listed(&mut orders, &["a"], 22);
    assert_eq!(uids(&orders), ["a", "c"], "what it once knew it can end");
}

#[test]
fn a_server_that_restored_a_backup_ends_nothing_that_it_does_not_know() {
    let mut orders = Orders::default();
    listed(&mut orders, &["a", "b"], 10);
    orders.note(News::Applied(Box::new(assignment("a", 11 + RESTORE_LEAP))));
    listed(&mut orders, &["a"], 12 + RESTORE_LEAP);
    assert_eq!((uids(&orders), orders.authority), (vec!["a", "b"], Authority::Fresh));
    listed(&mut orders, &["a"], 13 + RESTORE_LEAP);
    let remit = Remit::Node { site: "north".to_owned(), node: "crane".to_owned() };
    assert_eq!(orders.forgotten_here(&remit), ["/b"]);
    assert_eq!(orders.assignments["b"].metadata.resource_version, None, "nothing is written of it");
    orders.tidy(&remit);
    assert_eq!(uids(&orders), ["a", "b"]);

    let mut same = assignment("new", 14 + RESTORE_LEAP);
    same.spec.component = "b".to_owned();
    orders.note(News::Applied(Box::new(same)));
    orders.tidy(&remit);
    assert_eq!(uids(&orders), ["a", "new"], "it is assigned anew");
    assert!(orders.forgotten.is_empty());
}

/// The store of a server is lost: it goes on a billion after the backup, not after what it last told.
#[test]
fn a_server_that_counts_on_from_its_backup_was_set_back_too() {
    let mut orders = Orders::default();
    listed(&mut orders, &["a", "b"], 1_500);
    listed(&mut orders, &["a"], 1_000 + 1_000_000_000);
    assert_eq!(uids(&orders), ["a", "b"]);
    assert_eq!(orders.forgotten, BTreeSet::from(["b".to_owned()]));
}

#[test]
fn the_secrets_of_what_was_forgotten_are_kept_and_not_asked_for() {
    let remit = Remit::Node { site: "north".to_owned(), node: "crane".to_owned() };
    let mut orders = Orders::default();
    let mut sealed = assignment("a", 10);
    let process = sealed.spec.run.process.as_mut().unwrap();
    let key = json!({"KEY": {"name": "keys", "key": "a"}});
    process.secret_env = serde_json::from_value(key).unwrap();
    let source = desired::sources(&sealed).into_iter().next().unwrap();
    orders.note(News::Listed { assignments: vec![sealed], version: Some(10) });
    orders.note(News::Answered(Entries::from([(source, Default::default())])));
    listed(&mut orders, &[], 10 + RESTORE_LEAP);
    orders.tidy(&remit);
    assert!(orders.wishes(&remit).is_empty());
    assert_eq!(orders.entries.len(), 1);
}

#[test]
fn a_secret_is_kept_for_as_long_as_something_names_it() {
    let remit = Remit::Node { site: "north".to_owned(), node: "crane".to_owned() };
    let mut orders = Orders::default();
    let mut sealed = assignment("a", 10);
    let process = sealed.spec.run.process.as_mut().unwrap();
    let key = json!({"KEY": {"name": "keys", "key": "a"}});
    process.secret_env = serde_json::from_value(key).unwrap();
    let source = desired::sources(&sealed).into_iter().next().unwrap();
    orders.note(News::Listed { assignments: vec![sealed], version: Some(10) });
    orders.note(News::Answered(Entries::from([(source, Default::default())])));
    orders.tidy(&remit);
    assert_eq!(orders.entries.len(), 1);
    listed(&mut orders, &["b"], 11);
    orders.tidy(&remit);
    assert!(orders.entries.is_empty());
}

#[test]
fn the_last_good_revision_goes_with_its_assignment() {
    let remit = Remit::Node { site: "north".to_owned(), node: "crane".to_owned() };
    let mut orders = Orders::default();
    listed(&mut orders, &["a", "b"], 10);
    for uid in ["a", "b"] {
        let entries = Entries::default();
        let good = Good { revision: 1, assignment: assignment(uid, 10), entries };
        orders.good.insert(uid.to_owned(), good);
    }
    listed(&mut orders, &["b"], 11);
    orders.tidy(&remit);
    assert_eq!(orders.good.keys().collect::<Vec<_>>(), ["b"], "its Secrets are in there too");
}

#[test]
fn what_was_deleted_and_is_back_with_a_backup_can_be_changed() {
    let mut orders = Orders::default();
    listed(&mut orders, &["a"], 10);
    orders.note(News::Gone(Box::new(assignment("a", 20))));
    listed(&mut orders, &["a"], 11);
    orders.note(News::Applied(Box::new(assignment("a", 12))));
    assert_eq!(orders.assignments["a"].metadata.resource_version.as_deref(), Some("12"));
}

#[test]
fn an_older_copy_never_replaces_a_newer_one() {
    let mut orders = Orders::default();
    let version = |orders: &Orders| orders.assignments["a"].metadata.resource_version.clone();
    orders.note(News::Applied(Box::new(assignment("a", 5))));
    orders.note(News::Applied(Box::new(assignment("a", 4))));
    assert_eq!(version(&orders).as_deref(), Some("5"));
    orders.note(News::Applied(Box::new(assignment("a", 6))));
    assert_eq!(version(&orders).as_deref(), Some("6"));
}

#[test]
fn the_answer_to_a_write_does_not_bring_back_what_was_deleted_meanwhile() {
    let mut orders = Orders::default();
    listed(&mut orders, &["a", "b"], 10);
    orders.note(News::Gone(Box::new(assignment("a", 12))));
    orders.note(News::Applied(Box::new(assignment("a", 11))));
    assert_eq!(uids(&orders), ["b"]);
}

#[test]
fn what_was_given_to_another_node_and_comes_back_is_ours_again() {
    let mut orders = Orders::default();
    listed(&mut orders, &["a", "b"], 10);
    // A watch of what is ours says of one that leaves it that it is gone.
    orders.note(News::Gone(Box::new(assignment("a", 12))));
    orders.note(News::Applied(Box::new(assignment("a", 13))));
    assert_eq!(uids(&orders), ["a", "b"]);
    orders.note(News::Gone(Box::new(assignment("b", 14))));
    listed(&mut orders, &["a", "b"], 15);
    orders.note(News::Applied(Box::new(assignment("b", 16))));
    assert_eq!(orders.assignments["b"].metadata.resource_version.as_deref(), Some("16"));
}

#[test]
fn so_many_that_are_gone_are_remembered_the_newest_among_them() {
    let mut orders = Orders::default();
    listed(&mut orders, &[], 10);
    let uid = |number: usize| format!("u{number}");
    for number in 0..=GONE_MAX {
        orders.note(News::Gone(Box::new(assignment(&uid(number), 20))));
    }
    assert_eq!(orders.gone.len(), GONE_MAX);
    // The answer to a write that was under way when they went.
    orders.note(News::Applied(Box::new(assignment(&uid(GONE_MAX), 19))));
    orders.note(News::Applied(Box::new(assignment(&uid(1), 19))));
    assert_eq!(uids(&orders), [""; 0], "they stay gone");
    orders.note(News::Applied(Box::new(assignment(&uid(0), 19))));
    assert_eq!(uids(&orders), ["u0"], "the oldest was forgotten");
}
