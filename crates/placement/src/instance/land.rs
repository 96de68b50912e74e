//! Sites, nodes and links: clouds joined to each other, near edges to the clouds, far edges to the
//! near ones, each with what is usual there.

use tombolo_model::characteristics::{Characteristics, Device, DeviceStatus, Gpu, Processor};
use tombolo_model::link::{End, EndKind, Quality};
use tombolo_model::needs::Resources;
use tombolo_model::node::{Energy, Failures, Load};
use tombolo_model::site::{Layer, Location};
use tombolo_model::{
    Arch, BitRate, Bytes, Cpu, Duration, Engine, Link, LinkSpec, Node, NodeSpec, NodeStatus, Site,
    SiteSpec,
};
use tombolo_solver::select::Dice;

pub(super) struct Land {
    pub sites: Vec<Site>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    /// By site.
    pub layers: Vec<Layer>,
}

/// City, country, degrees north and east, grams of CO₂ for a kilowatt-hour in that country.
const CITIES: &[(&str, &str, f64, f64, f64)] = &[
    ("athens", "GR", 37.98, 23.73, 340.0),
    ("barcelona", "ES", 41.39, 2.17, 170.0),
    ("berlin", "DE", 52.52, 13.40, 380.0),
    ("bologna", "IT", 44.49, 11.34, 330.0),
    ("brussels", "BE", 50.85, 4.35, 140.0),
    ("copenhagen", "DK", 55.68, 12.57, 150.0),
    ("dublin", "IE", 53.35, -6.26, 290.0),
    ("geneva", "CH", 46.20, 6.14, 50.0),
    ("helsinki", "FI", 60.17, 24.94, 80.0),
    ("lisbon", "PT", 38.72, -9.14, 150.0),
    ("ljubljana", "SI", 46.06, 14.51, 230.0),
    ("lyon", "FR", 45.76, 4.84, 55.0),
    ("munich", "DE", 48.14, 11.58, 380.0),
    ("oslo", "NO", 59.91, 10.75, 30.0),
    ("porto", "PT", 41.15, -8.61, 150.0),
    ("prague", "CZ", 50.08, 14.44, 450.0),
    ("stockholm", "SE", 59.33, 18.07, 40.0),
    ("vienna", "AT", 48.21, 16.37, 110.0),
    ("warsaw", "PL", 52.23, 21.01, 660.0),
    ("zagreb", "HR", 45.81, 15.98, 200.0),
];

pub(super) fn make(sites: usize, nodes: usize, dice: &mut Dice) -> Land {
    let mut land =
        Land { sites: Vec::new(), nodes: Vec::new(), links: Vec::new(), layers: Vec::new() };
    let mut places: Vec<(f64, f64)> = Vec::new();
    for index in 0..sites {
        let layer = layer(index, sites);
        let (site, place) = site(index, layer, dice);
        land.sites.push(site);
        land.layers.push(layer);
        places.push(place);
    }
    join(&mut land, &places, dice);
    for index in 0..nodes {
        // Every site has a node; the larger the site, the more of the rest it gets.
        let site = if index < sites { index } else { crowded_site(&land.layers, dice) };
        let node = node(index, site, &land, dice);
        land.nodes.push(node);
    }
    land
}

/// One cloud for ten sites, three near edges, the rest is far.
fn layer(index: usize, sites: usize) -> Layer {
    match index {
        _ if index <= sites / 10 => Layer::Cloud,
        _ if index <= sites * 4 / 10 => Layer::NearEdge,
        _ => Layer::FarEdge,
    }
}

fn crowded_site(layers: &[Layer], dice: &mut Dice) -> usize {
    for _ in 0..8 {
        let site = dice.below(layers.len());
        let chance = match layers[site] {
            Layer::Cloud => 100,
            Layer::NearEdge => 50,
            Layer::FarEdge => 20,
        };
        if dice.below(100) < chance {
            return site;
        }
    }
    0
}

fn site(index: usize, layer: Layer, dice: &mut Dice) -> (Site, (f64, f64)) {
    let (city, country, latitude, longitude, carbon) = CITIES[dice.below(CITIES.len())];
    // Up to some 50 km away from the middle of the city.
    let latitude = latitude + (hundredths(dice, 100) - 0.5) * 0.8;
    let longitude = longitude + (hundredths(dice, 100) - 0.5) * 0.8;
    let engine = match (layer, dice.below(10)) {
        (Layer::Cloud, _) | (Layer::NearEdge, 0..7) | (Layer::FarEdge, 0..3) => Engine::Kubernetes,
        (Layer::NearEdge, _) | (Layer::FarEdge, 3..9) => Engine::Docker,
        (Layer::FarEdge, _) => Engine::Host,
    };
    let spec = SiteSpec {
        engine,
        description: None,
        layer: Some(layer),
        location: Some(Location {
            continent: Some("EU".to_owned()),
            country: Some(country.to_owned()),
            region: None,
            city: Some(city.to_owned()),
            latitude: Some(rounded(latitude)),
            longitude: Some(rounded(longitude)),
        }),
        owner: None,
        trust: None,
        unschedulable: false,
        taints: Vec::new(),
        carbon_intensity: Some(carbon),
        allow: None,
        probe_port: None,
        address: None,
    };
    (Site::new(&format!("{city}-{index}"), spec), (latitude, longitude))
}

fn join(land: &mut Land, places: &[(f64, f64)], dice: &mut Dice) {
    /// A backbone of more clouds than this is a chain of them.
    const MESH_MAX: usize = 6;
    for site in 1..land.sites.len() {
        let mut upward: Vec<usize> =
            (0..site).filter(|other| above(land.layers[*other], land.layers[site])).collect();
        upward.sort_by(|a, b| {
            let (near, far) =
                (kilometres(places[site], places[*a]), kilometres(places[site], places[*b]));
            near.total_cmp(&far).then(a.cmp(b))
        });
        let wanted = match land.layers[site] {
            Layer::Cloud => MESH_MAX,
            Layer::NearEdge => 2,
            Layer::FarEdge => 1 + usize::from(dice.below(10) < 3),
        };
        for other in upward.into_iter().take(wanted) {
            let link = link(land, site, other, kilometres(places[site], places[other]), dice);
            land.links.push(link);
        }
    }
}

/// What a site of `layer` is linked to.
fn above(other: Layer, layer: Layer) -> bool {
    match layer {
        Layer::Cloud => other == Layer::Cloud,
        Layer::NearEdge => other == Layer::Cloud,
        Layer::FarEdge => other == Layer::NearEdge || other == Layer::Cloud,
    }
}

fn link(land: &Land, a: usize, b: usize, kilometres: f64, dice: &mut Dice) -> Link {
    let (base_us, jitter_us, mbps) = match land.layers[a] {
        Layer::Cloud => (300, 50, 10_000),
        Layer::NearEdge => (800, 200, 1_000),
        Layer::FarEdge => {
            (2_000 + dice.below(6_000) as u64, 1_000, [50, 100, 200, 500][dice.below(4)])
        }
    };
    // Light in glass takes 5 µs for a kilometre, and no cable is straight.
    let latency = base_us + whole(kilometres * 7.5);
    let name = |site: usize| land.sites[site].metadata.name.clone().unwrap_or_default();
    let ends = [a, b].map(|site| End { kind: EndKind::Site, name: name(site) });
    let declared = Quality {
        latency: Some(Duration::from_micros(latency)),
        jitter: Some(Duration::from_micros(jitter_us)),
        loss: None,
        bandwidth: Some(BitRate::from_bps(mbps * 1_000_000)),
        energy: Some(rounded(2.0 + kilometres / 100.0)),
        failures: Some(small(dice.below(6))),
    };
    let spec = LinkSpec { ends: ends.to_vec(), one_way: false, declared };
    Link::new(&format!("{}--{}", name(a), name(b)), spec)
}

/// Cores, memory in GiB, watts when busy, MHz.
type Machine = (u64, u64, f64, u32);

fn node(index: usize, site: usize, land: &Land, dice: &mut Dice) -> Node {
    let layer = land.layers[site];
    let (arch, (cores, memory, watts, mhz)) = machine(layer, dice);
    let name = land.sites[site].metadata.name.clone().unwrap_or_default();
    let spec = NodeSpec {
        site: name.clone(),
        cost_hourly: Some(rounded(watts / 400.0 * (0.5 + hundredths(dice, 100)))),
        ..NodeSpec::default()
    };
    let mut node = Node::new(&format!("{name}-n{index}"), spec);
    let busy = dice.below(60) as u64;
    let share = f64::from(u32::try_from(busy).unwrap_or(0)) / 100.0;
    let whole_machine = Resources {
        cpu: Some(Cpu::from_millis(cores * 1000)),
        memory: Some(Bytes::new(memory << 30)),
        storage: Some(Bytes::new((memory * 8) << 30)),
        ..Resources::default()
    };
    let left = Resources {
        cpu: Some(Cpu::from_millis(cores * 10 * (100 - busy))),
        memory: Some(Bytes::new((memory << 30) / 100 * (100 - busy))),
        ..whole_machine.clone()
    };
    let camera = layer == Layer::FarEdge && dice.below(10) < 4;
    let gpu = layer != Layer::FarEdge && dice.below(10) < 2;
    let devices = camera.then(|| Device {
        name: "camera".to_owned(),
        kind: Some("video".to_owned()),
        status: Some(DeviceStatus::Available),
        path: Some("/dev/video0".to_owned()),
    });
    let gpus = gpu.then(|| Gpu { memory: Some(Bytes::new(16 << 30)), ..Gpu::default() });
    node.status = Some(NodeStatus {
        capacity: Some(whole_machine),
        allocatable: Some(left),
        characteristics: Some(Characteristics {
            cpu: Some(Processor {
                architecture: Some(arch),
                cores: u32::try_from(cores).ok(),
                frequency_mhz_max: Some(mhz),
                ..Processor::default()
            }),
            gpus: gpus.into_iter().collect(),
            devices: devices.into_iter().collect(),
            ..Characteristics::default()
        }),
        security_score: u8::try_from(30 + dice.below(66)).ok(),
        compliance_score: u8::try_from(20 + dice.below(81)).ok(),
        energy: Some(Energy {
            idle_watts: Some(rounded(watts * 0.3)),
            busy_watts: Some(watts),
            source: Some("estimated".to_owned()),
            ..Energy::default()
        }),
        load: Some(Load { cpu: share, memory: Some(share), cpu_forecast: None }),
        failures: Some(Failures { node: small(dice.below(4)), network: small(dice.below(5)) }),
        ..NodeStatus::default()
    });
    let tier = ["gold", "silver", "bronze"][dice.below(3)];
    node.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
    node
}

fn machine(layer: Layer, dice: &mut Dice) -> (Arch, Machine) {
    match (layer, dice.below(10)) {
        (Layer::Cloud, 0..7) => {
            (Arch::Amd64, [(16, 64, 250.0, 3200), (32, 128, 420.0, 3000)][dice.below(2)])
        }
        (Layer::Cloud, _) => (Arch::Arm64, (64, 256, 350.0, 2800)),
        (Layer::NearEdge, 0..7) => {
            (Arch::Amd64, [(8, 16, 95.0, 3400), (16, 32, 180.0, 3000)][dice.below(2)])
        }
        (Layer::NearEdge, _) => (Arch::Arm64, (16, 32, 60.0, 2400)),
        (Layer::FarEdge, 0..6) => {
            (Arch::Arm64, [(4, 4, 8.0, 1500), (4, 8, 12.0, 2400)][dice.below(2)])
        }
        (Layer::FarEdge, _) => {
            (Arch::Amd64, [(4, 8, 25.0, 2600), (8, 16, 45.0, 3600)][dice.below(2)])
        }
    }
}

/// On a map small enough to be flat, in the middle latitudes.
fn kilometres(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (north, east) = ((a.0 - b.0) * 111.0, (a.1 - b.1) * 72.0);
    (north * north + east * east).sqrt()
}

fn hundredths(dice: &mut Dice, below: usize) -> f64 {
    f64::from(small(dice.below(below))) / 100.0
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "a float to an integer saturates")]
    #[expect(clippy::cast_sign_loss, reason = "distances are not negative")]
    let whole = number.round() as u64;
    whole
}
