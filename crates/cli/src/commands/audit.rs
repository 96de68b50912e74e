//! `tombolo audit`: the server's record of every change, passed on line by line.

use crate::{
    args::AuditArgs,
    connection::Query,
    failure::{Exit, Failure},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &AuditArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let after = args.after.map(|revision| revision.to_string());
    let limit = args.limit.map(|limit| limit.to_string());
    let query =
        Query::default().with_some("after", after.as_deref()).with_some("limit", limit.as_deref());
    let lines = connection.text(&query.after("/tombolo/audit")).await?;
    shell.out.text(&lines)?;
    if !lines.is_empty() && !lines.ends_with('\n') {
        shell.out.line("")?;
    }
    Ok(Exit::Ok)
}
