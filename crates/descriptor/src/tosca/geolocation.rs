//! Where on the map a component should be: a point, or a country, region and city. Called by the
//! readers of CHARITY's blueprints and ACCORDION's models.

use tombolo_model::component::Component;
use tombolo_model::needs::{Near, Needs, Place, PlaceKey, PlaceOperator};

use super::Inputs;
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;

/// How far from the point will do, in kilometres, when the place is meant exactly: a town.
const EXACT_KM: f64 = 25.0;
/// And when it is not: the same part of a continent.
const ABOUT_KM: f64 = 500.0;

const KNOWN: &[&str] = &["latitude", "longitude", "exact", "region", "country", "city"];

/// Reads a place into the needs of a component. What a datacenter has said already stays.
pub(crate) fn read<'a>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    places: &mut Vec<Place>,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(field) = inputs.value(field, reader) else { return };
    if field.node.is_scalar() {
        field.dropped(reader, "this is not a place: neither a point nor a country, region or city");
        return;
    }
    let Some(mut fields) = field.fields(reader) else { return };
    let exact = fields.take("exact");
    let is_exact = exact.as_ref().and_then(|exact| exact.boolean(reader)).unwrap_or_default();
    let point = point(&mut fields, reader);
    match (point, exact) {
        (Some((latitude, longitude)), _) => {
            let distance_km_max = if is_exact { EXACT_KM } else { ABOUT_KM };
            let message = format!("{distance_km_max} km around the point will do");
            field.assumed(reader, &message);
            needs.near = Some(Near { latitude, longitude, distance_km_max });
        }
        (None, Some(exact)) => exact.dropped(reader, "there is no point to be exact about"),
        (None, None) => (),
    }
    let [country, region, city] =
        ["country", "region", "city"].map(|key| fields.take(key).filter(|field| !is_empty(field)));
    // Of two regions any would do, so only the smallest one is asked for.
    let mut told = !needs.regions.is_empty();
    for (field, why) in [(country, "the datacenter says more"), (region, "the country says more")] {
        let Some(field) = field else { continue };
        if told {
            field.dropped(reader, why);
            continue;
        }
        needs.regions.extend(field.text(reader));
        told = true;
    }
    if let Some(city) = city
        && let Some(name) = city.text(reader)
    {
        places.push(Place {
            by: PlaceKey::City,
            operator: PlaceOperator::In,
            values: vec![name],
            quantity: None,
        });
    }
    fields.finish(Rest::Foreign { known: KNOWN, dropped: &[] }, reader);
}

/// A place is for all instances of the component that it was read for.
pub(crate) fn spread(component: &mut Component) {
    for place in &mut component.places {
        place.quantity = component.replicas.filter(|replicas| *replicas > 0);
    }
}

fn point(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Option<(f64, f64)> {
    let latitude = fields.take("latitude").filter(|field| !is_empty(field));
    let longitude = fields.take("longitude").filter(|field| !is_empty(field));
    let (latitude, longitude) = match (latitude, longitude) {
        (Some(latitude), Some(longitude)) => (latitude, longitude),
        (Some(alone), None) | (None, Some(alone)) => {
            alone
                .error(reader, "missing-field", "a point has a latitude and a longitude")
                .expecting("both, in degrees");
            return None;
        }
        (None, None) => return None,
    };
    let degrees = [degrees(&latitude, 90.0, reader), degrees(&longitude, 180.0, reader)];
    match degrees {
        [Some(latitude), Some(longitude)] => Some((latitude, longitude)),
        [_, _] => None,
    }
}

fn degrees(field: &Field<'_>, most: f64, reader: &mut Reader<'_>) -> Option<f64> {
    let degrees = field.number(reader)?;
    if degrees.abs() <= most {
        return Some(degrees);
    }
    let message = format!("{degrees} is out of range");
    field
        .error(reader, "out-of-range", message)
        .expecting(format!("degrees from -{most} to {most}"));
    None
}

fn is_empty(field: &Field<'_>) -> bool {
    field.node.as_str() == Some("")
}
