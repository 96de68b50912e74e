//! `tombolo loops`: what each loop of the server is doing, its last report, and what went wrong last.

use serde_json::Value;

use crate::{
    args::LoopsArgs,
    failure::{Exit, Failure},
    moment,
    output::{Format, harmless, object, table::Grid},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &LoopsArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let board = connection.get("/tombolo/loops").await;
    let board = board.map_err(|failure| match failure.exit == Exit::NotFound {
        true => failure.hint(
            "this server runs no loops; those of `tombolo controller --kubeconfig` tell of a death \
             or a delay in Events",
        ),
        false => failure,
    })?;
    match args.output {
        Format::Json => shell.out.text(&object::json(&board)?)?,
        Format::Yaml => shell.out.text(&object::yaml(&board)?)?,
        Format::Table | Format::Wide => {
            let text = for_people(&board).to_coloured_text(shell.out.colour);
            shell.out.text(&text)?;
        }
        Format::Name => return Err(Failure::usage("loops are printed as table, yaml or json")),
    }
    Ok(if all_well(&board) { Exit::Ok } else { Exit::Failed })
}

fn loops(board: &Value) -> &[Value] {
    board["loops"].as_array().map_or(&[], Vec::as_slice)
}

fn all_well(board: &Value) -> bool {
    loops(board).iter().all(|one| one["well"] == true)
}

fn for_people(board: &Value) -> Grid {
    let mut grid = Grid::new(&["LOOP", "STATE", "LAST REPORT", "AGE", "RESTARTS", "LAST ERROR"]);
    for one in loops(board) {
        let text = |value: &Value| value.as_str().map_or_else(|| "-".to_owned(), harmless);
        grid.rows.push(vec![
            text(&one["name"]),
            text(&one["state"]),
            report(&one["lastLook"]),
            ago(&one["lastLook"]),
            one["restarts"].to_string(),
            error(&one["lastError"]),
        ]);
    }
    grid
}

/// `2 done, 1 failed, in 12ms`: what is nought is left out.
fn report(look: &Value) -> String {
    if look.is_null() {
        return "-".to_owned();
    }
    let counts = [("done", "done"), ("failed", "failed"), ("deferred", "left for the next")];
    let counts = counts.iter().filter_map(|(key, word)| {
        let count = look[*key].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {word}"))
    });
    let mut parts: Vec<String> = counts.collect();
    if parts.is_empty() {
        parts.push("nothing to do".to_owned());
    }
    parts.push(format!("in {}ms", look["tookMilliseconds"]));
    parts.join(", ")
}

fn ago(told: &Value) -> String {
    told["secondsAgo"].as_u64().map_or_else(|| "-".to_owned(), moment::span)
}

fn error(told: &Value) -> String {
    match told["message"].as_str() {
        Some(message) => format!("{} ago: {}", ago(told), harmless(message)),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dead_loop_is_seen_at_a_glance() {
        let board = json!({"loops": [
            {"name": "garbage", "state": "Serving", "well": true, "restarts": 0, "lastLook": null,
                "lastError": null},
            {"name": "leases", "state": "Idle", "well": true, "restarts": 0, "lastError": null,
                "lastLook": {"secondsAgo": 3, "tookMilliseconds": 12, "done": 2, "failed": 1,
                    "deferred": 0}},
            {"name": "placing", "state": "Dead", "well": false, "restarts": 4,
                "lastLook": {"secondsAgo": 75, "tookMilliseconds": 0, "done": 0, "failed": 0,
                    "deferred": 0},
                "lastError": {"secondsAgo": 1, "message": "it panicked: \u{1b}[1mboom"}},
        ]});
        expect![[r#"
            LOOP      STATE     LAST REPORT                 AGE   RESTARTS   LAST ERROR
            garbage   Serving   -                           -     0          -
            leases    Idle      2 done, 1 failed, in 12ms   3s    0          -
            placing   Dead      nothing to do, in 0ms       75s   4          1s ago: it panicked: \u{1b}[1mboom
        "#]].assert_eq(&for_people(&board).to_text());
        assert!(!all_well(&board));
        assert!(all_well(&json!({"loops": []})));
    }
}
