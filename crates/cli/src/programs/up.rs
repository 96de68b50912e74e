//! `tombolo up`: the embedded default. Store, API, loops and an agent in this process, one port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tombolo_apiserver::traffic::Limits;
use tombolo_apiserver::{Api, serve};
use tombolo_controller::clock::{Clock, time_of_day};
use tombolo_controller::{Board, Explainer};
use tombolo_demo::{self as demo, Demo};
use tombolo_gate::Gate;
use tombolo_identity::home::{self, Home};
use tombolo_identity::{Subject, tls};
use tombolo_model::keys::SYSTEM_NAMESPACE;
use tombolo_store::Store;
use tombolo_telemetry::engine::Hub;

use super::agent::{DockerArgs, MetricsArgs};
use super::beside::Agent;
use super::{beside, explanations, kept, loops, metrics};
use crate::failure::{Exit, Failure};
use crate::{output, places, vault};

const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7070);

/// Open files that a server asks for; connections are the most of them.
const FILES_WANTED: u64 = 65_536;

/// What a stop may take before the process ends all the same.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// Start a control plane on this machine, with an agent that runs what is assigned to it.
///
/// The first start makes a certificate authority, an admin token and a kubeconfig. It runs until SIGTERM or
/// Ctrl-C; what the agent has started keeps running.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo up
  tombolo up --demo
  tombolo up --listen 0.0.0.0:7070 --data /var/lib/tombolo")]
pub(crate) struct UpCommand {
    #[command(flatten)]
    up: UpArgs,
    /// Show what Tombolo does: three sites on this machine, each with an agent, and an application
    /// over all of them. Has a data folder and a port of its own, and needs no root, no Docker and no
    /// network. `tombolo down` removes it.
    #[arg(long)]
    demo: bool,
    /// The name of the site of this machine; the host's name if left out.
    #[arg(long, value_name = "SITE", conflicts_with = "demo")]
    site: Option<String>,
    /// Start no agent: this machine runs no workloads.
    #[arg(long, conflicts_with_all = ["site", "demo"])]
    no_agent: bool,
    #[command(flatten)]
    docker: DockerArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
}

impl UpCommand {
    pub(crate) fn is_demo(&self) -> bool {
        self.demo
    }
}

/// What every server takes.
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// The data folder; if left out, a folder in the user's data folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where to listen; 127.0.0.1:7070 if left out. Loopback takes plain HTTP and TLS, any other
    /// address TLS alone.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Another name under which clients reach this server; goes into its certificate. Repeatable.
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Register at the lighthouse that this kubeconfig names, so that agents find this server there.
    #[arg(long, value_name = "KUBECONFIG")]
    pub(crate) lighthouse: Option<PathBuf>,
    /// Start even though the data folder has the keys of a server and its store is gone: everything that the
    /// server knew is forgotten.
    #[arg(long)]
    pub(crate) accept_empty_store: bool,
    /// The file with the key that seals Secrets in the store; if left out, DIR/secrets.key, which the first
    /// start makes.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_key_file: Option<PathBuf>,
    /// Change one of the limits on clients, such as users=512; docs/operations.md lists them. Repeatable.
    #[arg(long = "limit", value_name = "NAME=NUMBER")]
    pub(crate) limits: Vec<String>,
}

/// What runs beside the API.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// The loops, and an agent that makes this machine the named site.
    LoopsAndAgent {
        site: String,
        agent: Agent,
    },
    Loops,
    /// The loops, and three sites with an agent each.
    LoopsAndDemo,
    /// The API as a lighthouse: it lists controllers and decides nothing.
    Lighthouse,
}

pub(crate) fn run(command: UpCommand) -> Result<Exit, Failure> {
    let part = match (command.demo, command.no_agent) {
        (true, _) => Part::LoopsAndDemo,
        (false, true) => Part::Loops,
        (false, false) => Part::LoopsAndAgent {
            site: command.site.unwrap_or_else(beside::name),
            agent: Agent { docker: command.docker.at(), metrics: command.metrics.metrics() },
        },
    };
    run_part(command.up, part)
}

pub(super) fn run_part(args: UpArgs, part: Part) -> Result<Exit, Failure> {
    let usual = match part {
        Part::LoopsAndDemo => places::demo_folder,
        Part::LoopsAndAgent { .. } | Part::Loops | Part::Lighthouse => places::default_data_folder,
    };
    let data = args.data.clone().or_else(usual).ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_DATA_HOME is set").hint("name a folder with --data")
    })?;
    let runtime = runtime()?;
    let served = runtime.block_on(serve(&args, &data, &part));
    // The loops go, and with the last of them the store, which writes what it was given and closes.
    runtime.shutdown_timeout(STOP_TIME_MAX);
    served.map_err(|error| Failure::failed(format!("{error:#}")))?;
    match part {
        Part::LoopsAndDemo => output::note(&format!("stopped; its folder is {}", data.display())),
        Part::LoopsAndAgent { .. } => output::note(&format!(
            "stopped; everything is in {}, and what was started here goes on running. The same command \
             takes it up again; `tombolo delete apps --all` before a stop ends it",
            data.display()
        )),
        Part::Loops | Part::Lighthouse => output::note(&format!(
            "stopped; everything is in {}, and the same command takes it up again",
            data.display()
        )),
    }
    Ok(Exit::Ok)
}

pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))
}

async fn serve(args: &UpArgs, data: &Path, part: &Part) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let listener = listen(args, data, part).await?;
    let address = listener.local_addr()?;
    if !args.accept_empty_store {
        refuse_without_its_store(data)?;
    }
    // The store first: it is locked while a server runs, whose kubeconfig must not be overwritten.
    let options = vault::options(data, args.secret_key_file.as_deref())?;
    let store = Store::open(data, options).map_err(|error| vault::told(data, error))?;
    let home = open_home(args, data, address)?;
    let api = Api::open(store, home.admin)
        .await
        .map_err(|failure| anyhow::anyhow!("cannot prepare the API: {}", failure.message))?
        .limited(limits(&args.limits)?);
    let gate = Gate::open(api.client(Subject::system("gate")), Some(home.authority.clone()))?;
    let board = Board::new(Clock::start());
    let jobs = tombolo_facade::Index::default();
    let routes = tombolo_facade::router(jobs.clone()).merge(loops::route(board.clone()));
    let samples = metrics::service(data);
    let engine = Arc::new(Hub::new(samples.clone(), SYSTEM_NAMESPACE));
    let routes = match part {
        // It decides nothing that could be explained, and nobody measures anything for it.
        Part::Lighthouse => routes,
        Part::LoopsAndAgent { .. } | Part::Loops | Part::LoopsAndDemo => {
            metrics::open_ahead(&samples);
            let explained = explanations::routes(Explainer::new(board.clone()));
            routes.merge(explained).merge(metrics::routes(samples))
        }
    };
    let api = api.streaming(gate.router()).serving(routes).telling_of(loops::health(board.clone()));

    kept::collect_garbage(&api, &board, Arc::new(|_| ()));
    let own = api.client(Subject::system("gate"));
    kept::listen(gate.clone(), &board, own.clone());
    kept::index(jobs, &board, own.clone());
    let addresses = kept::addresses(&home, &args.names, address);
    kept::register(gate, &board, &own, addresses, args.lighthouse.clone());
    if *part != Part::Lighthouse {
        let (clients, until_stop, board) = (api.clone(), stop.clone(), board.clone());
        tokio::spawn(async move {
            let client = |name| clients.client(Subject::system(name));
            tombolo_controller::run(&board, client, engine, stopped(until_stop)).await;
        });
    }

    // Scripts that let the system choose the port find it here.
    std::fs::write(data.join("address"), format!("{address}\n"))
        .context("cannot write DIR/address")?;
    let tls = tls::server_config(&home)?;
    let (agents, until_stop) = start_agents(part, &api, &home, &board, stop);
    let router = api.admitting(api.router());
    let (limits, traffic) = (serve::Limits::default(), api.traffic());
    let until_stop = stopped(until_stop);
    let ended = serve::serve(vec![listener], router, tls, limits, traffic, until_stop).await;
    if ended.cut > 0 {
        tracing::warn!(connections = ended.cut, "some were still busy and were cut off");
    }
    // They say good-bye, which takes a moment; the whole stop has a limit of its own.
    match tokio::time::timeout(STOP_TIME_MAX, agents).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// A server makes its store before its keys. Where only the keys are, the store was lost, and an empty
/// one in its place would look as if all were well.
fn refuse_without_its_store(data: &Path) -> anyhow::Result<()> {
    if !data.join("ca.key").exists() || data.join("store.redb").exists() {
        return Ok(());
    }
    let folder = data.display();
    anyhow::bail!(
        "{folder} has the keys of a server, but its store.redb is gone, and with it all that the server \
         knew; bring back a backup with `tombolo restore --data {folder} FILE`, or begin with nothing: \
         `tombolo up --accept-empty-store`"
    )
}

fn limits(wanted: &[String]) -> anyhow::Result<Limits> {
    let mut limits = Limits::default();
    for one in wanted {
        limits.set(one).map_err(|problem| anyhow::anyhow!("--limit {problem}"))?;
    }
    Ok(limits.within_files(more_files()))
}

/// Asks for as many open files as all connections need, and says how many there are: the usual 1,024
/// are for programs that serve nobody.
fn more_files() -> usize {
    let allowed = getrlimit(Resource::Nofile);
    let most = allowed.maximum.unwrap_or(FILES_WANTED).min(FILES_WANTED);
    let current = allowed.current.unwrap_or(FILES_WANTED);
    let raised = Rlimit { current: Some(most), maximum: allowed.maximum };
    let files = match current < most && setrlimit(Resource::Nofile, raised).is_ok() {
        true => most,
        false => current,
    };
    usize::try_from(files).unwrap_or(usize::MAX)
}

async fn listen(args: &UpArgs, data: &Path, part: &Part) -> anyhow::Result<TcpListener> {
    let listen = match (args.listen, part) {
        (Some(listen), _) => listen,
        (None, Part::LoopsAndDemo) => demo::usual_address(data),
        (None, Part::LoopsAndAgent { .. } | Part::Loops | Part::Lighthouse) => LISTEN_DEFAULT,
    };
    if *part == Part::LoopsAndDemo {
        demo::claim(data)?;
    }
    TcpListener::bind(listen).await.with_context(|| match part {
        Part::LoopsAndDemo => {
            format!("cannot listen on {listen}; if the demo runs already, `tombolo down` ends it")
        }
        Part::LoopsAndAgent { .. } | Part::Loops | Part::Lighthouse => {
            format!(
                "cannot listen on {listen}; if a server runs already, `tombolo get nodes` asks it; \
                 --listen takes another address"
            )
        }
    })
}

/// Starts the agents that come with the server. Gives their end, and what the server ends by: a demo
/// ends its agents while the server still hears their good-byes.
fn start_agents(
    part: &Part,
    api: &Api,
    home: &Home,
    board: &Board,
    stop: watch::Receiver<bool>,
) -> (JoinHandle<anyhow::Result<()>>, watch::Receiver<bool>) {
    if *part != Part::LoopsAndDemo {
        output::note(&welcome(home));
    }
    match part {
        Part::Loops | Part::Lighthouse => (tokio::spawn(async { Ok(()) }), stop),
        Part::LoopsAndAgent { site, agent } => {
            let (api, data, board) = (api.clone(), home.folder.clone(), board.clone());
            let (site, agent, until_stop) = (site.clone(), agent.clone(), stop.clone());
            let beside = async move {
                let client = api.client(Subject::system("up"));
                let live = || {
                    let (data, site, agent) = (data.clone(), site.clone(), agent.clone());
                    beside::run(api.clone(), data, site, agent, until_stop.clone())
                };
                // A panic of the agent ends neither the server nor the agent for good.
                tombolo_controller::keep(&board, &client, "agent", live).await;
                Ok(())
            };
            (tokio::spawn(beside), stop)
        }
        Part::LoopsAndDemo => {
            let demo = demo_of(api, home);
            let (over, until_over) = watch::channel(false);
            let demo = async move {
                let ended = demo::run(demo, stopped(stop)).await;
                let _ = over.send(true);
                ended
            };
            (tokio::spawn(demo), until_over)
        }
    }
}

fn demo_of(api: &Api, home: &Home) -> Demo {
    Demo {
        client: api.client(Subject::system("demo")),
        folder: home.folder.clone(),
        address: home.url.clone(),
        authority: home.authority.certificate_pem().to_owned(),
        kubeconfig: home.kubeconfig(),
        shell: demo::Shell {
            demo_folder: places::demo_folder(),
            kubeconfig: places::login_file()
                .filter(|login| login.exists())
                .or_else(|| places::default_data_folder().map(|data| places::kubeconfig_in(&data))),
        },
        note: output::note,
    }
}

fn open_home(args: &UpArgs, data: &Path, address: SocketAddr) -> anyhow::Result<Home> {
    let settings = home::Settings {
        folder: data.to_path_buf(),
        listen: vec![address],
        names: args.names.clone(),
    };
    let home = home::open(&settings, time_of_day())?;
    for note in &home.notes {
        tracing::info!("{note}");
    }
    for warning in &home.warnings {
        output::note(&format!("warning: {warning}"));
    }
    Ok(home)
}

/// Commands as they can be typed here: it may not be on the path.
fn welcome(home: &Home) -> String {
    let kubeconfig = home.kubeconfig();
    format!(
        "Tombolo is ready at {}\n\n\
         Try next, in another terminal:\n\
         \x20 export TOMBOLO_KUBECONFIG={path}\n\
         \x20 {tombolo} apply -f examples/app-clock.yaml\n\
         \x20 {tombolo} get apps,assignments,sites,nodes\n\
         \x20 {tombolo} why clock/ticker\n\
         \x20 kubectl --kubeconfig {path} get sites,nodes,apps -A\n\
         \x20 {tombolo} explain app.spec.components\n\n\
         Ctrl-C stops it; everything stays in {data}.",
        home.url,
        tombolo = std::env::args().next().unwrap_or_else(|| "tombolo".to_owned()),
        path = kubeconfig.display(),
        data = home.folder.display(),
    )
}

/// Becomes true on SIGTERM or Ctrl-C.
pub(super) fn stop_signal() -> anyhow::Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(false);
    let sender = Arc::new(sender);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        let _ = sender.send(true);
    });
    Ok(receiver)
}

pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    // The sender lives as long as the process; an error is as good as a stop.
    let _ = stop.wait_for(|stop| *stop).await;
}
