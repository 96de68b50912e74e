//! The logs of a deployment as one text. Called by [`super::deployment::logs`]; start at [`compose`].

use tombolo_gate::Log;

/// How many instances are asked. More is for `tombolo logs`.
pub(super) const INSTANCES_MAX: usize = 32;
/// All lines with the names before them. The closing line comes on top.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an instance may take up of the text, so that a chatty one leaves room for the others.
pub(super) fn bytes_max_each(asked: usize) -> usize {
    TEXT_BYTES_MAX / asked.max(1)
}

/// The end of each log, every line after the name of its instance; then, in a line of its own, what
/// was left out. `logs` are of those that were asked, and `not_asked` others were not.
pub(super) fn compose(logs: &[(String, Log)], not_asked: usize, bytes_max_each: usize) -> String {
    let mut text = String::new();
    let mut shortened = 0;
    for (name, log) in logs {
        let last = last_lines(name, &log.text, bytes_max_each);
        if !log.is_whole || !last.is_whole {
            shortened += 1;
        }
        text.push_str(&last.text);
    }
    let left_out = [("earlier lines of", shortened), ("all lines of", not_asked)];
    let left_out: Vec<String> = left_out
        .iter()
        .filter(|(_, instances)| *instances > 0)
        .map(|(what, instances)| match instances {
            1 => format!("{what} 1 instance"),
            _ => format!("{what} {instances} instances"),
        })
        .collect();
    if !left_out.is_empty() {
        text.push_str(&format!("(left out: {})\n", left_out.join(", ")));
    }
    text
}

/// As many of the last lines as there is room for. Of a last line that is too long, its end.
fn last_lines(name: &str, log: &str, bytes_max: usize) -> Log {
    let around = name.len() + " \n".len();
    let mut lines = Vec::new();
    let mut room = bytes_max;
    let mut is_whole = true;
    for line in log.lines().rev() {
        let Some(left) = room.checked_sub(around + line.len()) else {
            is_whole = false;
            if lines.is_empty() {
                let end = end_of(line, room.saturating_sub(around));
                lines.push(format!("{name} {end}\n"));
            }
            break;
        };
        room = left;
        lines.push(format!("{name} {line}\n"));
    }
    lines.reverse();
    Log { text: lines.concat(), is_whole }
}

fn end_of(line: &str, bytes_max: usize) -> &str {
    let start = line.ceil_char_boundary(line.len().saturating_sub(bytes_max));
    &line[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs as `(text, is whole)`, of instances `a/0`, `a/1` and so on.
    #[track_caller]
    fn check(logs: &[(&str, bool)], not_asked: usize, bytes_max_each: usize, expected: &str) {
        let log =
            |(text, is_whole): &(&str, bool)| Log { text: (*text).to_owned(), is_whole: *is_whole };
        let logs: Vec<(String, Log)> =
            logs.iter().enumerate().map(|(at, one)| (format!("a/{at}"), log(one))).collect();
        assert_eq!(compose(&logs, not_asked, bytes_max_each), expected);
    }

    #[test]
    fn every_line_is_after_the_name_of_its_instance() {
        check(&[], 0, 20, "");
        check(&[("x\ny\n", true), ("", true), ("z", true)], 0, 20, "a/0 x\na/0 y\na/2 z\n");
    }

    #[test]
    fn the_newest_lines_of_each_are_kept_and_the_end_says_that_there_were_others() {
        let kept = "a/0 y\na/0 z\na/1 c\n(left out: earlier lines of 1 instance)\n";
        check(&[("x\ny\nz\n", true), ("c\n", true)], 0, 12, kept);
        check(&[("x\ny\nz\n", true), ("c\n", true)], 0, 17, kept);
        check(&[("y\nz\n", false), ("c\n", true)], 0, 12, kept);
    }

    #[test]
    fn of_a_last_line_that_is_too_long_the_end_is_kept() {
        let said = "(left out: earlier lines of 1 instance)\n";
        check(&[("x\n12345678\n", true)], 0, 10, &format!("a/0 45678\n{said}"));
        check(&[("éé", true)], 0, 8, &format!("a/0 é\n{said}"));
    }

    #[test]
    fn the_end_says_how_many_were_not_asked() {
        check(&[("x", true)], 1, 20, "a/0 x\n(left out: all lines of 1 instance)\n");
        check(
            &[("x", false), ("y", false)],
            3,
            20,
            "a/0 x\na/1 y\n(left out: earlier lines of 2 instances, all lines of 3 instances)\n",
        );
    }

    #[test]
    fn the_text_of_as_many_as_are_asked_is_within_its_bound() {
        let log = Log { text: "\n".repeat(400_000), is_whole: true };
        for asked in [1, 3, INSTANCES_MAX] {
            let logs: Vec<(String, Log)> =
                (0..asked).map(|at| (format!("component/{at}"), log.clone())).collect();
            let text = compose(&logs, 0, bytes_max_each(asked));
            let (lines, closing) = text.trim_end().rsplit_once('\n').expect("many lines");
            assert!(closing.starts_with("(left out: "), "{closing}");
            assert!(lines.len() < TEXT_BYTES_MAX, "{asked}: {}", lines.len());
            assert!(lines.len() > TEXT_BYTES_MAX / 2, "{asked}: {}", lines.len());
        }
    }
}
