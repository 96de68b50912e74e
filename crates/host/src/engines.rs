//! Engines that are on the machine, as far as files show. Called by [`crate::characterise`]; which
//! version they are is for a driver to ask them.

use serde::Serialize;
use tombolo_model::Engine;
use tombolo_model::characteristics::EngineVersion;

use crate::root::{EntryKind, Root, Seen};

/// An engine and the file by which it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundEngine {
    pub name: &'static str,
    /// What it is to a Site; nothing for an engine that is only a part of another engine.
    pub engine: Option<Engine>,
    pub path: &'static str,
}

/// Where each engine shows, the first place that is there counts.
const PLACES: &[(&str, Option<Engine>, EntryKind, &[&str])] = &[
    (
        "docker",
        Some(Engine::Docker),
        EntryKind::Socket,
        &["/run/docker.sock", "/var/run/docker.sock"],
    ),
    ("podman", None, EntryKind::Socket, &["/run/podman/podman.sock"]),
    (
        "containerd",
        None,
        EntryKind::Socket,
        &["/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"],
    ),
    ("crio", None, EntryKind::Socket, &["/run/crio/crio.sock"]),
    (
        "kubelet",
        Some(Engine::Kubernetes),
        EntryKind::File,
        &["/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf"],
    ),
    (
        "k3s",
        Some(Engine::Kubernetes),
        EntryKind::File,
        &["/etc/rancher/k3s/k3s.yaml", "/var/lib/rancher/k3s/agent/kubelet.kubeconfig"],
    ),
];

pub fn read(root: &Root) -> Vec<FoundEngine> {
    let is = |path: &str, kind| match root.entry(path) {
        Seen::Present(entry) => entry.kind == kind,
        Seen::Absent | Seen::Unreadable => false,
    };
    let found = PLACES.iter().filter_map(|(name, engine, kind, paths)| {
        let path = paths.iter().find(|path| is(path, *kind))?;
        Some(FoundEngine { name, engine: *engine, path })
    });
    found.collect()
}

/// For the Node: the host itself is always an engine, the others once each.
pub fn versions(found: &[FoundEngine]) -> Vec<EngineVersion> {
    let mut engines = vec![Engine::Host];
    engines.extend(found.iter().filter_map(|found| found.engine));
    engines.dedup();
    engines.into_iter().map(|name| EngineVersion { name, version: None }).collect()
}
