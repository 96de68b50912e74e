//! `tombolo up --demo`: three sites on this machine, each with an agent of its own that joins as any
//! machine does, and an application over all of them that really runs. Called by [`super::up`], which
//! has the server; start at [`run`]. Taking it down is in [`super::down`].

mod news;
mod sites;
mod words;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request, header};
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::Value;
use tokio::sync::watch;
use tombolo_agent::JoinFile;
use tombolo_agent::removal::Files;
use tombolo_identity::Token;
use tombolo_identity::home::Home;
use tombolo_model::{App, Assignment, Node};

use self::news::Sight;
use self::sites::{APP, NAMESPACE, SITES, Site};
use super::{down, up};
use crate::moment;
use crate::output::note;
use crate::{catalogue, commands};

/// Says that a data folder is a demo's, and so may be removed without a question.
pub(super) const MARK: &str = "demo.json";
/// Where the agents have their folders, in the demo's.
pub(super) const SITES_FOLDER: &str = "sites";

/// The token is used within a second; a slow machine gets more.
const TOKEN_LIFE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// While all is well nobody minds half a second.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// What is not there by then is told, and waited for all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the demo needs of the server that it runs in.
pub(super) struct Demo {
    client: Client,
    folder: PathBuf,
    address: String,
    authority: String,
    kubeconfig: PathBuf,
}

impl Demo {
    pub(super) fn new(client: Client, home: &Home) -> Demo {
        Demo {
            client,
            folder: home.folder.clone(),
            address: home.url.clone(),
            authority: home.authority.certificate_pem().to_owned(),
            kubeconfig: home.kubeconfig(),
        }
    }
}

/// The port of the last time, which its agents know; any free one at first.
pub(super) fn usual_address(folder: &Path) -> SocketAddr {
    let kept = std::fs::read_to_string(folder.join("address")).ok();
    let kept = kept.and_then(|text| text.trim().parse().ok());
    kept.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// Marks a folder as a demo's, unless it is something else already.
pub(super) fn claim(folder: &Path) -> anyhow::Result<()> {
    let mark = folder.join(MARK);
    if folder.join("store.redb").exists() && !mark.exists() {
        anyhow::bail!(
            "{} has the data of a server that is no demo; name another folder with --data",
            folder.display()
        );
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .and_then(|()| std::fs::write(&mark, "{\"demo\": \"factory-vision\"}\n"))
        .with_context(|| format!("cannot write {}", mark.display()))
}

/// Runs the demo until the stop, and ends all that it has started.
pub(super) async fn run(demo: Demo, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let shown = tokio::select! {
        () = up::stopped(stop) => Ok(()),
        Err(error) = show(&demo) => Err(error),
    };
    note("\nending the agents and what they run");
    let ended = down::end_sites(&demo.folder, Files::Kept).await;
    ended.context("something of the demo may be left")?;
    shown
}

/// Never comes back, unless it fails.
async fn show(demo: &Demo) -> anyhow::Result<()> {
    note(&format!("starting the demo in {}", demo.folder.display()));
    let started = moment::monotonic();
    for object in sites::continuum()? {
        apply(&demo.client, "", &object).await?;
    }
    for site in SITES {
        begin(demo, site).await.with_context(|| format!("cannot start site {}", site.name))?;
    }
    let mut before = Sight::default();
    until(demo, &mut before, "the sites do not all come up", Sight::all_sites_ready).await?;
    note(&format!("placing {APP}"));
    apply(&demo.client, NAMESPACE, &sites::application(&program()?)?).await?;
    until(demo, &mut before, "not all parts come up", Sight::runs).await?;
    note(&words::welcome(&words::Told {
        took: started.elapsed(),
        sight: &before,
        server: &demo.address,
        kubeconfig: &demo.kubeconfig,
        folder: &demo.folder,
        notes: &limits(&demo.client).await?,
    }));
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        // The server is in this process; if it does not answer it is about to end.
        if let Ok(now) = look(&demo.client).await {
            before = tell(before, now);
        }
    }
}

/// Looks until it is so, and tells what happens meanwhile.
async fn until(
    demo: &Demo,
    before: &mut Sight,
    trouble: &str,
    is_so: fn(&Sight) -> bool,
) -> anyhow::Result<()> {
    let begun = moment::monotonic();
    let mut told = false;
    loop {
        let now = look(&demo.client).await?;
        *before = tell(std::mem::take(before), now);
        if is_so(before) {
            return Ok(());
        }
        if !told && begun.elapsed() > PATIENCE {
            told = true;
            let logs = demo.folder.join(SITES_FOLDER);
            let message = before.message.as_deref().unwrap_or_default();
            note(&format!("{trouble}: {message}; the agents' logs are in {}", logs.display()));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Tells what is new, and gives what the next look is compared with.
fn tell(before: Sight, now: Sight) -> Sight {
    let (after, lines) = news::news(before, now, moment::monotonic());
    lines.iter().for_each(|line| note(line));
    after
}

async fn look(client: &Client) -> anyhow::Result<Sight> {
    let nodes: Api<Node> = Api::all(client.clone());
    let apps: Api<App> = Api::namespaced(client.clone(), NAMESPACE);
    let nodes = nodes.list(&ListParams::default()).await?;
    let app = apps.get_opt(APP).await?;
    Ok(Sight::of(&nodes.items, app.as_ref()))
}

/// What the engines could not do for the parts, a sentence each; the same for all of them.
async fn limits(client: &Client) -> anyhow::Result<Vec<String>> {
    let api: Api<Assignment> = Api::namespaced(client.clone(), NAMESPACE);
    let assignments = api.list(&ListParams::default()).await?;
    Ok(news::notes(&assignments.items))
}

/// Starts the agent of a site; with a join token if it has never joined.
async fn begin(demo: &Demo, site: &Site) -> anyhow::Result<()> {
    let folder = demo.folder.join(SITES_FOLDER).join(site.name);
    std::fs::create_dir_all(&folder)?;
    let log = demo.folder.join(SITES_FOLDER).join(format!("{}.log", site.name));
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(program()?);
    command.args(["agent", "--data"]).arg(&folder).args(["--name", site.node]).args(site.options);
    // All parts are processes; whatever Docker engine there may be is left alone.
    command.args(["--docker", "none"]);
    command.stdout(log.try_clone()?).stderr(log);
    // Ctrl-C is for us alone: the agents are ended when their workloads can be looked after.
    command.process_group(0);
    let file = match folder.join("agent.json").exists() {
        true => None,
        false => Some(join_file(demo, site.name).await?),
    };
    match &file {
        None => command.stdin(Stdio::null()),
        Some(_) => command.args(["--join-file", "-"]).stdin(Stdio::piped()),
    };
    let mut child = tokio::process::Command::from(command).spawn()?;
    if let (Some(file), Some(mut stdin)) = (file, child.stdin.take()) {
        use tokio::io::AsyncWriteExt as _;
        stdin.write_all(file.to_text().as_bytes()).await?;
    }
    Ok(())
}

async fn join_file(demo: &Demo, site: &str) -> anyhow::Result<JoinFile> {
    let token = Token::generate()?;
    let expires = moment::now().checked_add(TOKEN_LIFE)?;
    let object = commands::join_token(&token, site, expires);
    let path = catalogue::known("JoinToken").collection(None);
    send(&demo.client, Method::POST, &path, "application/json", &object).await?;
    Ok(JoinFile {
        addresses: vec![demo.address.clone()],
        authority: demo.authority.clone(),
        token: token.reveal(),
        site: site.to_owned(),
        expires: expires.to_string(),
        lighthouses: Vec::new(),
    })
}

async fn apply(client: &Client, namespace: &str, object: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let path = catalogue::known(&kind).object(namespace, &name);
    let path = format!("{path}?fieldManager=tombolo-demo&force=true");
    let sent = send(client, Method::PATCH, &path, "application/apply-patch+yaml", object).await;
    sent.with_context(|| format!("cannot apply {kind} {name}"))
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    kind: &str,
    object: &Value,
) -> anyhow::Result<()> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    client.request::<Value>(request.body(object.to_string().into_bytes())?).await?;
    Ok(())
}

/// This very binary.
fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot tell where this program is")
}
