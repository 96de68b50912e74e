//! The continuum of the demo and its application, as files that can be applied elsewhere too, and the
//! machines of its sites.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

pub(crate) const APP: &str = "factory-vision";
pub(crate) const NAMESPACE: &str = "default";

const CONTINUUM: &str = include_str!("../../../examples/factory-sites.yaml");
const APPLICATION: &str = include_str!("../../../examples/factory-vision.yaml");

/// A site and the one machine that it has.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) name: &'static str,
    pub(crate) node: &'static str,
    /// For `tombolo agent`. They offer what such a machine would have and not what this one has; they
    /// beat quickly, so that a loss is seen while somebody watches; and nobody outside reaches them.
    pub(crate) options: &'static [&'static str],
}

/// The near edge has a camera too, at its gate, so that the camera has somewhere to go.
pub(crate) const SITES: &[Site] = &[
    Site {
        name: "cloud",
        node: "cloud-1",
        options: &[
            "--cpu=16",
            "--memory=64Gi",
            "--watts=120:400",
            "--address=127.0.0.1",
            "--heartbeat=2s",
        ],
    },
    Site {
        name: "near-edge",
        node: "plant-1",
        options: &[
            "--cpu=8",
            "--memory=32Gi",
            "--watts=25:90",
            "--label=camera=yes",
            "--address=127.0.0.1",
            "--heartbeat=2s",
        ],
    },
    Site {
        name: "far-edge",
        node: "line-1",
        options: &[
            "--cpu=2",
            "--memory=2Gi",
            "--watts=3:20",
            "--label=camera=yes",
            "--address=127.0.0.1",
            "--heartbeat=2s",
        ],
    },
];

/// Sites and Links.
pub(crate) fn continuum() -> anyhow::Result<Vec<Value>> {
    CONTINUUM.split("\n---\n").map(parse).collect()
}

/// Lets the parts of the demo, which are ours, run where the machine cannot confine them.
pub(crate) fn allow_unconfined(object: &mut Value) {
    if object["kind"] == "Site" {
        object["spec"]["allow"] = json!(["process", "unconfined-process"]);
    }
}

/// The App, whose programs are `program`.
pub(crate) fn application(program: &Path) -> anyhow::Result<Value> {
    let mut app = parse(APPLICATION)?;
    let program = program.to_str().context("the path of this program is not UTF-8")?;
    for component in app["spec"]["components"].as_array_mut().into_iter().flatten() {
        component["run"][0]["process"]["command"][0] = json!(program);
    }
    Ok(app)
}

fn parse(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).context("a file of the demo cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_has_a_machine_and_every_object_is_valid() {
        let mut objects = continuum().unwrap();
        let names: Vec<&str> = objects
            .iter()
            .filter(|object| object["kind"] == "Site")
            .filter_map(|object| object["metadata"]["name"].as_str())
            .collect();
        let machines: Vec<&str> = SITES.iter().map(|site| site.name).collect();
        assert_eq!(names, machines);
        objects.push(application(Path::new("/opt/tombolo")).unwrap());
        let mut open = objects.clone();
        open.iter_mut().for_each(allow_unconfined);
        assert_eq!(open[0]["spec"]["allow"], json!(["process", "unconfined-process"]));
        for object in objects.iter().chain(&open) {
            assert_eq!(tombolo_model::validate::object(object), [], "{object}");
        }
        let camera = &objects.last().unwrap()["spec"]["components"][0];
        let command = &camera["run"][0]["process"]["command"];
        assert_eq!(command, &json!(["/opt/tombolo", crate::parts::WORD, "camera"]));
    }
}
