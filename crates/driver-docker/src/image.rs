//! Images: used as they are when they are here, pulled when they are not. Called by `start`.

use std::collections::BTreeMap;

use bollard::Docker;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures::StreamExt;
use tombolo_driver::{Result, Spec};

use crate::{Inner, error};

/// Progress is told in steps of so many percent: each is a write to the server.
const PERCENT_STEP: i64 = 5;

pub(crate) async fn is_here(docker: &Docker, inner: &Inner, image: &str) -> Result<bool> {
    match docker.inspect_image(image).await {
        Ok(_) => Ok(true),
        Err(error) if error::status(&error) == Some(404) => Ok(false),
        Err(error) => Err(inner.connection.failed("look for the image", error)),
    }
}

/// An image that is here is used as it is: what runs must not depend on a registry.
pub(crate) async fn pull_if_missing(
    docker: &Docker,
    inner: &Inner,
    spec: &Spec,
    image: &str,
) -> Result<()> {
    if is_here(docker, inner, image).await? {
        return Ok(());
    }
    inner.say(spec, &format!("asking for image {image}, which is not on the node"));
    let options = CreateImageOptions { from_image: Some(full_name(image)), ..Default::default() };
    let mut pulled = docker.create_image(Some(options), None, None);
    let mut layers: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut told = -PERCENT_STEP;
    while let Some(step) = pulled.next().await {
        let step = step.map_err(|error| match error::is_lost(&error) {
            true => inner.connection.failed("pull the image", error),
            false => error::of_pull(image, error),
        })?;
        let percent = progress(&mut layers, &step);
        if percent >= told.saturating_add(PERCENT_STEP) {
            told = percent;
            inner.say(spec, &format!("pulling {image}, {percent} %"));
        }
    }
    Ok(())
}

/// How much of all layers that are known so far is here, in percent.
fn progress(layers: &mut BTreeMap<String, (i64, i64)>, step: &CreateImageInfo) -> i64 {
    if let (Some(layer), Some(detail)) = (&step.id, &step.progress_detail)
        && let (Some(current), Some(total)) = (detail.current, detail.total)
        && step.status.as_deref() == Some("Downloading")
    {
        layers.insert(layer.clone(), (current, total));
    }
    let (current, total) = layers.values().fold((0_i64, 0_i64), |sum, layer| {
        (sum.0.saturating_add(layer.0), sum.1.saturating_add(layer.1))
    });
    current.saturating_mul(100).checked_div(total).unwrap_or(0)
}

/// Without a tag the engine would pull them all.
fn full_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn only_an_image_without_a_tag_gets_one() {
        for (image, expected) in [
            ("web", "web:latest"),
            ("r.example:5000/web", "r.example:5000/web:latest"),
            ("web:1", "web:1"),
            ("web@sha256:00", "web@sha256:00"),
        ] {
            assert_eq!(full_name(image), expected);
        }
    }

    #[test]
    fn progress_counts_all_layers_together() {
        let mut layers = BTreeMap::new();
        let mut step = |layer: &str, status: &str, current, total| {
            let detail = ProgressDetail { current: Some(current), total: Some(total) };
            let step = CreateImageInfo {
                id: Some(layer.to_owned()),
                status: Some(status.to_owned()),
                progress_detail: Some(detail),
                ..CreateImageInfo::default()
            };
            progress(&mut layers, &step)
        };
        assert_eq!(step("a", "Pulling fs layer", 0, 0), 0);
        assert_eq!(step("a", "Downloading", 50, 100), 50);
        assert_eq!(step("b", "Downloading", 0, 100), 25);
        assert_eq!(step("b", "Extracting", 90, 100), 25, "what is here is not counted twice");
    }
}
