//! Probes of a container as one health check. The liveness probe counts, for it is the one after
//! which Kubernetes restarts; without it the readiness probe, then the startup probe.

use tombolo_model::component::{ExecCheck, Health, HttpCheck, TcpCheck};

use crate::beyond::{Beyond, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::container::PodPort;
use crate::kubernetes::pod::seconds;
use crate::reader::Reader;

const KINDS: &[&str] = &["livenessProbe", "readinessProbe", "startupProbe"];
const SECONDS_MAX: i64 = 1_000_000;

pub(super) fn read<'a>(
    fields: &mut Fields<'a>,
    ports: &[PodPort],
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<Health> {
    let mut health = None;
    for kind in KINDS {
        let Some(probe) = fields.take(kind) else { continue };
        match health {
            Some(_) => beyond.minor(&probe, "a component has one health check"),
            None => health = read_probe(&probe, ports, beyond, reader),
        }
    }
    health
}

fn read_probe<'a>(
    field: &Field<'a>,
    ports: &[PodPort],
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<Health> {
    let mut fields = field.fields(reader)?;
    let mut health = Health::default();
    if let Some(http) = fields.take("httpGet") {
        health.http = read_http(&http, ports, beyond, reader);
    } else if let Some(tcp) = fields.take("tcpSocket") {
        health.tcp = read_tcp(&tcp, ports, beyond, reader);
    } else if let Some(exec) = fields.take("exec") {
        let mut inner = exec.fields(reader)?;
        let command = inner
            .need("command", reader, "the command and its arguments, as a list")?
            .texts(reader);
        inner.finish(foreign(&["command"]), reader);
        health.exec = Some(ExecCheck { command });
    } else if let Some(grpc) = fields.take("grpc") {
        beyond.minor(&grpc, "a health check is by http, tcp or exec");
    }
    let whole_seconds =
        |field: Field, reader: &mut Reader<'_>| field.integer(reader, 0..=SECONDS_MAX).map(seconds);
    health.interval = fields.take("periodSeconds").and_then(|f| whole_seconds(f, reader));
    health.timeout = fields.take("timeoutSeconds").and_then(|f| whole_seconds(f, reader));
    health.startup = fields.take("initialDelaySeconds").and_then(|f| whole_seconds(f, reader));
    health.failures = fields
        .take("failureThreshold")
        .and_then(|failures| failures.integer(reader, 1..=1000))
        .and_then(|failures| u32::try_from(failures).ok());
    for key in ["successThreshold", "terminationGracePeriodSeconds"] {
        if let Some(field) = fields.take(key) {
            beyond.minor(&field, "one good answer is enough, and stopping takes stopGrace");
        }
    }
    fields.finish(
        foreign(&[
            "exec",
            "failureThreshold",
            "grpc",
            "httpGet",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "tcpSocket",
            "terminationGracePeriodSeconds",
            "timeoutSeconds",
        ]),
        reader,
    );
    let is_one = health.http.is_some() || health.tcp.is_some() || health.exec.is_some();
    is_one.then_some(health)
}

fn read_http<'a>(
    field: &Field<'a>,
    ports: &[PodPort],
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<HttpCheck> {
    let mut fields = field.fields(reader)?;
    let port = read_port(&fields.need("port", reader, "a port, such as 8080")?, ports, reader)?;
    let path = fields.take("path").and_then(|path| path.text(reader));
    for key in ["host", "httpHeaders"] {
        if let Some(field) = fields.take(key) {
            beyond.minor(&field, "a health check asks the instance itself, without headers");
        }
    }
    if let Some(scheme) = fields.take("scheme")
        && scheme.node.as_str() != Some("HTTP")
    {
        beyond.minor(&scheme, "a health check asks by http");
    }
    fields.finish(foreign(&["host", "httpHeaders", "path", "port", "scheme"]), reader);
    Some(HttpCheck { path, port })
}

fn read_tcp<'a>(
    field: &Field<'a>,
    ports: &[PodPort],
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<TcpCheck> {
    let mut fields = field.fields(reader)?;
    let port = read_port(&fields.need("port", reader, "a port, such as 8080")?, ports, reader)?;
    if let Some(host) = fields.take("host") {
        beyond.minor(&host, "a health check asks the instance itself");
    }
    fields.finish(foreign(&["host", "port"]), reader);
    Some(TcpCheck { port })
}

/// A port by number or by the name that the container gives it.
fn read_port(field: &Field, ports: &[PodPort], reader: &mut Reader<'_>) -> Option<u16> {
    let name = match field.node.as_str() {
        Some(name) if name.parse::<u16>().is_err() => name,
        Some(_) | None => return field.port(reader),
    };
    let found = ports.iter().find(|port| port.name.as_deref() == Some(name));
    if found.is_none() {
        let message = format!("no port of this container is named {name:?}");
        field.error(reader, "port-unknown", &message);
    }
    found.map(|port| port.port)
}
