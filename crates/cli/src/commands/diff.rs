//! `tombolo diff`: a dry-run apply beside what is there.

use std::io;

use serde_json::Value;
use similar::TextDiff;

use super::apply;
use crate::{
    args::DiffArgs,
    failure::{Exit, Failure},
    files,
    output::{self, Paint, object::yaml, painted},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &DiffArgs) -> Result<Exit, Failure> {
    let objects = files::read(&args.read.asked(&args.files), io::stdin())?;
    output::notes(&objects.notes);
    let manifests = objects.manifests;
    let connection = shell.connect().await?;
    let namespace = shell.globals.namespace.as_deref();
    let steps = apply::steps(&connection, namespace, manifests).await?;
    let query = apply::apply_query(&args.field_manager, args.force_conflicts, true);

    let mut exit = Exit::Ok;
    for step in &steps {
        let live = connection.find(&step.path).await?;
        let merged = connection.apply(&query.after(&step.path), &step.manifest.object).await?;
        let label = step.resource.label(&step.manifest.name);
        if let Some(text) = difference(&label, live.as_ref(), &merged)? {
            exit = Exit::Failed;
            shell.out.text(&coloured(&text, shell.out.colour))?;
        }
    }
    Ok(exit)
}

/// A unified diff of the two as YAML; `None` if they are the same.
fn difference(
    label: &str,
    live: Option<&Value>,
    merged: &Value,
) -> Result<Option<String>, Failure> {
    let before = match live {
        Some(live) => yaml(&apply::comparable(live))?,
        None => String::new(),
    };
    let after = yaml(&apply::comparable(merged))?;
    if before == after {
        return Ok(None);
    }
    let diff = TextDiff::from_lines(&before, &after);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(&format!("live {label}"), &format!("file {label}"))
        .to_string();
    Ok(Some(text))
}

fn coloured(diff: &str, colour: bool) -> String {
    let mut text = String::new();
    for line in diff.lines() {
        let line = output::harmless(line);
        text.push_str(&match line.as_bytes().first() {
            Some(b'+') => painted(Paint::Green, &line, colour),
            Some(b'-') => painted(Paint::Red, &line, colour),
            Some(b'@') => painted(Paint::Cyan, &line, colour),
            _ => line,
        });
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_matters_is_compared() {
        let live = json!({"kind": "App", "metadata": {"name": "web", "resourceVersion": "1",
            "managedFields": []}, "spec": {"replicas": 1, "image": "x"}});
        let same = json!({"kind": "App", "metadata": {"name": "web", "resourceVersion": "2"},
            "spec": {"replicas": 1, "image": "x"}, "status": {"phase": "Pending"}});
        let other = json!({"kind": "App", "metadata": {"name": "web"},
            "spec": {"replicas": 2, "image": "x"}});
        assert_eq!(difference("app/web", Some(&live), &same), Ok(None));
        let text = difference("app/web", Some(&live), &other).expect("printable");
        expect![[r#"
            --- live app/web
            +++ file app/web
            @@ -3,4 +3,4 @@
               name: web
             spec:
               image: x
            -  replicas: 1
            +  replicas: 2
        "#]]
        .assert_eq(&text.unwrap_or_default());
        let text = difference("app/web", None, &other).expect("printable");
        expect![[r#"
            [31m--- live app/web[0m
            [32m+++ file app/web[0m
            [36m@@ -0,0 +1,6 @@[0m
            [32m+kind: App[0m
            [32m+metadata:[0m
            [32m+  name: web[0m
            [32m+spec:[0m
            [32m+  image: x[0m
            [32m+  replicas: 2[0m
        "#]]
        .assert_eq(&coloured(&text.unwrap_or_default(), true));
    }
}
