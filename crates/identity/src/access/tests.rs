//! The whole table, walked; and the sentences of refusals.

use std::fmt::Write as _;

use expect_test::{Expect, expect, expect_file};

use super::*;
use crate::Via;

fn subject(role: RoleName) -> Subject {
    let person = |role, namespace: Option<&str>| {
        Subject::person("anna", role, namespace.map(str::to_owned), Via::Token).unwrap()
    };
    match role {
        RoleName::Anonymous => Subject::anonymous(),
        RoleName::Guest => person(Role::Guest, None),
        RoleName::User => person(Role::User, Some("shop")),
        RoleName::Manager => person(Role::Manager, None),
        RoleName::Admin => person(Role::Admin, None),
        RoleName::Agent => Subject::agent("north", "n1").unwrap(),
        RoleName::SiteAgent => Subject::site_agent("north").unwrap(),
        RoleName::System => Subject::system("placement"),
    }
}

const VERBS: &[(char, Verb)] = &[
    ('g', Verb::Get),
    ('l', Verb::List),
    ('w', Verb::Watch),
    ('c', Verb::Create),
    ('u', Verb::Update),
    ('p', Verb::Patch),
    ('d', Verb::Delete),
    ('D', Verb::DeleteCollection),
    ('*', Verb::Every),
    ('?', Verb::Other),
];

/// One thing of every class, and what makes it someone's own.
const RESOURCES: &[(&str, &str, &str)] = &[
    ("tombolo.dev", "apps", ""),
    ("tombolo.dev", "apps", "scale"),
    ("tombolo.dev", "apps", "status"),
    ("tombolo.dev", "apps", "exec"),
    ("tombolo.dev", "assignments", ""),
    ("tombolo.dev", "assignments", "status"),
    ("tombolo.dev", "assignments", "log"),
    ("tombolo.dev", "assignments", "exec"),
    ("tombolo.dev", "assignments", "portforward"),
    ("tombolo.dev", "sites", ""),
    ("tombolo.dev", "nodes", ""),
    ("tombolo.dev", "nodes", "status"),
    ("tombolo.dev", "links", ""),
    ("tombolo.dev", "probings", ""),
    ("tombolo.dev", "probings", "status"),
    ("tombolo.dev", "policies", ""),
    ("tombolo.dev", "jointokens", ""),
    ("tombolo.dev", "metrics", ""),
    ("", "namespaces", ""),
    ("", "namespaces", "finalize"),
    ("", "configmaps", ""),
    ("", "secrets", ""),
    ("", "events", ""),
    ("events.k8s.io", "events", ""),
    ("coordination.k8s.io", "leases", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("codeco.he-codeco.eu", "codecoapps", ""),
    ("tombolo.dev", "inventions", ""),
    ("rbac.authorization.k8s.io", "roles", ""),
    ("authorization.k8s.io", "selfsubjectaccessreviews", ""),
    ("authorization.k8s.io", "selfsubjectrulesreviews", ""),
    ("authentication.k8s.io", "selfsubjectreviews", ""),
    ("authorization.k8s.io", "subjectaccessreviews", ""),
    ("authentication.k8s.io", "tokenreviews", ""),
    ("*", "*", ""),
];

const PATHS: &[&str] = &[
    "/healthz",
    "/livez",
    "/readyz/store",
    "/readyz/loops",
    "/version",
    "/api",
    "/apis/tombolo.dev/v1alpha1",
    "/openapi/v3",
    "/tombolo/join",
    "/tombolo/nonce",
    "/tombolo/renew",
    "/tombolo/controllers",
    "/tombolo/errands",
    "/tombolo/loops",
    "/tombolo/plan",
    "/tombolo/why",
    "/tombolo/what-if",
    "/tombolo/backup",
    "/tombolo/restore",
    "/tombolo/audit",
    "/tombolo/anything",
    "/healthzzz",
    "/",
    "/api/v3/healthcheck",
    "/api/v3/deployment/",
    "/matchmake",
    "/alto",
    "/alto/costmap/filtered",
    "/prometheus/api/v1/query",
    "/prometheus/api/v1/write",
];

/// Namespace, site, node and name of the thing: the subjects' own, that of a sibling at the same
/// site, to its agent and to that of the whole site, someone else's, the system's, one of the same name
/// in a namespace of users, none.
const PLACES: &[(&str, &str, &str, &str, &str)] = &[
    ("own", "shop", "north", "n1", "web"),
    ("sibling", "shop", "", "n2", "web"),
    ("sibling, to the site", "shop", "north", "n2", "web"),
    ("other", "farm", "south", "n3", "web"),
    ("system", SYSTEM_NAMESPACE, "", "", "node-n1"),
    ("system, of the site", SYSTEM_NAMESPACE, "", "", "site-north"),
    ("named as the system's", "shop", "", "", "node-n1"),
    ("system, other", SYSTEM_NAMESPACE, "south", "", "node-n2"),
    ("everywhere", "", "", "", ""),
];

fn matrix_row(text: &mut String, label: &str, target: Target<'_>) {
    write!(text, "{label:<62}").unwrap();
    for role in RoleName::ALL {
        let subject = subject(*role);
        let allowed: String = VERBS
            .iter()
            .map(|(letter, verb)| {
                let attributes = Attributes { verb: *verb, target };
                if authorize(&subject, &attributes).is_ok() { *letter } else { '-' }
            })
            .collect();
        write!(text, " {allowed:<10}").unwrap();
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

#[test]
fn every_role_may_do_exactly_what_the_matrix_says() {
    let mut text = format!("{:<62}", "");
    for role in RoleName::ALL {
        write!(text, " {:<10}", role.as_str()).unwrap();
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (group, resource, subresource) in RESOURCES {
        for (place, namespace, site, node, name) in PLACES {
            // A namespace is in itself, as the protocol's paths have it.
            let name = if *resource == "namespaces" { namespace } else { name };
            let target = Resource { group, resource, subresource, namespace, name, site, node };
            let slash = if subresource.is_empty() { "" } else { "/" };
            let label = format!("{resource}{slash}{subresource}.{group} {place}");
            matrix_row(&mut text, &label, Target::Resource(target));
        }
    }
    for path in PATHS {
        matrix_row(&mut text, path, Target::Path(path));
    }
    expect_file!["../../tests/access.txt"].assert_eq(&text);
}

#[test]
fn the_matrix_meets_every_class() {
    for class in table::Class::ALL {
        let met = RESOURCES.iter().any(|(group, resource, subresource)| {
            PLACES.iter().any(|(_, namespace, ..)| {
                let name = namespace;
                let resource = Resource {
                    group,
                    resource,
                    subresource,
                    namespace,
                    name,
                    ..Resource::default()
                };
                let attributes =
                    Attributes { verb: Verb::Update, target: Target::Resource(resource) };
                table::Class::of(&attributes) == *class
            })
        }) || PATHS.iter().any(|path| {
            let attributes = Attributes { verb: Verb::Get, target: Target::Path(path) };
            table::Class::of(&attributes) == *class
        });
        assert!(met, "{class:?} is in no row of the matrix");
    }
}

#[test]
fn the_page_for_people_shows_the_table() {
    expect_file!["../../../../docs/access.md"].assert_eq(&document::render());
}

#[test]
fn an_admin_may_do_everything_and_nobody_more() {
    for (group, resource, subresource) in RESOURCES {
        for (_, namespace, site, node, name) in PLACES {
            let target = Resource { group, resource, subresource, namespace, name, site, node };
            for (_, verb) in VERBS {
                let attributes = Attributes { verb: *verb, target: Target::Resource(target) };
                assert!(authorize(&subject(RoleName::Admin), &attributes).is_ok());
                assert!(authorize(&subject(RoleName::Anonymous), &attributes).is_err());
            }
        }
    }
}

/// `what` is `group/resource/subresource/namespace/name`, or a path after `path:`.
#[track_caller]
fn check(role: RoleName, verb: &str, what: &str, expect: Expect) {
    let target = match what.strip_prefix("path:") {
        Some(path) => Target::Path(path),
        None => {
            let parts: Vec<&str> = what.split('/').collect();
            let [group, resource, subresource, namespace, name] = parts[..] else {
                panic!("five parts")
            };
            Target::Resource(Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..Resource::default()
            })
        }
    };
    let verb = Verb::parse(verb);
    expect.assert_eq(&match authorize(&subject(role), &Attributes { verb, target }) {
        Ok(permit) => {
            format!("{} may {} {}", permit.subject(), permit.verb().as_str(), permit.target())
        }
        Err(denied) => denied.to_string(),
    });
}

#[test]
fn a_refusal_says_who_could() {
    check(
        RoleName::Guest,
        "delete",
        "tombolo.dev/apps//shop/web",
        expect![[
            r#"anna (guest) may not delete apps.tombolo.dev "web" in namespace "shop"; that takes the role user of namespace "shop" or admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::User,
        "create",
        "tombolo.dev/apps//farm/",
        expect![[
            r#"anna (user of namespace "shop") may not create apps.tombolo.dev in namespace "farm"; that takes the role user of namespace "farm" or admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::User,
        "list",
        "/secrets///",
        expect![[
            r#"anna (user of namespace "shop") may not list secrets; that takes the role user within its own namespace or admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::User,
        "get",
        "/secrets//tombolo-system/access-1",
        expect![[
            r#"anna (user of namespace "shop") may not get secrets "access-1" in namespace "tombolo-system"; that takes the role admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::Manager,
        "delete",
        "/namespaces//tombolo-system/tombolo-system",
        expect![[
            r#"anna (manager) may not delete namespaces "tombolo-system"; that takes the role admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::User,
        "patch",
        "tombolo.dev/sites///north",
        expect![[
            r#"anna (user of namespace "shop") may not patch sites.tombolo.dev "north"; that takes the role manager or admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::Manager,
        "*",
        "*/*///",
        expect![
            "anna (manager) may not do everything to *.*; that takes the role admin: ask an administrator for such a token"
        ],
    );
    check(
        RoleName::Manager,
        "bind",
        "/pods//a/b",
        expect![[
            r#"anna (manager) may not do that to pods "b" in namespace "a"; that takes the role admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::Anonymous,
        "list",
        "tombolo.dev/apps///",
        expect![
            "you have not signed in and may not list apps.tombolo.dev; that takes the role guest or user or manager or admin: send a bearer token or a client certificate"
        ],
    );
    check(
        RoleName::Manager,
        "create",
        "path:/tombolo/backup",
        expect![[
            r#"anna (manager) may not write to the path "/tombolo/backup"; that takes the role admin: ask an administrator for such a token"#
        ]],
    );
    check(
        RoleName::User,
        "create",
        "tombolo.dev/apps//shop/",
        expect![[
            r#"anna (user of namespace "shop") may create apps.tombolo.dev in namespace "shop""#
        ]],
    );
}

#[test]
fn signing_in_is_advised_only_to_those_who_have_not() {
    let attributes = Attributes { verb: Verb::Get, target: Target::Path("/tombolo/audit") };
    let denied = |role| authorize(&subject(role), &attributes).unwrap_err().is_anonymous();
    assert!(denied(RoleName::Anonymous));
    assert!(!denied(RoleName::Manager));
}

#[test]
fn the_list_of_rules_follows_the_namespace() {
    fn lines(role: RoleName, namespace: &str) -> String {
        let rules = rules(&subject(role), namespace);
        let mut text = String::new();
        for rule in rules.resources {
            writeln!(
                text,
                "{} {} in {:?} named {:?}",
                rule.verbs.join(","),
                rule.resources.join(","),
                rule.groups.join(","),
                rule.names.join(",")
            )
            .unwrap();
        }
        for rule in rules.paths {
            writeln!(text, "{} {}", rule.verbs.join(","), rule.paths.join(",")).unwrap();
        }
        text
    }
    assert!(lines(RoleName::User, "shop").contains("delete,deletecollection secrets in"));
    assert!(!lines(RoleName::User, "farm").contains("deletecollection"));
    assert!(lines(RoleName::Admin, "").contains(r#"* * in "*""#));
    expect![[r#"
        create selfsubjectaccessreviews,selfsubjectrulesreviews,selfsubjectreviews in "*" named ""
        get,list,watch nodes in "tombolo.dev" named "n1"
        update,patch nodes/status in "tombolo.dev" named "n1"
        get,list,watch probings in "tombolo.dev" named "n1"
        update,patch probings/status in "tombolo.dev" named "n1"
        create,update,patch events in "*" named "n1"
        get,list,watch,create,update,patch leases in "coordination.k8s.io" named "node-n1"
        get /healthz,/livez,/readyz,/version
        get /api,/api/*,/apis,/apis/*,/openapi/*
        get,update,patch,delete /alto/*,/api/v3/*,/characterization,/jobmanager/*,/matchmake
        get,create /tombolo/join,/tombolo/nonce,/tombolo/renew
        get /tombolo/controllers
        get,create /tombolo/errands
        create /prometheus/api/v1/write
    "#]]
    .assert_eq(&lines(RoleName::Agent, ""));
    assert!(lines(RoleName::SiteAgent, "").contains(r#"named "site-north""#));
}

/// The others' Leases say that others live: whoever could write those could hide that they are gone. That
/// of the site is one of them: with it the agent of one node could take all others down.
#[test]
fn an_agent_writes_the_lease_of_its_own_node_and_no_other() {
    let agent = subject(RoleName::Agent);
    let allowed = |namespace: &str, name: &str| {
        let target = Target::Resource(Resource {
            group: "coordination.k8s.io",
            resource: "leases",
            namespace,
            name,
            ..Resource::default()
        });
        let may = |verb: Verb| authorize(&agent, &Attributes { verb, target }).is_ok();
        assert!(!may(Verb::Delete) && !may(Verb::DeleteCollection), "{namespace}/{name}");
        [Verb::Get, Verb::Create, Verb::Update, Verb::Patch].map(may)
    };
    assert_eq!(allowed(SYSTEM_NAMESPACE, "node-n1"), [true; 4]);
    assert_eq!(allowed("shop", "node-n1"), [false; 4], "among the users'");
    assert_eq!(allowed("", "node-n1"), [false; 4], "nowhere");
    let others = [
        "node-n2",
        "site-north",
        "site-south",
        "site-n1",
        "node-north",
        "node-",
        "controller-c",
        "",
    ];
    for other in others {
        assert_eq!(allowed(SYSTEM_NAMESPACE, other), [false; 4], "{other}");
    }
}
