//! `tombolo what-if`: the plan that would follow. Writes nothing.

use serde_json::json;
use tombolo_model::Shared;
use tombolo_model::app::Weights;
use tombolo_placement::what_if::{Change, Difference, WhatIf, World, what_if};
use tombolo_plan::placing::Basis;

use super::{
    placements,
    world::{self, Server},
};
use crate::{
    args::WhatIfArgs,
    failure::{Exit, Failure},
    output::{self, Format, harmless, object, table::Grid},
    shell::Shell,
    target,
};

pub(super) async fn run(shell: &mut Shell, args: &WhatIfArgs) -> Result<Exit, Failure> {
    let changes = changes(args)?;
    if changes.is_empty() {
        return Err(Failure::usage("nothing is different")
            .hint("for example --fail site/athens; `tombolo what-if --help` has more"));
    }
    let connection = shell.connect().await?;
    let server = Server::look(&connection).await?;
    let Basis { running, options } = Basis::without_memory(&server.observed);
    let observed = server.observed;
    let world = World {
        sites: owned(observed.sites),
        nodes: owned(observed.nodes),
        links: owned(observed.links),
        apps: owned(observed.apps),
        running,
    };
    let found = world::within(&args.search, |limits| what_if(&world, &changes, &options, limits))
        .map_err(|trouble| world::as_failure(&trouble))?;
    match args.output {
        Format::Json => shell.out.text(&object::json(&as_json(&found))?)?,
        Format::Table | Format::Wide => {
            shell.out.text(&for_people(&found.differences))?;
            shell.out.flush()?;
            if found.differences.is_empty() {
                output::note("everything would stay where it is");
            }
        }
        Format::Yaml | Format::Name => {
            return Err(Failure::usage("an answer is printed as table or json"));
        }
    }
    let lacks = found.differences.iter().any(|one| one.to.is_none());
    Ok(if lacks { Exit::NotPlaced } else { Exit::Ok })
}

fn owned<T: Clone>(objects: Vec<Shared<T>>) -> Vec<T> {
    objects.into_iter().map(Shared::into_owned).collect()
}

fn as_json(found: &WhatIf) -> serde_json::Value {
    let difference = |one: &Difference| {
        json!({"app": one.app.as_str(), "component": one.component, "replica": one.replica,
            "from": one.from, "to": one.to, "why": one.why})
    };
    json!({
        "feasible": placements::is_feasible(&found.plan),
        "objective": found.plan.objective, "bound": found.plan.bound,
        "differences": found.differences.iter().map(difference).collect::<Vec<_>>(),
    })
}

fn for_people(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&["APP", "COMPONENT", "REPLICA", "FROM", "TO", "WHY"]);
    for one in differences {
        let node =
            |node: &Option<String>| node.as_deref().map_or_else(|| "<none>".to_owned(), harmless);
        grid.rows.push(vec![
            harmless(one.app.as_str()),
            harmless(&one.component),
            one.replica.to_string(),
            node(&one.from),
            node(&one.to),
            harmless(&one.why),
        ]);
    }
    grid.to_text()
}

fn changes(args: &WhatIfArgs) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    for word in &args.fail {
        let (kind, name) = target::parse_one(word)?;
        changes.push(match kind.as_str() {
            "site" | "sites" => Change::FailSite(name),
            "node" | "nodes" => Change::FailNode(name),
            "link" | "links" => Change::LinkDown(name),
            _ => return Err(Failure::usage(format!("--fail {word}: a site, node or link fails"))),
        });
    }
    for word in &args.drain {
        let (kind, name) = target::parse_one(word)?;
        changes.push(match kind.as_str() {
            "site" | "sites" => Change::DrainSite(name),
            "node" | "nodes" => Change::DrainNode(name),
            _ => return Err(Failure::usage(format!("--drain {word}: a site or node is drained"))),
        });
    }
    if !args.add_node.is_empty() {
        let added = world::topology(&args.add_node)?;
        changes.extend(added.sites.into_iter().map(|site| Change::AddSite(Box::new(site))));
        changes.extend(added.nodes.into_iter().map(|node| Change::AddNode(Box::new(node))));
        changes.extend(added.links.into_iter().map(|link| Change::AddLink(Box::new(link))));
    }
    if !args.weights.is_empty() {
        changes.push(Change::Weights(weights(&args.weights)?));
    }
    Ok(changes)
}

fn weights(words: &[String]) -> Result<Weights, Failure> {
    let mut weights = Weights::default();
    for word in words {
        let wrong = || {
            Failure::usage(format!("--weights {word}: not NAME=NUMBER, from 0 to 100"))
                .hint("performance, energy, security, cost, resilience and latency have a weight")
        };
        let (name, number) = word.split_once('=').ok_or_else(wrong)?;
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !(0.0..=100.0).contains(&number) {
            return Err(wrong());
        }
        let place = match name.trim() {
            "performance" => &mut weights.performance,
            "energy" => &mut weights.energy,
            "security" => &mut weights.security,
            "cost" => &mut weights.cost,
            "resilience" => &mut weights.resilience,
            "latency" => &mut weights.latency,
            _ => return Err(wrong()),
        };
        *place = Some(number);
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_named_and_bounded() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let read = weights(&words("energy=3,cost=0.5")).expect("valid");
        assert_eq!((read.energy, read.cost, read.latency), (Some(3.0), Some(0.5), None));
        for wrong in ["energy", "energy=x", "speed=1", "energy=-1", "energy=NaN", "energy=101"] {
            assert!(weights(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
