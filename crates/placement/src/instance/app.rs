//! The App: a chain, a fan or a mesh of components, light enough that there is mostly a place.

use tombolo_model::app::Weights;
use tombolo_model::component::{Affinity, Component, Connection, Spread, Users};
use tombolo_model::needs::Needs;
use tombolo_model::run::{Container, Process, Run};
use tombolo_model::site::Layer;
use tombolo_model::{App, AppSpec, Arch, BitRate, Bytes, Cpu, Duration, Level};
use tombolo_solver::select::Dice;

use super::land::Land;

/// How the components talk.
#[derive(Clone, Copy)]
enum Form {
    /// Each calls the next.
    Chain,
    /// The first calls all others.
    Fan,
    /// Each calls the next, and some call one further on.
    Mesh,
}

pub(super) fn make(count: usize, land: &Land, seed: u64, dice: &mut Dice) -> App {
    let form = [Form::Chain, Form::Fan, Form::Mesh][dice.below(3)];
    let mut components: Vec<Component> = (0..count).map(|index| component(index, dice)).collect();
    for caller in 0..count {
        for callee in callees(form, caller, count, dice) {
            let connection = connection(&components[callee].name, dice);
            components[caller].connects.push(connection);
        }
    }
    components[0].users = Some(users(land, dice));
    let some = |dice: &mut Dice| f64::from(u32::try_from(dice.below(5)).unwrap_or(0));
    let weights = Weights {
        performance: Some(1.0 + some(dice)),
        energy: Some(some(dice)),
        security: Some(some(dice)),
        cost: Some(some(dice)),
        resilience: Some(some(dice)),
        latency: Some(some(dice)),
    };
    let spec = AppSpec { components, weights: Some(weights), ..AppSpec::default() };
    let mut app = App::new(&format!("app-{seed}"), spec);
    app.metadata.namespace = Some("default".to_owned());
    app
}

fn component(index: usize, dice: &mut Dice) -> Component {
    let image = format!("registry.example/part-{index}:1");
    let container =
        Run { container: Some(Container { image, ..Container::default() }), ..Run::default() };
    let command = vec![format!("/usr/bin/part-{index}")];
    let process =
        Run { process: Some(Process { command, ..Process::default() }), ..Run::default() };
    let mut needs = Needs {
        cpu: Some(Cpu::from_millis(100 + 50 * dice.below(19) as u64)),
        memory: Some(Bytes::new((64 + 64 * dice.below(15) as u64) << 20)),
        ..Needs::default()
    };
    match dice.below(10) {
        0 => needs.arch = vec![Arch::Amd64],
        1 => needs.arch = vec![Arch::Arm64, Arch::Amd64],
        2 => needs.security = Some(Level::MEDIUM),
        3 => needs.security = Level::from_score(60),
        4 => needs.layers = vec![Layer::NearEdge, Layer::Cloud],
        5 => needs.labels = [("tier".to_owned(), "gold".to_owned())].into(),
        _ => (),
    }
    let replicas = [1, 1, 1, 1, 2, 3][dice.below(6)];
    let spread = (replicas > 1 && dice.below(2) == 0).then_some(Spread::Node);
    Component {
        name: format!("part-{index}"),
        replicas: Some(replicas),
        run: if dice.below(3) == 0 { vec![container, process] } else { vec![container] },
        needs: Some(needs),
        affinity: spread.map(|spread| Affinity { spread: Some(spread), ..Affinity::default() }),
        stateful: dice.below(8) == 0,
        ..Component::default()
    }
}

fn callees(form: Form, caller: usize, count: usize, dice: &mut Dice) -> Vec<usize> {
    let next = caller + 1;
    match form {
        Form::Chain => (next..count.min(next + 1)).collect(),
        Form::Fan if caller == 0 => (1..count).collect(),
        Form::Fan => Vec::new(),
        Form::Mesh => {
            let mut callees: Vec<usize> = (next..count.min(next + 1)).collect();
            if next + 1 < count && dice.below(2) == 0 {
                callees.push(next + 1 + dice.below(count - next - 1));
            }
            callees
        }
    }
}

fn connection(to: &str, dice: &mut Dice) -> Connection {
    let bounded = dice.below(10) < 5;
    let wide = dice.below(10) < 5;
    Connection {
        to: to.to_owned(),
        latency: bounded.then(|| Duration::from_millis([15, 20, 30, 40, 60][dice.below(5)])),
        bandwidth: wide.then(|| BitRate::from_bps([1, 2, 5, 10, 20][dice.below(5)] * 1_000_000)),
        ..Connection::default()
    }
}

fn users(land: &Land, dice: &mut Dice) -> Users {
    let site = dice.below(land.sites.len());
    let name = land.sites[site].metadata.name.clone().unwrap_or_default();
    Users {
        sites: vec![name],
        latency: Some(Duration::from_millis(30 + 10 * dice.below(5) as u64)),
    }
}
