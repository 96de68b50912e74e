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
    /// A hundred times in a row, on the clock of the processor, so that a busy machine counts little.
    #[test]
    #[ignore = "a measurement"]
    fn reads_a_megabyte() {
        const ROUNDS: u32 = 100;
        let text = sample(1 << 20);
        let source = Source { name: "sample", text: &text };
        let limits = tombolo_yaml::Limits::default();
        let on_cpu = |run: &dyn Fn()| {
            let now = || {
                let read = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
                read.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
            };
            let start = now();
            (0..ROUNDS).for_each(|_| run());
            (now() - start) / f64::from(ROUNDS)
        };
        let all = on_cpu(&|| drop(read(source, None, &NoFiles)));
        let tree = on_cpu(&|| drop(tombolo_yaml::documents(&text, &limits)));
        let (documents, _) = tombolo_yaml::documents(&text, &limits);
        let json = on_cpu(&|| drop(documents[0].to_json()));
        let object = documents[0].to_json();
        let validation = on_cpu(&|| drop(tombolo_model::validate::app(&object)));
        println!(
            "{} bytes: {all:.1} ms on the processor, of them {tree:.1} for the tree, {json:.1} for \
             JSON, {validation:.1} for validation",
            text.len()
        );
    }
}
