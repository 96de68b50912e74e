//! `tombolo audit`: the server's record of every change, passed on line by line.

use serde_json::Value;

use crate::{
    args::AuditArgs,
    connection::Query,
    failure::{Exit, Failure},
    shell::Shell,
};

/// So many lines are asked for at a time: the record may hold a million.
const PAGE_LINES: u32 = 2_000;

pub(super) async fn run(shell: &mut Shell, args: &AuditArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let mut after = args.after.unwrap_or(0);
    let mut left = args.limit.unwrap_or(u32::MAX);
    while left > 0 {
        let limit = left.min(PAGE_LINES);
        let query =
            Query::default().with("after", after.to_string()).with("limit", limit.to_string());
        let text = connection.text(&query.after("/tombolo/audit")).await?;
        let page = page(&text);
        shell.out.text(&page.text)?;
        shell.out.flush()?;
        left = left.saturating_sub(page.lines);
        match page.last_revision {
            // A page that is not full is the last one; one that does not lead on would repeat.
            Some(last) if page.lines >= limit && last > after => after = last,
            Some(_) | None => break,
        }
    }
    Ok(Exit::Ok)
}

#[derive(Debug, PartialEq, Eq)]
struct Page {
    text: String,
    lines: u32,
    /// The revision to go on from.
    last_revision: Option<u64>,
}

fn page(text: &str) -> Page {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let last: Option<Value> = lines.last().and_then(|line| serde_json::from_str(line).ok());
    Page {
        text: lines.iter().map(|line| format!("{line}\n")).collect(),
        lines: u32::try_from(lines.len()).unwrap_or(u32::MAX),
        last_revision: last.and_then(|last| last["to"].as_u64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_starts() {
        let found = page("{\"to\": 4, \"user\": \"a\"}\n{\"to\": 7}");
        assert_eq!(found.text, "{\"to\": 4, \"user\": \"a\"}\n{\"to\": 7}\n");
        assert_eq!((found.lines, found.last_revision), (2, Some(7)));
        assert_eq!(page("").last_revision, None);
        assert_eq!(page("nonsense").last_revision, None);
    }
}
