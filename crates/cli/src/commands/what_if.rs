//! `tombolo what-if`: the plan that would follow. Writes nothing.

use serde_json::json;
use tombolo_model::Duration;
use tombolo_model::app::Weights;
use tombolo_model::explanation::{
    Delay, Difference, Target, TargetKind, WHAT_IF_PATH, WhatIfAnswer, WhatIfRequest,
};
use tombolo_plan::explaining;

use super::world;
use crate::{
    args::WhatIfArgs,
    failure::{Exit, Failure},
    output::{self, Format, harmless, object, table::Grid},
    shell::Shell,
    target,
};

pub(super) async fn run(shell: &mut Shell, args: &WhatIfArgs) -> Result<Exit, Failure> {
    let question = question(args)?;
    if question == (WhatIfRequest { search: question.search.clone(), ..WhatIfRequest::default() }) {
        return Err(Failure::usage("nothing is different")
            .hint("for example --fail site/athens; `tombolo what-if --help` has more"));
    }
    let connection = shell.connect().await?;
    let asked = world::ask::<WhatIfAnswer>(&connection, WHAT_IF_PATH, &question, &args.search);
    let found = match asked.await? {
        Some(answer) => answer,
        None => {
            let seen = world::look(&connection).await?;
            let found = world::within(&args.search, |limits| {
                explaining::what_if(seen, question, &|_| true, limits)
            });
            found.map_err(|trouble| world::as_failure(&trouble))?
        }
    };
    match args.output {
        Format::Json => shell.out.text(&object::json(&as_json(&found))?)?,
        Format::Table | Format::Wide => {
            shell.out.text(&for_people(&found.differences))?;
            shell.out.flush()?;
            if found.differences.is_empty() {
                output::note("everything would stay where it is");
            }
            world::tell_hidden(found.hidden, "instances of apps would change");
        }
        Format::Yaml | Format::Name => {
            return Err(Failure::usage("an answer is printed as table or json"));
        }
    }
    let lacks = found.differences.iter().any(|one| one.to.is_none());
    Ok(if lacks { Exit::NotPlaced } else { Exit::Ok })
}

fn as_json(found: &WhatIfAnswer) -> serde_json::Value {
    json!({
        "feasible": found.feasible, "objective": found.objective, "bound": found.bound,
        "differences": found.differences,
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
            harmless(&one.app),
            harmless(&one.component),
            one.replica.to_string(),
            node(&one.from),
            node(&one.to),
            harmless(&one.why),
        ]);
    }
    grid.to_text()
}

fn question(args: &WhatIfArgs) -> Result<WhatIfRequest, Failure> {
    let mut question =
        WhatIfRequest { search: world::search(&args.search), ..WhatIfRequest::default() };
    for word in &args.fail {
        let (kind, name) = target::parse_one(word)?;
        let kind = match kind.as_str() {
            "site" | "sites" => TargetKind::Site,
            "node" | "nodes" => TargetKind::Node,
            "link" | "links" => TargetKind::Link,
            _ => return Err(Failure::usage(format!("--fail {word}: a site, node or link fails"))),
        };
        question.fail.push(Target { kind, name });
    }
    for word in &args.drain {
        let (kind, name) = target::parse_one(word)?;
        let kind = match kind.as_str() {
            "site" | "sites" => TargetKind::Site,
            "node" | "nodes" => TargetKind::Node,
            _ => return Err(Failure::usage(format!("--drain {word}: a site or node is drained"))),
        };
        question.drain.push(Target { kind, name });
    }
    for word in &args.link {
        let (link, latency) = word.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--link {word}: not NAME=LATENCY, such as a-to-b=80ms"))
        })?;
        let latency = latency
            .parse::<Duration>()
            .map_err(|error| Failure::usage(format!("--link {word}: {error}")))?;
        question.delay.push(Delay { link: link.to_owned(), latency });
    }
    if !args.add_node.is_empty() {
        let added = world::topology(&args.add_node)?;
        question.add_sites = added.sites;
        question.add_nodes = added.nodes;
        question.add_links = added.links;
    }
    if !args.weights.is_empty() {
        question.weights = Some(weights(&args.weights)?);
    }
    Ok(question)
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
