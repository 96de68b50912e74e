//! `tombolo bench overload`: what clients that do not behave cost everybody else. One phase an attack, and
//! one before them without any; in each, agents beat, an admin and ten users go about their business, and
//! the server's memory is watched. Start at [`run`]; [`attacks`] has a row an attack, [`honest`] the others.

mod attacks;
mod honest;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tombolo_agent::Offer;
use tombolo_identity::token::ACCESS_TOKEN_TYPE;
use tombolo_identity::{AccessToken, Role, Token};

use self::attacks::{ATTACKS, Attack, Attacked};
use self::honest::{Measured, Watched};
use crate::client::Client;
use crate::fleet::Fleet;
use crate::hostile::{Hostile, Resident};
use crate::numbers::rounded;
use crate::server::Server;
use crate::wire::{Connection, Door};

const PHASE: Duration = Duration::from_secs(20);
/// Between two phases, so that one attack is not blamed for what the one before has left.
const PAUSE: Duration = Duration::from_secs(3);
const AGENTS: usize = 10;
/// Users who behave.
const OTHERS: usize = 10;
/// So that an agent whose heartbeats fail is noticed within a phase: its Lease lasts seven seconds.
const HEARTBEAT_SECONDS: u16 = 2;
const OBJECTS: usize = 2_000;
const OBJECT_BYTES: usize = 8_000;

/// Goals: of heartbeats and of what ten others get done, against the phase without an attack.
const KEPT_MIN: f64 = 0.8;
const ADMIN_P99_MS_MAX: f64 = 1000.0;
const MEMORY_GROWTH_MB_MAX: u64 = 200;

/// Whose ConfigMap the admin writes. Those of the others have their names.
const ADMIN: &str = "admin";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/tombolo-system/secrets";

/// What everybody in a phase needs.
#[derive(Clone)]
struct World {
    door: Door,
    hostile: Hostile,
    client: Client,
    process: u32,
    /// Of the user who does not behave.
    flooder: String,
    others: Vec<String>,
}

pub(crate) async fn run(dir: &Path) -> anyhow::Result<Value> {
    let data = dir.join("server");
    let server = Server::start_with(&data, &["--no-agent"]).await?;
    let world = World::prepare(&server, &data).await?;
    let offer = Offer { heartbeat_seconds: Some(HEARTBEAT_SECONDS), ..Offer::default() };
    let fleet = Fleet::join(&server, &dir.join("agents"), AGENTS, &offer).await?;
    let undisturbed = phase(&world, None).await?;
    let mut phases = Vec::new();
    for attack in ATTACKS {
        tokio::time::sleep(PAUSE).await;
        phases.push((attack.name, phase(&world, Some(attack)).await?));
    }
    fleet.end().await;
    Ok(told(&undisturbed, &phases))
}

/// The worst of all attacks, the goals that it misses, and each attack by itself.
fn told(undisturbed: &Measured, phases: &[(&str, Measured)]) -> Value {
    let measured = || phases.iter().map(|(_, measured)| measured);
    let compared = || measured().map(|measured| measured.against(undisturbed));
    let nodes_lost: usize = measured().map(|measured| measured.nodes_lost).sum();
    let heartbeats = compared().map(|compared| compared.heartbeats).fold(f64::INFINITY, f64::min);
    let admin_p99_ms = measured().map(|measured| measured.admin_p99_ms).fold(0.0, f64::max);
    let memory_mb = compared().map(|compared| compared.memory_growth_mb).max().unwrap_or(0);
    let rate = compared().map(|compared| compared.others_rate).fold(f64::INFINITY, f64::min);
    let turned_away: usize = measured().map(Measured::turned_away).sum();
    let refused: usize = measured().map(|measured| measured.attack.refused).sum();
    let unsaid: usize = measured().map(|measured| measured.attack.without_retry_after).sum();
    let goals = [
        ("heartbeats", nodes_lost == 0 && heartbeats >= KEPT_MIN),
        ("admin_p99_ms", admin_p99_ms <= ADMIN_P99_MS_MAX),
        ("memory_growth_mb", memory_mb <= MEMORY_GROWTH_MB_MAX),
        ("others_rate", rate >= KEPT_MIN),
        ("only_flooders_refused", refused > 0 && unsaid == 0 && turned_away == 0),
    ];
    let missed: Vec<&str> = goals.iter().filter(|(_, met)| !met).map(|(name, _)| *name).collect();
    let attacks: serde_json::Map<String, Value> = phases
        .iter()
        .map(|(name, measured)| ((*name).to_owned(), measured.to_json(undisturbed)))
        .collect();
    json!({
        "bench": "overload", "phase_s": PHASE.as_secs(), "agents": AGENTS, "others": OTHERS,
        "objects": OBJECTS, "object_bytes": OBJECT_BYTES,
        "nodes_lost": nodes_lost, "heartbeats_kept_min": rounded(heartbeats),
        "admin_p99_ms_max": admin_p99_ms, "memory_growth_mb_max": memory_mb,
        "others_rate_min": rounded(rate), "others_turned_away": turned_away,
        "flooders_refused": refused, "refused_without_retry_after": unsaid,
        "goals_missed": missed,
        "undisturbed": undisturbed.to_json(undisturbed), "attacks": attacks,
    })
}

/// One attack while the others work, or none.
async fn phase(world: &World, attack: Option<&'static Attack>) -> anyhow::Result<Measured> {
    let watched = Watched::begin(world).await?;
    let (stop, stopped) = watch::channel(false);
    // On a thread of its own, so that what it costs the client is not measured as the server's.
    let attacking = attack.map(|attack| {
        let world = world.clone();
        std::thread::spawn(move || attacks::run(attack, &world, stopped))
    });
    let measured = honest::work(world, PHASE).await;
    let _ = stop.send(true);
    let attacked = match attacking {
        None => Attacked::default(),
        Some(thread) => tokio::task::spawn_blocking(move || thread.join())
            .await?
            .map_err(|_| anyhow::anyhow!("the attack has panicked"))??,
    };
    watched.end(world, measured?, attacked).await
}

impl World {
    async fn prepare(server: &Server, data: &Path) -> anyhow::Result<World> {
        let door = server.door()?;
        let mut connection = Connection::open(&door).await?;
        for number in 0..OBJECTS {
            let body = crate::api::config_map(&format!("map-{number}"), OBJECT_BYTES);
            connection.ask(Method::POST, MAPS, body).await?;
        }
        let mut others = Vec::new();
        for number in 0..OTHERS {
            let name = format!("user-{number}");
            // Small, so that what the server remembers of their changes is no part of its growth.
            connection.ask(Method::POST, MAPS, crate::api::config_map(&name, 10)).await?;
            others.push(token(&mut connection, &name).await?);
        }
        connection.ask(Method::POST, MAPS, crate::api::config_map(ADMIN, 10)).await?;
        Ok(World {
            hostile: Hostile::of(&server.address()?, data)?,
            client: server.connect().await?,
            process: server.process_id(),
            flooder: token(&mut connection, "flooder").await?,
            others,
            door,
        })
    }

    fn resident(&self) -> anyhow::Result<Resident> {
        Resident::of(self.process)
    }
}

/// A token of a new user of the default namespace.
async fn token(admin: &mut Connection, name: &str) -> anyhow::Result<String> {
    let token = Token::generate()?;
    let namespace = Some("default".to_owned());
    let record = AccessToken::new(&token, name, Role::User, namespace, None)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": ACCESS_TOKEN_TYPE,
        "metadata": {"name": token.hash().secret_name()}, "data": record.to_data(),
    });
    admin.ask(Method::POST, SECRETS, Bytes::from(secret.to_string())).await?;
    Ok(token.reveal().to_owned())
}
