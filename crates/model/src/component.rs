//! A component of an App: how many, where it may run, with whom it talks. What exactly runs is in
//! [`crate::run`], what a node must offer in [`crate::needs`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::Disconnect;
use crate::named::{is_false, named};
use crate::needs::{LabelRule, Needs, Place};
use crate::quantity::{BitRate, Bytes, Duration};
use crate::run::Run;

/// One part of an application: a program, how many of it, and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name of the component, unique within the App. Others reach it under this name.
    #[schemars(extend("format" = "label"))]
    pub name: String,
    /// How many instances to run; one when left out. Not together with `onEach`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub replicas: Option<u32>,
    /// Run one instance for each value of a node label instead of a fixed number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_each: Option<OnEach>,
    /// Ways to run it, best first. The placer takes the first that the chosen node can run.
    #[schemars(length(min = 1, max = 8))]
    pub run: Vec<Run>,
    /// What a node must offer to one instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// Choose places by geography, so many instances in each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub places: Vec<Place>,
    /// The components that this one calls, and what the way there must be like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub connects: Vec<Connection>,
    /// Ports that others may reach; from where, `public` and the connections of other components say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["port", "protocol"]
    ))]
    #[schemars(length(max = 64))]
    pub expose: Vec<Expose>,
    /// Components to be near to or away from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Wishes about its place. They are weighed, and keep no instance from running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub prefers: Vec<Preference>,
    /// Data that it reads and where that data lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// Where its users are and how quickly it must answer them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Users>,
    /// How to tell whether an instance is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// It keeps state that must not exist twice: the old instance is surely gone before a new one
    /// starts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stateful: bool,
    /// How many instances may be down at once while moving or updating; one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_max: Option<u32>,
    /// A time that whoever wants a restart writes here: all instances are started anew, a few at a time,
    /// whenever it changes. `tombolo restart` does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub restarted_at: Option<Time>,
    /// A time that whoever wants its instances on better places writes here: whenever it changes, each may move that
    /// gains more by it than moving costs. `tombolo rebalance` does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub rebalanced_at: Option<Time>,
    /// How long an instance may take to stop before it is killed; 10s when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace: Option<Duration>,
    /// What to do when a node falls silent, in place of the App's rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disconnect: Option<Disconnect>,
    /// Nodes that an outside planner recommends, with their value and price.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"]))]
    #[schemars(length(max = 1024))]
    pub recommendations: Vec<Recommendation>,
}

impl Component {
    /// How many instances, as far as the component alone says; [`OnEach`] counts its values.
    pub fn count(&self) -> usize {
        match (&self.on_each, self.replicas) {
            (Some(each), _) => each.values.len(),
            (None, Some(replicas)) => usize::try_from(replicas).unwrap_or(usize::MAX),
            (None, None) => 1,
        }
    }
}

/// One instance for each of several label values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnEach {
    /// The label of the nodes.
    #[schemars(extend("format" = "key"))]
    pub label: String,
    /// The values; one instance goes to a node of each.
    #[schemars(extend("x-kubernetes-list-type" = "set", "format" = "label-values"))]
    #[schemars(length(min = 1, max = 1000))]
    pub values: Vec<String>,
}

/// A component that is called, and what the way there must be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// The component that is called.
    pub to: String,
    /// The App it belongs to, when it is another one in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub app: Option<String>,
    /// The port that is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
    /// The longest one-way delay that will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
    /// The most that the delay may vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// The bandwidth to set aside on every link of the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BitRate>,
    /// Whether delay and bandwidth are promised or only tried for; promised when any of them is
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ServiceClass>,
    /// Size of one message, for planning assured traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_size: Option<Bytes>,
    /// Time between two messages, for planning assured traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_interval: Option<Duration>,
    /// What to do when the called component moves and the address that the caller was given is no
    /// longer good: `tell` (default) keeps the file `TOMBOLO_PEERS_FILE` current and lets the caller
    /// run, `restart` starts the caller again with the new address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_move: Option<OnMove>,
}

named! {
    /// What becomes of a caller whose peer has moved.
    pub enum OnMove {
        Tell = "tell",
        Restart = "restart",
    }
}

named! {
    /// How firm the figures of a connection are.
    pub enum ServiceClass {
        BestEffort = "best-effort",
        Assured = "assured",
    }
}

named! {
    /// A transport protocol.
    #[derive(Default)]
    pub enum Protocol {
        #[default]
        Tcp = "tcp",
        Udp = "udp",
        Http = "http",
        Https = "https",
    }
}

named! {
    /// From where a port of an instance is reached, the least first.
    #[derive(Default)]
    pub enum Reach {
        #[default]
        Loopback = "loopback",
        Node = "node",
        Public = "public",
    }
}

/// A port that others may reach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Expose {
    /// The port that the component listens on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
    /// A name for the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "label"))]
    pub name: Option<String>,
    /// Open on all addresses of the node. Any other port is open on the node's own address where a
    /// component that may run elsewhere connects to it, and else on the node itself alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub public: bool,
    /// The port under which it is published; any free one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub published: Option<u16>,
}

/// Nearness to other components of the App.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Components to share a site with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub with: Vec<String>,
    /// Components that must not be on the same node. Its own name keeps its instances apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub apart: Vec<String>,
    /// Spread the instances over different nodes or different sites: each has at most one of them, or, with
    /// `skew`, about as many as the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// How many more of the instances one node or site may get than another that could take some. Heeded when places
    /// are chosen; nothing moves because of it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub skew: Option<u32>,
}

/// A wish about a place: one of `labels`, `with`, `apart` and `spread`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preference {
    /// How many points of score it is worth; a score goes from 0 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,
    /// A node of whose labels all of these hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub labels: Vec<LabelRule>,
    /// Components to share a site with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub with: Vec<String>,
    /// Components that should not be on the same node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub apart: Vec<String>,
    /// Spread the instances over nodes or sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

named! {
    /// Over what to spread.
    pub enum Spread {
        Node = "node",
        Site = "site",
    }
}

/// Data that a component reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// How much it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Bytes>,
    /// The site where the data lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub from: Option<String>,
}

/// Where the users of a component are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Users {
    /// The sites at or near which they are.
    #[schemars(extend("x-kubernetes-list-type" = "set", "format" = "names"))]
    #[schemars(length(min = 1, max = 64))]
    pub sites: Vec<String>,
    /// The longest one-way delay to them that will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
}

/// How to tell whether an instance is well; exactly one of `http`, `tcp` and `exec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Ask a web address; any answer from 200 to 399 is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpCheck>,
    /// Open a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpCheck>,
    /// Run a command beside the instance; exit code 0 is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecCheck>,
    /// Time between two checks; 10s when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// How long a check may take; 1s when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How many checks in a row must fail before the instance is restarted; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub failures: Option<u32>,
    /// Time to start up, during which failed checks do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Duration>,
}

/// A check by web request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpCheck {
    /// The path to ask for; `/` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "path"))]
    pub path: Option<String>,
    /// The port to ask on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// A check by connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpCheck {
    /// The port to connect to.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// A check by command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecCheck {
    /// The command and its arguments.
    #[schemars(length(min = 1, max = 256))]
    pub command: Vec<String>,
}

/// A node that an outside planner recommends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// The node.
    #[schemars(extend("format" = "name"))]
    pub node: String,
    /// How well it suits, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub value: Option<f64>,
    /// What it costs there, in any unit that the nodes share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub cost: Option<f64>,
}
