//! What is explained agrees with what the loop has done, with what only the loop can remember.

use super::*;

#[tokio::test]
async fn a_node_that_was_given_up_is_the_first_cause_in_every_explanation() {
    let (tombolo, client) = start().await;
    let fixed = SHOP
        .replace("spec:\n", "spec:\n  disconnect: {action: replace, after: 1s}\n")
        .replace("{cpu: 3, memory: 1Gi}", "{cpu: 3, memory: 1Gi, sites: [a]}");
    tombolo.shell_with(&["apply", "-f", "-"], &fixed).await.ok();
    let placed = until_running(&client, "shop").await;
    assert_eq!(node_of(&placed, "data"), "a1");
    set_holder(&client, "a1", "").await;
    let lacks = eventually("data is given up and has no other place", async || {
        let app = app(&client, "shop").await;
        let unplaced = app["status"]["unplaced"].as_array().cloned().unwrap_or_default();
        unplaced.into_iter().find(|one| one["component"] == "data")
    })
    .await;
    // What follows is told by the node or by the site, whichever was looked at first.
    let cause = "site a is not ready since 20";
    let is_it = |told: &Value| told.as_str().is_some_and(|told| told.starts_with(cause));
    assert!(is_it(&lacks["reasons"][0]), "{lacks}");

    // By the Node alone nobody could tell that the loop has given up waiting.
    let planned = tombolo.shell(&["plan", "shop", "-o", "json"]).await;
    assert_eq!(planned.code, Some(8), "{planned:?}");
    assert!(!planned.stderr.contains("explains nothing"), "{planned:?}");
    let planned: Value = serde_json::from_str(&planned.stdout).unwrap();
    let unplaced = planned["unplaced"].as_array().unwrap();
    let data = unplaced.iter().find(|one| one["component"] == "data").unwrap();
    assert!(is_it(&data["reasons"][0]), "{planned}");

    let answer = tombolo.shell(&["what-if", "--fail", "node/c1", "-o", "json"]).await;
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let differences = answer["differences"].as_array().unwrap();
    let data = differences.iter().find(|one| one["component"] == "data").unwrap();
    assert!(data["to"].is_null() && data["why"].as_str().unwrap().contains(cause), "{answer}");

    let why = tombolo.shell(&["why", "shop/data", "--node", "a1", "-o", "json"]).await.json();
    assert!(is_it(&why[0]["failing"][0]), "{why}");
    assert_eq!(why[0]["instead"], json!([]), "it runs nowhere that counts: {why}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_told_with_the_nearest() {
    let (tombolo, _client) = start().await;
    let wrong = SHOP.replace("{cpu: 3, memory: 1Gi}", "{cpu: 3, memory: 1Gi, nodes: [a-1]}");
    let planned = tombolo.shell_with(&["plan", "-f", "-"], &wrong).await;
    assert_eq!(planned.code, Some(8), "{planned:?}");
    let told = r#"there is no node "a-1" (did you mean "a1"?)"#;
    assert!(planned.stdout.contains(told), "{planned:?}");
    for (command, says) in [
        (&["plan", "shob"][..], "app default/shob: does not exist"),
        (&["why", "shob", "--node", "a1"], "app default/shob: does not exist"),
        (&["what-if", "--drain", "node/a2"], "node a2: does not exist"),
    ] {
        let ran = tombolo.shell(command).await;
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.stderr.contains(says), "{ran:?}");
    }
}
