//! What placeholders of a policy stand for.

use std::collections::BTreeMap;

use serde_json::Value;
use tombolo_model::suggest;

use crate::subject::{selector_list, selector_text};
use crate::template::{OF_SUBJECT, Template, scalar};
use crate::{Context, Problem, Watched};

/// What the subject and the policy's own variables fill in.
pub(super) fn of(
    policy: &Watched,
    context: &Context,
    variables: &BTreeMap<String, Value>,
) -> BTreeMap<String, String> {
    let subject = &policy.subject;
    let labels = &subject.labels;
    let given =
        |field: &Option<String>, label: &str| field.clone().or_else(|| labels.get(label).cloned());
    let words = &context.vocabulary;
    let app = given(&subject.app, &words.app);
    let component = given(&subject.component, &words.component);
    let site = given(&subject.site, &words.site);
    let host = labels.get("icos_host_id").cloned().or_else(|| subject.node.clone());
    let instance = labels.get(&words.app_instance).or(context.app_instance.as_ref()).cloned();
    let fields = [
        ("subject.appName", app.clone()),
        ("subject.appComponent", component.clone()),
        ("subject.appInstance", instance),
        ("subject.hostId", host),
        ("subject.agentId", site.clone()),
        ("subject.app", app),
        ("subject.component", component),
        ("subject.node", subject.node.clone()),
        ("subject.site", site),
    ];
    let mut values: BTreeMap<String, String> =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    values.insert("subject_label_selector".to_owned(), selector_text(subject, context));
    values.insert("subject_label_list".to_owned(), selector_list(subject, context));
    for (name, value) in variables {
        if let Some(text) = scalar(value)
            && !OF_SUBJECT.contains(&name.as_str())
        {
            values.insert(name.clone(), text);
        }
    }
    values
}

/// The same for a template, whose variables have defaults or must be given.
pub(super) fn of_template(
    policy: &Watched,
    context: &Context,
    template: &Template,
) -> Result<BTreeMap<String, String>, Problem> {
    let given = &policy.condition.variables;
    let names = || template.variables.keys().map(String::as_str);
    if let Some(unknown) = given.keys().find(|name| !template.variables.contains_key(*name)) {
        let meant = suggest::did_you_mean(unknown, names());
        let message = format!("the template {:?} has no such variable{meant}", template.name);
        return Err(Problem::new(format!("condition.variables.{unknown}"), message));
    }
    let mut variables = template.variables.clone();
    variables.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let Some((missing, _)) = variables.iter().find(|(_, value)| value.is_null()) {
        let message = format!("the template {:?} needs a value for it", template.name);
        return Err(Problem::new(format!("condition.variables.{missing}"), message));
    }
    Ok(of(policy, context, &variables))
}
