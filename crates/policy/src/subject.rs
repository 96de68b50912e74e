//! Whom a policy is about, as labels of series, and back: [`selector_text`], [`selector_list`], [`target`].

use std::collections::BTreeMap;

use tombolo_model::Level;
use tombolo_model::policy::Subject;
use tombolo_series::{Labels, Matcher, Op};

use crate::Problem;

/// Which labels of series name what. The names are those of ICOS, so that its expressions and its alerts
/// are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    pub app: String,
    pub app_instance: String,
    pub component: String,
    pub instance: String,
    pub node: String,
    pub site: String,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self {
            app: "icos_app_name".to_owned(),
            app_instance: "icos_app_instance".to_owned(),
            component: "icos_app_component".to_owned(),
            instance: "tombolo_instance".to_owned(),
            node: "icos_host_name".to_owned(),
            site: "icos_agent_id".to_owned(),
        }
    }
}

/// The scores that the words low, medium and high ask for: 0, 34 and 67, or what an installation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    pub low: u8,
    pub medium: u8,
    pub high: u8,
}

impl Default for Levels {
    fn default() -> Self {
        let [low, medium, high] = [Level::LOW, Level::MEDIUM, Level::HIGH].map(Level::score);
        Self { low, medium, high }
    }
}

impl Levels {
    /// A score that is one of the words is what the installation takes the word for: in a resource the
    /// two are the same.
    pub fn score(self, level: Level) -> u8 {
        match level {
            Level::LOW => self.low,
            Level::MEDIUM => self.medium,
            Level::HIGH => self.high,
            other => other.score(),
        }
    }
}

/// What a policy is compiled with beside itself.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub vocabulary: Vocabulary,
    pub levels: Levels,
    /// The uid of the App that the policy is about, where that is one App.
    pub app_instance: Option<String>,
}

/// Label and wanted value, sorted by label: `*` means any, `/…/` a regular expression.
fn wanted(subject: &Subject, context: &Context) -> BTreeMap<String, String> {
    let words = &context.vocabulary;
    let mut labels = subject.labels.clone();
    let given = [
        (&words.app, &subject.app),
        (&words.component, &subject.component),
        (&words.instance, &subject.instance),
        (&words.node, &subject.node),
        (&words.site, &subject.site),
    ];
    for (label, value) in given {
        if let Some(value) = value {
            labels.insert(label.clone(), value.clone());
        }
    }
    if subject.app.is_some() {
        // So that a violation names the component.
        labels.entry(words.component.clone()).or_insert_with(|| "*".to_owned());
        if let Some(instance) = &context.app_instance {
            labels.entry(words.app_instance.clone()).or_insert_with(|| instance.clone());
        }
    }
    labels
}

/// The labels in which subjects differ, sorted: `icos_app_component, icos_app_name`.
pub fn selector_list(subject: &Subject, context: &Context) -> String {
    wanted(subject, context).into_keys().collect::<Vec<String>>().join(", ")
}

/// The subject as matchers of PromQL: `icos_app_component=~".+",icos_app_name="shop"`.
pub fn selector_text(subject: &Subject, context: &Context) -> String {
    let one = |(label, value): (String, String)| {
        let (op, value) = pattern(&value);
        format!("{label}{}{}", op.sign(), quoted(&value))
    };
    wanted(subject, context).into_iter().map(one).collect::<Vec<String>>().join(",")
}

/// The same as matchers; a regular expression that is none is a problem.
pub(crate) fn matchers(subject: &Subject, context: &Context) -> Result<Vec<Matcher>, Problem> {
    let one = |(label, value): (String, String)| {
        let (op, pattern) = pattern(&value);
        let matcher = Matcher::new(&label, op, &pattern);
        matcher.map_err(|bad| Problem::new("subject", format!("{value}: {}", bad.problem)))
    };
    wanted(subject, context).into_iter().map(one).collect()
}

fn pattern(value: &str) -> (Op, String) {
    let inner = value.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    match (value, inner) {
        ("*", _) => (Op::Matches, ".+".to_owned()),
        (_, Some(inner)) => (Op::Matches, inner.to_owned()),
        (_, None) => (Op::Equal, value.to_owned()),
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The labels by which a rule names its subjects.
pub(crate) fn labels_of(rule: &crate::Rule) -> Vec<String> {
    let context = Context { vocabulary: rule.vocabulary.clone(), ..Context::default() };
    wanted(&rule.subject, &context).into_keys().collect()
}

/// One that a violation is about, in our words: whatever its series say, and beside that what the policy
/// names without a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub app: Option<String>,
    pub component: Option<String>,
    pub instance: Option<String>,
    pub node: Option<String>,
    pub site: Option<String>,
}

impl std::fmt::Display for Target {
    /// `app/shop/web`, `node/edge-7`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let app = [&self.app, &self.component, &self.instance];
        let words: Vec<&str> = match (&self.app, &self.node, &self.site) {
            (Some(_), _, _) => std::iter::once("app")
                .chain(app.into_iter().flatten().map(String::as_str))
                .collect(),
            (None, Some(node), _) => vec!["node", node],
            (None, None, Some(site)) => vec!["site", site],
            (None, None, None) => vec!["all"],
        };
        f.write_str(&words.join("/"))
    }
}

/// Whom the labels of a violation name.
pub fn target(labels: &Labels, subject: &Subject, words: &Vocabulary) -> Target {
    let find = |label: &str, given: &Option<String>| {
        let said = Some(labels.get(label)).filter(|value| !value.is_empty()).map(str::to_owned);
        said.or_else(|| given.clone().filter(|value| pattern(value).0 == Op::Equal))
    };
    Target {
        app: find(&words.app, &subject.app),
        component: find(&words.component, &subject.component),
        instance: find(&words.instance, &subject.instance),
        node: find(&words.node, &subject.node),
        site: find(&words.site, &subject.site),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(pairs: &[(&str, &str)]) -> Subject {
        let mut subject = Subject::default();
        for (field, value) in pairs {
            let value = (*value).to_owned();
            match *field {
                "app" => subject.app = Some(value),
                "component" => subject.component = Some(value),
                "node" => subject.node = Some(value),
                label => {
                    subject.labels.insert(label.to_owned(), value);
                }
            }
        }
        subject
    }

    #[test]
    fn a_subject_is_sorted_matchers_and_a_list() {
        let context = Context { app_instance: Some("u-1".to_owned()), ..Context::default() };
        let shop = subject(&[("app", "shop"), ("zone", "/a|b/")]);
        assert_eq!(
            selector_text(&shop, &context),
            r#"icos_app_component=~".+",icos_app_instance="u-1",icos_app_name="shop",zone=~"a|b""#
        );
        assert_eq!(
            selector_list(&shop, &context),
            "icos_app_component, icos_app_instance, icos_app_name, zone"
        );
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        let text = selector_text(&subject(&[("node", "a\",b=~\"\\")]), &Context::default());
        assert_eq!(text, r#"icos_host_name="a\",b=~\"\\""#);
        assert!(tombolo_series::promql::parse(&format!("up{{{text}}}")).is_ok());
    }

    #[test]
    fn labels_name_the_culprit_behind_a_wildcard() {
        let labels = Labels::new([("icos_app_component", "web"), ("icos_host_name", "edge-7")]);
        let shop = subject(&[("app", "shop"), ("component", "*")]);
        let found = target(&labels, &shop, &Vocabulary::default());
        assert_eq!(found.to_string(), "app/shop/web");
        assert_eq!(found.node.as_deref(), Some("edge-7"));
        let any = target(&Labels::empty(), &subject(&[("app", "*")]), &Vocabulary::default());
        assert_eq!(any, Target::default());
    }

    #[test]
    fn the_scores_of_the_words_are_a_setting() {
        let newer = Levels { low: 0, medium: 50, high: 80 };
        let scores = [Level::LOW, Level::MEDIUM, Level::HIGH].map(|level| newer.score(level));
        assert_eq!(scores, [0, 50, 80]);
        let usual = Levels::default();
        assert_eq!([Level::MEDIUM, Level::HIGH].map(|level| usual.score(level)), [34, 67]);
        assert_eq!(newer.score(Level::from_score(70).unwrap()), 70);
    }
}
