//! Who asks, as far as samples are concerned: [`Asker`].

use tombolo_series::{Labels, Matcher, Op};

/// The label that says whose a sample is. Those of machines have none.
pub(super) const NAMESPACE: &str = "namespace";

/// What the door of the server found out.
#[derive(Clone, Debug)]
pub struct Asker {
    /// For the bound on series of one source, and in its refusals.
    pub name: String,
    pub sees: Sees,
    pub stamp: Stamp,
}

/// Which samples may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sees {
    Everything,
    /// Those of these namespaces, and perhaps those that are in none.
    Only {
        namespaces: Vec<String>,
        machines: bool,
    },
    Nothing,
}

/// Under which labels samples are written, whatever the sender says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// As they come.
    AsSaid,
    /// The agent of a node: its site and its node.
    Node { site: String, node: String },
    /// The agent of a site whose machines have no agents.
    Site { site: String },
    /// Somebody of a namespace. What it says of sites and nodes is kept apart.
    Namespace(String),
    /// It may not write, and why.
    Refused(String),
}

impl Sees {
    /// The conditions that hold for whatever is asked; nothing if nothing may be seen.
    pub(crate) fn enforced(&self) -> Option<Vec<Matcher>> {
        match self {
            Sees::Everything => Some(Vec::new()),
            Sees::Nothing => None,
            Sees::Only { namespaces, machines } => {
                let mut words: Vec<&str> = Vec::new();
                for namespace in namespaces {
                    // Names of namespaces are DNS labels; anything else would be read as a pattern.
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                    if namespace.is_empty() || !namespace.chars().all(plain) {
                        return None;
                    }
                    words.push(namespace);
                }
                words.extend(machines.then_some(""));
                if words.is_empty() {
                    return None;
                }
                Matcher::new(NAMESPACE, Op::Matches, &words.join("|")).ok().map(|one| vec![one])
            }
        }
    }
}

impl Stamp {
    /// The labels as they are stored.
    pub(super) fn labels(&self, said: &Labels) -> Labels {
        match self {
            Stamp::AsSaid | Stamp::Refused(_) => said.clone(),
            Stamp::Node { site, node } => {
                of_site(said, site).with("node", node).with("icos_host_name", node)
            }
            Stamp::Site { site } => of_site(said, site),
            Stamp::Namespace(namespace) => {
                let apart = ["site", "node"].iter().fold(said.clone(), |labels, name| {
                    let value = labels.get(name).to_owned();
                    let kept = labels.with(&format!("exported_{name}"), &value);
                    if value.is_empty() { labels } else { kept.with(name, "") }
                });
                let value = apart.get(NAMESPACE).to_owned();
                let other = !value.is_empty() && value != *namespace;
                let apart = if other { apart.with("exported_namespace", &value) } else { apart };
                apart.with(NAMESPACE, namespace)
            }
        }
    }
}

/// ICOS has words of its own for a site, on which its policies select.
fn of_site(said: &Labels, site: &str) -> Labels {
    ["site", "icos_agent_id", "icos_cluster_id"]
        .iter()
        .fold(said.clone(), |labels, name| labels.with(name, site))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stamp: &Stamp, said: &[(&str, &str)], stored: &str) {
        assert_eq!(stamp.labels(&Labels::new(said.iter().copied())).to_string(), stored);
    }

    #[test]
    fn what_the_door_knows_overwrites_what_the_sender_says() {
        let node = Stamp::Node { site: "north".into(), node: "crane".into() };
        check(
            &node,
            &[("a", "b"), ("site", "south"), ("node", "other"), ("icos_agent_id", "south")],
            r#"{a="b", icos_agent_id="north", icos_cluster_id="north", icos_host_name="crane", node="crane", site="north"}"#,
        );
        let site = Stamp::Site { site: "north".into() };
        let stored = r#"{icos_agent_id="north", icos_cluster_id="north", node="n1", site="north"}"#;
        check(&site, &[("site", "south"), ("node", "n1")], stored);
        let user = Stamp::Namespace("shop".into());
        check(
            &user,
            &[("namespace", "bank"), ("node", "crane")],
            r#"{exported_namespace="bank", exported_node="crane", namespace="shop"}"#,
        );
        check(&user, &[("namespace", "shop")], r#"{namespace="shop"}"#);
    }

    #[test]
    fn who_sees_nothing_has_no_conditions() {
        let only = |names: &[&str], machines| Sees::Only {
            namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            machines,
        };
        assert!(Sees::Nothing.enforced().is_none());
        assert!(only(&[], false).enforced().is_none());
        assert!(only(&[".*"], true).enforced().is_none());
        let enforced = only(&["a", "b-1"], true).enforced().unwrap();
        let may = |value: &str| enforced.iter().all(|matcher| matcher.matches(value));
        assert!(may("a") && may("b-1") && may("") && !may("c") && !may("ab"));
        let enforced = only(&["a"], false).enforced().unwrap();
        assert!(enforced[0].matches("a") && !enforced[0].matches(""));
    }
}
