//! The conditions that need no expression: each becomes one of the templates.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_model::policy::{Check, NodeUsage};

use crate::compile::millis;
use crate::template::Templates;
use crate::{Context, Problem};

type Expression = (String, BTreeMap<String, Value>);

/// The expression of a built-in condition, with its comparison, and the variables in it.
pub(super) fn expression(
    check: &Check,
    templates: &Templates,
    context: &Context,
) -> Result<Option<Expression>, Problem> {
    let of = |name: &str| templates.find(name).map(|template| template.expr.clone());
    let with = |name: &str, value: Value| BTreeMap::from([(name.to_owned(), value)]);
    if let Some(level) = check.security {
        let score = context.levels.score(level);
        return Ok(Some((format!("{} < {score}", of("app-sca-score")?), BTreeMap::new())));
    }
    if let Some(device) = &check.device {
        return Ok(Some((of("device-available")?, with("device", json!(pattern(device))))));
    }
    if let Some(timeout) = check.telemetry_lost {
        let timeout = json!(format!("{}ms", millis(timeout).max(1000)));
        return Ok(Some((of("redeploy-on-lost-telemetry")?, with("timeout", timeout))));
    }
    match &check.node_usage {
        Some(usage) => Ok(Some((node_usage(usage, &of)?, BTreeMap::new()))),
        None => Ok(None),
    }
}

/// A path is meant as it stands; the template takes a regular expression inside quotes.
fn pattern(path: &str) -> String {
    let mut pattern = String::new();
    for c in path.chars() {
        match c {
            // A class needs no backslash, which would have to pass the quotes.
            '.' | '+' | '*' | '?' | '(' | ')' | '|' | '{' | '}' | '$' => {
                pattern.extend(['[', c, ']']);
            }
            c => pattern.push(c),
        }
    }
    pattern
}

/// How far each figure is on its way to its limit; the worst counts, and above 1 it is passed.
fn node_usage(
    usage: &NodeUsage,
    of: &dyn Fn(&str) -> Result<String, Problem>,
) -> Result<String, Problem> {
    let ending = if usage.exclude_app_resources { "-excl" } else { "" };
    let mut shares = Vec::new();
    if let Some(most) = usage.cpu_percent_max {
        shares.push((
            "cpu",
            format!("({}) / {most}", of(&format!("app-host-cpu-usage-perc{ending}"))?),
        ));
    }
    if let Some(most) = usage.memory_percent_max {
        let name = format!("app-host-memory-usage-perc{ending}");
        shares.push(("memory", format!("({}) / {most}", of(&name)?)));
    }
    if let Some(least) = usage.memory_free_min {
        let name = format!("app-host-memory-avail-bytes{ending}");
        shares.push(("free", format!("{} / ({})", least.get(), of(&name)?)));
    }
    let marked = shares.iter().map(|(figure, share)| {
        format!("label_replace({share}, \"figure\", \"{figure}\", \"\", \"\")")
    });
    let all = marked.collect::<Vec<String>>().join(" or ");
    Ok(format!("max by ({{{{subject_label_list}}}}, icos_host_id) ({all}) > 1"))
}
