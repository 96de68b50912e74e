//! A site falls silent: what was there is replaced, once, and nobody else moves.

use super::*;

/// Where each instance is assigned and stays, by App, component and replica.
fn places(stage: &Stage) -> BTreeMap<(String, String, u32), BTreeSet<String>> {
    let mut places: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for one in &stage.observed.assignments {
        let spec = &one.spec;
        let key = (spec.app.clone(), spec.component.clone(), spec.replica);
        if one.metadata.deletion_timestamp.is_none() {
            places.entry(key).or_default().extend(spec.node.clone());
        }
    }
    places
}

/// Twelve sites of five nodes with four cores, and Apps of four instances.
fn many(apps: usize) -> Stage {
    let letters = "abcdefghijkl".chars();
    let nodes: Vec<String> =
        letters.flat_map(|site| (1..=5).map(move |number| format!("{site}{number}:4"))).collect();
    let mut stage = Stage::new(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
    for number in 0..apps {
        let mut back = component("back", 1, "700m");
        back["stateful"] = json!(number % 4 == 0);
        // State is replaced like anything else, so that all of it has to find a place.
        back["disconnect"] = json!({"action": "replace"});
        stage.apply(&format!("app{number:02}"), app(&[component("front", 3, "500m"), back]));
    }
    stage.settle();
    stage
}

#[test]
fn what_a_silent_site_had_is_replaced_once_and_nobody_else_moves() {
    for failed in ['a', 'f', 'l'] {
        let mut stage = many(24);
        let before = places(&stage);
        assert_eq!(before.len(), 96);
        let gone = |node: &String| node.starts_with(failed);
        for number in 1..=5 {
            stage.set_ready(&format!("{failed}{number}"), false);
        }
        stage.settle();
        assert_eq!(places(&stage), before, "they are waited for");
        stage.pass(301);
        stage.settle();
        let replaced = places(&stage);
        let mut lost = 0;
        for (instance, nodes) in &before {
            let now = &replaced[instance];
            match nodes.iter().any(gone) {
                true => {
                    lost += 1;
                    assert_eq!(now.iter().filter(|node| !gone(node)).count(), 1, "{instance:?}");
                }
                false => assert_eq!(now, nodes, "{instance:?} ran well and was moved"),
            }
        }
        assert!(lost > 2, "{lost} instances were at {failed}");
        // Nothing moves again, however often it is looked at, and when the site is back either.
        for _ in 0..4 {
            stage.pass(13);
            stage.settle();
            assert_eq!(places(&stage), replaced);
        }
        for number in 1..=5 {
            stage.set_ready(&format!("{failed}{number}"), true);
        }
        stage.settle();
        for (instance, nodes) in places(&stage) {
            let elsewhere = replaced[&instance].iter().filter(|node| !gone(node));
            assert_eq!(nodes, elsewhere.cloned().collect(), "{instance:?}");
        }
    }
}

/// Where there is hardly room, whoever makes room for others says so, and state stays.
#[test]
fn who_makes_room_says_so() {
    let mut stage = Stage::new(&["a1:4", "b1:4", "c1:2"]);
    stage.apply("large", app(&[component("web", 1, "3")]));
    stage.settle();
    let node = stage.observed.assignments[0].spec.node.clone().unwrap();
    // The other node with so much room is taken by what could go elsewhere.
    let other = if node == "a1" { "b1" } else { "a1" };
    let mut small = component("web", 1, "1500m");
    small["needs"]["nodes"] = json!([other, "c1"]);
    stage.apply("small", app(&[small]));
    stage.settle();
    stage.set_ready(&node, false);
    stage.settle();
    stage.pass(301);
    stage.settle();
    let of = |name: &str| {
        let app = stage.observed.apps.iter().find(|app| app.metadata.name.as_deref() == Some(name));
        app.unwrap().status.clone().unwrap().placements[0].clone()
    };
    assert_eq!(of("large").node.as_deref(), Some(other));
    let small = of("small");
    assert_eq!(small.node.as_deref(), Some("c1"));
    let reason = small.decision.unwrap().reason.unwrap();
    // It may have been put there in the first place.
    let moved = reason.contains("others would have no place otherwise");
    assert!(moved || reason.contains("best of"), "{reason}");
}

/// What a look at the stage as it is would be at.
fn looked_at(stage: &Stage) -> (usize, usize) {
    let part = quiet::Part::of(&stage.observed, &stage.memory);
    (part.observed.apps.len(), part.is_due.iter().filter(|due| **due).count())
}

#[test]
fn a_look_is_only_at_what_something_has_happened_to() {
    let mut stage = many(48);
    assert_eq!(looked_at(&stage), (0, 0), "nothing has happened");
    let before = stage.clone();
    stage.apply("late", app(&[component("web", 1, "500m")]));
    assert_eq!(looked_at(&stage), (1, 1), "one App more");
    stage.settle();
    assert_eq!(looked_at(&stage), (0, 0));

    let mut stage = before.clone();
    stage.set_ready("f3", false);
    let there = stage.observed.assignments.iter();
    let there = there.filter(|one| one.spec.node.as_deref() == Some("f3"));
    let there: BTreeSet<&str> = there.map(|one| one.spec.app.as_str()).collect();
    let (looked_at_now, due) = looked_at(&stage);
    assert!(due >= there.len() && !there.is_empty(), "{due} for {there:?}");
    assert!(looked_at_now <= 5 * there.len() + 12, "{looked_at_now} for {there:?}");

    // Who calls an App hears of what happens to it, and so does whom it calls.
    let mut stage = before;
    let mut caller = component("web", 1, "100m");
    caller["connects"] = json!([{"app": "app07", "to": "back", "port": 80}]);
    stage.apply("caller", app(&[caller]));
    stage.settle();
    let back =
        |one: &&mut Shared<Assignment>| one.spec.app == "app07" && one.spec.component == "back";
    let back = stage.observed.assignments.iter_mut().find(back).unwrap();
    back.metadata.annotations = Some(BTreeMap::from([("touched".to_owned(), String::new())]));
    let part = quiet::Part::of(&stage.observed, &stage.memory);
    let due = part.observed.apps.iter().zip(&part.is_due).filter(|(_, due)| **due);
    let due: Vec<&str> = due.filter_map(|(app, _)| app.metadata.name.as_deref()).collect();
    assert!(due.contains(&"caller") && due.contains(&"app07"), "{due:?}");
    assert!(due.len() < 20, "{due:?}");
}
