//! A descriptor of any size, for measurements: an App such as people write, with many components.
//! Called by `tombolo bench descriptor` and by the tests.

use std::fmt::Write as _;

/// Components in a sample; an App has 512 at most.
const COMPONENTS: usize = 400;

/// A native App whose text is about `bytes` long, never shorter.
pub fn sample(bytes: usize) -> String {
    let mut text = String::from(
        "apiVersion: tombolo.dev/v1alpha1\nkind: App\nmetadata:\n  name: sample\nspec:\n  \
         description: made to be read\n  weights: {performance: 0.5, energy: 0.3}\n  components:\n",
    );
    let share = bytes / COMPONENTS;
    for number in 0..COMPONENTS {
        let start = text.len();
        component(number, &mut text);
        let mut variable = 0;
        // The environment is what makes real descriptors long.
        while text.len() - start < share {
            let _ =
                writeln!(text, "          SETTING_{variable}: \"value {variable} of {number}\"");
            variable += 1;
        }
    }
    text
}

fn component(number: usize, text: &mut String) {
    let _ = write!(
        text,
        "  - name: part-{number}
    replicas: 2
    needs:
      cpu: 250m
      memory: 128Mi
      arch: [amd64, arm64]
      labels: {{zone: \"{zone}\"}}
    connects:
    - {{to: part-{previous}, port: 8080, latency: 20ms, bandwidth: 1Mbps}}
    expose:
    - port: 8080
      protocol: http
    run:
    - container:
        image: registry.example/parts/part-{number}:1.4.2
        command: [part, --listen, \"0.0.0.0:8080\"]
        ports: [8080]
        env:
",
        zone = number % 7,
        previous = number.saturating_sub(1),
    );
    let _ = writeln!(text, "          PART: \"{number}\"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoFiles, Source, read};

    #[test]
    fn is_a_valid_app_of_the_size_that_was_asked_for() {
        let text = sample(300_000);
        assert!((300_000..400_000).contains(&text.len()), "{} bytes", text.len());
        let reading = read(Source { name: "sample", text: &text }, None, &NoFiles);
        assert_eq!(reading.diagnostics, vec![]);
        assert_eq!(reading.apps.len(), 1);
        assert_eq!(reading.apps[0].spec.components.len(), COMPONENTS);
    }

    /// Measured, not asserted: `cargo test --release -p tombolo-descriptor -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    fn reads_a_megabyte() {
        use std::time::Instant;
        let text = sample(1 << 20);
        let mut least = [std::time::Duration::MAX; 5];
        for _ in 0..30 {
            let all = Instant::now();
            let reading = read(Source { name: "sample", text: &text }, None, &NoFiles);
            let all = all.elapsed();
            assert!(!reading.has_errors());
            let start = Instant::now();
            let (documents, _) = tombolo_yaml::documents(&text, &tombolo_yaml::Limits::default());
            let tree = start.elapsed();
            let start = Instant::now();
            let json = documents[0].to_json();
            let as_json = start.elapsed();
            let start = Instant::now();
            assert!(tombolo_model::validate::app(&json).is_empty());
            let checked = start.elapsed();
            let start = Instant::now();
            let app: tombolo_model::App = serde_json::from_value(json).unwrap();
            let typed = start.elapsed();
            drop(app);
            for (least, time) in least.iter_mut().zip([all, tree, as_json, checked, typed]) {
                *least = (*least).min(time);
            }
        }
        println!("{} bytes; all, tree, JSON, validation, App: {least:?}", text.len());
    }
}
