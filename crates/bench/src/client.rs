//! A client for what is not itself measured: making Apps, waiting for what becomes of them. The client
//! for measuring is in `wire`.

use std::path::Path;

use anyhow::Context as _;
use futures::{Stream, StreamExt as _};
use http::{Method, Request, header};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use serde_json::Value;

const JSON: &str = "application/json";

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) kube: kube::Client,
}

impl Client {
    /// As whom and where the kubeconfig says.
    pub(crate) async fn open(kubeconfig: &Path) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Client { kube: kube::Client::try_from(config)? })
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, Vec::new()).await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, object.to_string().into_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::DELETE, path, Vec::new()).await
    }

    /// The events of a watch, until the server ends it.
    pub(crate) async fn watch(
        &self,
        path: &str,
    ) -> anyhow::Result<impl Stream<Item = anyhow::Result<WatchEvent<Value>>> + use<>> {
        let request = Request::get(path).header(header::ACCEPT, JSON).body(Vec::new())?;
        let events = self.kube.request_events::<Value>(request).await?;
        Ok(events.map(|event: Result<_, kube::Error>| event.context("a watch has failed")))
    }

    async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Value> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(header::CONTENT_TYPE, JSON)
            .body(body)?;
        let answer = self.kube.request::<Value>(request).await;
        answer.with_context(|| format!("{method} {path}"))
    }
}
