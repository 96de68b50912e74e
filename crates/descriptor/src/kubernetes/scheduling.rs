//! Where a pod wants to be: node selectors, affinities, spread and tolerations as needs and
//! affinity of a component. Called by [`super::pod`].

use std::collections::BTreeMap;

use tombolo_model::component::{Preference, Spread};
use tombolo_model::keys;
use tombolo_model::needs::{LabelOperator, LabelRule, Needs, TaintEffect, Toleration};
use tombolo_model::quantity::Arch;

use crate::beyond::{Beyond, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::container::text_map;
use crate::kubernetes::pod::{Nearness, Pod};
use crate::reader::Reader;

pub(crate) const ARCH: &str = "kubernetes.io/arch";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What it counts, in points, that instances are not spread where that is a wish.
const SPREAD: u32 = 5;

/// The pods that an affinity speaks of, by their labels.
#[derive(Clone, Debug)]
pub(crate) struct Selector<'a> {
    pub(crate) field: Field<'a>,
    /// A label and the values that will do.
    pub(crate) any_of: BTreeMap<String, Vec<String>>,
}

impl Selector<'_> {
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.any_of.is_empty()
            && self
                .any_of
                .iter()
                .all(|(key, values)| labels.get(key).is_some_and(|found| values.contains(found)))
    }
}

pub(super) fn read<'a>(
    fields: &mut Fields<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    if let Some(selector) = fields.take("nodeSelector") {
        for (key, value) in selector.pairs(reader) {
            if let Some(text) = value.text(reader) {
                need(&key, vec![text], &value, pod, reader);
            }
        }
    }
    if let Some(node) = fields.take("nodeName")
        && let Some(name) = node.text(reader)
    {
        pod.needs.nodes = vec![name];
    }
    if let Some(affinity) = fields.take("affinity") {
        read_affinity(&affinity, pod, beyond, reader);
    }
    if let Some(list) = fields.take("topologySpreadConstraints") {
        for constraint in list.list(reader) {
            read_spread(&constraint, pod, beyond, reader);
        }
    }
    if let Some(list) = fields.take("tolerations") {
        for toleration in list.list(reader) {
            if let Some(read) = read_toleration(&toleration, beyond, reader) {
                pod.needs.tolerations.push(read);
            }
        }
    }
}

/// A node label that must have one of some values.
fn need(
    key: &str,
    values: Vec<String>,
    field: &Field<'_>,
    pod: &mut Pod<'_>,
    reader: &mut Reader<'_>,
) {
    let needs: &mut Needs = &mut pod.needs;
    match key {
        ARCH | "beta.kubernetes.io/arch" => {
            for value in &values {
                match value.parse::<Arch>() {
                    Ok(arch) if needs.arch.contains(&arch) => (),
                    Ok(arch) => needs.arch.push(arch),
                    Err(error) => {
                        field.error(reader, "invalid-quantity", error.to_string());
                    }
                }
            }
        }
        HOSTNAME => needs.nodes = values,
        REGION | "failure-domain.beta.kubernetes.io/region" => needs.regions = values,
        keys::LABEL_SITE => needs.sites = values,
        "kubernetes.io/os" | "beta.kubernetes.io/os" if values == ["linux"] => (),
        key => match <[String; 1]>::try_from(values) {
            Ok([value]) => {
                needs.labels.insert(key.to_owned(), value);
            }
            Err(values) => {
                let (key, operator) = (key.to_owned(), LabelOperator::In);
                needs.label_rules.push(LabelRule { key, operator, values });
            }
        },
    }
}

fn read_affinity<'a>(
    field: &Field<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(nodes) = fields.take("nodeAffinity") {
        read_node_affinity(&nodes, pod, beyond, reader);
    }
    if let Some(near) = fields.take("podAffinity")
        && let Some(mut inner) = near.fields(reader)
    {
        for term in inner.take_list(REQUIRED, reader) {
            if let Some((selector, topology)) = read_term(&term, beyond, reader) {
                if topology != ZONE {
                    let what = format!("sharing a site stands for sharing the same {topology}");
                    term.assumed(reader, &what);
                }
                pod.with.push(selector);
            }
        }
        read_preferred_pods(&mut inner, Nearness::With, pod, beyond, reader);
        inner.finish(foreign(&[REQUIRED, PREFERRED]), reader);
    }
    if let Some(away) = fields.take("podAntiAffinity")
        && let Some(mut inner) = away.fields(reader)
    {
        for term in inner.take_list(REQUIRED, reader) {
            match read_term(&term, beyond, reader) {
                Some((selector, topology)) if topology == HOSTNAME => pod.apart.push(selector),
                Some((_, topology)) if topology == ZONE || topology == REGION => {
                    (pod.spread, pod.skew) = (Some(Spread::Site), None);
                    term.assumed(reader, "spread over sites, which stand for zones");
                }
                Some(_) => beyond.placing(&term, "components are kept apart by node", reader),
                None => (),
            }
        }
        read_preferred_pods(&mut inner, Nearness::Apart, pod, beyond, reader);
        inner.finish(foreign(&[REQUIRED, PREFERRED]), reader);
    }
    fields.finish(foreign(&["nodeAffinity", "podAffinity", "podAntiAffinity"]), reader);
}

/// Other pods that it would rather be with or away from.
fn read_preferred_pods<'a>(
    fields: &mut Fields<'a>,
    nearness: Nearness,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    for wish in fields.take_list(PREFERRED, reader) {
        let Some(mut inner) = wish.fields(reader) else { continue };
        let weight = read_weight(&mut inner, reader);
        let term = inner.need("podAffinityTerm", reader, "whom it speaks of");
        if let (Some(weight), Some(term)) = (weight, term)
            && let Some((selector, topology)) = read_term(&term, beyond, reader)
        {
            let usual = match nearness {
                Nearness::With => ZONE,
                Nearness::Apart => HOSTNAME,
            };
            if topology != usual {
                let place = if nearness == Nearness::With { "site" } else { "node" };
                term.assumed(reader, &format!("the same {place} stands for the same {topology}"));
            }
            pod.rather.push((weight, nearness, selector));
        }
        inner.finish(foreign(&["podAffinityTerm", "weight"]), reader);
    }
}

/// Labels of nodes that it would rather have.
fn read_preferred_nodes<'a>(
    fields: &mut Fields<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    for wish in fields.take_list(PREFERRED, reader) {
        let Some(mut inner) = wish.fields(reader) else { continue };
        let weight = read_weight(&mut inner, reader);
        let term = inner.need("preference", reader, "labels of a node");
        if let (Some(weight), Some(term)) = (weight, term)
            && let Some(mut rules) = term.fields(reader)
        {
            let mut labels = Vec::new();
            for expression in rules.take_list("matchExpressions", reader) {
                if let Some((key, operator, values)) = read_expression(&expression, reader) {
                    let operator = label_operator(&operator);
                    labels.push(LabelRule { key, operator, values });
                }
            }
            if let Some(names) = rules.take("matchFields") {
                beyond.placing(&names, "labels are preferred, not names of nodes", reader);
            }
            rules.finish(foreign(&["matchExpressions", "matchFields"]), reader);
            if !labels.is_empty() {
                pod.prefers.push(Preference { weight, labels, ..Preference::default() });
            }
        }
        inner.finish(foreign(&["preference", "weight"]), reader);
    }
}

fn read_weight(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Option<u32> {
    let weight = fields.need("weight", reader, "1 to 100")?;
    match weight.node.raw().and_then(|text| text.parse().ok()) {
        Some(number @ 1..=100) => Some(number),
        Some(_) | None => {
            weight.error(reader, "invalid-quantity", "a weight is a number from 1 to 100");
            None
        }
    }
}

fn label_operator(word: &str) -> LabelOperator {
    let known = LabelOperator::ALL.iter().find(|operator| operator.as_str() == word);
    known.copied().unwrap_or_default()
}

fn read_node_affinity<'a>(
    field: &Field<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    read_preferred_nodes(&mut fields, pod, beyond, reader);
    if let Some(required) = fields.take(REQUIRED)
        && let Some(mut inner) = required.fields(reader)
    {
        let terms = inner.take("nodeSelectorTerms").map(|terms| terms.list(reader));
        match terms.unwrap_or_default().as_slice() {
            [term] => read_node_term(term, pod, beyond, reader),
            _ => {
                beyond.placing(&required, "alternatives between nodes are not carried over", reader)
            }
        }
        inner.finish(foreign(&["nodeSelectorTerms"]), reader);
    }
    fields.finish(foreign(&[REQUIRED, PREFERRED]), reader);
}

fn read_node_term<'a>(
    term: &Field<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = term.fields(reader) else { return };
    for key in ["matchExpressions", "matchFields"] {
        let Some(list) = fields.take(key) else { continue };
        for expression in list.list(reader) {
            let Some((name, operator, values)) = read_expression(&expression, reader) else {
                continue;
            };
            match (key, operator.as_str()) {
                ("matchExpressions", "In") => {
                    need(&name, values, &expression, pod, reader);
                }
                ("matchFields", "In") if name == "metadata.name" => pod.needs.nodes = values,
                ("matchExpressions", operator) => {
                    let operator = label_operator(operator);
                    pod.needs.label_rules.push(LabelRule { key: name, operator, values });
                }
                (_, _) => beyond.placing(&expression, "a node is asked for by its name", reader),
            }
        }
    }
    fields.finish(foreign(&["matchExpressions", "matchFields"]), reader);
}

fn read_expression(
    field: &Field,
    reader: &mut Reader<'_>,
) -> Option<(String, String, Vec<String>)> {
    let mut fields = field.fields(reader)?;
    let name = fields.need("key", reader, "a key")?.text(reader)?;
    let operator = fields.need("operator", reader, "In, NotIn, Exists or DoesNotExist")?;
    let words: [(&str, &str); 6] = [
        ("In", "In"),
        ("NotIn", "NotIn"),
        ("Exists", "Exists"),
        ("DoesNotExist", "DoesNotExist"),
        ("Gt", "Gt"),
        ("Lt", "Lt"),
    ];
    let operator = operator.one_of(reader, &words)?.to_owned();
    let values = fields.take("values").map(|values| values.texts(reader)).unwrap_or_default();
    fields.finish(foreign(&["key", "operator", "values"]), reader);
    Some((name, operator, values))
}

/// A term of a pod affinity: whom it speaks of, and over what topology.
fn read_term<'a>(
    term: &Field<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<(Selector<'a>, String)> {
    let mut fields = term.fields(reader)?;
    let topology = fields.need("topologyKey", reader, "the label of a node")?.text(reader)?;
    let mut selector = Selector { field: term.clone(), any_of: BTreeMap::new() };
    if let Some(label_selector) = fields.take("labelSelector") {
        read_selector(&label_selector, &mut selector, beyond, reader);
    }
    for key in ["matchLabelKeys", "mismatchLabelKeys", "namespaceSelector", "namespaces"] {
        if let Some(field) = fields.take(key) {
            beyond.placing(&field, "components of this App are meant", reader);
        }
    }
    fields.finish(
        foreign(&[
            "labelSelector",
            "matchLabelKeys",
            "mismatchLabelKeys",
            "namespaceSelector",
            "namespaces",
            "topologyKey",
        ]),
        reader,
    );
    Some((selector, topology))
}

fn read_selector<'a>(
    field: &Field<'a>,
    selector: &mut Selector<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(labels) = fields.take("matchLabels") {
        let labels = text_map(&labels, reader);
        selector.any_of.extend(labels.into_iter().map(|(key, value)| (key, vec![value])));
    }
    if let Some(list) = fields.take("matchExpressions") {
        for expression in list.list(reader) {
            match read_expression(&expression, reader) {
                Some((key, operator, values)) if operator == "In" => {
                    selector.any_of.insert(key, values);
                }
                Some(_) => beyond.placing(&expression, "only given values are compared", reader),
                None => (),
            }
        }
    }
    fields.finish(foreign(&["matchExpressions", "matchLabels"]), reader);
}

fn read_spread<'a>(
    field: &Field<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    let Some(topology) = fields.need("topologyKey", reader, "the label of a node") else { return };
    // A wish must not become a rule: what cannot be spread would find no place.
    let wish =
        fields.peek("whenUnsatisfiable").and_then(|word| word.raw()) == Some("ScheduleAnyway");
    let skew = fields.peek("maxSkew").and_then(|skew| skew.raw()?.parse::<u32>().ok());
    let skew = skew.unwrap_or(1).max(1);
    match topology.text(reader).as_deref() {
        Some(over @ (HOSTNAME | ZONE | REGION)) if wish => {
            let spread = if over == HOSTNAME { Spread::Node } else { Spread::Site };
            let spread = Some(spread);
            pod.prefers.push(Preference { weight: SPREAD, spread, ..Preference::default() });
        }
        Some(over @ (HOSTNAME | ZONE | REGION)) => {
            let spread = if over == HOSTNAME { Spread::Node } else { Spread::Site };
            // One for each, asked for by an anti-affinity, is the stricter rule.
            // Of two rules, the one about sites.
            if pod.spread.is_none() || (pod.skew.is_some() && spread == Spread::Site) {
                (pod.spread, pod.skew) = (Some(spread), Some(skew));
                let domains = fields.peek("minDomains");
                pod.domains = domains.and_then(|domains| domains.raw()?.parse().ok());
            }
        }
        Some(_) => beyond.placing(&topology, "components are spread by node or site", reader),
        None => (),
    }
    // What is left would say how evenly, and among whom; the instances of the component are meant.
    let kept = [
        "labelSelector",
        "matchLabelKeys",
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "whenUnsatisfiable",
    ];
    for key in kept {
        let Some(field) = fields.take(key) else { continue };
        let usual = (key == "maxSkew" && (!wish || field.node.raw() == Some("1")))
            || (key == "minDomains" && !wish)
            || matches!((key, field.node.raw()), ("whenUnsatisfiable", Some("DoNotSchedule")))
            || (wish && key == "whenUnsatisfiable")
            || key == "labelSelector";
        if key == "labelSelector" {
            field.assumed(reader, "the instances of the component are meant");
        }
        if !usual {
            beyond.placing(&field, "the instances are spread as evenly as the nodes allow", reader);
        }
    }
    let known: Vec<&str> = kept.into_iter().chain(["topologyKey"]).collect();
    fields.finish(foreign(&known), reader);
}

fn read_toleration<'a>(
    field: &Field<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<Toleration> {
    let mut fields = field.fields(reader)?;
    let key = fields.take("key").and_then(|key| key.text(reader)).filter(|key| !key.is_empty());
    let value = fields.take("value").and_then(|value| value.text(reader));
    let operators = [("Equal", true), ("Exists", false)];
    let compares = match fields.take("operator") {
        Some(operator) => operator.one_of(reader, &operators)?,
        None => true,
    };
    let effect = fields.take("effect");
    let effects = [
        ("NoSchedule", Some(TaintEffect::NoSchedule)),
        ("NoExecute", Some(TaintEffect::NoExecute)),
        ("PreferNoSchedule", Some(TaintEffect::PreferNoSchedule)),
        ("", None),
    ];
    let effect = match &effect {
        Some(effect) => effect.one_of(reader, &effects)?,
        None => None,
    };
    if let Some(time) = fields.take("tolerationSeconds") {
        beyond.placing(&time, "how long to stay is the App's rule `disconnect`", reader);
    }
    fields.finish(foreign(&["effect", "key", "operator", "tolerationSeconds", "value"]), reader);
    let value = compares.then(|| value.unwrap_or_default());
    Some(Toleration { key, value, effect })
}
