//! Fixed names that the parts of Tombolo agree on: labels, annotations, finalizers, leases.

/// API group of the kinds of this crate.
pub const GROUP: &str = "tombolo.dev";
/// The one version of the group so far.
pub const VERSION: &str = "v1alpha1";
/// Group and version as objects carry them.
pub const API_VERSION: &str = "tombolo.dev/v1alpha1";

/// Where Leases and other objects of the system itself live.
pub const SYSTEM_NAMESPACE: &str = "tombolo-system";
/// The Lease of Node `n` is `node-n` in [`SYSTEM_NAMESPACE`].
pub const NODE_LEASE_PREFIX: &str = "node-";
/// The Lease of Site `s` is `site-s` in [`SYSTEM_NAMESPACE`].
pub const SITE_LEASE_PREFIX: &str = "site-";

/// The Lease of controller `c` is `controller-c` in [`SYSTEM_NAMESPACE`].
pub const CONTROLLER_LEASE_PREFIX: &str = "controller-";
/// The header in which an agent says which of its starts a request comes from.
pub const INSTANCE_HEADER: &str = "tombolo-instance";

/// On an Assignment: the App it belongs to.
pub const LABEL_APP: &str = "tombolo.dev/app";
/// On an Assignment: the component of the App.
pub const LABEL_COMPONENT: &str = "tombolo.dev/component";
/// On an Assignment: the number of the replica.
pub const LABEL_REPLICA: &str = "tombolo.dev/replica";
/// On a Node and an Assignment: the Site.
pub const LABEL_SITE: &str = "tombolo.dev/site";
/// On an Assignment: the Node.
pub const LABEL_NODE: &str = "tombolo.dev/node";
/// On a Node that the agent of its site made, and takes away when its engine no longer has the machine.
pub const LABEL_MANAGED: &str = "tombolo.dev/managed";

/// On an App that is owned by a foreign object: which state of it the App was made of.
pub const ANNOTATION_MADE_OF: &str = "tombolo.dev/made-of";

/// On a Node: what tells the machine that joined from others.
pub const ANNOTATION_MACHINE: &str = "tombolo.dev/machine";
/// On a Node: SHA-256 of the one public key that acts for it.
pub const ANNOTATION_KEY: &str = "tombolo.dev/key";
/// On a Node: until when the certificate of its agent lasts.
pub const ANNOTATION_CERTIFICATE_EXPIRES: &str = "tombolo.dev/certificate-expires";
/// On a Node: since when the certificate of its agent is worth nothing.
pub const ANNOTATION_REVOKED: &str = "tombolo.dev/revoked";
/// On a Node: the instances of its agent that were found to be copies, with commas between them.
pub const ANNOTATION_QUARANTINED: &str = "tombolo.dev/quarantined";
/// On the Lease of a controller: its addresses, with commas between them.
pub const ANNOTATION_ADDRESSES: &str = "tombolo.dev/addresses";
/// On the Lease of a Node: silent siblings that its agent is asked to try to reach, as `node=address`
/// with commas between them.
pub const ANNOTATION_PROBE: &str = "tombolo.dev/probe";
/// On the Lease of a Node: which of those its agent reaches, as `node=yes` or `node=no`.
pub const ANNOTATION_REACHED: &str = "tombolo.dev/reached";
/// On a Policy: suggestions of it that a person accepts, by id, with commas between them.
pub const ANNOTATION_ACCEPT: &str = "tombolo.dev/accept";
/// On a Policy: suggestions of it that a person wants nothing of, by id, with commas between them.
pub const ANNOTATION_DISMISS: &str = "tombolo.dev/dismiss";
/// Keeps an Assignment until its agent has taken the workload down.
pub const FINALIZER_ASSIGNMENT: &str = "tombolo.dev/undeploy";

/// Taint that a drain puts on a Node.
pub const TAINT_DRAIN: &str = "tombolo.dev/drain";

/// Whether a label or annotation is of our own domain: those are set by Tombolo alone.
pub fn is_own(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let above = domain.strip_suffix(GROUP);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// The name of the Lease with which a Node says that it is alive.
pub fn node_lease(node: &str) -> String {
    format!("{NODE_LEASE_PREFIX}{node}")
}

/// The name of the Lease with which a Site says that it is alive.
pub fn site_lease(site: &str) -> String {
    format!("{SITE_LEASE_PREFIX}{site}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_domain_is_told_from_those_that_look_like_it() {
        for own in [LABEL_SITE, "tombolo.dev/x", "a.tombolo.dev/x"] {
            assert!(is_own(own), "{own}");
        }
        for other in ["camera", "tombolo.dev", "nottombolo.dev/x", "tombolo.dev.example/x"] {
            assert!(!is_own(other), "{other}");
        }
    }
}
