//! What the demo says once everything runs: what is where, and what to try. Plain.

use std::path::Path;
use std::time::Duration;

use crate::Shell;
use crate::news::Sight;

/// What there is to tell.
pub(crate) struct Told<'a> {
    pub(crate) took: Duration,
    pub(crate) sight: &'a Sight,
    pub(crate) server: &'a str,
    pub(crate) kubeconfig: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) shell: &'a Shell,
    pub(crate) notes: &'a [String],
}

pub(crate) fn welcome(told: &Told<'_>) -> String {
    let tombolo = std::env::args().next().unwrap_or_else(|| "tombolo".to_owned());
    let dashboard = told.sight.dashboard.as_deref().unwrap_or("still to come");
    let mut text = format!(
        "\n\
         factory-vision runs on three sites, after {:.1} s: camera → detector → store ← dashboard\n\n\
         \x20 dashboard  {dashboard}\n\
         \x20 API        {}\n",
        told.took.as_secs_f64(),
        told.server,
    );
    for note in told.notes {
        text.push_str(&format!("  note       {note}\n"));
    }
    text.push_str("\nTry next, in another terminal:\n");
    // The shell finds a demo by itself only where there is no other server.
    let found = told.shell.demo_folder.as_deref() == Some(told.folder);
    if !found || told.shell.kubeconfig.as_ref().is_some_and(|usual| usual.exists()) {
        text.push_str(&format!("  export TOMBOLO_KUBECONFIG={}\n", told.kubeconfig.display()));
    }
    let data = match found {
        true => String::new(),
        false => format!(" --data {}", told.folder.display()),
    };
    let rows = [
        ("get apps,assignments,nodes".to_owned(), "what runs where"),
        (
            "why factory-vision/detector".to_owned(),
            "why it is there, and how close the others were",
        ),
        ("why factory-vision/camera --node cloud-1".to_owned(), "what keeps it off that node"),
        ("what-if --fail site/near-edge".to_owned(), "what would follow; nothing is done"),
        (format!("down{data} --site far-edge"), "cut the power of a site, and watch here"),
        (format!("down{data}"), "end the demo and leave no trace"),
    ];
    let width = rows.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, about) in &rows {
        text.push_str(&format!("  {tombolo} {command:<width$}  # {about}\n"));
    }
    text.push_str(
        "\nCtrl-C ends it too, and keeps its folder for the next time. What happens is told here.",
    );
    text
}
