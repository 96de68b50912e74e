//! The channels of a service: which service it calls, and what the way there must be like. Called
//! by [`super::service`].

use std::str::FromStr;

use tombolo_model::component::{Connection, ServiceClass};
use tombolo_model::{BitRate, Duration, quantity};
use tombolo_yaml::Span;

use super::{Names, seconds};
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;

const CHANNEL: &[&str] = &["otherService", "serviceClass", "advancedChannelSettings"];
const CHANNEL_DROPPED: &[(&str, &str)] = &[("channelName", UNNAMED)];
const UNNAMED: &str = "a connection has no name of its own";
const OTHER: &[&str] = &["serviceName", "appName", "port"];
const SETTINGS: &[&str] = &["minBandwidth", "maxDelay", "frameSize", "sendInterval"];
const CLASSES: &[(&str, ServiceClass)] =
    &[("BESTEFFORT", ServiceClass::BestEffort), ("ASSURED", ServiceClass::Assured)];

/// What the service says for all of its channels.
#[derive(Clone, Debug, Default)]
pub(super) struct Network<'a> {
    pub(super) bandwidth: Option<(Field<'a>, BitRate)>,
    pub(super) latency: Option<(Field<'a>, Duration)>,
}

/// Reads `nwbandwidth` and `nwlatency`: in Mbit/s and milliseconds unless they have a unit.
pub(super) fn network<'a>(fields: &mut Fields<'a>, reader: &mut Reader<'_>) -> Network<'a> {
    let bandwidth = fields.take("nwbandwidth").and_then(|field| {
        let rate = in_unit(&field, "Mbps", "Mbit/s", reader)?;
        Some((field, rate))
    });
    let latency = fields.take("nwlatency").and_then(|field| {
        let latency = in_unit(&field, "ms", "milliseconds", reader)?;
        Some((field, latency))
    });
    Network { bandwidth, latency }
}

/// A quantity that is a bare number more often than not.
fn in_unit<Q: FromStr<Err = quantity::Error>>(
    field: &Field<'_>,
    unit: &str,
    words: &str,
    reader: &mut Reader<'_>,
) -> Option<Q> {
    let written = field.str(reader)?.trim();
    if written.parse::<f64>().is_err() {
        return field.quantity(reader);
    }
    field.assumed(reader, &format!("a number without a unit is taken for {words}"));
    field.quantity_as(reader, |written| format!("{}{unit}", written.trim()))
}

/// Reads the channels, and gives each what the service says for all. With each connection comes the
/// place of the service that it leads to.
pub(super) fn read(
    channels: Option<&Field<'_>>,
    network: &Network<'_>,
    names: &Names<'_>,
    reader: &mut Reader<'_>,
) -> Vec<(Connection, Span)> {
    let channels = channels.map(|channels| channels.list(reader)).unwrap_or_default();
    let mut connections: Vec<(Connection, Span)> =
        channels.iter().filter_map(|channel| one(channel, names, reader)).collect();
    let why = match connections.is_empty() {
        true => "the service has no channel that it could hold for",
        false => "every channel says its own",
    };
    if let Some((field, rate)) = &network.bandwidth {
        let silent = connections.iter_mut().filter(|(one, _)| one.bandwidth.is_none());
        if silent.map(|(one, _)| one.bandwidth = Some(*rate)).count() == 0 {
            field.dropped(reader, why);
        }
    }
    if let Some((field, latency)) = &network.latency {
        let silent = connections.iter_mut().filter(|(one, _)| one.latency.is_none());
        if silent.map(|(one, _)| one.latency = Some(*latency)).count() == 0 {
            field.dropped(reader, why);
        }
    }
    connections
}

fn one(
    field: &Field<'_>,
    names: &Names<'_>,
    reader: &mut Reader<'_>,
) -> Option<(Connection, Span)> {
    let mut fields = field.fields(reader)?;
    let mut connection = Connection::default();
    if let Some(name) = fields.take("chanelName") {
        // CODECO's own samples have it so, hence no error: such a file is meant to be good.
        let message = "\"chanelName\" lacks an \"n\"";
        reader
            .warning("misspelt-field", &name.path, name.key_span, message)
            .expecting("channelName")
            .mended_by(name.key_span, "channelName");
        name.dropped(reader, UNNAMED);
    }
    let mut target = None;
    match fields.take("otherService") {
        Some(other) => target = other_service(&other, &mut connection, names, reader),
        None => {
            let what = "the service that the channel leads to: {serviceName, port}";
            fields.missing(reader, "otherService", what);
        }
    }
    if let Some(class) = fields.take("serviceClass") {
        connection.class = class.one_of(reader, CLASSES);
    }
    if let Some(settings) = fields.take("advancedChannelSettings") {
        read_settings(&settings, &mut connection, reader);
    }
    fields.finish(Rest::Foreign { known: CHANNEL, dropped: CHANNEL_DROPPED }, reader);
    Some((connection, target?))
}

/// Where the service stands that the channel leads to.
fn other_service(
    field: &Field<'_>,
    connection: &mut Connection,
    names: &Names<'_>,
    reader: &mut Reader<'_>,
) -> Option<Span> {
    let mut fields = field.fields(reader)?;
    let service = fields.need("serviceName", reader, "the name of the service");
    if let Some(app) = fields.take("appName")
        && let Some(called) = app.str(reader)
        && !called.is_empty()
        && !names.is_own(called)
    {
        connection.app = Some(other_app(&app, called, names, reader)?);
    }
    if let Some(port) = fields.take("port") {
        connection.port = port.port(reader);
    }
    fields.finish(Rest::Foreign { known: OTHER, dropped: &[] }, reader);
    let service = service?;
    connection.to = names.component(service.str(reader)?);
    Some(service.node.span)
}

fn other_app(
    field: &Field<'_>,
    called: &str,
    names: &Names<'_>,
    reader: &mut Reader<'_>,
) -> Option<String> {
    match names.apps.get(called) {
        Some(name) => {
            if name != called {
                field.changed(reader, &format!("the App of that application is named {name:?}"));
            }
            Some(name.clone())
        }
        None => {
            field.assumed(reader, "the App of that application has the same name");
            field.object_name(reader)
        }
    }
}

/// A number alone, or with a prefix of Kubernetes, leaves its unit to the reader.
fn tell_unit(field: &Field<'_>, unit: &str, reader: &mut Reader<'_>) {
    let written = field.node.raw().unwrap_or_default().trim();
    let letters =
        written.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
    let is_bare = !written.is_empty()
        && matches!(letters, "" | "n" | "u" | "m" | "k" | "K" | "M" | "G" | "Ki" | "Mi" | "Gi");
    if is_bare && written != "0" {
        field.assumed(reader, &format!("{written} is taken for a quantity of {unit}"));
    }
}

fn read_settings(field: &Field<'_>, connection: &mut Connection, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(bandwidth) = fields.take_any(&["minBandwidth", "bandwidth"]) {
        tell_unit(&bandwidth, "bits per second", reader);
        connection.bandwidth = bandwidth.bit_rate(reader);
    }
    if let Some(delay) = fields.take("maxDelay") {
        tell_unit(&delay, "seconds", reader);
        connection.latency = delay.quantity_as(reader, seconds::spelt);
    }
    if let Some(size) = fields.take_any(&["frameSize", "framesize"]) {
        tell_unit(&size, "bytes", reader);
        connection.frame_size = size.quantity(reader);
    }
    if let Some(interval) = fields.take("sendInterval") {
        tell_unit(&interval, "seconds", reader);
        connection.send_interval = interval.quantity_as(reader, seconds::spelt);
    }
    fields.finish(Rest::Foreign { known: SETTINGS, dropped: &[] }, reader);
}
