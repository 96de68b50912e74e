//! What is suggested is carried out, word for word, and must help; what is said to be in conflict is
//! taken away, one by one, and must be needed for the conflict.

use serde_json::{Value, json};
use tombolo_model::app::Unplaced;
use tombolo_solver::select::Dice;

use crate::compile::Options;
use crate::plan::Outcome;
use crate::testing::{app, world};

/// A world as the lines of [`crate::testing`], and an App as JSON: both can be changed by words.
#[derive(Clone, Debug)]
struct Case {
    lines: Vec<Vec<String>>,
    spec: Value,
}

impl Case {
    fn unplaced(&self) -> Option<Vec<Unplaced>> {
        let lines: Vec<String> = self.lines.iter().map(|line| line.join(" ")).collect();
        let plan = world(&lines.join("\n")).with([app("web", self.spec.clone())]);
        let plan = plan.plan(&Options::default());
        let [app] = plan.apps.as_slice() else { panic!("one App, one plan: {:?}", plan.troubles) };
        (app.outcome != Outcome::Placed).then(|| app.unplaced.clone())
    }

    fn component(&mut self, name: &str) -> &mut Value {
        let parts = self.spec["components"].as_array_mut().unwrap();
        parts.iter_mut().find(|part| part["name"] == name).unwrap()
    }

    fn connection(&mut self, from: &str, to: &str) -> &mut Value {
        let connects = self.component(from)["connects"].as_array_mut().unwrap();
        connects.iter_mut().find(|one| one["to"] == to).unwrap()
    }

    fn node(&mut self, name: &str) -> &mut Vec<String> {
        self.lines.iter_mut().find(|line| line[0] == "node" && line[1] == name).unwrap()
    }

    fn set(&mut self, node: &str, key: &str, change: impl Fn(&str) -> String) {
        let words = self.node(node);
        let start = format!("{key}=");
        match words.iter_mut().find(|word| word.starts_with(&start)) {
            Some(word) => *word = format!("{start}{}", change(&word[start.len()..])),
            None => words.push(format!("{start}{}", change(""))),
        }
    }
}

/// One component and needs that no node meets.
fn single(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let mut lines = Vec::new();
    for (site, layer) in [("s0", "cloud"), ("s1", "far-edge")] {
        lines.push(format!("site {site} docker layer={layer}"));
    }
    for node in 0..1 + dice.below(5) {
        let arch = ["arm64", "amd64"][dice.below(2)];
        let tier = ["gold", "iron"][dice.below(2)];
        lines.push(format!(
            "node n{node} s{} cpu={} memory={}Mi arch={arch} security={} tier={tier}",
            dice.below(2),
            1 + dice.below(8),
            500 + dice.below(9000),
            10 + dice.below(80),
        ));
        for taint in 0..dice.below(3) {
            let last = lines.last_mut().unwrap();
            *last += &format!(" taint=t{taint}:NoSchedule");
        }
    }
    let mut needs =
        json!({"cpu": 1 + dice.below(9), "memory": format!("{}Mi", dice.below(12_000))});
    if dice.below(2) == 0 {
        needs["arch"] = json!([pick(&mut dice, ["arm64", "amd64"])]);
    }
    if dice.below(2) == 0 {
        needs["security"] = json!(30 + dice.below(60));
    }
    if dice.below(3) == 0 {
        needs["labels"] = json!({"tier": "gold"});
    }
    if dice.below(3) == 0 {
        needs["layers"] = json!([pick(&mut dice, ["cloud", "far-edge"])]);
    }
    if dice.below(3) == 0 {
        needs["sites"] = json!([format!("s{}", dice.below(2))]);
    }
    let spec = json!({"components": [{"name": "a", "needs": needs}]});
    Case { lines: lines.iter().map(|line| words(line)).collect(), spec }
}

fn pick(dice: &mut Dice, words: [&'static str; 2]) -> &'static str {
    words[dice.below(2)]
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// `node n1 would fit with 1 cpu instead of 3 and if it could run on arm64`, done.
fn do_single(case: &mut Case, suggestion: &str) {
    let (node, changes) =
        suggestion.strip_prefix("node ").unwrap().split_once(" would fit ").unwrap();
    let changes = changes.replace(" and with ", ", with ").replace(" and if ", ", if ");
    for change in changes.split(", ") {
        let said = words(change);
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let needs = &mut case.component("a")["needs"];
        match said.as_slice() {
            ["with", cpu, "cpu", "instead", "of", _] => {
                needs["cpu"] = json!(cpu.parse::<f64>().unwrap());
            }
            ["with", memory, "memory", "instead", "of", _] => needs["memory"] = json!(memory),
            ["if", "it", "could", "run", "on", arch] => needs["arch"] = json!([arch]),
            ["with", "security", score, "instead", "of", _] => {
                needs["security"] = json!(score.parse::<u8>().unwrap());
            }
            ["with", "the", "label", label, "on", "it"] => {
                let (key, value) = label.split_once('=').unwrap();
                case.set(node, key, |_| value.to_owned());
            }
            ["if", "layer", layer, "would", "do"] => needs["layers"] = json!([layer]),
            ["if", "site", site, "would", "do"] => needs["sites"] = json!([site]),
            ["if", "it", "tolerated", taints @ ..] => {
                let of = |taint: &&str| taint.split_once(':').map(|(key, _)| json!({"key": key}));
                let all: Vec<Value> = taints.iter().filter_map(of).collect();
                needs["tolerations"] = json!(all);
            }
            other => panic!("no such change: {other:?}"),
        }
    }
    // It was said of this node, not of any.
    case.lines.retain(|line| line[0] != "node" || line[1] == node);
}

#[test]
fn the_change_that_is_suggested_for_one_instance_makes_it_fit() {
    let mut seen = 0;
    for seed in 0..1_500 {
        let mut case = single(seed);
        let Some(unplaced) = case.unplaced() else { continue };
        let suggestion = unplaced[0].suggestion.clone().unwrap();
        do_single(&mut case, &suggestion);
        assert_eq!(case.unplaced(), None, "seed {seed}: {suggestion}: {case:?}");
        seen += 1;
    }
    assert!(seen > 400, "{seen}");
}

/// Several components that have a node each, but not all at once.
fn several(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let mut lines = vec!["site s0 docker".to_owned(), "site s1 docker".to_owned()];
    for node in 0..2 + dice.below(2) {
        lines.push(format!("node n{node} s{} cpu={}", node % 2, 2 + dice.below(4)));
    }
    let (delay, rate) = (5 + dice.below(40), 10 + dice.below(90));
    lines.push(format!("link s0 s1 {delay}ms {rate}Mbps"));
    let names = ["a", "b", "c"];
    let mut parts: Vec<Value> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut part = json!({"name": name, "needs": {"cpu": 1 + dice.below(4)}});
        if dice.below(3) == 0 {
            part["needs"]["sites"] = json!([format!("s{}", dice.below(2))]);
        }
        let to = names[(number + 1) % 3];
        if number < 2 && dice.below(2) == 0 {
            let latency = format!("{}ms", 1 + dice.below(40));
            part["connects"] = json!([{"to": to, "latency": latency}]);
        } else if number < 2 && dice.below(2) == 0 {
            let bandwidth = format!("{}Mbps", 10 + dice.below(120));
            part["connects"] = json!([{"to": to, "bandwidth": bandwidth}]);
        }
        match dice.below(5) {
            0 => part["affinity"] = json!({"with": [to]}),
            1 => part["affinity"] = json!({"apart": [to]}),
            2 => {
                part["replicas"] = json!(2 + dice.below(2));
                part["affinity"] = json!({"spread": pick(&mut dice, ["node", "site"])});
            }
            _ => (),
        }
        parts.push(part);
    }
    Case {
        lines: lines.iter().map(|line| words(line)).collect(),
        spec: json!({"components": parts}),
    }
}

/// Every rule between the components, in the words of a reason.
fn rules(case: &Case) -> Vec<String> {
    let mut rules = vec!["together they need".to_owned()];
    for part in case.spec["components"].as_array().unwrap() {
        let name = part["name"].as_str().unwrap();
        let affinity = &part["affinity"];
        for one in part["connects"].as_array().into_iter().flatten() {
            let to = one["to"].as_str().unwrap();
            match (one["latency"].as_str(), one["bandwidth"].as_str()) {
                (Some(max), _) => rules.push(format!("{name} needs at most {max} to {to}")),
                // All ways are measured here, so that this alone is never the trouble.
                (None, Some(rate)) => rules.push(format!("{name} needs {rate} to {to}")),
                (None, None) => (),
            }
        }
        if let Some(spread) = affinity["spread"].as_str() {
            rules.push(format!("no two instances of {name} may share a {spread}"));
        }
        if let Some(other) = affinity["apart"][0].as_str() {
            let (a, b) = (name.min(other), name.max(other));
            rules.push(format!("no two instances of {a} and {b} may share a node"));
        }
        if affinity["with"].is_array() {
            rules.push("they must share a site".to_owned());
        }
    }
    rules
}

fn same_rule(rule: &str, reason: &str) -> bool {
    let [start, end] = ["together they need", "must share a site"];
    rule == reason
        || (rule.starts_with(start) && reason.starts_with(start))
        || (rule.ends_with(end) && reason.ends_with(end))
}

/// Takes away what a reason speaks of.
fn take_away(case: &mut Case, reason: &str) {
    let said = words(reason);
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    match said.as_slice() {
        [from, "needs", "at", "most", _, "to", to] => {
            // Without a bound nothing is promised, and any way will do.
            case.connection(from, to).as_object_mut().unwrap().remove("latency");
        }
        [from, "needs", _, "to", to] => {
            case.connection(from, to).as_object_mut().unwrap().remove("bandwidth");
        }
        ["no", "two", "instances", "of", names @ .., "may", "share", "a", _] => {
            // The later one of a circle of names may be the one that asked.
            for name in names.iter().filter(|name| **name != "and") {
                let affinity = case.component(name)["affinity"].as_object_mut();
                let Some(affinity) = affinity else { continue };
                match names.len() {
                    1 => drop(affinity.remove("spread")),
                    _ => {
                        if affinity
                            .get("apart")
                            .is_some_and(|apart| names.contains(&apart[0].as_str().unwrap()))
                        {
                            affinity.remove("apart");
                        }
                    }
                }
            }
        }
        [.., "must", "share", "a", "site"] => {
            for name in ["a", "b", "c"] {
                if let Some(affinity) = case.component(name)["affinity"].as_object_mut() {
                    affinity.remove("with");
                }
            }
        }
        ["together", "they", "need", ..] => {
            // Room for everybody, where there was room for one alone.
            let nodes = case.lines.iter().filter(|line| line[0] == "node");
            let nodes: Vec<(String, u64)> =
                nodes.map(|line| (line[1].clone(), line[3][4..].parse().unwrap())).collect();
            for name in ["a", "b", "c"] {
                let needs = &mut case.component(name)["needs"];
                let least = needs["cpu"].as_u64().unwrap();
                let large = nodes.iter().filter(|(_, cpu)| *cpu >= least).map(|(node, _)| node);
                needs["nodes"] = json!(large.collect::<Vec<_>>());
            }
            for (node, _) in &nodes {
                case.set(node, "cpu", |_| "99".to_owned());
            }
        }
        other => panic!("no such reason: {other:?}"),
    }
}

fn carry_out(case: &mut Case, suggestion: &str, reasons: &[String]) {
    let said = words(suggestion.strip_prefix("they would fit ").unwrap());
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    let first = |start: &str, end: &str| {
        let found =
            reasons.iter().find(|reason| reason.starts_with(start) && reason.ends_with(end));
        found.cloned().unwrap()
    };
    match said.as_slice() {
        ["if", delay, "from", from, "to", to, "would", "do"] => {
            case.connection(from, to)["latency"] = json!(delay);
        }
        ["with", rate, "from", from, "to", to] => {
            case.connection(from, to)["bandwidth"] = json!(rate)
        }
        ["without", "bandwidth", "from", from, "to", to] => {
            case.connection(from, to).as_object_mut().unwrap().remove("bandwidth");
        }
        ["if", "some", "might", "share"] => {
            let reason = reasons.iter().find(|reason| reason.contains("may share a")).unwrap();
            take_away(case, reason);
        }
        ["at", "different", "sites"] => take_away(case, &first("", "must share a site")),
        ["with", rest @ ..] => {
            let rest = rest.join(" ").replace(" and ", ", ");
            for change in rest.split(", ") {
                let said = words(change);
                let more: f64 = said[0].parse().unwrap();
                case.set(&said[5], "cpu", |cpu| (cpu.parse::<f64>().unwrap() + more).to_string());
            }
        }
        other => panic!("no such change: {other:?}"),
    }
}

#[test]
fn what_is_said_of_several_is_a_minimal_conflict_and_the_change_helps() {
    let (mut conflicts, mut suggested) = (0, 0);
    for seed in 0..2_500 {
        let case = several(seed);
        let Some(unplaced) = case.unplaced() else { continue };
        let reasons = &unplaced[0].reasons;
        // One of them has no node by itself, which is for the tests above.
        if reasons.iter().any(|reason| reason.starts_with("needs")) {
            continue;
        }
        conflicts += 1;
        if let Some(suggestion) = &unplaced[0].suggestion {
            let mut mended = case.clone();
            carry_out(&mut mended, suggestion, reasons);
            assert_eq!(mended.unplaced(), None, "seed {seed}: {suggestion}: {case:?}");
            suggested += 1;
        }
        // With all other rules taken away they are still in conflict; with any one less they are not.
        let mut only = case.clone();
        for rule in rules(&case) {
            if !reasons.iter().any(|reason| same_rule(&rule, reason)) {
                take_away(&mut only, &rule);
            }
        }
        assert!(only.unplaced().is_some(), "seed {seed}: {reasons:?} are no conflict: {case:?}");
        for reason in reasons {
            let mut without = only.clone();
            take_away(&mut without, reason);
            assert_eq!(without.unplaced(), None, "seed {seed}: {reason} is not needed: {case:?}");
        }
    }
    assert!(conflicts > 200 && suggested > 150, "{conflicts}, {suggested}");
}
