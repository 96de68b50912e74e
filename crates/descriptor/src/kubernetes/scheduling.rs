//! Where a pod wants to be: node selectors, affinities, spread and tolerations as needs and
//! affinity of a component. Called by [`super::pod`].

use std::collections::BTreeMap;

use tombolo_model::component::Spread;
use tombolo_model::keys;
use tombolo_model::needs::{Needs, TaintEffect, Toleration};
use tombolo_model::quantity::Arch;

use crate::beyond::{Beyond, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::container::text_map;
use crate::kubernetes::pod::Pod;
use crate::reader::Reader;

pub(crate) const ARCH: &str = "kubernetes.io/arch";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

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
                need(&key, vec![text], &value, pod, beyond, reader);
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
fn need<'a>(
    key: &str,
    values: Vec<String>,
    field: &Field<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
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
            Err(_) => {
                beyond.placing(field, "a label is asked for with one value, not several", reader);
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
        tell_preferred(&mut inner, beyond, reader);
        inner.finish(foreign(&[REQUIRED, PREFERRED]), reader);
    }
    if let Some(away) = fields.take("podAntiAffinity")
        && let Some(mut inner) = away.fields(reader)
    {
        for term in inner.take_list(REQUIRED, reader) {
            match read_term(&term, beyond, reader) {
                Some((selector, topology)) if topology == HOSTNAME => pod.apart.push(selector),
                Some((_, topology)) if topology == ZONE || topology == REGION => {
                    pod.spread = Some(Spread::Site);
                    term.assumed(reader, "spread over sites, which stand for zones");
                }
                Some(_) => beyond.placing(&term, "components are kept apart by node", reader),
                None => (),
            }
        }
        tell_preferred(&mut inner, beyond, reader);
        inner.finish(foreign(&[REQUIRED, PREFERRED]), reader);
    }
    fields.finish(foreign(&["nodeAffinity", "podAffinity", "podAntiAffinity"]), reader);
}

fn tell_preferred<'a>(fields: &mut Fields<'a>, beyond: &Beyond<'a>, reader: &mut Reader<'_>) {
    if let Some(preferred) = fields.take(PREFERRED) {
        beyond.placing(&preferred, "what is only preferred is not carried over", reader);
    }
}

fn read_node_affinity<'a>(
    field: &Field<'a>,
    pod: &mut Pod<'a>,
    beyond: &Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    tell_preferred(&mut fields, beyond, reader);
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
                    need(&name, values, &expression, pod, beyond, reader);
                }
                ("matchFields", "In") if name == "metadata.name" => pod.needs.nodes = values,
                (_, _) => {
                    beyond.placing(
                        &expression,
                        "only labels with given values are asked for",
                        reader,
                    );
                }
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
    match topology.text(reader).as_deref() {
        Some(HOSTNAME | ZONE | REGION) if wish => (),
        Some(HOSTNAME) => pod.spread = pod.spread.or(Some(Spread::Node)),
        Some(ZONE | REGION) => pod.spread = Some(Spread::Site),
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
        let usual = matches!((key, field.node.raw()), ("maxSkew", Some("1")))
            || matches!((key, field.node.raw()), ("whenUnsatisfiable", Some("DoNotSchedule")))
            || key == "labelSelector";
        if key == "labelSelector" {
            field.assumed(reader, "the instances of the component are meant");
        }
        if !usual {
            beyond.placing(&field, spread_note(wish), reader);
        }
    }
    let known: Vec<&str> = kept.into_iter().chain(["topologyKey"]).collect();
    fields.finish(foreign(&known), reader);
}

fn spread_note(wish: bool) -> &'static str {
    match wish {
        true => "a wish: instances share nodes that are equally good, and no rule makes them",
        false => "the instances are spread as evenly as the nodes allow",
    }
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
        ("NoSchedule", Some(Some(TaintEffect::NoSchedule))),
        ("NoExecute", Some(Some(TaintEffect::NoExecute))),
        ("", Some(None)),
        ("PreferNoSchedule", None),
    ];
    let effect = match &effect {
        Some(effect) => {
            let read = effect.one_of(reader, &effects)?;
            if read.is_none() {
                beyond.placing(field, "a taint keeps away or it does not", reader);
            }
            read
        }
        None => Some(None),
    };
    if let Some(time) = fields.take("tolerationSeconds") {
        beyond.placing(&time, "how long to stay is the App's rule `disconnect`", reader);
    }
    fields.finish(foreign(&["effect", "key", "operator", "tolerationSeconds", "value"]), reader);
    let value = compares.then(|| value.unwrap_or_default());
    effect.map(|effect| Toleration { key, value, effect })
}
