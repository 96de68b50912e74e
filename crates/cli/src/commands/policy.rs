//! `tombolo policy`: policies over recorded samples, and what is wrong with them. No server is asked.

use std::io;

use jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_model::{App, Policy, PolicySpec, validate};
use tombolo_policy::backtest::{self, MODEL, MODEL_SCALING, Report, ScalingReport, Window};
use tombolo_policy::scale::Spec;
use tombolo_policy::template::{Template, Templates};
use tombolo_policy::{Context, Levels, Problem, Rule, Watched, compile};
use tombolo_series::exposition::{self, Limits};
use tombolo_series::{Head, HeadConfig, Span};

use crate::{
    args::{PolicyCheckArgs, PolicyCommand, PolicyFiles, PolicyFormat, PolicyTestArgs},
    failure::{Exit, Failure},
    files::{self, Asked, FILE_BYTES_MAX},
    moment,
    output::{self, harmless, object::json, table::Grid},
    shell::Shell,
};

/// A week of a hundred series at 15 s is 300 MB of text.
const SAMPLES_BYTES_MAX: u64 = 2 << 30;

pub(super) fn run(shell: &mut Shell, command: &PolicyCommand) -> Result<Exit, Failure> {
    match command {
        PolicyCommand::Test(args) => test(shell, args),
        PolicyCommand::Check(args) => check(shell, args),
    }
}

/// A policy, and what it is compiled with.
struct One {
    source: String,
    policy: Watched,
    context: Context,
}

/// What becomes of a policy.
enum Compiled {
    Rule(Box<Rule>),
    Scaling(Box<Spec>),
}

struct Policies {
    all: Vec<One>,
    templates: Templates,
}

impl Policies {
    fn read(args: &PolicyFiles) -> Result<Policies, Failure> {
        let mut templates = Templates::default();
        if !args.templates.is_empty() {
            for text in
                files::texts_up_to(FILE_BYTES_MAX, &Asked::of(&args.templates, None), io::empty())?
            {
                add_templates(&text, &mut templates)?;
            }
        }
        let found = files::read(&Asked::of(&args.files, args.from), io::stdin())?;
        output::notes(&found.notes);
        let mut context = Context { app_instance: args.app_instance.clone(), ..Context::default() };
        match *args.levels {
            [] => (),
            [low, medium, high] => context.levels = Levels { low, medium, high },
            _ => return Err(Failure::usage("--levels takes three scores, such as 0,50,80")),
        }
        let mut all = Vec::new();
        for manifest in found.manifests {
            let invalid = validate::of_kind(&manifest.kind, &manifest.object);
            if !invalid.is_empty() {
                let all: Vec<String> = invalid.iter().map(ToString::to_string).collect();
                return Err(Failure::failed(format!(
                    "{}: {}",
                    manifest.source,
                    all.join("\n       ")
                )));
            }
            let wrong =
                |error: serde_json::Error| Failure::failed(format!("{}: {error}", manifest.source));
            let mut add = |policy: Watched| {
                let source = format!("{}: {}", manifest.source, policy.name);
                all.push(One { source, policy, context: context.clone() });
            };
            match manifest.kind.as_str() {
                "Policy" => {
                    let policy: Policy =
                        serde_json::from_value(manifest.object.clone()).map_err(wrong)?;
                    let spec: &PolicySpec = &policy.spec;
                    add(Watched::of_policy(&manifest.name, spec));
                }
                "App" => {
                    let app: App =
                        serde_json::from_value(manifest.object.clone()).map_err(wrong)?;
                    for policy in &app.spec.policies {
                        add(Watched::of_app(&manifest.name, policy));
                    }
                }
                _ => (),
            }
        }
        if all.is_empty() {
            return Err(Failure::usage(format!("no policy in {}", args.files.join(", ")))
                .hint("a Policy, or an App with policies; see `tombolo explain policy`"));
        }
        Ok(Policies { all, templates })
    }

    fn compile(&self, one: &One) -> Result<Compiled, Vec<Problem>> {
        match one.policy.scaling {
            Some(_) => {
                let spec = Spec::compile(&one.policy, &one.context)?;
                Ok(Compiled::Scaling(Box::new(spec)))
            }
            None => {
                let rule = compile(&one.policy, &self.templates, &one.context)?;
                Ok(Compiled::Rule(Box::new(rule)))
            }
        }
    }
}

fn add_templates(text: &files::Text, templates: &mut Templates) -> Result<(), Failure> {
    let wrong = |problem: String| Failure::failed(format!("{}: {problem}", text.name));
    let (documents, problems) =
        tombolo_yaml::documents(&text.text, &tombolo_yaml::Limits::default());
    if let Some(problem) = problems.first() {
        let line = tombolo_yaml::Lines::new(&text.text).position(problem.span.start).line;
        return Err(wrong(format!("line {line}: {}", problem.message)));
    }
    for document in documents {
        let template: Template =
            serde_json::from_value(document.to_json()).map_err(|error| wrong(error.to_string()))?;
        let name = template.name.clone();
        templates.add(template).map_err(|problem| wrong(format!("template {name}: {problem}")))?;
    }
    Ok(())
}

fn check(shell: &mut Shell, args: &PolicyCheckArgs) -> Result<Exit, Failure> {
    let policies = Policies::read(&args.policies)?;
    let mut reports = Vec::new();
    let mut is_wrong = false;
    for one in &policies.all {
        let compiled = policies.compile(one);
        is_wrong |= compiled.is_err();
        if args.output == PolicyFormat::Json {
            reports.push(checked(one, compiled));
            continue;
        }
        match compiled {
            Ok(Compiled::Rule(rule)) => {
                let alert = rule.alert().unwrap_or_else(|| "what the server knows".to_owned());
                shell.out.line(&format!("{}: {}", harmless(&one.source), harmless(&alert)))?;
            }
            Ok(Compiled::Scaling(spec)) => {
                let (least, most) = (spec.replicas_min, spec.replicas_max);
                shell
                    .out
                    .line(&format!("{}: {least} to {most} instances", harmless(&one.source)))?;
            }
            Err(problems) => {
                for problem in problems {
                    let text = harmless(&problem.to_string());
                    shell.out.line(&format!("{}: error: {text}", harmless(&one.source)))?;
                }
            }
        }
    }
    if args.output == PolicyFormat::Json {
        shell.out.text(&json(&Value::Array(reports))?)?;
    }
    Ok(if is_wrong { Exit::Failed } else { Exit::Ok })
}

fn checked(one: &One, compiled: Result<Compiled, Vec<Problem>>) -> Value {
    let name = &one.policy.name;
    match compiled {
        Ok(Compiled::Rule(rule)) => {
            json!({"policy": name, "valid": true, "rule": rule.to_prometheus(name)})
        }
        Ok(Compiled::Scaling(_)) => json!({"policy": name, "valid": true}),
        Err(problems) => {
            let told = problems.iter().map(|problem| {
                let (line, column) = problem.position.unzip();
                json!({
                    "path": problem.path, "line": line, "column": column,
                    "message": problem.message,
                })
            });
            json!({"policy": name, "valid": false, "problems": told.collect::<Vec<Value>>()})
        }
    }
}

fn test(shell: &mut Shell, args: &PolicyTestArgs) -> Result<Exit, Failure> {
    let policies = Policies::read(&args.policies)?;
    let (head, span) = samples(args)?;
    let window = Window { span, replicas: args.replicas };
    let mut reports = Vec::new();
    for one in &policies.all {
        let compiled = policies.compile(one).map_err(|problems| {
            let all: Vec<String> = problems.iter().map(Problem::to_string).collect();
            Failure::failed(format!("{}: {}", one.source, all.join("\n       ")))
        })?;
        let tested = match compiled {
            Compiled::Rule(rule) => backtest::run(&rule, &head, window).map(Tested::Rule),
            Compiled::Scaling(spec) => {
                backtest::run_scaling(&one.policy.name, &spec, &head, window).map(Tested::Scaling)
            }
        };
        match tested {
            Ok(tested) if args.output == PolicyFormat::Json => reports.push(tested.to_json()),
            Ok(tested) => shell.out.text(&tested.to_text(args.output))?,
            Err(problem) => output::note(&format!("note: {}: {problem}", harmless(&one.source))),
        }
    }
    if args.output == PolicyFormat::Json {
        shell.out.text(&json(&Value::Array(reports))?)?;
    }
    Ok(Exit::Ok)
}

/// All samples, and the time that is looked at.
fn samples(args: &PolicyTestArgs) -> Result<(Head, Span), Failure> {
    let config = HeadConfig { out_of_order_ms: i64::MAX / 4, series_per_source_max: 1_000_000 };
    let mut head = Head::new(config);
    for text in files::texts_up_to(SAMPLES_BYTES_MAX, &Asked::of(&args.samples, None), io::stdin())?
    {
        let wrong = |problem: String| Failure::failed(format!("{}: {problem}", text.name));
        let series = exposition::read(&text.text, &Limits::default())
            .map_err(|error| wrong(error.to_string()))?;
        for (labels, samples) in series {
            head.insert(&text.name, &labels, &samples).map_err(|error| wrong(error.to_string()))?;
        }
    }
    let all = head.span().ok_or_else(|| Failure::usage("there are no samples"))?;
    let since_ms = args.since.and_then(|since| i64::try_from(since.as_millis()).ok());
    let from_ms = since_ms.map_or(all.from_ms, |since| all.from_ms.max(all.to_ms - since));
    Ok((head, Span::new(from_ms, all.to_ms)))
}

enum Tested {
    Rule(Report),
    Scaling(ScalingReport),
}

impl Tested {
    fn to_json(&self) -> Value {
        match self {
            Tested::Rule(report) => report.to_json(),
            Tested::Scaling(report) => report.to_json(),
        }
    }

    fn to_text(&self, format: PolicyFormat) -> String {
        let picture = format == PolicyFormat::Plot;
        match self {
            Tested::Rule(report) if picture => {
                format!("{}\n{}{}", harmless(&report.policy), report.to_plot(), summary(report))
            }
            Tested::Rule(report) => {
                let (firings, acts) = (firings(report).to_text(), acts(report).to_text());
                format!("{}\n{firings}{acts}{}", harmless(&report.policy), summary(report))
            }
            Tested::Scaling(report) => {
                let body = if picture { report.to_plot() } else { changes(report).to_text() };
                format!("{}\n{body}{}", harmless(&report.policy), scaling_summary(report))
            }
        }
    }
}

fn time(at_ms: i64) -> String {
    let written = Timestamp::from_millisecond(at_ms).map(|at| at.to_string());
    written.unwrap_or_else(|_| at_ms.to_string())
}

fn seconds(ms: i64) -> String {
    moment::span(u64::try_from(ms / 1000).unwrap_or_default())
}

fn limit(limit: Option<f64>) -> String {
    limit.map(|limit| limit.to_string()).unwrap_or_default()
}

fn firings(report: &Report) -> Grid {
    let mut grid = Grid::new(&["FIRED", "FOR", "VALUE", "LIMIT", "WHOM"]);
    for firing in &report.firings {
        let lasted =
            firing.to_ms.map_or_else(|| "to the end".to_owned(), |to| seconds(to - firing.from_ms));
        grid.rows.push(vec![
            time(firing.from_ms),
            lasted,
            firing.value.to_string(),
            limit(firing.limit),
            harmless(&firing.labels.to_string()),
        ]);
    }
    grid
}

fn acts(report: &Report) -> Grid {
    let mut grid = Grid::new(&["STEP", "ACTION", "VALUE", "TRIES", "WHOM"]);
    for act in &report.acts {
        grid.rows.push(vec![
            time(act.at_ms),
            act.action.to_string(),
            act.value.to_string(),
            act.tries.to_string(),
            harmless(&act.target.to_string()),
        ]);
    }
    grid
}

fn changes(report: &ScalingReport) -> Grid {
    let mut grid = Grid::new(&["STEP", "FROM", "TO", "WHY"]);
    for (at_ms, from, to, why) in &report.acts {
        grid.rows.push(vec![time(*at_ms), from.to_string(), to.to_string(), harmless(why)]);
    }
    grid
}

fn summary(report: &Report) -> String {
    let mut lines = vec![
        format!("{} of {} looks saw nothing", report.blind_looks, report.looks),
        format!("{} firings of {} subjects", report.firings.len(), report.subjects),
        format!("{} steps, {} times held back", report.acts.len(), report.held),
        format!("violated for {} without them", seconds(report.violated_ms)),
        format!("violated for {} with them, by a model", seconds(report.violated_after_ms)),
        format!("the model: {MODEL}"),
    ];
    if report.cannot_be_met > 0 {
        lines.push("the steps did not help: it cannot be met by them".to_owned());
    }
    lines.extend(report.failure.as_ref().map(|why| format!("a query failed: {}", harmless(why))));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

fn scaling_summary(report: &ScalingReport) -> String {
    let elasticity = &report.elasticity;
    let lines = [
        format!("{} steps, {:.1} instance-hours", report.acts.len(), report.instance_hours),
        format!(
            "too few for {:.2}% of the time, by {:.2}%",
            elasticity.under_time_share, elasticity.under_accuracy
        ),
        format!(
            "too many for {:.2}% of the time, by {:.2}%",
            elasticity.over_time_share, elasticity.over_accuracy
        ),
        format!("moved against the demand for {:.2}% of the time", elasticity.instability),
        format!("the model: {MODEL_SCALING}"),
    ];
    lines.iter().map(|line| format!("  {line}\n")).collect()
}
