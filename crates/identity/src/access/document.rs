//! The table as a page for people: `docs/access.md`. A test holds the two together.

use std::fmt::Write as _;

use super::Verb;
use super::table::{Class, Extent, RULES};
use crate::subject::RoleName;

const HEAD: &str = "\
# Who may do what

This page is written from the table in `crates/identity/src/access/table.rs`; do not edit it by hand.
`UPDATE_EXPECT=1 cargo test -p tombolo-identity` writes it anew.

What the table does not allow is denied. *read* is get, list and watch; *write* is create, update,
patch, delete and deletecollection.

An agent's rights are narrower than words like *patch* can say. Its assignments are those of its site
that name its node, and those that name none, which any agent of the site may take. It lists and
watches them with the field selector `spec.site=SITE` (or the label of the site), and everything else
that it may list with `metadata.name=NAME`; it sees nothing that is not its own, whatever the selector.
Beside the status it changes one thing of an assignment: it takes hold of one with the finalizer
`tombolo.dev/undeploy`, and lets go of one that is being deleted. Of secrets and config maps it reads
those that its assignments name. An event that it writes is about one of its assignments or its node.
Whether something of another site or node exists it is not told: both are *not found*.

The agent of a whole site stands for each of its nodes: all assignments of the site are its own. It makes
and removes the nodes of its site, and may give none to another site, nor touch what a node says about
who acts for it. It lists nodes with the field selector `spec.site=SITE`
([ADR 12](adr/0012-an-agent-of-a-site.md)).

A manager changes no more of an assignment than an agent does: with a manager's token a deployment
manager of another project works for the sites ([facades.md](facades.md)).

| role | who has it | how it is known |
|---|---|---|
| anonymous | anyone who has not signed in | nothing was sent |
| guest | someone who looks | token or client certificate |
| user | someone who runs applications in one namespace | token or client certificate that names the namespace |
| manager | someone who runs sites, nodes and policies | token or client certificate |
| admin | someone who may do everything | `admin.token`, token or client certificate |
| agent | the agent of one node | client certificate of that node |
| site-agent | the agent of all nodes of a site | client certificate of that site |
| system | the loops in the server's own process | no socket is involved |

";

/// The whole page.
pub fn render() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| what |");
    for role in RoleName::ALL {
        write!(page, " {} |", role.as_str()).expect("writing to a String cannot fail");
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(RoleName::ALL.len()));
    page.push('\n');
    for class in Class::ALL {
        write!(page, "| {} |", class.title()).expect("writing to a String cannot fail");
        for role in RoleName::ALL {
            write!(page, " {} |", cell(*role, *class)).expect("writing to a String cannot fail");
        }
        page.push('\n');
    }
    page
}

fn cell(role: RoleName, class: Class) -> String {
    let mut parts = Vec::new();
    let extents = [
        Extent::Anywhere,
        Extent::OwnNamespace,
        Extent::OwnSite,
        Extent::NamedBySite,
        Extent::OwnNode,
        Extent::OwnLease,
    ];
    for extent in extents {
        let allowed: Vec<Verb> = Verb::SERVED
            .iter()
            .copied()
            .filter(|verb| {
                RULES.iter().any(|rule| rule.extent == extent && rule.covers(role, class, *verb))
            })
            .collect();
        if allowed.is_empty() {
            continue;
        }
        let where_ = match extent {
            Extent::Anywhere => "",
            Extent::OwnNamespace => " in its own namespace",
            Extent::OwnSite => " of its own site",
            Extent::NamedBySite => " when an assignment of its own site names it",
            Extent::OwnNode => " of its own node",
            Extent::OwnLease => " of its own heartbeat",
        };
        parts.push(format!("{}{where_}", words(&allowed)));
    }
    if parts.is_empty() { "–".into() } else { parts.join("; ") }
}

/// `read, write` for whole sets, single verbs otherwise.
fn words(verbs: &[Verb]) -> String {
    let (reads, writes): (Vec<Verb>, Vec<Verb>) = verbs.iter().partition(|verb| verb.reads());
    let shorten = |verbs: Vec<Verb>, whole: usize, word: &str| match verbs.len() == whole {
        true => vec![word.to_owned()],
        false => verbs.iter().map(|verb| verb.as_str().to_owned()).collect(),
    };
    let mut words = shorten(reads, 3, "read");
    words.extend(shorten(writes, 5, "write"));
    words.join(", ")
}
