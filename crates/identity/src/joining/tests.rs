//! Every way to join and to be refused, as data.

use expect_test::{Expect, expect};

use super::*;

const NOW: &str = "2026-06-01T12:30:00Z";

fn token() -> Token {
    Token::from_bytes([7; 32])
}

/// `token` is `unknown`, `other`, or `SITE [for site] [until TIME] [used NAME [key K]]`; the token was
/// made at noon.
fn record(text: &str) -> Option<Record> {
    let mut words = text.split_whitespace();
    let site = words.next().unwrap().to_owned();
    if site == "unknown" {
        return None;
    }
    let hash = match site.as_str() {
        "other" => Token::from_bytes([8; 32]).hash(),
        _ => token().hash(),
    };
    let mut record = Record {
        hash,
        site,
        stands_for: StandsFor::Node,
        created: "2026-06-01T12:00:00Z".parse().unwrap(),
        expires: "2026-06-01T13:00:00Z".parse().unwrap(),
        used: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().unwrap();
        match word {
            "until" => record.expires = value.parse().unwrap(),
            "for" => record.stands_for = StandsFor::Site,
            "used" => record.used = Some(Used { by: value.to_owned(), key: None }),
            "key" => record.used.as_mut().unwrap().key = Some(value.to_owned()),
            other => panic!("{other}"),
        }
    }
    Some(record)
}

/// `node` is empty, or `SITE [machine M] [key K] [alive yes] [revoked yes] [copy I]`.
fn known(text: &str) -> Option<Known> {
    let mut words = text.split_whitespace();
    let mut known = Known { site: words.next()?.to_owned(), ..Known::default() };
    while let Some(word) = words.next() {
        let value = words.next().unwrap().to_owned();
        match word {
            "machine" => known.machine = Some(value),
            "key" => known.key = Some(value),
            "alive" => known.alive = true,
            "revoked" => known.revoked = true,
            "copy" => known.quarantined.push(value),
            other => panic!("{other}"),
        }
    }
    Some(known)
}

/// Machine `m1` with key `k1` wants to join as `n1` with a token for site `north`.
#[track_caller]
fn check(token_text: &str, site_exists: bool, node: &str, expect: Expect) {
    let site = if site_exists { "north" } else { "" };
    check_seeking(Sought::Node("n1"), token_text, (site, node, None), expect);
}

/// Machine `m1` with key `k1` seeks this. What is known is the site, the node and whether another node
/// of the site has an agent.
#[track_caller]
fn check_seeking(
    sought: Sought<'_>,
    token_text: &str,
    (site, node, joined): (&str, &str, Option<&str>),
    expect: Expect,
) {
    let token = token();
    let applicant = Applicant { token: &token, sought, machine: "m1", key: "k1" };
    let observed = Observed {
        record: record(token_text),
        site: known(site),
        node: known(node),
        joined_node: joined.map(str::to_owned),
    };
    expect.assert_eq(&match join(&applicant, &observed, NOW.parse().unwrap()) {
        Ok(plan) => match &plan.remit {
            Remit::Node { site, .. } => format!("{site}, make site: {}: {plan}", plan.make_site),
            site @ Remit::Site { .. } => format!("{site}, make site: {}: {plan}", plan.make_site),
        },
        Err(refused) => refused.to_string(),
    });
}

#[test]
fn a_fresh_name_joins_and_the_site_is_made_if_need_be() {
    check("north", false, "", expect!["north, make site: true: joined as a new node"]);
    check("north", true, "", expect!["north, make site: false: joined as a new node"]);
    check(
        "north",
        true,
        "north",
        expect!["north, make site: false: joined as the node that was made for it"],
    );
}

#[test]
fn a_reinstall_adopts_the_node_of_the_same_site_only() {
    check(
        "north",
        true,
        "north machine m1 key k0 alive yes",
        expect!["north, make site: false: was set up anew and joined; what it runs is kept"],
    );
    check(
        "north",
        true,
        "north machine m1 key k0 revoked yes",
        expect!["north, make site: false: was set up anew and joined; what it runs is kept"],
    );
    check(
        "north",
        true,
        "south machine m1 key k0",
        expect![[
            r#"node "n1" belongs to site "south" and the token is for site "north": choose another name, or remove that node first"#
        ]],
    );
}

#[test]
fn two_machines_of_one_name_do_not_push_each_other_out() {
    check(
        "north",
        true,
        "north machine m2 key k0 alive yes",
        expect![[
            r#"node "n1" is alive on another machine: choose another name, or remove that node first"#
        ]],
    );
    check(
        "north",
        true,
        "north machine m2 key k0",
        expect!["north, make site: false: joined in the place of machine m2, which was silent"],
    );
}

#[test]
fn a_token_is_good_once_and_for_an_hour() {
    check(
        "north used n2",
        true,
        "",
        expect![[r#"the join token has been used by node "n2": each is good for one machine"#]],
    );
    check(
        "north used n1",
        true,
        "north machine m1 key k0",
        expect![[r#"the join token has been used by node "n1": each is good for one machine"#]],
    );
    check(
        "north until 2026-06-01T12:30:00Z",
        true,
        "",
        expect!["the join token expired at 2026-06-01T12:30:00Z: ask for a new one"],
    );
    for text in ["unknown", "other"] {
        check(
            text,
            true,
            "",
            expect![
                "the join token is not known here: it was removed, or belongs to another server"
            ],
        );
    }
}

#[test]
fn a_token_that_claims_a_year_still_ends_after_an_hour() {
    let mut record = record("north until 2027-06-01T12:00:00Z");
    record.as_mut().unwrap().created = "2026-06-01T11:29:59Z".parse().unwrap();
    let token = token();
    let sought = Sought::Node("n1");
    let applicant = Applicant { token: &token, sought, machine: "m1", key: "k1" };
    let observed = Observed { record, site: known("north"), node: None, joined_node: None };
    let refused = join(&applicant, &observed, NOW.parse().unwrap()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the join token expired at 2026-06-01T12:29:59Z: ask for a new one"
    );
}

#[test]
fn an_answer_that_was_lost_can_be_had_again_with_the_same_key() {
    check(
        "north used n1",
        true,
        "north machine m1 key k1",
        expect!["north, make site: false: asked again; the first answer was lost"],
    );
    check(
        "north used n1 until 2026-06-01T12:29:00Z",
        true,
        "north machine m1 key k1",
        expect!["the join token expired at 2026-06-01T12:29:00Z: ask for a new one"],
    );
}

#[test]
fn a_joining_that_broke_off_is_gone_on_with_by_the_same_key_alone() {
    check(
        "north used n1 key k1",
        true,
        "",
        expect!["north, make site: false: joined as a new node"],
    );
    check(
        "north used n1 key k0",
        true,
        "",
        expect![[r#"the join token has been used by node "n1": each is good for one machine"#]],
    );
    // It was done, and the node has been removed since.
    check(
        "north used n1",
        true,
        "",
        expect![[r#"the join token has been used by node "n1": each is good for one machine"#]],
    );
}

/// The agent of `n1` at `north` with key `k1`, started as instance `i1`.
#[track_caller]
fn check_standing(node: &str, site_exists: bool, expect: Expect) {
    let remit = Remit::Node { site: "north".into(), node: "n1".into() };
    let site = if site_exists { "north" } else { "" };
    check_bearer(&remit, node, site, expect);
}

#[track_caller]
fn check_bearer(remit: &Remit, node: &str, site: &str, expect: Expect) {
    let bearer = Bearer { remit, key: Some("k1"), instance: Some("i1") };
    expect.assert_eq(&match standing(&bearer, known(node).as_ref(), known(site).as_ref()) {
        Ok(()) => "stands".to_owned(),
        Err(fallen) => fallen.to_string(),
    });
}

#[test]
fn an_agent_acts_while_its_node_is_its_own() {
    check_standing("north key k1", true, expect!["stands"]);
    check_standing("north key k1 copy i2", true, expect!["stands"]);
    check_standing(
        "",
        true,
        expect![[
            r#"node "n1" is not known any more: it was removed; join again with a new token"#
        ]],
    );
    check_standing(
        "north key k1",
        false,
        expect![[
            r#"site "north" is not known any more: it was removed; join again with a new token"#
        ]],
    );
    check_standing(
        "south key k1",
        true,
        expect![[r#"node "n1" belongs to site "south" now; join again with a token for it"#]],
    );
    check_standing(
        "north key k1 revoked yes",
        true,
        expect![[r#"the certificate of node "n1" was revoked; join again with a new token"#]],
    );
    check_standing(
        "north key k2",
        true,
        expect![[
            r#"node "n1" has joined anew with another key; this one is worth nothing any more"#
        ]],
    );
    // Removed and made again by hand: nobody has joined as that one.
    check_standing(
        "north",
        true,
        expect![[
            r#"node "n1" has joined anew with another key; this one is worth nothing any more"#
        ]],
    );
    check_standing(
        "north key k1 copy i1",
        true,
        expect![[
            r#"this agent uses the identity of node "n1", which is alive elsewhere: its data folder is a copy; remove the folder and join under another name"#
        ]],
    );
}

#[test]
fn a_token_for_a_site_is_for_the_agent_of_the_whole_site_alone() {
    let nothing = ("", "", None);
    check_seeking(
        Sought::Site,
        "north for site",
        nothing,
        expect![[r#"site "north", make site: true: joined as a new site"#]],
    );
    check_seeking(
        Sought::Site,
        "north for site",
        ("north", "", None),
        expect![[r#"site "north", make site: false: joined as the site that was made for it"#]],
    );
    check_seeking(
        Sought::Node("n1"),
        "north for site",
        nothing,
        expect![[
            r#"the join token is for the agent of all of site "north", and this agent stands for one node: ask for a token for a node"#
        ]],
    );
    check_seeking(
        Sought::Site,
        "north",
        nothing,
        expect![[
            r#"the join token is for a node of site "north", and this agent stands for a whole site: ask for a token with --whole-site"#
        ]],
    );
    check_seeking(
        Sought::Site,
        "north for site used north",
        nothing,
        expect![[r#"the join token has been used by site "north": each is good for one machine"#]],
    );
    let written = ("north machine m1 key k1", "", None);
    check_seeking(
        Sought::Site,
        "north for site used north",
        written,
        expect![[r#"site "north", make site: false: asked again; the first answer was lost"#]],
    );
}

#[test]
fn two_agents_never_stand_for_one_node() {
    let served = "north machine m2 key k2";
    check_seeking(
        Sought::Node("n1"),
        "north",
        (served, "", None),
        expect![[
            r#"site "north" has one agent for all its nodes: this node needs none, or revoke that agent first"#
        ]],
    );
    check_seeking(
        Sought::Site,
        "north for site",
        ("north", "", Some("n2")),
        expect![[
            r#"node "n2" of site "north" has an agent of its own: an agent of the whole site can join when none of its nodes has"#
        ]],
    );
    let alive = ("north machine m2 key k2 alive yes", "", None);
    check_seeking(
        Sought::Site,
        "north for site",
        alive,
        expect![[
            r#"site "north" has an agent that is alive on another machine: revoke that agent first if this one is to take its place"#
        ]],
    );
    // What was revoked stands in nobody's way.
    let revoked = "north machine m2 key k2 revoked yes";
    check_seeking(
        Sought::Node("n1"),
        "north",
        (revoked, "", None),
        expect!["north, make site: false: joined as a new node"],
    );
    check_seeking(
        Sought::Site,
        "north for site",
        (revoked, "", None),
        expect![[
            r#"site "north", make site: false: joined in the place of machine m2, which was silent"#
        ]],
    );
}

#[test]
fn the_agent_of_a_site_acts_while_the_site_is_its_own() {
    let remit = Remit::Site { site: "north".into() };
    check_bearer(&remit, "", "north key k1", expect!["stands"]);
    check_bearer(
        &remit,
        "",
        "",
        expect![[
            r#"site "north" is not known any more: it was removed; join again with a new token"#
        ]],
    );
    check_bearer(
        &remit,
        "",
        "north",
        expect![[
            r#"site "north" has joined anew with another key; this one is worth nothing any more"#
        ]],
    );
    check_bearer(
        &remit,
        "",
        "north key k2",
        expect![[
            r#"site "north" has joined anew with another key; this one is worth nothing any more"#
        ]],
    );
    check_bearer(
        &remit,
        "",
        "north key k1 revoked yes",
        expect![[r#"the certificate of site "north" was revoked; join again with a new token"#]],
    );
    check_bearer(
        &remit,
        "",
        "north key k1 copy i1",
        expect![[
            r#"this agent uses the identity of site "north", which is alive elsewhere: its data folder is a copy; remove the folder and join under another name"#
        ]],
    );
    let node = Remit::Node { site: "north".into(), node: "n1".into() };
    check_bearer(
        &node,
        "north key k1",
        "north key k2",
        expect![[
            r#"site "north" has one agent for all its nodes now, and that of node "n1" is none of them"#
        ]],
    );
    check_bearer(&node, "north key k1", "north key k2 revoked yes", expect!["stands"]);
}
