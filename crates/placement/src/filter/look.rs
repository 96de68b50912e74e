//! What a row of the table reads from a node.

use tombolo_model::site::Layer;

use super::Look;
use crate::continuum::{Continuum, NodeRow};

impl<'l, 'a> Look<'l, 'a> {
    pub(crate) fn row(&self) -> &'l NodeRow<'a> {
        self.continuum.node(self.node)
    }

    pub(super) fn stays(&self) -> bool {
        self.ask.staying == Some(self.node)
    }

    pub(crate) fn site(&self) -> &'a str {
        self.continuum.site_of(self.node).name
    }

    pub(super) fn layer(&self) -> Option<Layer> {
        self.continuum.site_of(self.node).object.spec.layer
    }

    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        label(self.continuum, self.node, key)
    }

    pub(super) fn regions(&self) -> impl Iterator<Item = &'a str> {
        let continuum = self.continuum;
        [
            continuum.place(self.node, |at| at.continent.as_deref()),
            continuum.place(self.node, |at| at.country.as_deref()),
            continuum.place(self.node, |at| at.region.as_deref()),
        ]
        .into_iter()
        .flatten()
    }

    /// From the point that the instance wants to be near to, along the surface of the earth.
    pub(super) fn distance_km(&self) -> Option<f64> {
        const EARTH_RADIUS_KM: f64 = 6371.0;
        let near = self.ask.needs.near.as_ref()?;
        let (latitude, longitude) = self.continuum.coordinates(self.node)?;
        let (from, to) = (near.latitude.to_radians(), latitude.to_radians());
        let across = (longitude - near.longitude).to_radians();
        let half = ((to - from) / 2.0).sin().powi(2)
            + from.cos() * to.cos() * (across / 2.0).sin().powi(2);
        let distance = 2.0 * EARTH_RADIUS_KM * half.clamp(0.0, 1.0).sqrt().asin();
        distance.is_finite().then_some(distance)
    }
}

/// Labels of the node; the name of its site goes by the label that says so, given or not.
pub(crate) fn label<'a>(continuum: &Continuum<'a>, node: u32, key: &str) -> Option<&'a str> {
    let labels = continuum.node(node).object.metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(key)) {
        Some(value) => Some(value),
        None if key == tombolo_model::keys::LABEL_SITE => Some(continuum.site_of(node).name),
        None => None,
    }
}
