//! What clients ask for, checked: field by field, in the order of RFC 7285 (8.5.2). Unknown fields are ignored, as
//! 8.3.7 has it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::address::{Address, FAMILIES};
use crate::costs::{CostType, Metric, Mode};
use crate::names::Pid;
use crate::refusal::Refusal;

/// Kinds of costs in one answer: all that there are, numbers and ranks.
pub(crate) const COST_TYPES_MOST: usize = Metric::ALL.len() * Mode::ALL.len();
/// Endpoints in one request, and pairs in its answer: some megabytes.
const ENDPOINTS_MOST: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkMapAsked {
    /// Empty: all.
    pub(crate) pids: BTreeSet<Pid>,
    pub(crate) families: BTreeSet<&'static str>,
}

/// Which costs, of one type or of several at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CostsAsked {
    pub(crate) types: Vec<CostType>,
    /// Whether several were asked for: each cost is an array then, even if it has one element.
    pub(crate) is_multi: bool,
    pub(crate) tests: Tests,
}

/// Any of these, in each of which all must hold. None at all: everything passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tests(Vec<Vec<Test>>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Test {
    cost_type: CostType,
    operator: Operator,
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Gt,
    Lt,
    Ge,
    Le,
    Eq,
}

impl Tests {
    /// A cost that nobody knows passes no test.
    pub(crate) fn hold(&self, cost: impl Fn(CostType) -> Option<f64>) -> bool {
        let holds = |test: &Test| {
            cost(test.cost_type).is_some_and(|cost| match test.operator {
                Operator::Gt => cost > test.value,
                Operator::Lt => cost < test.value,
                Operator::Ge => cost >= test.value,
                Operator::Le => cost <= test.value,
                Operator::Eq => cost == test.value,
            })
        };
        self.0.is_empty() || self.0.iter().any(|all| all.iter().all(holds))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CostMapAsked {
    pub(crate) costs: CostsAsked,
    pub(crate) sources: BTreeSet<Pid>,
    pub(crate) targets: BTreeSet<Pid>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointCostsAsked {
    pub(crate) costs: CostsAsked,
    pub(crate) sources: Vec<Address>,
    pub(crate) targets: Vec<Address>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PropertiesAsked {
    pub(crate) properties: Vec<String>,
    pub(crate) endpoints: Vec<Address>,
}

impl NetworkMapAsked {
    pub(crate) fn read(body: &[u8]) -> Result<NetworkMapAsked, Refusal> {
        let body = object(body)?;
        let pids = pids(list(&body, "pids", "pids")?.ok_or(Refusal::missing("pids"))?, "pids")?;
        let mut families: BTreeSet<&'static str> = BTreeSet::new();
        let asked = list(&body, "address-types", "address-types")?.unwrap_or_default();
        for family in asked {
            let text = text_in(family, "address-types")?;
            // One that we do not know is as if it were not there, even if then none is left.
            families.extend(FAMILIES.iter().find(|known| **known == text));
        }
        if asked.is_empty() {
            families.extend(FAMILIES);
        }
        Ok(NetworkMapAsked { pids, families })
    }
}

impl CostMapAsked {
    pub(crate) fn read(body: &[u8]) -> Result<CostMapAsked, Refusal> {
        let body = object(body)?;
        let costs = CostsAsked::read(&body)?;
        let (mut sources, mut targets) = (BTreeSet::new(), BTreeSet::new());
        if let Some(pair) = body.get("pids") {
            let pair = pair.as_object().ok_or(Refusal::kind("pids"))?;
            for (name, field, side) in
                [("srcs", "pids/srcs", &mut sources), ("dsts", "pids/dsts", &mut targets)]
            {
                let asked = list(pair, name, field)?.ok_or(Refusal::missing(field))?;
                *side = pids(asked, field)?;
            }
        }
        Ok(CostMapAsked { costs, sources, targets })
    }
}

impl EndpointCostsAsked {
    /// `client` stands for a side that is left out.
    pub(crate) fn read(body: &[u8], client: Address) -> Result<EndpointCostsAsked, Refusal> {
        let body = object(body)?;
        let costs = CostsAsked::read(&body)?;
        let pair = body.get("endpoints").ok_or(Refusal::missing("endpoints"))?;
        let pair = pair.as_object().ok_or(Refusal::kind("endpoints"))?;
        let mut sides = [Vec::new(), Vec::new()];
        for ((name, field), side) in
            [("srcs", "endpoints/srcs"), ("dsts", "endpoints/dsts")].into_iter().zip(&mut sides)
        {
            *side = addresses(list(pair, name, field)?.unwrap_or_default(), field)?;
        }
        let [mut sources, mut targets] = sides;
        if sources.is_empty() && targets.is_empty() {
            return Err(Refusal::value("endpoints", &Value::Object(pair.clone())));
        }
        if sources.len().saturating_mul(targets.len()) > ENDPOINTS_MOST * ENDPOINTS_MOST / 10 {
            return Err(Refusal::value("endpoints", &Value::from("too many pairs")));
        }
        for side in [&mut sources, &mut targets] {
            if side.is_empty() {
                side.push(client);
            }
        }
        Ok(EndpointCostsAsked { costs, sources, targets })
    }
}

impl PropertiesAsked {
    /// `known` are the properties that there are.
    pub(crate) fn read(body: &[u8], known: &[String]) -> Result<PropertiesAsked, Refusal> {
        let body = object(body)?;
        let asked = list(&body, "properties", "properties")?;
        let mut properties: Vec<String> = Vec::new();
        for property in asked.ok_or(Refusal::missing("properties"))? {
            let text = text_in(property, "properties")?;
            if !known.iter().any(|known| known == text) {
                return Err(Refusal::value("properties", property));
            }
            if !properties.iter().any(|asked| asked == text) {
                properties.push(text.to_owned());
            }
        }
        let asked = list(&body, "endpoints", "endpoints")?;
        let asked = asked.ok_or(Refusal::missing("endpoints"))?;
        for (field, is_empty) in
            [("properties", properties.is_empty()), ("endpoints", asked.is_empty())]
        {
            if is_empty {
                return Err(Refusal::value(field, &Value::Array(Vec::new())));
            }
        }
        Ok(PropertiesAsked { properties, endpoints: addresses(asked, "endpoints")? })
    }
}

impl CostsAsked {
    fn read(body: &Map<String, Value>) -> Result<CostsAsked, Refusal> {
        let one = body.get("cost-type");
        let several = list(body, "multi-cost-types", "multi-cost-types")?;
        let types = match (one, several) {
            (Some(one), None) => vec![cost_type(one, "cost-type")?],
            (None, Some(several)) => {
                if several.is_empty() || several.len() > COST_TYPES_MOST {
                    let several = Value::Array(several.to_vec());
                    return Err(Refusal::value("multi-cost-types", &several));
                }
                let read = several.iter().map(|one| cost_type(one, "multi-cost-types"));
                read.collect::<Result<_, _>>()?
            }
            // Exactly one of them (RFC 8189, 4.1.2).
            (Some(one), Some(_)) => return Err(Refusal::value("cost-type", one)),
            (None, None) => return Err(Refusal::missing("cost-type")),
        };
        let testable: Vec<CostType> =
            match list(body, "testable-cost-types", "testable-cost-types")? {
                Some(testable) => {
                    let read = testable.iter().map(|one| cost_type(one, "testable-cost-types"));
                    read.collect::<Result<_, _>>()?
                }
                None => types.clone(),
            };
        let tests = tests(body, &testable)?;
        Ok(CostsAsked { types, is_multi: several.is_some(), tests })
    }
}

fn cost_type(value: &Value, field: &str) -> Result<CostType, Refusal> {
    let object = value.as_object().ok_or(Refusal::kind(field))?;
    let text = |name: &str| {
        let path = format!("{field}/{name}");
        match object.get(name) {
            None => Err(Refusal::missing(&path)),
            Some(Value::String(text)) => Ok((path, text.as_str())),
            Some(_) => Err(Refusal::kind(&path)),
        }
    };
    let (path, text_of_mode) = text("cost-mode")?;
    let mode = Mode::ALL.into_iter().find(|mode| mode.name() == text_of_mode);
    let mode = mode.ok_or_else(|| Refusal::value(&path, &Value::from(text_of_mode)))?;
    let (path, text_of_metric) = text("cost-metric")?;
    let metric = Metric::ALL.into_iter().find(|metric| metric.name() == text_of_metric);
    let metric = metric.ok_or_else(|| Refusal::value(&path, &Value::from(text_of_metric)))?;
    Ok(CostType { metric, mode })
}

fn tests(body: &Map<String, Value>, testable: &[CostType]) -> Result<Tests, Refusal> {
    let all = list(body, "constraints", "constraints")?;
    let any = list(body, "or-constraints", "or-constraints")?;
    let read = |tests: &[Value], field: &str| {
        tests.iter().map(|one| test(one, field, testable)).collect::<Result<Vec<Test>, _>>()
    };
    match (all, any) {
        (None, None) => Ok(Tests::default()),
        (Some([]), None) => Ok(Tests::default()),
        (Some(all), None) => Ok(Tests(vec![read(all, "constraints")?])),
        (None, Some(any)) => {
            let any = any.iter().map(|all| match all {
                Value::Array(all) => read(all, "or-constraints"),
                other => Err(Refusal::value("or-constraints", other)),
            });
            Ok(Tests(any.collect::<Result<_, _>>()?))
        }
        (Some(all), Some(_)) => Err(Refusal::value("constraints", &Value::Array(all.to_vec()))),
    }
}

/// As `le 10`, or `[1] le 10` where there are several costs.
fn test(value: &Value, field: &str, testable: &[CostType]) -> Result<Test, Refusal> {
    let wrong = || Refusal::value(field, value);
    let mut words = text_in(value, field)?.split_ascii_whitespace().peekable();
    let mut index = 0;
    if let Some(place) = words.next_if(|word| word.starts_with('[')) {
        let place = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        index = place.and_then(|place| place.parse().ok()).ok_or_else(wrong)?;
    }
    let operator = match words.next() {
        Some("gt") => Operator::Gt,
        Some("lt") => Operator::Lt,
        Some("ge") => Operator::Ge,
        Some("le") => Operator::Le,
        Some("eq") => Operator::Eq,
        Some(_) | None => return Err(wrong()),
    };
    let number = words.next().and_then(|word| word.parse::<f64>().ok());
    let number = number.filter(|number| number.is_finite()).ok_or_else(wrong)?;
    match (testable.get(index), words.next()) {
        (Some(cost_type), None) => Ok(Test { cost_type: *cost_type, operator, value: number }),
        (Some(_) | None, _) => Err(wrong()),
    }
}

pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::kind("")),
        Err(error) => Err(Refusal::syntax(&error)),
    }
}

pub(crate) fn list<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    field: &str,
) -> Result<Option<&'a [Value]>, Refusal> {
    match object.get(name) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(Refusal::kind(field)),
    }
}

/// An element of the wrong kind is a wrong value, as RFC 7285 has it.
pub(crate) fn text_in<'a>(element: &'a Value, field: &str) -> Result<&'a str, Refusal> {
    element.as_str().ok_or_else(|| Refusal::value(field, element))
}

fn pids(list: &[Value], field: &str) -> Result<BTreeSet<Pid>, Refusal> {
    let pid =
        |element| Pid::new(text_in(element, field)?).map_err(|_| Refusal::value(field, element));
    list.iter().map(pid).collect()
}

/// Each once, in the order asked for.
fn addresses(list: &[Value], field: &str) -> Result<Vec<Address>, Refusal> {
    if let Some(beyond) = list.get(ENDPOINTS_MOST) {
        return Err(Refusal::value(field, beyond));
    }
    let mut seen = BTreeSet::new();
    let mut addresses = Vec::new();
    for element in list {
        let address = Address::parse(text_in(element, field)?);
        let address = address.ok_or_else(|| Refusal::value(field, element))?;
        if seen.insert(address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}
