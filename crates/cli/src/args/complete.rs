//! What a shell offers when somebody presses Tab: names that the server knows. A server that does not
//! answer at once offers nothing, and says nothing.

use std::{ffi::OsStr, time::Duration};

use clap::Parser as _;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::Value;

use super::Globals;
use crate::{catalogue, connection::Connection, kubeconfig, shell};

/// Nobody waits longer for a suggestion.
const WAIT: Duration = Duration::from_millis(800);
/// More names than this help nobody.
const NAMES_MAX: &str = "200";

/// `apps`, `app/web`.
pub(super) fn objects() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        match typed.to_str().unwrap_or_default().split_once('/') {
            None => {
                let all = catalogue::built_in().into_iter();
                let words = all.flat_map(|resource| [resource.plural, resource.singular]);
                candidates(words, typed)
            }
            Some((kind, _)) => {
                let found = catalogue::by_word(&catalogue::built_in(), kind).cloned();
                let names = found.map(|resource| listed(&resource.kind)).unwrap_or_default();
                let kind = kind.to_owned();
                candidates(names.iter().map(|one| format!("{kind}/{}", name(one))), typed)
            }
        }
    })
}

pub(super) fn apps() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(listed("App").iter().map(name), typed))
}

/// `shop`, `shop/web`.
pub(super) fn components() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let apps = listed("App");
        let words = apps.iter().flat_map(|app| {
            let components = app["spec"]["components"].as_array().map_or(&[][..], Vec::as_slice);
            let own = components.iter().filter_map(|component| component["name"].as_str());
            let parts = own.map(|component| format!("{}/{component}", name(app)));
            std::iter::once(name(app)).chain(parts).collect::<Vec<_>>()
        });
        candidates(words, typed)
    })
}

pub(super) fn namespaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(listed("Namespace").iter().map(name), typed))
}

pub(super) fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let path = globals().and_then(|globals| crate::connection::kubeconfig_path(&globals).ok());
        let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let config: Value = serde_saphyr::from_str(&text).unwrap_or_default();
        candidates(kubeconfig::contexts(&config).into_iter().map(|one| one.name), typed)
    })
}

fn candidates(words: impl Iterator<Item = String>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_str().unwrap_or_default();
    words.filter(|word| word.starts_with(typed)).map(CompletionCandidate::new).collect()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// As the environment says; what is typed on the line in front is not looked at.
fn globals() -> Option<Globals> {
    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        globals: Globals,
    }
    Alone::try_parse_from(["tombolo"]).ok().map(|alone| alone.globals)
}

fn listed(kind: &str) -> Vec<Value> {
    let ask = async {
        let globals = Globals { request_timeout: WAIT, ..globals()? };
        let connection = Connection::open(&globals).await.ok()?;
        let resource = catalogue::known(kind);
        let path = resource.collection(Some(&connection.namespace));
        let list = connection.get(&format!("{path}?limit={NAMES_MAX}")).await.ok()?;
        list["items"].as_array().cloned()
    };
    // Fails only if a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Ok(runtime) = shell::runtime() else { return Vec::new() };
    runtime
        .block_on(async { tokio::time::timeout(WAIT, ask).await.ok().flatten() })
        .unwrap_or_default()
}
