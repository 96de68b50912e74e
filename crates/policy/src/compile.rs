//! A policy becomes a [`Rule`]: an expression that is PromQL, bound to the subject, and when a value of it is
//! a violation. What is wrong is told with its place. Start at [`compile()`].

mod built_in;
mod enforce;
mod values;

use std::sync::Arc;

use serde_json::{Value, json};
use tombolo_model::policy::{
    Action, Check, LinkCheck, Mode, Remediation, Severity, Subject, Thresholds,
};
use tombolo_series::promql::{Expr, Op, parse};

use crate::render::{Rendered, placeholders, render};
use crate::subject::{matchers, selector_text};
use crate::template::{OF_SUBJECT, Templates};
use crate::{Context, Problem, Vocabulary, Watched};

/// Time between two looks, and between two steps, where a policy says nothing.
const INTERVAL_MS: i64 = 15_000;
const COOLDOWN_MS: i64 = 60_000;

/// A trend over less would follow every wiggle.
const TREND_MS_MIN: i64 = 600_000;

/// A policy that can be watched.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub subject: Subject,
    pub vocabulary: Vocabulary,
    pub source: Source,
    pub condition: Condition,
    pub trend: Option<Trend>,
    pub interval_ms: i64,
    pub for_ms: i64,
    pub keep_ms: i64,
    pub once: bool,
    pub severity: Severity,
    pub mode: Mode,
    pub suspended: bool,
    pub action: Action,
    pub remediation: Option<Remediation>,
    pub cooldown_ms: i64,
    /// Most steps in a time.
    pub budget: Option<(u32, i64)>,
}

/// Where the values come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A PromQL expression without its comparison.
    Query { text: String, expr: Arc<Expr> },
    /// Something that whoever looks knows without samples.
    Fact(Fact),
}

/// Something that is known without samples. The values are 0 while all is well; see [`Fact`]'s variants.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// 1 where an instance's needs no longer hold.
    Placement,
    /// By how much the worse of latency and bandwidth passes its limit; above 1 is a violation.
    Link(LinkCheck),
}

impl Fact {
    /// How far a link is from its limits: above 1 is a violation.
    pub fn of_link(check: &LinkCheck, latency_us: Option<f64>, bps: Option<f64>) -> Option<f64> {
        let late = check.latency_max.zip(latency_us).map(|(most, is)| is / most.micros() as f64);
        let narrow = check.bandwidth_min.zip(bps).map(|(least, is)| least.bps() as f64 / is);
        match (late, narrow) {
            (Some(late), Some(narrow)) => Some(late.max(narrow)),
            (one, other) => one.or(other),
        }
    }
}

/// The same expression, looking ahead.
#[derive(Clone, Debug)]
pub struct Trend {
    pub text: String,
    pub expr: Arc<Expr>,
    pub within_ms: i64,
    pub action: Action,
}

/// When a value is a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    pub test: Option<(Op, f64)>,
    pub warning: Option<f64>,
    pub critical: Option<f64>,
}

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub violated: bool,
    /// The name of the threshold that is passed, if any has a name.
    pub level: Option<&'static str>,
    /// The value that it should have kept to.
    pub limit: Option<f64>,
}

impl Condition {
    /// Whether any value at all is a violation.
    pub fn is_any(&self) -> bool {
        self.test.is_none() && self.warning.is_none() && self.critical.is_none()
    }

    pub fn judge(&self, value: f64) -> Verdict {
        let passes = |limit: Option<f64>| limit.filter(|limit| self.is_beyond(value, *limit));
        let level = match (passes(self.critical), passes(self.warning)) {
            (Some(limit), _) => Some(("critical", limit)),
            (None, Some(limit)) => Some(("warning", limit)),
            (None, None) => None,
        };
        let violated = match self.test {
            Some((op, limit)) => holds(op, value, limit),
            None => self.is_any() || level.is_some(),
        };
        let own = self.test.map(|(_, limit)| limit);
        let limit = level.map(|(_, limit)| limit).or(own).or(self.warning).or(self.critical);
        Verdict { violated, level: level.map(|(name, _)| name), limit }
    }

    /// A value that is no violation, if there is one.
    pub(crate) fn well(&self) -> f64 {
        self.near(|value| !self.judge(value).violated)
    }

    /// A value that is a violation.
    pub(crate) fn bad(&self) -> f64 {
        self.near(|value| self.judge(value).violated)
    }

    /// The first that is wanted of those at the limits and around them.
    fn near(&self, is_wanted: impl Fn(f64) -> bool) -> f64 {
        let limits = [self.test.map(|(_, limit)| limit), self.warning, self.critical];
        let limits = limits.iter().flatten().copied();
        let around = limits.flat_map(|limit| {
            let apart = limit.abs().max(1.0);
            [limit, limit - apart, limit + apart]
        });
        let mut candidates = around.chain([0.0]);
        candidates.find(|value| is_wanted(*value)).unwrap_or(f64::NAN)
    }

    /// Thresholds are values from which on it is bad.
    fn is_beyond(&self, value: f64, limit: f64) -> bool {
        if self.is_below() { value <= limit } else { value >= limit }
    }

    /// Whether small values are the bad ones.
    pub fn is_below(&self) -> bool {
        match (self.test, self.warning, self.critical) {
            (Some((op, _)), _, _) => matches!(op, Op::Less | Op::LessEqual),
            (None, Some(warning), Some(critical)) => critical < warning,
            (None, _, _) => false,
        }
    }
}

fn holds(op: Op, value: f64, limit: f64) -> bool {
    match op {
        Op::Greater => value > limit,
        Op::GreaterEqual => value >= limit,
        Op::Less => value < limit,
        Op::LessEqual => value <= limit,
        #[expect(
            clippy::float_cmp,
            reason = "a policy may ask for an exact value, such as up == 0"
        )]
        Op::Equal => value == limit,
        #[expect(clippy::float_cmp, reason = "the same")]
        Op::NotEqual => value != limit,
        _ => false,
    }
}

fn read_op(text: &str) -> Option<(Op, &str)> {
    let words = [
        (">=", Op::GreaterEqual),
        ("<=", Op::LessEqual),
        ("==", Op::Equal),
        ("!=", Op::NotEqual),
        (">", Op::Greater),
        ("<", Op::Less),
    ];
    let text = text.trim();
    words.iter().find_map(|(word, op)| Some((*op, text.strip_prefix(word)?.trim())))
}

/// Makes a rule of a policy that has a condition.
pub fn compile(
    policy: &Watched,
    templates: &Templates,
    context: &Context,
) -> Result<Rule, Vec<Problem>> {
    let one = |problem: Problem| vec![problem];
    matchers(&policy.subject, context).map_err(one)?;
    let measured = measured(policy, templates, context).map_err(one)?;
    let remediation = policy.remediation.as_ref();
    let properties = policy.condition.properties.clone().unwrap_or_default();
    let interval_ms = properties.interval.map_or(INTERVAL_MS, millis).max(1000);
    let trend = trend(&policy.condition, &measured.source, interval_ms);
    let mut problems: Vec<Problem> = contradictions(&measured.condition).into_iter().collect();
    let trend = trend.map_err(|problem| problems.push(problem)).unwrap_or_default();
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Rule {
        name: policy.name.clone(),
        subject: policy.subject.clone(),
        vocabulary: context.vocabulary.clone(),
        source: measured.source,
        condition: measured.condition,
        trend,
        interval_ms,
        for_ms: properties.pending_interval.map_or(0, millis),
        keep_ms: properties.keep_firing_for.map_or(0, millis),
        once: properties.one_off,
        severity: policy.severity,
        mode: policy.mode,
        suspended: policy.suspended,
        action: remediation.map_or(Action::None, |remediation| remediation.action),
        remediation: policy.remediation.clone(),
        cooldown_ms: remediation.and_then(|one| one.cooldown).map_or(COOLDOWN_MS, millis),
        budget: remediation
            .and_then(|one| one.budget.as_ref())
            .map(|budget| (budget.acts.max(1), millis(budget.per))),
    })
}

/// The expression, looking ahead.
fn trend(check: &Check, source: &Source, interval_ms: i64) -> Result<Option<Trend>, Problem> {
    let path = "condition.prediction";
    let Some(prediction) = &check.prediction else { return Ok(None) };
    let Source::Query { text, .. } = source else {
        return Err(Problem::new(path, "only with something that is measured"));
    };
    let within_ms = millis(prediction.within).max(1000);
    let over_ms = prediction.over.map_or(within_ms.max(TREND_MS_MIN), millis);
    let seconds = within_ms as f64 / 1000.0;
    let text = format!("predict_linear(({text})[{over_ms}ms:{interval_ms}ms], {seconds})");
    let expr = parse(&text).map_err(|error| Problem::new(path, error.to_string()))?;
    let action = prediction.action.unwrap_or_default();
    Ok(Some(Trend { text, expr: Arc::new(expr), within_ms, action }))
}

pub(crate) fn millis(duration: tombolo_model::Duration) -> i64 {
    i64::try_from(duration.micros() / 1000).unwrap_or(i64::MAX)
}

struct Measured {
    source: Source,
    condition: Condition,
}

fn measured(
    policy: &Watched,
    templates: &Templates,
    context: &Context,
) -> Result<Measured, Problem> {
    let check = &policy.condition;
    if let Some(text) = &check.expr {
        let path = "condition.expr";
        let values = values::of(policy, context, &check.variables);
        return query(path, text, check.violated_if.as_deref(), check, &values, policy, context);
    }
    if let Some(name) = &check.template {
        let template = templates.find(name)?;
        let values = values::of_template(policy, context, template)?;
        let mut check = check.clone();
        check.thresholds = check.thresholds.or_else(|| template.thresholds.clone());
        let violated_if = check.violated_if.as_deref().or(template.violated_if.as_deref());
        let path = "condition.template";
        return query(path, &template.expr, violated_if, &check, &values, policy, context);
    }
    if check.placement {
        let condition = Condition { test: Some((Op::Greater, 0.0)), ..Condition::default() };
        return Ok(Measured { source: Source::Fact(Fact::Placement), condition });
    }
    if let Some(link) = &check.link {
        let condition = Condition { test: Some((Op::Greater, 1.0)), ..Condition::default() };
        return Ok(Measured { source: Source::Fact(Fact::Link(link.clone())), condition });
    }
    let Some((text, variables)) = built_in::expression(check, templates, context)? else {
        return Err(Problem::new("condition", "nothing is watched"));
    };
    let values = values::of(policy, context, &variables);
    query("condition", &text, None, check, &values, policy, context)
}

/// An expression, filled in, bound to the subject, and its comparison.
fn query(
    path: &str,
    text: &str,
    violated_if: Option<&str>,
    check: &Check,
    values: &std::collections::BTreeMap<String, String>,
    policy: &Watched,
    context: &Context,
) -> Result<Measured, Problem> {
    let rendered = render(text, values, path)?;
    let expr = read(&rendered, path)?;
    let mut condition = thresholds(check.thresholds.as_ref());
    let mut text_bare = rendered.text.clone();
    match violated_if {
        Some(comparison) => {
            condition.test = Some(read_comparison(comparison, values)?);
        }
        None => {
            if let Some((left, test)) = enforce::comparison(&expr) {
                text_bare = rendered.text[left].to_owned();
                condition.test = Some(test);
            }
        }
    }
    let bound = placeholders(text).iter().any(|name| OF_SUBJECT.contains(name));
    let (text, expr) = bind(path, text_bare, bound, policy, context)?;
    Ok(Measured { source: Source::Query { text, expr }, condition })
}

/// Puts the subject's labels into every selector of an expression that does not place them itself.
fn bind(
    path: &str,
    text: String,
    bound: bool,
    policy: &Watched,
    context: &Context,
) -> Result<(String, Arc<Expr>), Problem> {
    let wrong = |error: tombolo_series::promql::ParseError| Problem::new(path, error.to_string());
    let expr = parse(&text).map_err(wrong)?;
    if bound {
        return Ok((text, Arc::new(expr)));
    }
    let selector = selector_text(&policy.subject, context);
    let text = enforce::with_labels(&text, &expr, &selector);
    let expr = parse(&text).map_err(wrong)?;
    Ok((text, Arc::new(expr)))
}

/// An expression of its own, such as a metric of a scaling: filled in and bound to the subject.
pub(crate) fn bound_expression(
    path: &str,
    text: &str,
    policy: &Watched,
    context: &Context,
) -> Result<(String, Arc<Expr>), Problem> {
    let values = values::of(policy, context, &std::collections::BTreeMap::new());
    let rendered = render(text, &values, path)?;
    read(&rendered, path)?;
    let bound = placeholders(text).iter().any(|name| OF_SUBJECT.contains(name));
    bind(path, rendered.text, bound, policy, context)
}

fn read(rendered: &Rendered, path: &str) -> Result<Expr, Problem> {
    use tombolo_series::promql::Kind;
    let expr = parse(&rendered.text)
        .map_err(|error| rendered.problem(path, error.place.start, &error.problem))?;
    match expr.kind() {
        Kind::Vector | Kind::Scalar => Ok(expr),
        kind @ (Kind::Text | Kind::Matrix) => {
            let message = format!("gives a {}; a policy looks at an instant vector", kind.name());
            Err(rendered.problem(path, 0, &message))
        }
    }
}

fn read_comparison(
    text: &str,
    values: &std::collections::BTreeMap<String, String>,
) -> Result<(Op, f64), Problem> {
    let path = "condition.violatedIf";
    let rendered = render(text, values, path)?;
    let (op, operand) = read_op(&rendered.text)
        .ok_or_else(|| Problem::at(path, text, 0, "begins with none of >, >=, <, <=, == and !="))?;
    match operand.parse::<f64>() {
        Ok(limit) if limit.is_finite() => Ok((op, limit)),
        Ok(_) | Err(_) => {
            let byte = rendered.text.find(operand).unwrap_or_default();
            Err(rendered.problem(path, byte, &format!("{operand:?} is not a number")))
        }
    }
}

fn thresholds(said: Option<&Thresholds>) -> Condition {
    Condition {
        test: None,
        warning: said.and_then(|said| said.warning),
        critical: said.and_then(|said| said.critical),
    }
}

/// Only after variables are filled in is it known what the comparison compares with.
fn contradictions(condition: &Condition) -> Option<Problem> {
    let (Some(warning), Some(critical)) = (condition.warning, condition.critical) else {
        return None;
    };
    let (op, _) = condition.test?;
    let contrary = match op {
        Op::Greater | Op::GreaterEqual => critical < warning,
        Op::Less | Op::LessEqual => critical > warning,
        _ => {
            let message = "only with >, >=, < or <=: with == and != nothing gets worse";
            return Some(Problem::new("condition.thresholds", message));
        }
    };
    contrary.then(|| {
        let message = format!(
            "critical is {critical} and warning is {warning}, against the direction of {:?}",
            op.sign()
        );
        Problem::new("condition.thresholds", message)
    })
}

impl Rule {
    /// The whole as a query that gives what is violated, as rules of Prometheus have it.
    pub fn alert(&self) -> Option<String> {
        let Source::Query { text, .. } = &self.source else { return None };
        let Condition { test, warning, critical } = self.condition;
        let milder = if self.condition.is_below() {
            [warning, critical].into_iter().flatten().reduce(f64::max)
        } else {
            [warning, critical].into_iter().flatten().reduce(f64::min)
        };
        Some(match (test, milder) {
            (Some((op, limit)), _) => format!("{text} {} {limit}", op.sign()),
            (None, Some(limit)) if self.condition.is_below() => format!("{text} <= {limit}"),
            (None, Some(limit)) => format!("{text} >= {limit}"),
            (None, None) => text.clone(),
        })
    }

    /// A group of rules as Prometheus and the rules API of ICOS take it.
    pub fn to_prometheus(&self, id: &str) -> Option<Value> {
        let seconds = |ms: i64| format!("{}s", ms / 1000);
        let mut rule = json!({
            "alert": format!("{}:rule-0", self.name),
            "expr": self.alert()?,
            "for": if self.for_ms == 0 { "0".to_owned() } else { seconds(self.for_ms) },
            "labels": {"severity": self.severity.as_str()},
            "annotations": {
                "plm_id": id,
                "plm_expr_value": "{{ $value }}",
                "plm_measurement_backend": "prom-1",
            },
        });
        if self.keep_ms > 0 {
            rule["keep_firing_for"] = seconds(self.keep_ms).into();
        }
        Some(json!({"name": self.name, "interval": seconds(self.interval_ms), "rules": [rule]}))
    }
}
