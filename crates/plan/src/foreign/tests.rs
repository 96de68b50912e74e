//! A foreign object, the Apps that there are, and what is to be written.

use expect_test::{Expect, expect};

use super::*;

fn codeco(status: Value) -> Foreign {
    foreign(
        Kind::CodecoApp,
        json!({"appName": "shop", "codecoapp-msspec": [{
            "serviceName": "front",
            "podspec": {"containers": [{"name": "front", "image": "example/front:1"}]},
        }]}),
        status,
    )
}

fn foreign(kind: Kind, spec: Value, status: Value) -> Foreign {
    let mut object = json!({
        "apiVersion": format!("{}/{}", kind.group(), kind.version()), "kind": kind.as_str(),
        "metadata": {"name": "shop", "namespace": "trade", "uid": "u1", "generation": 1},
        "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status;
    }
    let (namespace, name, uid) = ("trade".to_owned(), "shop".to_owned(), "u1".to_owned());
    Foreign { kind, namespace, name, uid, object }
}

fn lines(actions: &[Action]) -> String {
    let mut text = String::new();
    for action in actions {
        text.push_str(&format!("{action}\n"));
        if let Verb::Status(status) = &action.verb {
            text.push_str(&format!("  {status}\n"));
        }
    }
    text
}

#[track_caller]
fn check(observed: &Observed, expect: Expect) {
    expect.assert_eq(&lines(&plan(observed)));
}

/// An App that is there keeps what somebody else wrote into it.
fn merge(app: App, apps: &mut Vec<Shared<App>>) {
    let Some(found) = apps.iter_mut().find(|found| found.metadata.name == app.metadata.name) else {
        return apps.push(app.into());
    };
    let carried =
        |app: &App| app.metadata.annotations.as_ref().unwrap()[keys::ANNOTATION_MADE_OF].clone();
    let before = carried(found);
    let labels = found.metadata.labels.get_or_insert_default();
    labels.retain(|key, _| !before.contains(key.as_str()));
    labels.extend(app.metadata.labels.unwrap_or_default());
    let annotations = found.metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| !before.contains(key.as_str()));
    annotations.extend(app.metadata.annotations.unwrap_or_default());
}

/// Does what the plan says, as a server would.
fn carry_out(observed: &mut Observed) {
    for action in plan(observed) {
        let foreign = &mut observed.objects[action.object];
        match action.verb {
            Verb::Status(status) => foreign.object["status"] = status,
            Verb::Delete { app, .. } => {
                observed.apps.retain(|found| found.metadata.name.as_ref() != Some(&app));
            }
            Verb::Write(objects) => {
                for object in objects.into_iter().filter(|object| object["kind"] == "App") {
                    let app: App = serde_json::from_value(object).unwrap();
                    merge(app, &mut observed.apps);
                }
            }
            Verb::Replace { app, spec, .. } => {
                let found = observed.apps.iter_mut();
                let mut found = found.filter(|found| found.metadata.name.as_ref() == Some(&app));
                found.next().unwrap().spec = serde_json::from_value(spec).unwrap();
            }
        }
    }
}

#[test]
fn a_foreign_object_gets_an_app_and_a_status_and_then_nothing_more() {
    let mut observed = Observed { objects: vec![codeco(Value::Null)], ..Observed::default() };
    check(
        &observed,
        expect![[r#"
        write App shop: an App was made of it; dropped spec.codecoapp-msspec[0].podspec.containers[0].name: a container is named after its component
    "#]],
    );
    carry_out(&mut observed);
    carry_out(&mut observed);
    check(&observed, expect![[r#""#]]);
    let app = &observed.apps[0];
    assert_eq!(app.metadata.namespace.as_deref(), Some("trade"));
    assert!(observed.objects[0].owns(app));
}

#[test]
fn an_app_that_someone_changed_is_written_again() {
    let mut observed = Observed { objects: vec![codeco(Value::Null)], ..Observed::default() };
    carry_out(&mut observed);
    carry_out(&mut observed);
    // Also what only somebody else ever wrote.
    observed.apps[0].spec.components[0].replicas = Some(7);
    observed.apps[0].spec.homogeneous = true;
    check(
        &observed,
        expect![[r#"
            replace App shop: its spec is not what the CodecoApp says
            write App shop: an App was made of it; dropped spec.codecoapp-msspec[0].podspec.containers[0].name: a container is named after its component
        "#]],
    );
    carry_out(&mut observed);
    check(&observed, expect![[""]]);
}

#[test]
fn labels_and_annotations_follow_and_those_of_others_stay() {
    let mut object = codeco(Value::Null);
    object.object["metadata"]["labels"] = json!({"team": "red", "tier": "gold"});
    object.object["metadata"]["annotations"] = json!({"note": "one"});
    let mut observed = Observed { objects: vec![object], ..Observed::default() };
    carry_out(&mut observed);
    carry_out(&mut observed);
    observed.apps[0].metadata.labels.as_mut().unwrap().insert("theirs".into(), "kept".into());
    check(&observed, expect![[""]]);

    let metadata = &mut observed.objects[0].object["metadata"];
    metadata["labels"] = json!({"team": "blue"});
    metadata["annotations"] = json!({"word": "two"});
    carry_out(&mut observed);
    check(&observed, expect![[""]]);
    let metadata = &observed.apps[0].metadata;
    expect![[r#"{"team": "blue", "theirs": "kept"}"#]]
        .assert_eq(&format!("{:?}", metadata.labels.as_ref().unwrap()));
    expect![[
        r#"{"tombolo.dev/made-of": "generation 1; labels: team; annotations: word", "word": "two"}"#
    ]]
    .assert_eq(&format!("{:?}", metadata.annotations.as_ref().unwrap()));
    // Somebody takes one away.
    observed.apps[0].metadata.labels = None;
    carry_out(&mut observed);
    assert_eq!(observed.apps[0].metadata.labels.as_ref().unwrap()["team"], "blue");
}

/// The value is not in the App, so that the App alone does not show that it changed.
#[test]
fn a_secret_is_written_again_when_its_value_changes() {
    let apps = json!({"apps": [{"name": "one", "components": [{
        "name": "a", "image": "example/a:1",
        "env": {"is-secret": true, "variables": [{"name": "WORD", "value": "old"}]},
    }]}]});
    let orchestration = foreign(Kind::LowLevelOrchestration, apps, Value::Null);
    let mut observed = Observed { objects: vec![orchestration], ..Observed::default() };
    carry_out(&mut observed);
    carry_out(&mut observed);
    check(&observed, expect![[""]]);
    let object = &mut observed.objects[0].object;
    object["metadata"]["generation"] = json!(2);
    object["spec"]["apps"][0]["components"][0]["env"]["variables"][0]["value"] = json!("new");
    let actions = plan(&observed);
    let [Action { verb: Verb::Write(objects), .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(objects[0]["kind"], "Secret");
    assert_eq!(objects[0]["stringData"]["WORD"], "new");
    carry_out(&mut observed);
    check(&observed, expect![[""]]);
}

#[test]
fn what_cannot_be_read_is_refused_in_its_own_status_and_its_app_is_left_alone() {
    let mut observed = Observed { objects: vec![codeco(Value::Null)], ..Observed::default() };
    carry_out(&mut observed);
    observed.objects[0].object["spec"]["securityClass"] = json!("Enormous");
    check(
        &observed,
        expect![[r#"
            write the status: what it says is old
              {"errorMsg":"spec.securityClass: \"Enormous\" is not known here, expected \"High\", \"Good\", \"Medium\", \"Low\" or \"None\"","status":"Error"}
        "#]],
    );
    carry_out(&mut observed);
    assert_eq!(observed.apps.len(), 1);
    observed.objects[0].object["spec"]["securityClass"] = json!("Hihg");
    check(
        &observed,
        expect![[r#"
        write the status: what it says is old
          {"errorMsg":"spec.securityClass: \"Hihg\" is not known here, expected \"High\", \"Good\", \"Medium\", \"Low\" or \"None\" (did you mean \"High\"?)","status":"Error"}
    "#]],
    );
}

#[test]
fn an_app_of_somebody_else_is_not_taken_over() {
    let mut observed = Observed { objects: vec![codeco(Value::Null)], ..Observed::default() };
    carry_out(&mut observed);
    observed.apps[0].metadata.owner_references = None;
    check(
        &observed,
        expect![[r#"
        write the status: what it says is old
          {"errorMsg":"there is an App \"shop\" already that was not made from this","status":"Error"}
    "#]],
    );
}

#[test]
fn an_app_that_is_no_longer_named_goes() {
    let apps = json!({"apps": [
        {"name": "one", "components": [{"name": "a", "image": "example/a:1"}]},
        {"name": "two", "components": [{"name": "b", "image": "example/b:1"}]},
    ]});
    let orchestration = foreign(Kind::LowLevelOrchestration, apps, Value::Null);
    let mut observed = Observed { objects: vec![orchestration], ..Observed::default() };
    check(
        &observed,
        expect![[r#"
        write App one, App two: an App was made of it; dropped metadata.name: each app of the orchestration is an App of its own name
    "#]],
    );
    carry_out(&mut observed);
    carry_out(&mut observed);
    let apps = &mut observed.objects[0].object["spec"]["apps"];
    apps.as_array_mut().unwrap().remove(1);
    check(
        &observed,
        expect![[r#"
        delete App two: LowLevelOrchestration no longer names it
        write the status: what it says is old
          {"apps":[{"components":[],"name":"one","phase":"Pending"}],"clusters":[],"phase":"Pending","ready":"0/1"}
    "#]],
    );
}

#[test]
fn what_is_being_deleted_is_left_to_the_collector() {
    let mut foreign = codeco(Value::Null);
    foreign.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(&Observed { objects: vec![foreign], ..Observed::default() }, expect![[r#""#]]);
}
