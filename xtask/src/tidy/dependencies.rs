//! Which crate may know which: dependencies point down the tiers of `ARCHITECTURE.md`, and the two
//! lowest tiers are pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Finding;
use super::tree::Tree;

/// Every crate of the workspace has a row; a new one gets its row with its first commit.
const TIERS: &[(&str, u8)] = &[
    ("tombolo-cel", 0),
    ("tombolo-model", 0),
    ("tombolo-placement", 1),
    ("tombolo-solver", 1),
    ("tombolo-yaml", 0),
    ("tombolo-descriptor", 1),
    ("tombolo-document", 1),
    ("tombolo-plan", 1),
    ("tombolo-policy", 1),
    ("tombolo-series", 1),
    ("tombolo-leaf", 1),
    ("tombolo-network", 1),
    ("tombolo-alto", 1),
    ("tombolo-seal", 2),
    ("tombolo-store", 2),
    ("tombolo-telemetry", 2),
    ("tombolo-probe", 2),
    ("tombolo-gate", 2),
    ("tombolo-apiserver", 2),
    ("tombolo-identity", 2),
    ("tombolo-driver", 2),
    ("tombolo-host", 2),
    ("tombolo-driver-docker", 2),
    ("tombolo-driver-process", 2),
    ("tombolo-agent", 3),
    ("tombolo-controller", 3),
    ("tombolo-facade", 3),
    ("tombolo-demo", 3),
    ("tombolo-bench", 3),
    ("tombolo-cli", 3),
    ("tombolo-testkit", 4),
    ("xtask", 4),
];

/// Who may know a crate of its own tier.
const SIDEWAYS: &[(&str, &str)] = &[
    ("tombolo-plan", "tombolo-descriptor"),
    ("tombolo-plan", "tombolo-placement"),
    ("tombolo-plan", "tombolo-network"),
    ("tombolo-placement", "tombolo-solver"),
    ("tombolo-policy", "tombolo-series"),
    ("tombolo-leaf", "tombolo-series"),
    ("tombolo-store", "tombolo-seal"),
    ("tombolo-identity", "tombolo-seal"),
    ("tombolo-apiserver", "tombolo-seal"),
    ("tombolo-apiserver", "tombolo-store"),
    ("tombolo-apiserver", "tombolo-identity"),
    // The gate serves in both homes of the API: it knows neither the store nor the apiserver.
    ("tombolo-apiserver", "tombolo-gate"),
    ("tombolo-gate", "tombolo-identity"),
    ("tombolo-driver-docker", "tombolo-driver"),
    ("tombolo-driver-process", "tombolo-driver"),
    ("tombolo-bench", "tombolo-agent"),
    ("tombolo-demo", "tombolo-agent"),
    ("tombolo-cli", "tombolo-agent"),
    ("tombolo-cli", "tombolo-bench"),
    ("tombolo-cli", "tombolo-demo"),
    ("tombolo-cli", "tombolo-controller"),
    ("tombolo-cli", "tombolo-facade"),
];

/// Who must not know a crate, not even through others, although it lies lower.
const STRANGERS: &[(&str, &str)] = &[
    // Numbers only: what a document is, the solver must not need to know.
    ("tombolo-solver", "tombolo-model"),
    ("tombolo-solver", "tombolo-yaml"),
    // A `kube::Client` is all that the gate has of the API.
    ("tombolo-gate", "tombolo-store"),
    ("tombolo-gate", "tombolo-apiserver"),
];

/// Crates with which a pure crate could reach the world: time, chance, files, the net.
const WORLDLY: &[&str] =
    &["async-std", "fastrand", "getrandom", "hyper", "mio", "rand", "rustix", "smol", "tokio"];

pub(super) fn pure_packages() -> impl Iterator<Item = &'static str> {
    TIERS.iter().filter(|(_, tier)| *tier <= 1).map(|(package, _)| *package)
}

pub(super) fn folder(package: &str) -> PathBuf {
    match package.strip_prefix("tombolo-") {
        Some(name) => PathBuf::from("crates").join(name),
        None => PathBuf::from(package),
    }
}

pub(super) fn point_down(tree: &Tree) -> Result<Vec<Finding>> {
    let metadata: Value =
        serde_json::from_str(&cargo(tree, &["metadata", "--format-version=1", "--no-deps"])?)?;
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    let edges = packages.iter().flat_map(edges_of);
    Ok(judge(edges))
}

/// Which package needs which, for what is built into it. What only its tests need may lie higher.
fn edges_of(package: &Value) -> Vec<(String, String)> {
    let name = package["name"].as_str().unwrap_or_default();
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = dependencies
        .iter()
        .filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
        .map(|dependency| (name.to_owned(), dependency.to_owned()));
    // An edge to itself makes sure that a package without any is looked at.
    std::iter::once((name.to_owned(), name.to_owned())).chain(ours).collect()
}

fn judge(edges: impl Iterator<Item = (String, String)>) -> Vec<Finding> {
    let tiers: BTreeMap<&str, u8> = TIERS.iter().copied().collect();
    let mut findings = Vec::new();
    for (from, to) in edges {
        let manifest = folder(&from).join("Cargo.toml");
        let problem = match (tiers.get(from.as_str()), tiers.get(to.as_str())) {
            (None, _) => format!("{from} has no tier: give it a row in {}", file!()),
            (Some(_), _) if from == to => continue,
            (Some(_), None) => continue, // It is told about itself.
            (Some(high), Some(low)) if high > low => continue,
            (Some(high), Some(low)) if high < low => {
                format!("{from} (tier {high}) must not know {to} (tier {low})")
            }
            (Some(_), Some(_)) if SIDEWAYS.contains(&(&from, &to)) => continue,
            (Some(tier), Some(_)) => {
                format!("{from} and {to} are both of tier {tier} and must not know each other")
            }
        };
        findings.push(Finding::new(manifest, 0, problem));
    }
    findings
}

pub(super) fn pure_crates_reach_no_world(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in pure_packages() {
        let listed = cargo(tree, &["tree", "-p", package, "-e", "normal", "--prefix", "none"])?;
        for worldly in reached(&listed, WORLDLY) {
            let problem = format!("{package} is pure, but reaches {worldly}");
            findings.push(Finding::new(folder(package).join("Cargo.toml"), 0, problem));
        }
    }
    Ok(findings)
}

pub(super) fn strangers_stay_strangers(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (package, stranger) in STRANGERS {
        let listed = cargo(tree, &["tree", "-p", package, "-e", "normal", "--prefix", "none"])?;
        if !reached(&listed, &[stranger]).is_empty() {
            let problem = format!("{package} must not know {stranger}, but reaches it");
            findings.push(Finding::new(folder(package).join("Cargo.toml"), 0, problem));
        }
    }
    Ok(findings)
}

/// Those of the crates that `cargo tree` lists.
fn reached<'a>(listed: &str, crates: &[&'a str]) -> Vec<&'a str> {
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    crates.iter().filter(|worldly| names.contains(worldly)).copied().collect()
}

fn cargo(tree: &Tree, arguments: &[&str]) -> Result<String> {
    let output = Command::new("cargo")
        .args(arguments)
        .current_dir(&tree.root)
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, to: &str, expected: Option<&str>) {
        let findings = judge(std::iter::once((from.to_owned(), to.to_owned())));
        let problems: Vec<&str> = findings.iter().map(|finding| finding.problem.as_str()).collect();
        assert_eq!(problems, Vec::from_iter(expected));
    }

    #[test]
    fn an_edge_up_is_found() {
        let problem = "tombolo-plan (tier 1) must not know tombolo-store (tier 2)";
        check("tombolo-plan", "tombolo-store", Some(problem));
        check("tombolo-store", "tombolo-plan", None);
    }

    #[test]
    fn an_edge_sideways_needs_leave() {
        let problem =
            "tombolo-store and tombolo-identity are both of tier 2 and must not know each other";
        check("tombolo-store", "tombolo-identity", Some(problem));
        check("tombolo-apiserver", "tombolo-store", None);
        for inside in ["tombolo-store", "tombolo-apiserver"] {
            let problem = format!(
                "tombolo-gate and {inside} are both of tier 2 and must not know each other"
            );
            check("tombolo-gate", inside, Some(&problem));
        }
    }

    #[test]
    fn a_crate_without_a_tier_is_found() {
        let problem = format!("tombolo-new has no tier: give it a row in {}", file!());
        check("tombolo-new", "tombolo-new", Some(&problem));
    }

    #[test]
    fn a_worldly_crate_is_found_below_a_pure_one() {
        let listed = "tombolo-plan v0.1.0 (crates/plan)\nserde v1.0.0\ntokio v1.54.0 (*)\n";
        assert_eq!(reached(listed, WORLDLY), ["tokio"]);
        assert_eq!(reached("serde v1.0.0\ntokio-like v1.0.0\n", WORLDLY), Vec::<&str>::new());
    }
}
