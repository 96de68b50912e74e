//! The options of `tombolo agent` that say what the machine is to others, for [`tombolo_agent::Offer`].

use std::time::Duration;

use clap::{Args, ValueEnum};
use tombolo_agent::Offer;
use tombolo_agent::heartbeat::{EVERY_MAX, EVERY_MIN};
use tombolo_agent::offer::{self, Metrics};
use tombolo_model::site::Location;
use tombolo_model::{Bytes, Cpu};

use crate::moment::parse_duration;

/// Kept in the data folder: a later start needs none of them again.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What this machine is to others (kept; what is left out, it finds)")]
pub(super) struct OfferArgs {
    /// Offer this much processor time to workloads, such as 4 or 1500m.
    #[arg(long, value_name = "CORES", value_parser = str::parse::<Cpu>)]
    cpu: Option<Cpu>,
    /// Offer this much memory to workloads, such as 2Gi.
    #[arg(long, value_name = "BYTES", value_parser = str::parse::<Bytes>)]
    memory: Option<Bytes>,
    /// A label of the node. Given at all, these replace the labels of earlier starts. Repeatable.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = offer::parse_label)]
    labels: Vec<(String, String)>,
    /// Where it is: degrees north and degrees east.
    #[arg(long, value_name = "LAT,LON", value_parser = parse_location, allow_hyphen_values = true)]
    location: Option<Location>,
    /// The region that it is in.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// The watts that it draws idle and fully busy, such as 4:15.
    #[arg(long, value_name = "IDLE:BUSY", value_parser = parse_watts)]
    watts: Option<(f64, f64)>,
    /// The address at which others reach what runs here; its first network address if left out.
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// How often it reports that it is alive; 12s if left out. It counts as lost after a little more than
    /// three times that.
    #[arg(long, value_name = "DURATION", value_parser = parse_heartbeat)]
    heartbeat: Option<u16>,
    #[command(flatten)]
    metrics: MetricsArgs,
}

/// How the machine is measured; for `tombolo up` as well.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsArgs {
    /// Whether the machine and what runs on it are measured; on if left out.
    #[arg(long, value_name = "on|off")]
    metrics: Option<Switch>,
    /// From one reading to the next; 15s if left out.
    #[arg(long, value_name = "DURATION", value_parser = parse_pause)]
    metrics_every: Option<Duration>,
    /// From one message with readings to the next; 60s if left out.
    #[arg(long, value_name = "DURATION", value_parser = parse_pause)]
    metrics_send_every: Option<Duration>,
    /// What may wait on the disk while the server is away; 64Mi if left out.
    #[arg(long, value_name = "BYTES", value_parser = str::parse::<Bytes>)]
    metrics_buffer: Option<Bytes>,
    /// What metrics may take of the link in a second; 8Ki if left out.
    #[arg(long, value_name = "BYTES", value_parser = parse_rate)]
    metrics_rate: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl MetricsArgs {
    pub(crate) fn metrics(&self) -> Metrics {
        let ms = |pause: Duration| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        Metrics {
            on: self.metrics.map(|switch| switch == Switch::On),
            every_ms: self.metrics_every.map(ms),
            send_every_ms: self.metrics_send_every.map(ms),
            buffer: self.metrics_buffer,
            bytes_per_second: self.metrics_rate,
        }
    }

    /// The same options as words of a command line.
    fn words(&self) -> Vec<String> {
        // Each is named, so that a new one cannot be forgotten here.
        let MetricsArgs {
            metrics,
            metrics_every,
            metrics_send_every,
            metrics_buffer,
            metrics_rate,
        } = self;
        let switch = metrics.map(|switch| match switch {
            Switch::On => "on".to_owned(),
            Switch::Off => "off".to_owned(),
        });
        let pause =
            |pause: &Option<Duration>| pause.map(|pause| format!("{}ms", pause.as_millis()));
        let said = [
            ("metrics", switch),
            ("metrics-every", pause(metrics_every)),
            ("metrics-send-every", pause(metrics_send_every)),
            ("metrics-buffer", metrics_buffer.map(|bytes| bytes.to_string())),
            ("metrics-rate", metrics_rate.map(|bytes| bytes.to_string())),
        ];
        let word = |(name, value): (&str, Option<String>)| Some(format!("--{name}={}", value?));
        said.into_iter().filter_map(word).collect()
    }
}

/// A second is what a machine can be read in without being kept busy by it.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Five minutes is how far PromQL looks back.
const PAUSE_MAX: Duration = Duration::from_secs(300);

fn parse_pause(text: &str) -> Result<Duration, String> {
    let pause = parse_duration(text)?;
    match (PAUSE_MIN..=PAUSE_MAX).contains(&pause) {
        true => Ok(pause),
        false => Err(format!("expected from {PAUSE_MIN:?} to {PAUSE_MAX:?}")),
    }
}

fn parse_rate(text: &str) -> Result<Bytes, String> {
    let rate: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if rate.get() == 0 {
        return Err(
            "with nothing of the link nothing is sent; --metrics off measures nothing".into()
        );
    }
    Ok(rate)
}

impl OfferArgs {
    /// The same options as words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        // Each is named, so that a new one cannot be forgotten here.
        let OfferArgs { cpu, memory, labels, location, region, watts, address, heartbeat, metrics } =
            self;
        let mut words = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")));
        };
        add("cpu", cpu.map(|cpu| cpu.to_string()));
        add("memory", memory.map(|memory| memory.to_string()));
        for (key, value) in labels {
            add("label", Some(format!("{key}={value}")));
        }
        let degrees = location.as_ref().and_then(|at| Some((at.latitude?, at.longitude?)));
        add("location", degrees.map(|(latitude, longitude)| format!("{latitude},{longitude}")));
        add("region", region.clone());
        add("watts", watts.map(|(idle, busy)| format!("{idle}:{busy}")));
        add("address", address.clone());
        add("heartbeat", heartbeat.map(|seconds| format!("{seconds}s")));
        words.extend(metrics.words());
        words
    }

    pub(super) fn offer(self) -> Offer {
        Offer {
            cpu: self.cpu,
            memory: self.memory,
            labels: self.labels.into_iter().collect(),
            location: self.location,
            region: self.region,
            idle_watts: self.watts.map(|(idle, _)| idle),
            busy_watts: self.watts.map(|(_, busy)| busy),
            address: self.address,
            heartbeat_seconds: self.heartbeat,
            metrics: self.metrics.metrics(),
        }
    }
}

fn parse_location(text: &str) -> Result<Location, String> {
    let (latitude, longitude) = text.split_once(',').ok_or("expected such as 48.14,11.58")?;
    let degrees = |text: &str, most: f64| {
        let number: f64 = text.trim().parse().map_err(|_| format!("{text:?} is not a number"))?;
        match (-most..=most).contains(&number) {
            true => Ok(number),
            false => Err(format!("{text} is not within {most} degrees")),
        }
    };
    Ok(Location {
        latitude: Some(degrees(latitude, 90.0)?),
        longitude: Some(degrees(longitude, 180.0)?),
        ..Location::default()
    })
}

/// No machine takes more.
const WATTS_MAX: f64 = 1e6;

fn parse_watts(text: &str) -> Result<(f64, f64), String> {
    let numbers = text.split_once(':').and_then(|(idle, busy)| {
        Some((idle.trim().parse::<f64>().ok()?, busy.trim().parse::<f64>().ok()?))
    });
    let (idle, busy) = numbers.ok_or("expected two numbers, such as 4:15")?;
    match idle >= 0.0 && busy >= idle && busy <= WATTS_MAX {
        true => Ok((idle, busy)),
        false => Err("expected idle first, and busy no less".to_owned()),
    }
}

fn parse_heartbeat(text: &str) -> Result<u16, String> {
    let every = parse_duration(text)?;
    let whole = Duration::from_secs(every.as_secs());
    match (EVERY_MIN..=EVERY_MAX).contains(&every) && whole == every {
        true => u16::try_from(every.as_secs()).map_err(|error| error.to_string()),
        false => Err(format!("expected whole seconds, from {EVERY_MIN:?} to {EVERY_MAX:?}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        offer: OfferArgs,
    }

    #[test]
    fn options_are_read_as_they_were_written() {
        let said = [
            "agent",
            "--cpu",
            "1500m",
            "--memory",
            "2Gi",
            "--label",
            "a=b",
            "--label",
            "c=d",
            "--location",
            "-33.9,18.4",
            "--region",
            "the north",
            "--watts",
            "4.5:15",
            "--address",
            "crane.example",
            "--heartbeat",
            "2s",
            "--metrics",
            "on",
            "--metrics-every",
            "5s",
            "--metrics-send-every",
            "20s",
            "--metrics-buffer",
            "8Mi",
            "--metrics-rate",
            "2Ki",
        ];
        let first = Line::parse_from(said).offer;
        let words = first.words();
        assert_eq!(words.len(), 14, "{words:?}");
        let again = Line::parse_from(std::iter::once("agent".to_owned()).chain(words)).offer;
        assert_eq!(again.offer(), first.offer());
        assert_eq!(OfferArgs::default().words(), Vec::<String>::new());
    }

    #[test]
    fn figures_that_cannot_be_are_refused() {
        assert!(parse_location("48.14,11.58").is_ok());
        assert!(parse_location("-33.9, 18.4").is_ok());
        for wrong in ["", "1", "91,0", "0,181", "x,y", "NaN,0"] {
            assert!(parse_location(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_watts("4:15"), Ok((4.0, 15.0)));
        for wrong in ["15:4", "-1:2", "4", "a:b", "NaN:1", "1:1e9"] {
            assert!(parse_watts(wrong).is_err(), "{wrong}");
        }
        assert!(
            parse_pause("1s").is_ok() && parse_pause("10m").is_err() && parse_pause("0s").is_err()
        );
        assert!(parse_rate("1Ki").is_ok() && parse_rate("0").is_err());
        assert_eq!(parse_heartbeat("2s"), Ok(2));
        for wrong in ["0s", "500ms", "1500ms", "1h"] {
            assert!(parse_heartbeat(wrong).is_err(), "{wrong}");
        }
    }
}
