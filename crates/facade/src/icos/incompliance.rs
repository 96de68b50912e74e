//! `/jobmanager/policies/incompliance`: a policy manager of ICOS tells that an application is not as its
//! policy wants it, and what should be done. What we have a field for is done, by the rights of whoever
//! tells it; the rest is refused with a sentence. Start at [`tell`].

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::{Extension, Json};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tombolo_gate::Caller;
use tombolo_model::App;
use tombolo_model::policy::Action;
use tombolo_policy::remedy;

use super::deployment;
use super::index::Index;
use crate::refusal::Refusal;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incompliance {
    policy_name: String,
    remediation: String,
    #[serde(default)]
    subject: Subject,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Subject {
    app_name: String,
    app_component: String,
    /// The id of the deployment, where its name alone would not do.
    app_instance: String,
}

/// The answer is what was told, with the deployment that it is about.
pub(super) async fn tell(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let wrong = |problem: String| Refusal::new(StatusCode::BAD_REQUEST, problem);
    let mut told: Map<String, Value> = serde_json::from_slice(&body)
        .map_err(|error| wrong(format!("expected an object of an incompliance: {error}")))?;
    let found: Incompliance = serde_json::from_value(Value::Object(told.clone()))
        .map_err(|error| wrong(format!("an incompliance: {error}")))?;
    let action = remedy(&found.remediation)?;
    let app = subject(&caller, &index, &found.subject).await?;
    if action != Action::None {
        let component = &found.subject.app_component;
        let changed = remedied(app.clone(), component, action).map_err(unprocessable)?;
        let api: Api<App> = Api::namespaced(caller.client.clone(), &deployment::namespace(&app));
        api.replace(&app.name_any(), &PostParams::default(), &changed).await?;
        let policy = &found.policy_name;
        tracing::info!(app = app.name_any(), component, policy, %action, "a policy manager asks");
    }
    told.insert("id".to_owned(), json!(app.uid()));
    Ok(Json(Value::Object(told)))
}

fn unprocessable(problem: String) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, problem)
}

/// What its words mean is what they mean in ICOS: `scale-up` and `scale-down` are instances, `scale-out` and
/// `scale-in` are what each instance may use.
fn remedy(word: &str) -> Result<Action, Refusal> {
    let action = Action::ALL.iter().find(|action| action.as_str() == word);
    match action.copied() {
        Some(
            action @ (Action::None
            | Action::ScaleUp
            | Action::ScaleDown
            | Action::ScaleOut
            | Action::ScaleIn),
        ) => Ok(action),
        Some(
            Action::Patch
            | Action::Reallocation
            | Action::Redeploy
            | Action::Migrate
            | Action::Restart
            | Action::Quarantine
            | Action::Notify
            | Action::Webhook,
        ) => Err(unprocessable(format!(
            "{word:?} does not say what to change: change the deployment with PUT \
             /api/v3/deployment, and it is placed anew; scale-up, scale-down, scale-out, scale-in and \
             none are taken here"
        ))),
        None => Err(unprocessable(format!("{word:?} is no remediation"))),
    }
}

/// By its id, or by a name that is there once.
async fn subject(caller: &Caller, index: &Index, subject: &Subject) -> Result<App, Refusal> {
    let (name, id) = (&subject.app_name, &subject.app_instance);
    let missing = || unprocessable(format!("there is no deployment {name:?} {id}"));
    if !id.is_empty() {
        let found = deployment::find(&caller.client, index, id).await;
        return found.map_err(|refusal| match refusal.code() {
            StatusCode::NOT_FOUND => missing(),
            _ => refusal,
        });
    }
    let apps = deployment::apps(&caller.client).await?;
    let mut found = apps.iter().filter(|app| app.name_any() == *name);
    match (found.next(), found.next()) {
        (Some(app), None) => Ok(app.clone()),
        (Some(_), Some(_)) => {
            Err(unprocessable(format!("there are several {name:?}: say which by appInstance")))
        }
        (None, _) => Err(missing()),
    }
}

/// The App as it should be. One of each component stays: stopping is another thing.
fn remedied(mut app: App, component: &str, action: Action) -> Result<App, String> {
    remedy::change(&mut app.spec, component, action, None)
        .map_err(|problem| format!("{}: {problem}", app.name_any()))?;
    Ok(app)
}
