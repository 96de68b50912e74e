//! The one table: which role may do what to which class of things, and where.
//!
//! A right is a row of [`RULES`]. To give one, change a row here and run the tests with
//! `UPDATE_EXPECT=1`: the matrix in `tests/access.txt` and `docs/access.md` then show the change.

use super::{Attributes, Resource, Target, Verb};
use crate::subject::RoleName;
use crate::token::SYSTEM_NAMESPACE;

/// A row: each of the roles may do each of the verbs to each of the classes, within that extent.
#[derive(Debug)]
pub struct Rule {
    pub roles: &'static [RoleName],
    pub verbs: &'static [Verb],
    pub classes: &'static [Class],
    pub extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Anywhere,
    /// The namespace that the subject's token or certificate names.
    OwnNamespace,
    /// Objects of the agent's site. For the agent of one node, objects of its sibling nodes are not among
    /// them.
    OwnSite,
    /// What an Assignment of the agent's site names.
    NamedBySite,
    /// The agent's own node, and what is about it.
    OwnNode,
    /// The Leases by which the agent says that what it stands for lives.
    OwnLease,
}

/// Things that every rule treats alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Apps,
    Assignments,
    Sites,
    Nodes,
    Links,
    /// Whom nodes probe, and what they found.
    Probings,
    Policies,
    JoinTokens,
    Namespaces,
    /// The system's own namespace: deleting it would delete everybody's access.
    SystemNamespace,
    ConfigMaps,
    Secrets,
    /// Secrets of the system's own namespace: everybody's access tokens.
    AccessTokens,
    Events,
    Leases,
    Definitions,
    /// What users define themselves.
    OtherKinds,
    /// A kind of our own or of Kubernetes that nobody has put into this table yet.
    UnlistedKinds,
    /// Writing the status of an Assignment: what the agents of its site report.
    AssignmentStatus,
    /// Writing the status of a Node: what its agent reports.
    NodeStatus,
    /// Writing the status of a Probing: what the agent of its node has measured.
    ProbingStatus,
    /// Writing the status of anything else: what loops report.
    OtherStatus,
    /// Reading what an instance writes.
    AssignmentLogs,
    /// Commands inside an instance and connections to its ports: a person with one of these rights can do
    /// what the instance can, and read its secrets.
    AssignmentSessions,
    /// Subresources beside those above and scale.
    OtherSubresources,
    /// Questions about oneself.
    OwnReviews,
    /// Questions about other subjects: whose token is this, may that subject do this.
    Reviews,
    /// `*`: only the rights to everything contain it.
    AllKinds,
    Health,
    Discovery,
    /// Joining, and renewing what joining gave. The token or the key is the proof, and it is in the
    /// body: nobody has signed in yet, or can any more.
    Joining,
    /// Where controllers are.
    Lighthouse,
    /// Where an agent waits for errands and answers those that it was sent.
    Errands,
    /// How the loops fare.
    Loops,
    /// Where Apps would be placed, why not on a node, what if.
    Explanations,
    Administration,
    /// The REST APIs of other projects. Behind them a caller does with resources what the rows on
    /// those allow.
    Facades,
    /// What was measured: samples of a namespace, or of machines where they are in none.
    Metrics,
    /// Where metrics are asked for. What is seen there is as the row on metrics says.
    MetricsQueries,
    /// Where metrics are written. Whose they are is as the door says, not as the sender does.
    MetricsWriting,
    OtherPaths,
}

/// What a class holds, for lists of rights and for the documentation.
#[derive(Clone, Copy, Debug)]
pub enum Members {
    Resources { group: &'static str, resources: &'static [&'static str] },
    Paths(&'static [&'static str]),
}

const READ: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch];
const WRITE: &[Verb] =
    &[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
const EVERYTHING: &[Verb] = &[
    Verb::Get,
    Verb::List,
    Verb::Watch,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Every,
    Verb::Other,
];

use Class::*;
use RoleName::*;

pub const RULES: &[Rule] = &[
    // Load balancers and scripts ask before anyone has signed in.
    Rule {
        roles: &[Anonymous, Guest, User, Manager, Agent, SiteAgent, System],
        verbs: &[Verb::Get],
        classes: &[Health],
        extent: Extent::Anywhere,
    },
    Rule {
        roles: &[Guest, User, Manager, Agent, SiteAgent, System],
        verbs: &[Verb::Get],
        classes: &[Discovery],
        extent: Extent::Anywhere,
    },
    Rule {
        roles: &[Guest, User, Manager, Agent, SiteAgent, System],
        verbs: &[Verb::Create],
        classes: &[OwnReviews],
        extent: Extent::Anywhere,
    },
    // A facade has no rights of its own: it acts with the rights of its caller.
    Rule {
        roles: &[Guest, User, Manager],
        verbs: &[Verb::Get, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete],
        classes: &[Facades],
        extent: Extent::Anywhere,
    },
    // An agent of another project that has a certificate of ours pulls its jobs there.
    Rule {
        roles: &[Agent],
        verbs: &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
        classes: &[Facades],
        extent: Extent::Anywhere,
    },
    // Everything may be read except what opens doors: Secrets and JoinTokens.
    Rule {
        roles: &[Guest, User, Manager],
        verbs: READ,
        classes: &[
            Apps,
            Assignments,
            Sites,
            Nodes,
            Links,
            Probings,
            Policies,
            Namespaces,
            ConfigMaps,
            Events,
            Leases,
            Definitions,
            OtherKinds,
        ],
        extent: Extent::Anywhere,
    },
    // Roles that may see that something runs may see what it says.
    Rule {
        roles: &[Guest, User, Manager],
        verbs: &[Verb::Get],
        classes: &[AssignmentLogs],
        extent: Extent::Anywhere,
    },
    // Managers are left out, as they are with Secrets and Apps: machines are theirs, what runs on
    // them is not.
    Rule {
        roles: &[User],
        verbs: &[Verb::Create],
        classes: &[AssignmentSessions],
        extent: Extent::OwnNamespace,
    },
    // Assignments are left out: the loops write them, and deleting one would undeploy.
    Rule {
        roles: &[User],
        verbs: WRITE,
        classes: &[Apps, Policies, ConfigMaps, Secrets, Events, Leases, OtherKinds],
        extent: Extent::OwnNamespace,
    },
    Rule { roles: &[User], verbs: READ, classes: &[Secrets], extent: Extent::OwnNamespace },
    Rule {
        roles: &[Manager],
        verbs: WRITE,
        classes: &[Sites, Nodes, Links, Policies, Namespaces, JoinTokens],
        extent: Extent::Anywhere,
    },
    Rule { roles: &[Manager], verbs: READ, classes: &[JoinTokens], extent: Extent::Anywhere },
    Rule {
        roles: &[Anonymous, Guest, User, Manager, Agent, SiteAgent, System],
        verbs: &[Verb::Get, Verb::Create],
        classes: &[Joining],
        extent: Extent::Anywhere,
    },
    Rule {
        roles: &[Guest, User, Manager, Agent, SiteAgent, System],
        verbs: &[Verb::Get],
        classes: &[Lighthouse],
        extent: Extent::Anywhere,
    },
    // A program that registers as a controller decides where agents go.
    Rule {
        roles: &[Manager, System],
        verbs: &[Verb::Create],
        classes: &[Lighthouse],
        extent: Extent::Anywhere,
    },
    Rule {
        roles: &[Agent, SiteAgent],
        verbs: &[Verb::Get, Verb::Create],
        classes: &[Errands],
        extent: Extent::Anywhere,
    },
    // What went wrong last in a loop names objects that these may read anyway.
    Rule {
        roles: &[Guest, User, Manager],
        verbs: &[Verb::Get],
        classes: &[Loops],
        extent: Extent::Anywhere,
    },
    // Nothing is written. What is told of other Apps is what the caller may read of them.
    Rule {
        roles: &[Guest, User, Manager],
        verbs: &[Verb::Create],
        classes: &[Explanations],
        extent: Extent::Anywhere,
    },
    // What an application measures of itself says more than that it runs: its users, its turnover. Who
    // runs another application need not know; who looks after all of them may.
    Rule { roles: &[Guest, Manager], verbs: READ, classes: &[Metrics], extent: Extent::Anywhere },
    Rule { roles: &[User], verbs: READ, classes: &[Metrics], extent: Extent::OwnNamespace },
    Rule {
        roles: &[Guest, User, Manager],
        verbs: &[Verb::Get, Verb::Create],
        classes: &[MetricsQueries],
        extent: Extent::Anywhere,
    },
    Rule {
        roles: &[User, Manager, Agent, SiteAgent],
        verbs: &[Verb::Create],
        classes: &[MetricsWriting],
        extent: Extent::Anywhere,
    },
    // An agent converges to Assignments and reports on them; it never makes or deletes one. Of the
    // object beside its status it may change one thing, which the apiserver sees to: it takes hold of
    // an Assignment, and lets go of one that is being deleted.
    Rule {
        roles: &[Agent, SiteAgent],
        verbs: READ,
        classes: &[Assignments],
        extent: Extent::OwnSite,
    },
    Rule {
        roles: &[Agent, SiteAgent],
        verbs: &[Verb::Update, Verb::Patch],
        classes: &[Assignments, AssignmentStatus],
        extent: Extent::OwnSite,
    },
    // A deployment manager of another project is an agent with a token instead of a certificate. A
    // manager could make a JoinToken and be the agent of any site: this gives no right beyond that.
    Rule {
        roles: &[Manager],
        verbs: &[Verb::Update, Verb::Patch],
        classes: &[Assignments, AssignmentStatus],
        extent: Extent::Anywhere,
    },
    // The server makes the Node at the joining; what people say about it is not the agent's.
    Rule { roles: &[Agent], verbs: READ, classes: &[Nodes], extent: Extent::OwnNode },
    Rule {
        roles: &[Agent],
        verbs: &[Verb::Update, Verb::Patch],
        classes: &[NodeStatus],
        extent: Extent::OwnNode,
    },
    // What a node measures it tells under its own name alone, so that it can lie of its own links and of no others.
    Rule { roles: &[Agent], verbs: READ, classes: &[Probings], extent: Extent::OwnNode },
    Rule {
        roles: &[Agent],
        verbs: &[Verb::Update, Verb::Patch],
        classes: &[ProbingStatus],
        extent: Extent::OwnNode,
    },
    // Machines of a cluster come and go with the cluster, and only its agent sees it. The server keeps
    // a Node at its site, whoever writes it.
    Rule { roles: &[SiteAgent], verbs: READ, classes: &[Nodes], extent: Extent::OwnSite },
    Rule {
        roles: &[SiteAgent],
        verbs: &[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete],
        classes: &[Nodes],
        extent: Extent::OwnSite,
    },
    Rule {
        roles: &[SiteAgent],
        verbs: &[Verb::Update, Verb::Patch],
        classes: &[NodeStatus],
        extent: Extent::OwnSite,
    },
    Rule {
        roles: &[Agent, SiteAgent],
        verbs: READ,
        classes: &[Secrets, ConfigMaps],
        extent: Extent::NamedBySite,
    },
    Rule {
        roles: &[Agent, SiteAgent],
        verbs: &[Verb::Create, Verb::Update, Verb::Patch],
        classes: &[Events],
        extent: Extent::OwnSite,
    },
    Rule {
        roles: &[Agent],
        verbs: &[Verb::Create, Verb::Update, Verb::Patch],
        classes: &[Events],
        extent: Extent::OwnNode,
    },
    Rule {
        roles: &[Agent, SiteAgent],
        verbs: &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch],
        classes: &[Leases],
        extent: Extent::OwnLease,
    },
    // The loops of our own process write every kind; backups are none of their business.
    Rule {
        roles: &[System, Admin],
        verbs: EVERYTHING,
        classes: &[
            Apps,
            Assignments,
            Sites,
            Nodes,
            Links,
            Probings,
            Policies,
            JoinTokens,
            Namespaces,
            SystemNamespace,
            ConfigMaps,
            Secrets,
            AccessTokens,
            Events,
            Leases,
            Definitions,
            OtherKinds,
            UnlistedKinds,
            AssignmentStatus,
            NodeStatus,
            ProbingStatus,
            OtherStatus,
            AssignmentLogs,
            AssignmentSessions,
            OtherSubresources,
            OwnReviews,
            Reviews,
            AllKinds,
            Metrics,
        ],
        extent: Extent::Anywhere,
    },
    Rule {
        roles: &[Admin],
        verbs: EVERYTHING,
        classes: &[
            Health,
            Discovery,
            Joining,
            Lighthouse,
            Errands,
            Loops,
            Explanations,
            Administration,
            Facades,
            MetricsQueries,
            MetricsWriting,
            OtherPaths,
        ],
        extent: Extent::Anywhere,
    },
];

const GROUP: &str = "tombolo.dev";

/// Classes that a group and a resource name.
const KINDS: &[(&str, &str, Class)] = &[
    (GROUP, "apps", Apps),
    (GROUP, "assignments", Assignments),
    (GROUP, "sites", Sites),
    (GROUP, "nodes", Nodes),
    (GROUP, "links", Links),
    (GROUP, "probings", Probings),
    (GROUP, "policies", Policies),
    (GROUP, "jointokens", JoinTokens),
    (GROUP, "metrics", Metrics),
    ("", "namespaces", Namespaces),
    ("", "configmaps", ConfigMaps),
    ("", "secrets", Secrets),
    ("", "events", Events),
    ("events.k8s.io", "events", Events),
    ("coordination.k8s.io", "leases", Leases),
    ("apiextensions.k8s.io", "customresourcedefinitions", Definitions),
    ("authorization.k8s.io", "selfsubjectaccessreviews", OwnReviews),
    ("authorization.k8s.io", "selfsubjectrulesreviews", OwnReviews),
    ("authentication.k8s.io", "selfsubjectreviews", OwnReviews),
    ("authorization.k8s.io", "subjectaccessreviews", Reviews),
    ("authorization.k8s.io", "localsubjectaccessreviews", Reviews),
    ("authentication.k8s.io", "tokenreviews", Reviews),
];

/// Classes that a path names: the path itself and everything below it.
const PATHS: &[(&str, Class)] = &[
    ("/healthz", Health),
    ("/livez", Health),
    ("/readyz", Health),
    ("/version", Health),
    ("/api/v3/healthcheck", Health),
    ("/jobmanager/healthz", Health),
    ("/api/v3", Facades),
    ("/alto", Facades),
    ("/characterization", Facades),
    ("/jobmanager", Facades),
    ("/matchmake", Facades),
    ("/prometheus/api/v1/write", MetricsWriting),
    ("/prometheus", MetricsQueries),
    ("/api", Discovery),
    ("/apis", Discovery),
    ("/openapi", Discovery),
    ("/tombolo/join", Joining),
    ("/tombolo/nonce", Joining),
    ("/tombolo/renew", Joining),
    ("/tombolo/controllers", Lighthouse),
    ("/tombolo/errands", Errands),
    ("/tombolo/loops", Loops),
    ("/tombolo/plan", Explanations),
    ("/tombolo/why", Explanations),
    ("/tombolo/what-if", Explanations),
    ("/tombolo/backup", Administration),
    ("/tombolo/restore", Administration),
    ("/tombolo/audit", Administration),
];

impl Class {
    pub const ALL: &'static [Class] = &[
        Apps,
        Assignments,
        Sites,
        Nodes,
        Links,
        Probings,
        Policies,
        JoinTokens,
        Namespaces,
        SystemNamespace,
        ConfigMaps,
        Secrets,
        AccessTokens,
        Events,
        Leases,
        Definitions,
        OtherKinds,
        UnlistedKinds,
        AssignmentStatus,
        NodeStatus,
        ProbingStatus,
        OtherStatus,
        AssignmentLogs,
        AssignmentSessions,
        OtherSubresources,
        OwnReviews,
        Reviews,
        AllKinds,
        Health,
        Discovery,
        Joining,
        Lighthouse,
        Errands,
        Loops,
        Explanations,
        Administration,
        Facades,
        Metrics,
        MetricsQueries,
        MetricsWriting,
        OtherPaths,
    ];

    pub fn of(attributes: &Attributes<'_>) -> Class {
        match attributes.target {
            Target::Path(path) => of_path(path),
            Target::Resource(resource) => of_resource(attributes.verb, &resource),
        }
    }

    /// How the documentation names it.
    pub fn title(self) -> &'static str {
        match self {
            Apps => "apps",
            Assignments => "assignments",
            Sites => "sites",
            Nodes => "nodes",
            Links => "links",
            Probings => "probings",
            Policies => "policies",
            JoinTokens => "join tokens",
            Namespaces => "namespaces",
            SystemNamespace => "the namespace tombolo-system itself",
            ConfigMaps => "config maps",
            Secrets => "secrets",
            AccessTokens => "secrets of tombolo-system (access tokens)",
            Events => "events",
            Leases => "leases",
            Definitions => "custom resource definitions",
            OtherKinds => "kinds that users define",
            UnlistedKinds => "any other kind of ours or of Kubernetes",
            AssignmentStatus => "status of assignments",
            NodeStatus => "status of nodes",
            ProbingStatus => "status of probings",
            OtherStatus => "status of anything else",
            AssignmentLogs => "logs of assignments",
            AssignmentSessions => "commands inside assignments, connections to their ports",
            OtherSubresources => "other subresources",
            OwnReviews => "reviews of oneself",
            Reviews => "reviews of others and of tokens",
            AllKinds => "all kinds at once",
            Health => "health and version",
            Discovery => "discovery and OpenAPI",
            Joining => "joining and renewing",
            Lighthouse => "the list of controllers",
            Errands => "errands for an agent's own node",
            Loops => "how the loops fare",
            Explanations => "where apps would be placed, why, what if",
            Administration => "backup, restore, audit",
            Facades => "facades (then as the rows on resources say)",
            Metrics => "metrics",
            MetricsQueries => "queries for metrics (then as the row on metrics says)",
            MetricsWriting => "writing metrics",
            OtherPaths => "any other path",
        }
    }

    pub fn members(self) -> Members {
        let ours = |resources| Members::Resources { group: GROUP, resources };
        let core = |resources| Members::Resources { group: "", resources };
        let every = |resources| Members::Resources { group: "*", resources };
        match self {
            Apps => ours(&["apps", "apps/scale"]),
            Assignments => ours(&["assignments", "assignments/scale"]),
            Sites => ours(&["sites"]),
            Nodes => ours(&["nodes"]),
            Links => ours(&["links"]),
            Probings => ours(&["probings"]),
            Policies => ours(&["policies"]),
            JoinTokens => ours(&["jointokens"]),
            Namespaces | SystemNamespace => core(&["namespaces"]),
            ConfigMaps => core(&["configmaps"]),
            Secrets | AccessTokens => core(&["secrets"]),
            Events => every(&["events"]),
            Leases => Members::Resources { group: "coordination.k8s.io", resources: &["leases"] },
            Definitions => Members::Resources {
                group: "apiextensions.k8s.io",
                resources: &["customresourcedefinitions"],
            },
            AssignmentStatus => ours(&["assignments/status"]),
            NodeStatus => ours(&["nodes/status"]),
            ProbingStatus => ours(&["probings/status"]),
            OtherStatus => every(&["*/status"]),
            OwnReviews => every(&[
                "selfsubjectaccessreviews",
                "selfsubjectrulesreviews",
                "selfsubjectreviews",
            ]),
            Reviews => {
                every(&["subjectaccessreviews", "localsubjectaccessreviews", "tokenreviews"])
            }
            // There is no word for "every kind that is not listed"; the exact answer is given by
            // the access review.
            OtherKinds | UnlistedKinds => every(&[]),
            AssignmentLogs => ours(&["assignments/log"]),
            AssignmentSessions => ours(&["assignments/exec", "assignments/portforward"]),
            OtherSubresources => every(&["*/*"]),
            AllKinds => every(&["*"]),
            Health => Members::Paths(&["/healthz", "/livez", "/readyz", "/version"]),
            Discovery => Members::Paths(&["/api", "/api/*", "/apis", "/apis/*", "/openapi/*"]),
            Joining => Members::Paths(&["/tombolo/join", "/tombolo/nonce", "/tombolo/renew"]),
            Lighthouse => Members::Paths(&["/tombolo/controllers"]),
            Errands => Members::Paths(&["/tombolo/errands"]),
            Loops => Members::Paths(&["/tombolo/loops"]),
            Explanations => Members::Paths(&["/tombolo/plan", "/tombolo/why", "/tombolo/what-if"]),
            Administration => {
                Members::Paths(&["/tombolo/backup", "/tombolo/restore", "/tombolo/audit"])
            }
            Facades => Members::Paths(&[
                "/alto/*",
                "/api/v3/*",
                "/characterization",
                "/jobmanager/*",
                "/matchmake",
            ]),
            Metrics => ours(&["metrics"]),
            MetricsQueries => Members::Paths(&["/prometheus/*"]),
            MetricsWriting => Members::Paths(&["/prometheus/api/v1/write"]),
            OtherPaths => Members::Paths(&["*"]),
        }
    }
}

fn of_path(path: &str) -> Class {
    let below = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PATHS.iter().find(|(root, _)| below(root)).map_or(OtherPaths, |(_, class)| *class)
}

fn of_resource(verb: Verb, resource: &Resource<'_>) -> Class {
    if resource.resource == "*" || resource.group == "*" {
        return AllKinds;
    }
    let named = KINDS
        .iter()
        .find(|(group, name, _)| *group == resource.group && *name == resource.resource)
        .map_or_else(|| unlisted(resource.group), |(_, _, class)| *class);
    let class = match named {
        // Over all namespaces the system's is among them, and only those who may see everything
        // may list so; no rule on Secrets holds there but those of the ones who may.
        Secrets if resource.namespace == SYSTEM_NAMESPACE => AccessTokens,
        Namespaces if resource.name == SYSTEM_NAMESPACE => SystemNamespace,
        named => named,
    };
    match resource.subresource {
        "" | "scale" => class,
        "status" if verb.reads() => class,
        "status" => match class {
            Assignments => AssignmentStatus,
            Nodes => NodeStatus,
            Probings => ProbingStatus,
            _ => OtherStatus,
        },
        "log" if class == Assignments => AssignmentLogs,
        "exec" | "portforward" if class == Assignments => AssignmentSessions,
        _ => OtherSubresources,
    }
}

/// A new kind of ours is closed until someone decides who may see it; a user's own is open.
fn unlisted(group: &str) -> Class {
    match group.is_empty() || group == GROUP || group.ends_with(".k8s.io") {
        true => UnlistedKinds,
        false => OtherKinds,
    }
}
