//! `tombolo up --demo`: three sites on this machine, each with an agent of its own that joins as any
//! machine does, and an application over all of them that really runs. The `cli` has the server and
//! calls [`run`]; start there. The parts of the application are in [`parts`]; ending what runs in a data
//! folder is [`end_agents`], for `tombolo down` too.

mod end;
mod news;
pub mod parts;
mod sites;
mod words;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use serde_json::Value;
use tombolo_agent::removal::Files;
use tombolo_agent::{JoinFile, issue};
use tombolo_model::{App, Assignment, Node};

use crate::news::Sight;
use crate::sites::{APP, NAMESPACE, SITES, Site};

pub use crate::end::{agent_folders, end_agents};

/// Says that a data folder is a demo's, and so may be removed without a question.
pub const MARK: &str = "demo.json";
/// Where the agents have their folders, in the demo's.
pub const SITES_FOLDER: &str = "sites";

/// The token is used within a second; a slow machine gets more.
const TOKEN_LIFE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// While all is well nobody minds half a second.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// What is not there by then is told, and waited for all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the demo needs of the server that it runs in.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a client has nothing to show")]
pub struct Demo {
    /// Of one who may do everything.
    pub client: Client,
    /// The data folder of the server.
    pub folder: PathBuf,
    pub address: String,
    /// The certificate of the server's authority, as PEM.
    pub authority: String,
    pub kubeconfig: PathBuf,
    pub shell: Shell,
    /// Tells whoever watches, a line or more at a time.
    pub note: fn(&str),
}

/// What the shell does without being told, so that only what must be typed is shown.
#[derive(Clone, Debug)]
pub struct Shell {
    /// Where it looks for a demo.
    pub demo_folder: Option<PathBuf>,
    /// The kubeconfig of an ordinary server, which it prefers.
    pub kubeconfig: Option<PathBuf>,
}

/// The port of the last time, which its agents know; any free one at first.
pub fn usual_address(folder: &Path) -> SocketAddr {
    let kept = std::fs::read_to_string(folder.join("address")).ok();
    let kept = kept.and_then(|text| text.trim().parse().ok());
    kept.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// Marks a folder as a demo's, unless it is something else already.
pub fn claim(folder: &Path) -> anyhow::Result<()> {
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
pub async fn run(demo: Demo, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let shown = tokio::select! {
        () = stop => Ok(()),
        Err(error) = show(&demo) => Err(error),
    };
    (demo.note)("\nending the agents and what they run");
    let ended = end_agents(&demo.folder, Files::Kept).await;
    ended.context("something of the demo may be left")?;
    shown
}

/// Never comes back, unless it fails.
async fn show(demo: &Demo) -> anyhow::Result<()> {
    (demo.note)(&format!("starting the demo in {}", demo.folder.display()));
    let started = Instant::now();
    let unconfined = tokio::task::spawn_blocking(tombolo_agent::cannot_confine).await?;
    for mut object in sites::continuum()? {
        if unconfined.is_some() {
            sites::allow_unconfined(&mut object);
        }
        apply(&demo.client, &object).await?;
    }
    if let Some(why) = unconfined {
        (demo.note)(&format!(
            "this machine cannot confine programs ({why}), so the sites of the demo allow \
             unconfined-process: run nothing on them that you would not run yourself"
        ));
    }
    for site in SITES {
        begin(demo, site).await.with_context(|| format!("cannot start site {}", site.name))?;
    }
    let mut before = Sight::default();
    until(demo, &mut before, "the sites do not all come up", Sight::all_sites_ready).await?;
    (demo.note)(&format!("placing {APP}"));
    apply(&demo.client, &sites::application(&program()?)?).await?;
    until(demo, &mut before, "not all parts come up", Sight::runs).await?;
    (demo.note)(&words::welcome(&words::Told {
        took: started.elapsed(),
        sight: &before,
        server: &demo.address,
        kubeconfig: &demo.kubeconfig,
        folder: &demo.folder,
        shell: &demo.shell,
        notes: &limits(&demo.client).await?,
    }));
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        // The server is in this process; if it does not answer it is about to end.
        if let Ok(now) = look(&demo.client).await {
            before = tell(demo, before, now);
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
    let begun = Instant::now();
    let mut told = false;
    loop {
        let now = look(&demo.client).await?;
        *before = tell(demo, std::mem::take(before), now);
        if is_so(before) {
            return Ok(());
        }
        if !told && begun.elapsed() > PATIENCE {
            told = true;
            let logs = demo.folder.join(SITES_FOLDER);
            let message = before.message.as_deref().unwrap_or_default();
            (demo.note)(&format!(
                "{trouble}: {message}; the agents' logs are in {}",
                logs.display()
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Tells what is new, and gives what the next look is compared with.
fn tell(demo: &Demo, before: Sight, now: Sight) -> Sight {
    let (after, lines) = news::news(before, now, Instant::now());
    lines.iter().for_each(|line| (demo.note)(line));
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
    let (address, authority) = (demo.address.clone(), demo.authority.clone());
    Ok(issue::hand_out(&demo.client, site, address, authority, TOKEN_LIFE).await?)
}

/// Server-side apply. What has a namespace goes to the one of the demo.
async fn apply(client: &Client, object: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match is_namespaced(&types) {
        true => Api::namespaced_with(client.clone(), NAMESPACE, &kind),
        false => Api::all_with(client.clone(), &kind),
    };
    let params = PatchParams::apply("tombolo-demo").force();
    let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
    applied.with_context(|| format!("cannot apply {} {name}", types.kind))?;
    Ok(())
}

/// Of the kinds in the demo's files the App alone has a namespace.
fn is_namespaced(types: &TypeMeta) -> bool {
    types.kind == "App"
}

/// This very binary.
fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot tell where this program is")
}
