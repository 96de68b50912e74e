//! News from the server: the Assignments of the site, and what the Secrets and ConfigMaps that they
//! name say. Started by [`crate::work`]; start at [`assignments`].
//!
//! A watch of our own and not kube's: it tells the version of each list, by which a server that was
//! set back to a backup is known.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tombolo_model::Assignment;
use tombolo_model::phrase::with_causes;
use tombolo_plan::agent::pauses::{self, Found, Redial};

use crate::connection::Connection;
use crate::desired::{Entries, Source, SourceKind, Wishes};
use crate::orders::News;

/// A page of a list.
const PAGE: u32 = 500;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The server says every minute that it is still there: without a word for so long, it is not.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// The agent has ended and nobody hears us any more.
struct Unheard;

enum Ended {
    /// The time of the watch was over: go on from where it was.
    Over,
    /// Begin with a list.
    Broken(String),
}

/// Lists and watches for ever. Lists anew whenever `again` changes.
pub(crate) async fn assignments(
    connection: Connection,
    site: String,
    mut again: watch::Receiver<u64>,
    news: mpsc::Sender<News>,
) {
    let mut redial = Redial::new(pauses::FEED);
    loop {
        let began = Instant::now();
        let following = connection
            .ask(async |client| follow(&Api::all(client), &site, &news, &mut redial).await);
        let followed = tokio::select! {
            followed = following => followed,
            Ok(()) = again.changed() => continue,
        };
        let ended = match followed {
            Some(Ok(problem)) => {
                tracing::info!(problem, "no news; listing again");
                pauses::Ended::Broken
            }
            Some(Err(Unheard)) => return,
            None => pauses::Ended::Replaced,
        };
        tokio::time::sleep(redial.after(ended, began.elapsed())).await;
    }
}

/// Returns why a list is needed.
async fn follow(
    api: &Api<Assignment>,
    site: &str,
    news: &mpsc::Sender<News>,
    redial: &mut Redial,
) -> Result<String, Unheard> {
    let (assignments, version) = match list(api, site).await {
        Ok(listed) => listed,
        Err(problem) => return Ok(problem),
    };
    redial.was_good();
    let number = version.parse().ok();
    news.send(News::Listed { assignments, version: number }).await.map_err(|_| Unheard)?;
    let mut version = version;
    loop {
        match watch_from(api, site, &mut version, news).await? {
            Ended::Over => (),
            Ended::Broken(problem) => return Ok(problem),
        }
    }
}

async fn list(api: &Api<Assignment>, site: &str) -> Result<(Vec<Assignment>, String), String> {
    let mut assignments = Vec::new();
    let mut params = ListParams::default().fields(&format!("spec.site={site}")).limit(PAGE);
    loop {
        let page = tokio::time::timeout(ANSWER_TIMEOUT, api.list(&params)).await;
        let page = page.map_err(|late| late.to_string())?.map_err(|error| with_causes(&error))?;
        assignments.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((assignments, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

async fn watch_from(
    api: &Api<Assignment>,
    site: &str,
    version: &mut String,
    news: &mpsc::Sender<News>,
) -> Result<Ended, Unheard> {
    let params = WatchParams::default().fields(&format!("spec.site={site}"));
    let opened = tokio::time::timeout(ANSWER_TIMEOUT, api.watch(&params, version)).await;
    let stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Ok(Ended::Broken(with_causes(&error))),
        Err(late) => return Ok(Ended::Broken(late.to_string())),
    };
    let mut stream = pin!(stream);
    loop {
        let event = match tokio::time::timeout(SILENCE_MAX, stream.next()).await {
            Ok(Some(Ok(event))) => event,
            Ok(None) => return Ok(Ended::Over),
            Ok(Some(Err(error))) => return Ok(Ended::Broken(with_causes(&error))),
            Err(_) => return Ok(Ended::Broken("the server has fallen silent".to_owned())),
        };
        let told = match event {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => {
                remember(version, found.metadata.resource_version.as_ref());
                News::Applied(Box::new(found))
            }
            WatchEvent::Deleted(found) => {
                remember(version, found.metadata.resource_version.as_ref());
                News::Gone(Box::new(found))
            }
            WatchEvent::Bookmark(bookmark) => {
                remember(version, Some(&bookmark.metadata.resource_version));
                continue;
            }
            WatchEvent::Error(status) => return Ok(Ended::Broken(status.message)),
        };
        news.send(told).await.map_err(|_| Unheard)?;
    }
}

fn remember(version: &mut String, seen: Option<&String>) {
    if let Some(seen) = seen {
        version.clone_from(seen);
    }
}

/// Asks for what is named, whenever that changes and now and then.
pub(crate) async fn entries(
    connection: Connection,
    mut wanted: watch::Receiver<Wishes>,
    news: mpsc::Sender<News>,
) {
    loop {
        let wishes = wanted.borrow_and_update().clone();
        let mut answers = Entries::new();
        for source in wishes.keys() {
            let asked = connection.ask(async |client| ask(client, source).await).await;
            match asked.unwrap_or_else(|| Err("the connection was given up".to_owned())) {
                Ok(values) => _ = answers.insert(source.clone(), values),
                Err(problem) => tracing::info!(?source, problem, "cannot be read yet"),
            }
        }
        let pause = pauses::entries(found(&wishes, &answers));
        if !answers.is_empty() && news.send(News::Answered(answers)).await.is_err() {
            return;
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => (),
        }
    }
}

/// Whether every entry that is named is among the answers.
fn found(wishes: &Wishes, answers: &Entries) -> Found {
    let is_there = |source: &Source, key: &String| {
        answers.get(source).is_some_and(|values| values.contains_key(key))
    };
    let complete = wishes.iter().all(|(source, keys)| keys.iter().all(|key| is_there(source, key)));
    if complete { Found::All } else { Found::NotAll }
}

/// A Secret or ConfigMap that does not exist is empty; one that cannot be read is an error.
async fn ask(client: Client, source: &Source) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let (namespace, name) = (source.namespace.as_str(), source.name.as_str());
    let asked = async {
        match source.kind {
            SourceKind::Secret => {
                let api: Api<Secret> = Api::namespaced(client, namespace);
                Ok(api.get_opt(name).await?.map(of_secret))
            }
            SourceKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client, namespace);
                Ok(api.get_opt(name).await?.map(of_config))
            }
        }
    };
    let answer: Result<_, kube::Error> =
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.map_err(|late| late.to_string())?;
    answer.map(Option::unwrap_or_default).map_err(|error| with_causes(&error))
}

fn of_secret(secret: Secret) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    let text = secret.string_data.unwrap_or_default().into_iter();
    data.chain(text.map(|(key, value)| (key, value.into_bytes()))).collect()
}

fn of_config(config: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = config.data.unwrap_or_default().into_iter();
    let data = config.binary_data.unwrap_or_default().into_iter();
    let data = data.map(|(key, value)| (key, value.0));
    text.map(|(key, value)| (key, value.into_bytes())).chain(data).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_is_found_when_every_entry_that_is_named_was_answered() {
        let kind = SourceKind::Secret;
        let db = Source { namespace: "default".to_owned(), kind, name: "db".to_owned() };
        let wishes = Wishes::from([(db.clone(), BTreeSet::from(["pass".to_owned()]))]);
        let with = |keys: &[&str]| {
            let values = keys.iter().map(|key| ((*key).to_owned(), b"x".to_vec())).collect();
            found(&wishes, &Entries::from([(db.clone(), values)]))
        };
        assert_eq!(with(&["pass", "other"]), Found::All);
        assert_eq!(with(&[]), Found::NotAll, "there is no such Secret");
        assert_eq!(with(&["pas"]), Found::NotAll, "it has no such entry");
        assert_eq!(found(&wishes, &Entries::new()), Found::NotAll, "nobody answered");
    }
}
