//! The way to the server: finds the kubeconfig, makes the client, sends requests.
//!
//! Requests go out as plain paths and come back as JSON values: the shell handles kinds that it
//! has never heard of just like its own. Every failure becomes a [`Failure`] here.

mod file;

use std::{path::Path, time::Duration};

use futures::{Stream, StreamExt as _};
use http::{Method, Request, Uri, header};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    core::WatchEvent,
};
use serde_json::Value;
use tokio::sync::OnceCell;
use tombolo_model::suggest::nearest;

use crate::{
    args::Globals,
    catalogue::{self, Resource, encode},
    failure::{self, Exit, Failure},
};

use crate::files::is_part;
use file::{known_context, read_kubeconfig};

pub(crate) use file::kubeconfig_path;

/// Objects as they are.
pub(crate) const JSON: &str = "application/json";
/// Rows and columns as the server sees them; a server that cannot do that sends objects.
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
/// A server that does not take the connection within this is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// And one that does not say within this that it is there is looked for elsewhere, if there is a
/// lighthouse.
const KNOCK_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) struct Connection {
    client: Client,
    /// As the kubeconfig says it, for messages.
    pub(crate) server: String,
    /// Where namespaced things go unless a file says otherwise.
    pub(crate) namespace: String,
    /// The certificate of the authority that the server is known by, if the kubeconfig has one.
    pub(crate) authority: Option<Vec<u8>>,
    request_timeout: Duration,
    discovered: OnceCell<Vec<Resource>>,
}

/// The parameters after the question mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(&'static str, String)>);

impl Query {
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Query {
        self.0.push((key, value.into()));
        self
    }

    /// Leaves the parameter out if there is nothing to say.
    pub(crate) fn with_some(self, key: &'static str, value: Option<&str>) -> Query {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub(crate) fn after(&self, path: &str) -> String {
        let pairs: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
        match pairs.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", pairs.join("&")),
        }
    }
}

impl Connection {
    pub(crate) async fn open(globals: &Globals) -> Result<Connection, Failure> {
        let path = kubeconfig_path(globals)?;
        let kubeconfig = read_kubeconfig(&path)?;
        known_context(&kubeconfig, globals, &path)?;
        let options =
            KubeConfigOptions { context: globals.context.clone(), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        Connection::with(config, globals).await
    }

    /// By a kubeconfig that is not in a file yet.
    pub(crate) async fn of(kubeconfig: Value, globals: &Globals) -> Result<Connection, Failure> {
        let wrong = |why: String| Failure::usage(format!("cannot talk to this server: {why}"));
        let kubeconfig: Kubeconfig =
            serde_json::from_value(kubeconfig).map_err(|error| wrong(error.to_string()))?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Connection::with(config.map_err(|error| wrong(error.to_string()))?, globals).await
    }

    async fn with(mut config: Config, globals: &Globals) -> Result<Connection, Failure> {
        config.connect_timeout = Some(CONNECT_TIMEOUT.min(globals.request_timeout));
        if let Some(namespace) = &globals.namespace {
            config.default_namespace.clone_from(namespace);
        }
        if let Some(lighthouse) = &globals.lighthouse_config {
            config.cluster_url = found(&config, globals, lighthouse).await?;
        }
        let server = config.cluster_url.to_string();
        let namespace = config.default_namespace.clone();
        let authority = config.root_cert.as_ref().and_then(|all| all.first()).cloned();
        let client =
            Client::try_from(config).map_err(|error| failure::of_request(&error, &server))?;
        let request_timeout = globals.request_timeout;
        let discovered = OnceCell::new();
        Ok(Connection { client, server, namespace, authority, request_timeout, discovered })
    }

    /// For the loops, which speak to the server by themselves.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.get_as(path, JSON).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Result<Value, Failure> {
        match self.get_plain(path, accept).await {
            Err(failure) if failure.exit == Exit::NotFound => {
                Err(self.elsewhere(path, failure).await)
            }
            answer => answer,
        }
    }

    async fn get_plain(&self, path: &str, accept: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, &[(header::ACCEPT, accept)], Vec::new()).await
    }

    /// The failure to find an object, with the namespace that it was looked for in, and with those that have
    /// one of its name: whoever forgets -n is told so.
    pub(crate) async fn elsewhere(&self, path: &str, failure: Failure) -> Failure {
        let Some(missing) = Missing::of(path) else { return failure };
        let query = Query::default()
            .with("fieldSelector", format!("metadata.name={}", missing.name))
            .with("limit", "3");
        let list = self.get_plain(&query.after(&missing.everywhere), JSON).await;
        let found = list.as_ref().ok().and_then(|list| list["items"].as_array());
        let found = found.into_iter().flatten();
        let others: Vec<&str> =
            found.filter_map(|one| one["metadata"]["namespace"].as_str()).collect();
        let (namespace, plural) = (missing.namespace, missing.plural);
        let message = format!("{} in namespace {namespace}", failure.message);
        let hint = match others.as_slice() {
            [] => {
                let (here, _) = path.rsplit_once('/').unwrap_or((path, ""));
                let here = Query::default().with("limit", NAMES_MAX).after(here);
                let list = self.get_plain(&here, JSON).await.ok();
                let items = list.as_ref().and_then(|list| list["items"].as_array());
                let names = items.into_iter().flatten();
                let names = names.filter_map(|one| one["metadata"]["name"].as_str());
                let near = nearest(missing.name, names);
                let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
                format!("{near}`tombolo get {plural} -A` lists what there is")
            }
            [other] => format!("namespace {other} has one of this name: -n {other}"),
            others => format!("namespaces {} have one of this name: -n", others.join(", ")),
        };
        Failure { message, ..failure }.hint(hint)
    }

    /// `None` if there is no such object.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.get_plain(path, JSON).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, path: &str, object: &Value) -> Result<Value, Failure> {
        let kind = [(header::CONTENT_TYPE, "application/apply-patch+yaml")];
        // JSON is YAML, and saves the server the slower parser.
        self.send(Method::PATCH, path, &kind, object.to_string().into_bytes()).await
    }

    /// A merge patch: what is named is set, what is null goes.
    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Result<Value, Failure> {
        let kind = [(header::CONTENT_TYPE, "application/merge-patch+json")];
        self.send(Method::PATCH, path, &kind, change.to_string().into_bytes()).await
    }

    /// Ends with the namespace's name if the server says that there is none of this name. Whoever may not
    /// look is told by the request that follows.
    pub(crate) async fn require_namespace(&self) -> Result<(), Failure> {
        self.require_namespace_of(&self.namespace).await
    }

    pub(crate) async fn require_namespace_of(&self, name: &str) -> Result<(), Failure> {
        let path = catalogue::known("Namespace").object("", name);
        match self.get_plain(&path, JSON).await {
            Err(failure) if failure.exit == Exit::NotFound => Err(no_namespace(name)),
            Err(failure) if failure.exit == Exit::Unreachable => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A JSON patch: one step after the other, or none of them.
    pub(crate) async fn patch(&self, path: &str, steps: &Value) -> Result<Value, Failure> {
        let kind = [(header::CONTENT_TYPE, "application/json-patch+json")];
        self.send(Method::PATCH, path, &kind, steps.to_string().into_bytes()).await
    }

    /// The whole object, in place of the one that it was made from.
    pub(crate) async fn put(&self, path: &str, object: &Value) -> Result<Value, Failure> {
        let kind = [(header::CONTENT_TYPE, JSON)];
        self.send(Method::PUT, path, &kind, object.to_string().into_bytes()).await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Result<Value, Failure> {
        let kind = [(header::CONTENT_TYPE, JSON)];
        self.send(Method::POST, path, &kind, object.to_string().into_bytes()).await
    }

    /// Asks a server to explain something, which may search for so long beyond the request timeout. `None` if
    /// it does not know the path.
    pub(crate) async fn explanation(
        &self,
        path: &str,
        question: &Value,
        search: Duration,
    ) -> Result<Option<Value>, Failure> {
        let kind = [(header::CONTENT_TYPE, JSON)];
        let request = request(Method::POST, path, &kind, question.to_string().into_bytes())?;
        let answer = async {
            match self.client.request::<Value>(request).await {
                Err(kube::Error::Api(status)) if is_unknown_path(&status) => Ok(None),
                answer => answer.map(Some),
            }
        };
        self.within(self.request_timeout.saturating_add(search), answer).await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<Value, Failure> {
        let kind = [(header::CONTENT_TYPE, JSON)];
        self.send(Method::DELETE, path, &kind, options.to_string().into_bytes()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<Value, Failure> {
        let request = request(method, path, headers, body)?;
        self.in_time(self.client.request::<Value>(request)).await
    }

    /// The answer as it is, whatever it says; for what is to become a WebSocket.
    pub(crate) async fn send_raw(
        &self,
        request: Request<kube::client::Body>,
    ) -> Result<http::Response<kube::client::Body>, Failure> {
        self.in_time(self.client.send(request)).await
    }

    /// The answer as it is, line by line or in whole; for what is not an object.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Failure> {
        let request = request(Method::GET, path, &[], Vec::new())?;
        self.in_time(self.client.request_text(request)).await
    }

    /// A large answer, piece by piece. Only its beginning is bound by the request timeout.
    pub(crate) async fn download(
        &self,
        path: &str,
    ) -> Result<impl futures::AsyncBufRead + use<>, Failure> {
        let request = request(Method::GET, path, &[], Vec::new())?;
        self.in_time(self.client.request_stream(request)).await
    }

    /// Sends bytes. Not bound by the request timeout: how long it takes is up to their number.
    pub(crate) async fn upload(&self, path: &str, body: Vec<u8>) -> Result<String, Failure> {
        let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
        let request = request(Method::POST, path, &kind, body)?;
        self.client
            .request_text(request)
            .await
            .map_err(|error| failure::of_request(&error, &self.server))
    }

    /// The events of a watch, until the server ends it.
    pub(crate) async fn watch(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Value>, Failure>> + use<>, Failure> {
        let request = request(Method::GET, path, &[(header::ACCEPT, accept)], Vec::new())?;
        let events = self.in_time(self.client.request_events::<Value>(request)).await?;
        let server = self.server.clone();
        Ok(events.map(move |event: Result<WatchEvent<Value>, kube::Error>| {
            event.map_err(|error| failure::of_request(&error, &server))
        }))
    }

    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        self.within(self.request_timeout, answer).await
    }

    async fn within<T>(
        &self,
        time: Duration,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(time, answer).await {
            Ok(answer) => answer.map_err(|error| failure::of_request(&error, &self.server)),
            Err(_) => Err(Failure::new(
                Exit::Timeout,
                format!("no answer from {} within {time:?}", self.server),
            )
            .hint("raise --request-timeout, or look at the server's log")),
        }
    }

    /// The kind that a word means: one of ours at once, any other by asking the server.
    pub(crate) async fn resource(&self, word: &str) -> Result<Resource, Failure> {
        if let Some(resource) = catalogue::by_word(&catalogue::built_in(), word) {
            return Ok(resource.clone());
        }
        let resources = self.discover().await?;
        if let Some(resource) = catalogue::by_word(resources, word) {
            return Ok(resource.clone());
        }
        let failure = Failure::new(Exit::NotFound, format!("the server has no kind `{word}`"));
        if let Some(instead) = instead_of(word) {
            return Err(failure.hint(instead));
        }
        let mut all = catalogue::built_in();
        all.extend_from_slice(resources);
        Err(match catalogue::suggestion(&all, word) {
            Some(suggestion) => failure.hint(format!("did you mean `{suggestion}`?")),
            None => failure.hint("`tombolo api-resources` lists those that it has"),
        })
    }

    /// The kind that a file names.
    pub(crate) async fn resource_of(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Resource, Failure> {
        if let Some(resource) = catalogue::by_kind(&catalogue::built_in(), api_version, kind) {
            return Ok(resource.clone());
        }
        let resources = self.discover().await?;
        if let Some(resource) = catalogue::by_kind(resources, api_version, kind) {
            return Ok(resource.clone());
        }
        let message = format!("the server has no kind {kind} in {api_version}");
        let mut all = catalogue::built_in();
        all.extend_from_slice(resources);
        let near = all.iter().find(|resource| resource.kind == kind);
        Err(Failure::new(Exit::NotFound, message).hint(match near {
            Some(resource) => format!("it has one in {}", resource.api_version()),
            None if is_part(kind) => format!(
                "a {kind} is part of an App here: apply it together with the workload that it is \
                 about, in one file or folder, or with several -f"
            ),
            None => match nearest(kind, all.iter().map(|one| one.kind.as_str())) {
                Some(kind) => format!("did you mean {kind}?"),
                None => "apply its CustomResourceDefinition first".to_owned(),
            },
        }))
    }

    pub(crate) async fn discover(&self) -> Result<&[Resource], Failure> {
        let ask = async || {
            let (core, groups) = futures::future::try_join(
                self.get_as("/api", DISCOVERY),
                self.get_as("/apis", DISCOVERY),
            )
            .await?;
            let mut resources = catalogue::from_discovery(&core);
            resources.extend(catalogue::from_discovery(&groups));
            Ok(resources)
        };
        self.discovered.get_or_try_init(ask).await.map(Vec::as_slice)
    }
}

/// Among how many names one is looked for that is like the one that was typed.
const NAMES_MAX: &str = "500";

/// A path that names an object in a namespace.
#[derive(Debug, PartialEq, Eq)]
struct Missing<'a> {
    namespace: &'a str,
    plural: &'a str,
    name: &'a str,
    /// Its kind in all namespaces.
    everywhere: String,
}

impl<'a> Missing<'a> {
    fn of(path: &'a str) -> Option<Missing<'a>> {
        let (base, rest) = path.split_once("/namespaces/")?;
        match rest.split('/').collect::<Vec<&str>>().as_slice() {
            [namespace, plural, name] => {
                let everywhere = format!("{base}/{plural}");
                Some(Missing { namespace, plural, name, everywhere })
            }
            _ => None,
        }
    }
}

pub(crate) fn no_namespace(name: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no namespace {name:?}")).hint(format!(
        "`tombolo create namespace {name}` makes it; `tombolo get namespaces` lists what is there"
    ))
}

/// Whether a server says that it has no such path, rather than no such object. One that does not know a path
/// keeps most people from it.
fn is_unknown_path(status: &kube::core::Status) -> bool {
    let names_something = status.details.as_ref().is_some_and(|details| !details.kind.is_empty());
    matches!(status.code, 403 | 405) || status.code == 404 && !names_something
}

/// Where the server is: where it was, or where a lighthouse says. The authority of the kubeconfig is asked
/// for there too, so that nobody else can answer.
async fn found(config: &Config, globals: &Globals, lighthouse: &Path) -> Result<Uri, Failure> {
    let at = &config.cluster_url;
    if answers(config, at).await {
        return Ok(at.clone());
    }
    let globals = Globals {
        kubeconfig: Some(lighthouse.to_owned()),
        context: None,
        lighthouse_config: None,
        ..globals.clone()
    };
    let lighthouse = Box::pin(Connection::open(&globals)).await?;
    let answer = lighthouse.get("/tombolo/controllers").await?;
    for address in addresses(&answer) {
        if answers(config, &address).await {
            return Ok(address);
        }
    }
    // The failure to come names where it should be.
    Ok(at.clone())
}

/// What a lighthouse names. Without TLS anybody could answer, and would be sent our token.
fn addresses(answer: &Value) -> Vec<Uri> {
    let controllers = answer["controllers"].as_array().into_iter().flatten();
    controllers
        .flat_map(|one| one["addresses"].as_array().into_iter().flatten())
        .filter_map(|address| address.as_str()?.parse::<Uri>().ok())
        .filter(|address| address.scheme_str() == Some("https"))
        .collect()
}

/// Whether our server is there. An open port is not enough: a lighthouse names the controllers of
/// others too, and somebody else may have moved in at an old address.
async fn answers(config: &Config, at: &Uri) -> bool {
    let mut config = config.clone();
    config.cluster_url = at.clone();
    let Ok(client) = Client::try_from(config) else { return false };
    let Ok(request) = request(Method::GET, "/readyz", &[], Vec::new()) else { return false };
    match tokio::time::timeout(KNOCK_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(_)) => true,
        // It is ours and does not want us, which whoever asked shall be told.
        Ok(Err(kube::Error::Api(status))) => matches!(status.code, 401 | 403),
        Ok(Err(_)) | Err(_) => false,
    }
}

fn request(
    method: Method,
    path: &str,
    headers: &[(header::HeaderName, &str)],
    body: Vec<u8>,
) -> Result<Request<Vec<u8>>, Failure> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    request
        .body(body)
        .map_err(|error| Failure::usage(format!("cannot make a request of `{path}`: {error}")))
}

/// Where to look instead, for those who know a cluster of Kubernetes.
fn instead_of(word: &str) -> Option<&'static str> {
    const INSTEAD: &[(&[&str], &str)] = &[
        (
            &["pod", "pods", "po"],
            "instances are Assignments here: `tombolo get assignments` lists them",
        ),
        (
            &[
                "deployment",
                "deployments",
                "deploy",
                "statefulset",
                "statefulsets",
                "sts",
                "daemonset",
                "daemonsets",
                "ds",
                "replicaset",
                "replicasets",
                "rs",
                "job",
                "jobs",
                "cronjob",
                "cronjobs",
            ],
            "a workload is a component of an App here: `tombolo get apps` lists them",
        ),
        (
            &["service", "services", "svc", "ingress", "ingresses", "ing"],
            "ports are said by `expose` in an App: `tombolo explain app.spec.components.expose`",
        ),
    ];
    INSTEAD.iter().find(|(words, _)| words.contains(&word)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_encoded_and_absent_ones_left_out() {
        let query = Query::default()
            .with("labelSelector", "a=b,c in (d)")
            .with_some("fieldSelector", None)
            .with_some("limit", Some("5"));
        assert_eq!(query.after("/x"), "/x?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=5");
        assert_eq!(Query::default().after("/x"), "/x");
    }

    #[test]
    fn what_is_missing_is_read_off_its_path() {
        let missing = Missing::of("/apis/tombolo.dev/v1alpha1/namespaces/lab/apps/web");
        let everywhere = "/apis/tombolo.dev/v1alpha1/apps".to_owned();
        assert_eq!(
            missing,
            Some(Missing { namespace: "lab", plural: "apps", name: "web", everywhere })
        );
        for other in ["/api/v1/namespaces/lab", "/api/v1/namespaces/lab/secrets", "/version"] {
            assert_eq!(Missing::of(other), None, "{other}");
        }
    }

    #[test]
    fn words_of_a_cluster_lead_to_ours() {
        assert!(instead_of("po").is_some_and(|hint| hint.contains("get assignments")));
        assert!(instead_of("deploy").is_some_and(|hint| hint.contains("get apps")));
        assert!(instead_of("svc").is_some_and(|hint| hint.contains("expose")));
        assert_eq!(instead_of("widgets"), None);
    }

    #[test]
    fn a_server_that_explains_nothing_is_told_from_one_that_has_no_such_object() {
        let status = |code: u16, details: Value| {
            let status = serde_json::json!({"code": code, "message": "no", "reason": "NotFound",
                "details": details});
            is_unknown_path(&serde_json::from_value(status).expect("a Status"))
        };
        assert!(status(404, Value::Null), "an older server, or a plain Kubernetes");
        assert!(status(403, Value::Null), "an older server, asked by a user");
        assert!(status(405, Value::Null));
        assert!(!status(404, serde_json::json!({"group": "tombolo.dev", "kind": "nodes"})));
        assert!(!status(400, Value::Null) && !status(429, Value::Null));
    }

    #[test]
    fn of_what_a_lighthouse_names_only_addresses_with_tls_are_dialled() {
        let answer = serde_json::json!({"controllers": [
            {"name": "a", "addresses": ["https://10.0.0.1:7070", "http://10.0.0.2:7070", 3]},
            {"name": "b"},
            {"name": "c", "addresses": ["no address", "10.0.0.3:7070", "https://[fd00::1]:7070"]},
        ]});
        assert_eq!(addresses(&answer), ["https://10.0.0.1:7070/", "https://[fd00::1]:7070/"]);
        assert!(addresses(&Value::Null).is_empty());
    }
}
