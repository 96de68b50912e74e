//! How busy the machine is, told to the server when that has changed by a good deal: placement asks
//! for it. Started by [`crate::work`]; start at [`keep`].

use std::time::Duration;

use serde_json::json;
use tombolo_host::{Root, Sampler};
use tombolo_model::keys::API_VERSION;
use tombolo_model::node::Load;
use tombolo_model::phrase::with_causes;

use crate::connection::{self, Connection};

/// A share of less than this time is noise.
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
/// A change of a share that is worth a message: an idle machine sends none.
const CHANGE_MIN: f64 = 0.1;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Samples and tells for ever. `folder` is where the agent's disk is.
pub(crate) async fn keep(connection: Connection, node: String, folder: String) {
    let mut sampler = Some(Sampler::new(Root::real(), &folder));
    let mut told: Option<Load> = None;
    loop {
        let taken = sampler.take();
        let sampled = tokio::task::spawn_blocking(move || {
            let mut sampler = taken?;
            let sample = sampler.sample();
            Some((sampler, sample))
        });
        let (back, sample) = match sampled.await {
            Ok(Some(sampled)) => sampled,
            Ok(None) => return,
            // The task that keeps this one alive deals with it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        sampler = Some(back);
        if let Some(load) = load(&sample).filter(|load| is_news(told.as_ref(), load)) {
            match tell(&connection, &node, &load).await {
                Ok(()) => told = Some(load),
                Err(problem) => tracing::debug!(problem, "cannot tell how busy the machine is"),
            }
        }
        tokio::time::sleep(SAMPLE_EVERY).await;
    }
}

/// Nothing in the first sample, which has none before it.
fn load(sample: &tombolo_host::Load) -> Option<Load> {
    let memory = sample.memory_total.zip(sample.memory_available).and_then(|(total, free)| {
        #[expect(clippy::cast_precision_loss, reason = "a share of bytes")]
        let used = total.saturating_sub(free) as f64 / total as f64;
        (total > 0).then(|| rounded(used))
    });
    Some(Load { cpu: rounded(sample.cpu_busy?), memory, cpu_forecast: None })
}

/// To hundredths: more figures would only look exact.
fn rounded(share: f64) -> f64 {
    (share.clamp(0.0, 1.0) * 100.0).round() / 100.0
}

fn is_news(told: Option<&Load>, load: &Load) -> bool {
    let Some(told) = told else { return true };
    let far = |a: f64, b: f64| (a - b).abs() >= CHANGE_MIN;
    far(told.cpu, load.cpu) || far(told.memory.unwrap_or(0.0), load.memory.unwrap_or(0.0))
}

async fn tell(connection: &Connection, node: &str, load: &Load) -> Result<(), String> {
    let path = format!("/apis/{API_VERSION}/nodes/{node}/status");
    let (client, change) = (connection.client(), json!({"status": {"load": load}}));
    let written = connection::patch_quietly(&client, &path, &change);
    match tokio::time::timeout(ANSWER_TIMEOUT, written).await {
        Ok(answer) => answer.map(drop).map_err(|error| with_causes(&error)),
        Err(late) => Err(late.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_great_change_is_told() {
        let load = |cpu, memory| Load { cpu, memory, cpu_forecast: None };
        assert!(is_news(None, &load(0.0, None)));
        assert!(!is_news(Some(&load(0.2, Some(0.5))), &load(0.25, Some(0.45))));
        assert!(is_news(Some(&load(0.2, Some(0.5))), &load(0.31, Some(0.5))));
        assert!(is_news(Some(&load(0.2, None)), &load(0.2, Some(0.5))));
    }

    #[test]
    fn a_sample_becomes_shares() {
        let sample = tombolo_host::Load {
            cpu_busy: Some(0.333),
            memory_total: Some(1000),
            memory_available: Some(250),
            ..tombolo_host::Load::default()
        };
        assert_eq!(load(&sample), Some(Load { cpu: 0.33, memory: Some(0.75), ..Load::default() }));
        let first = tombolo_host::Load { cpu_busy: None, ..sample };
        assert_eq!(load(&first), None);
        let odd = tombolo_host::Load { memory_total: Some(0), ..sample };
        assert_eq!(load(&odd), Some(Load { cpu: 0.33, ..Load::default() }));
    }
}
