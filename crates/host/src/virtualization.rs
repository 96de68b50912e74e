//! Whether the machine is itself a container or a virtual machine, and of which kind. Called by
//! [`crate::characterise`] and the security checks.

use crate::root::Root;

/// What we run in. A container in a virtual machine is a container: that is the wall that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Virtualization {
    Container(String),
    Machine(String),
}

impl Virtualization {
    pub fn name(&self) -> &str {
        match self {
            Virtualization::Container(name) | Virtualization::Machine(name) => name,
        }
    }
}

/// Words in the maker's or product's name, in lower case, and what they stand for. The first that
/// fits counts.
const MAKERS: &[(&str, &str)] = &[
    ("amazon ec2", "amazon"),
    ("google compute engine", "google"),
    ("openstack", "openstack"),
    ("kvm", "kvm"),
    ("qemu", "qemu"),
    ("vmware", "vmware"),
    ("innotek gmbh", "virtualbox"),
    ("virtualbox", "virtualbox"),
    ("xen", "xen"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("apple virtualization", "apple"),
    ("microsoft corporation virtual machine", "hyperv"),
    ("firecracker", "firecracker"),
    ("alibaba cloud ecs", "alibaba"),
    ("digitalocean", "kvm"),
    ("hetzner vserver", "kvm"),
];

pub fn read(root: &Root, hypervisor_flag: bool) -> Option<Virtualization> {
    container(root)
        .map(Virtualization::Container)
        .or_else(|| machine(root, hypervisor_flag).map(Virtualization::Machine))
}

fn container(root: &Root) -> Option<String> {
    if let Some(kind) = root.text("/run/systemd/container") {
        return crate::clean::line(&kind, 64);
    }
    if root.exists("/run/.containerenv") {
        return Some("podman".into());
    }
    if root.exists("/.dockerenv") {
        return Some("docker".into());
    }
    let kernel = root.text("/proc/sys/kernel/osrelease").unwrap_or_default().to_lowercase();
    if kernel.contains("microsoft") {
        return Some("wsl".into());
    }
    let environment = root.read("/proc/1/environ").present().unwrap_or_default();
    let named = environment.split('\0').find_map(|pair| pair.strip_prefix("container="));
    let named = named.and_then(|kind| crate::clean::line(kind, 64));
    named.or_else(|| parse_control_group(&root.read("/proc/1/cgroup").present()?))
}

/// The control group of the first process names the engine that made it.
fn parse_control_group(text: &str) -> Option<String> {
    let words =
        [("kubepods", "kubernetes"), ("/docker", "docker"), ("libpod", "podman"), ("/lxc", "lxc")];
    words.iter().find(|(word, _)| text.contains(word)).map(|(_, kind)| (*kind).to_owned())
}

fn machine(root: &Root, hypervisor_flag: bool) -> Option<String> {
    let dmi = |field: &str| root.text(&format!("/sys/class/dmi/id/{field}")).unwrap_or_default();
    let described = format!("{} {}", dmi("sys_vendor"), dmi("product_name"));
    if let Some(kind) = by_maker(&described) {
        return Some(kind.to_owned());
    }
    if let Some(kind) = root.text("/sys/hypervisor/type") {
        return crate::clean::line(&kind, 64);
    }
    let tree = root.text("/proc/device-tree/hypervisor/compatible").unwrap_or_default();
    let compatible = root.text("/proc/device-tree/compatible").unwrap_or_default();
    if tree.contains("linux,kvm") || compatible.contains("linux,dummy-virt") {
        return Some("kvm".into());
    }
    hypervisor_flag.then(|| "unknown".into())
}

/// Nothing for a bare machine of a provider, which has the same maker as its virtual ones.
fn by_maker(described: &str) -> Option<&'static str> {
    let described = described.to_lowercase();
    if described.trim_end().ends_with("metal") {
        return None;
    }
    MAKERS.iter().find(|(words, _)| described.contains(words)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_is_known_by_its_maker() {
        assert_eq!(by_maker("QEMU Standard PC (Q35 + ICH9, 2009)"), Some("qemu"));
        assert_eq!(by_maker("Microsoft Corporation Virtual Machine"), Some("hyperv"));
        assert_eq!(by_maker("Microsoft Corporation Surface Pro"), None);
        assert_eq!(by_maker("Amazon EC2 m5.large"), Some("amazon"));
        assert_eq!(by_maker("Amazon EC2 m5.metal"), None);
        assert_eq!(by_maker("Dell Inc. PowerEdge R740"), None);
    }

    #[test]
    fn a_control_group_names_its_engine() {
        let check = |text: &str| parse_control_group(text);
        assert_eq!(check("0::/kubepods/burstable/pod1/x\n").as_deref(), Some("kubernetes"));
        assert_eq!(check("4:memory:/docker/0123\n").as_deref(), Some("docker"));
        assert_eq!(check("0::/init.scope\n"), None);
    }
}
