//! What the placing loop remembers outlives the process: it is in the status of the Apps.

use tombolo_controller::Explainer;
use tombolo_model::explanation::{AppName, WhyRequest};

use super::*;

impl Stage {
    /// As if the process had ended and another had begun, whose clock begins at zero again. Meanwhile
    /// somebody has set the time of day.
    fn restart(&mut self) {
        let loops = self.tasks.pop().unwrap();
        loops.abort();
        let path = format!("{APPS}/web");
        let mut app = self.fake.get(&path).unwrap();
        for condition in app["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!("2099-01-01T00:00:00Z");
        }
        self.fake.put(&path, app);
        self.board = Board::new(Clock::start());
        let (on, of) = (self.board.clone(), self.fake.clone());
        self.tasks.push(tokio::spawn(async move {
            let never = std::future::pending();
            tombolo_controller::run(
                &on,
                |_| of.client(),
                Arc::new(tombolo_controller::NoSamples),
                never,
            )
            .await;
        }));
    }

    fn node_of_web(&self) -> Option<String> {
        let app = self.fake.get(&format!("{APPS}/web"))?;
        let node = app["status"]["placements"][0]["node"].as_str();
        node.map(str::to_owned)
    }

    /// What the agent of that node says of the instance.
    fn say(&self, node: &str, kind: &str, reason: &str) {
        let all = self.fake.all("assignments");
        let mut own = all.into_iter().find(|one| one["spec"]["node"] == node).unwrap();
        own["status"] = json!({"conditions": [{"type": kind, "status": "True", "reason": reason,
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let name = own["metadata"]["name"].as_str().unwrap();
        self.fake.put(&format!("{OURS}/namespaces/default/assignments/{name}"), own.clone());
    }

    fn remembers(&self, what: &str) -> Value {
        let app = self.fake.get(&format!("{APPS}/web")).unwrap();
        app["status"]["remembered"][what].clone()
    }
}

async fn with_web() -> Stage {
    let stage = Stage::start();
    stage.fake.put(&format!("{APPS}/web"), app(&[("web", json!({}))]));
    stage.until("a place", |stage| stage.is_placed("web", 1)).await;
    stage.until_quiet().await;
    stage
}

#[tokio::test(start_paused = true)]
async fn what_failed_where_still_counts_and_is_told() {
    let mut stage = with_web().await;
    let first = stage.node_of_web().unwrap();
    stage.say(&first, "Degraded", "DiskFull");
    stage.until("another place", |stage| stage.node_of_web().as_ref() != Some(&first)).await;
    let second = stage.node_of_web().unwrap();
    stage
        .until("its Assignment", |stage| {
            stage.fake.all("assignments").iter().any(|one| one["spec"]["node"] == second.as_str())
        })
        .await;
    let failure = json!([{"component": "web", "node": first, "secondsAgo": 0}]);
    assert_eq!(stage.remembers("failures"), failure);

    stage.restart();
    stage.until_quiet().await;
    let app = AppName { namespace: "default".to_owned(), name: "web".to_owned() };
    let question = WhyRequest { app, component: None, node: first.clone() };
    let answer = Explainer::new(stage.board.clone()).why(question).await.unwrap();
    let told = answer.components[0].struck.clone().unwrap();
    assert!(told.starts_with("it failed there"), "{told}");

    // It fails on the second node as well, so that it is broken itself. Who did not remember the first
    // would send it back there.
    stage.say(&second, "Degraded", "CrashLoop");
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(stage.node_of_web(), Some(second));
}

#[tokio::test(start_paused = true)]
async fn a_silence_goes_on_where_it_was_last_written_down() {
    let mut stage = with_web().await;
    let first = stage.node_of_web().unwrap();
    assert_eq!(first, "x1", "the one that this stage can silence");
    stage.say(&first, "Available", "Running");
    stage.x1_is_silent.store(true, Ordering::SeqCst);
    let seen = |stage: &Stage| stage.remembers("silent") == json!([{"node": "x1", "seconds": 240}]);
    stage.until("four minutes of silence", seen).await;
    assert_eq!(stage.node_of_web(), Some(first.clone()), "it may come back");

    stage.restart();
    let moved = |stage: &Stage| stage.node_of_web().as_ref() != Some(&first);
    let waited = stage.until("another place", moved).await;
    let rest = Duration::from_secs(50)..Duration::from_secs(90);
    assert!(rest.contains(&waited), "five minutes are over after {waited:?} more");
}
