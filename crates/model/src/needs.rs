//! What a component asks of a node, and what a node has or an instance gets. Read by the filter
//! of the placer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::quantity::{Arch, Bytes, Cpu, Level};
use crate::site::{Engine, Layer};

/// What a node must offer. Everything given must hold; what is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Needs {
    /// Processor time: cores as a number (0.5) or thousandths of a core (500m).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Main memory, such as 256Mi or 2G.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Room on disk, such as 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Bytes>,
    /// Number of graphics processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1024))]
    pub gpu: Option<u32>,
    /// Memory of each graphics processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<Bytes>,
    /// Processor architectures that will do: amd64 (also x86_64, intel), arm64 (also aarch64), arm,
    /// 386, riscv64, ppc64le, s390x.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 16))]
    pub arch: Vec<Arch>,
    /// Devices that must be attached and free, such as squat.ai/video.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "format" = "keys"))]
    #[schemars(length(max = 32))]
    pub devices: Vec<String>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("format" = "label-map"))]
    pub labels: BTreeMap<String, String>,
    /// What else must hold of the node's labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub label_rules: Vec<LabelRule>,
    /// The least security score: low (0), medium (34), high (67), or a number from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Level>,
    /// The least compliance score: low (0), medium (34), high (67), or a number from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compliance: Option<Level>,
    /// Regions that will do: continents, countries or regions as the sites name theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub regions: Vec<String>,
    /// Sites that will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "format" = "names"))]
    #[schemars(length(max = 256))]
    pub sites: Vec<String>,
    /// Nodes that will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "format" = "names"))]
    #[schemars(length(max = 1024))]
    pub nodes: Vec<String>,
    /// Layers of the continuum that will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 8))]
    pub layers: Vec<Layer>,
    /// Engines that will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 8))]
    pub engines: Vec<Engine>,
    /// Stay within a distance of a point on the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<Near>,
    /// Taints of nodes that this component puts up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
}

/// What must hold of one label of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRule {
    /// The label.
    #[schemars(extend("format" = "key"))]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`; `Gt` and `Lt` compare whole numbers.
    pub operator: LabelOperator,
    /// The values that it is compared with: one for `Gt` and `Lt`, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub values: Vec<String>,
}

named! {
    /// How a label is compared.
    #[derive(Default)]
    pub enum LabelOperator {
        #[default]
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
        Gt = "Gt",
        Lt = "Lt",
    }
}

impl LabelRule {
    /// Whether a node with this value of the label keeps the rule; `None` for one without the label.
    pub fn admits(&self, value: Option<&str>) -> bool {
        let whole = |text: &str| text.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|value| whole(value));
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match (self.operator, value) {
            (LabelOperator::In, Some(value)) => listed(value),
            (LabelOperator::NotIn, Some(value)) => !listed(value),
            (LabelOperator::Exists, value) => value.is_some(),
            (LabelOperator::NotIn | LabelOperator::DoesNotExist, None) => true,
            (LabelOperator::DoesNotExist, Some(_)) => false,
            (LabelOperator::Gt, Some(value)) => {
                whole(value).zip(bound()).is_some_and(|(value, bound)| value > bound)
            }
            (LabelOperator::Lt, Some(value)) => {
                whole(value).zip(bound()).is_some_and(|(value, bound)| value < bound)
            }
            (LabelOperator::In | LabelOperator::Gt | LabelOperator::Lt, None) => false,
        }
    }
}

impl std::fmt::Display for LabelRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, values) = (&self.key, self.values.join(", "));
        match self.operator {
            LabelOperator::In => write!(f, "label {key} in {values}"),
            LabelOperator::NotIn => write!(f, "label {key} not in {values}"),
            LabelOperator::Exists => write!(f, "label {key}"),
            LabelOperator::DoesNotExist => write!(f, "no label {key}"),
            LabelOperator::Gt => write!(f, "label {key} above {values}"),
            LabelOperator::Lt => write!(f, "label {key} below {values}"),
        }
    }
}

/// A circle on the map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Near {
    /// Degrees north; south is negative.
    #[schemars(range(min = -90.0, max = 90.0))]
    pub latitude: f64,
    /// Degrees east; west is negative.
    #[schemars(range(min = -180.0, max = 180.0))]
    pub longitude: f64,
    /// Radius in kilometres.
    #[schemars(range(min = 0.0, max = 20040.0))]
    pub distance_km_max: f64,
}

/// A taint that is put up with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint; every taint when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "key"))]
    pub key: Option<String>,
    /// Value of the taint; any when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "label-value"))]
    pub value: Option<String>,
    /// Effect of the taint; any when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// A mark on a node or site that keeps away what does not tolerate it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint.
    #[schemars(extend("format" = "key"))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "label-value"))]
    pub value: Option<String>,
    /// `NoSchedule` keeps new instances away, `NoExecute` moves running ones away as well, and `PreferNoSchedule` lets
    /// them in where no other place is nearly as good.
    pub effect: TaintEffect,
}

named! {
    /// What a taint does.
    pub enum TaintEffect {
        NoSchedule = "NoSchedule",
        NoExecute = "NoExecute",
        PreferNoSchedule = "PreferNoSchedule",
    }
}

/// A choice of places by geography, with a number of instances for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The property of the site that is compared.
    pub by: PlaceKey,
    /// Whether the property must be one of the values or none of them.
    #[serde(default)]
    pub operator: PlaceOperator,
    /// The values to compare with.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(min = 1, max = 256))]
    pub values: Vec<String>,
    /// Instances in each of the values; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub quantity: Option<u32>,
}

named! {
    /// A property of a site's location.
    pub enum PlaceKey {
        Continent = "continent",
        Country = "country",
        Region = "region",
        City = "city",
        Site = "site",
    }
}

named! {
    /// How values are compared.
    #[derive(Default)]
    pub enum PlaceOperator {
        #[default]
        In = "In",
        NotIn = "NotIn",
    }
}

/// Amounts of what a node has, has left, or gives to an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Processor time: cores as a number (0.5) or thousandths of a core (500m).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Room on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Bytes>,
    /// Number of graphics processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1024))]
    pub gpu: Option<u32>,
    /// Number of devices of each kind, such as squat.ai/video.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("format" = "key-map"))]
    pub devices: BTreeMap<String, u32>,
}
