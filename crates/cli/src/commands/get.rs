//! `tombolo get`: tables as the server lays them out, or the objects themselves.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::selection::{self, name_of};
use crate::{
    args::GetArgs,
    catalogue::Resource,
    connection::{Connection, JSON, Query, TABLE},
    failure::{Exit, Failure},
    follow::{self, Change, Followed},
    output::{
        Format, Out, note,
        object::{json as to_json, json_line, without_managed_fields, yaml},
        table::{self, Columns, Grid, Prefix},
    },
    shell::Shell,
    target::{self, Target},
};

pub(super) async fn run(shell: &mut Shell, args: &GetArgs) -> Result<Exit, Failure> {
    let targets = everything(target::parse(&args.what)?, args.selection.all_namespaces);
    for target in &targets {
        args.selection.refuse_with_names(&target.names)?;
    }
    if args.watch {
        let [target] = targets.as_slice() else {
            return Err(Failure::usage("--watch follows one kind at a time"));
        };
        return watch(shell, args, target).await;
    }
    let connection = shell.connect().await?;
    match args.output {
        Format::Table => tables(shell, &connection, args, &targets, Columns::Usual).await,
        Format::Wide => tables(shell, &connection, args, &targets, Columns::All).await,
        Format::Json | Format::Yaml | Format::Name => {
            objects(shell, &connection, args, &targets).await
        }
    }
}

/// `all` is what people run, and over all namespaces also what it runs on.
fn everything(targets: Vec<Target>, all_namespaces: bool) -> Vec<Target> {
    let kinds = |kinds: &[&str]| -> Vec<Target> {
        let target = |kind: &&str| Target { kind: (*kind).to_owned(), names: Vec::new() };
        kinds.iter().map(target).collect()
    };
    let expand =
        |target: Target| match (target.kind == "all" && target.names.is_empty(), all_namespaces) {
            (false, _) => vec![target],
            (true, false) => kinds(&["apps", "assignments", "policies"]),
            (true, true) => kinds(&["sites", "nodes", "links", "apps", "assignments", "policies"]),
        };
    targets.into_iter().flat_map(expand).collect()
}

async fn tables(
    shell: &mut Shell,
    connection: &Connection,
    args: &GetArgs,
    targets: &[Target],
    columns: Columns,
) -> Result<Exit, Failure> {
    let mut text = String::new();
    let mut namespaced = false;
    for target in targets {
        let resource = connection.resource(&target.kind).await?;
        namespaced |= resource.namespaced;
        let label = resource.label("");
        let prefix = Prefix {
            namespace: args.selection.all_namespaces && resource.namespaced,
            label: (targets.len() > 1).then_some(label.as_str()),
        };
        let mut grid = Grid::default();
        for answer in answers(connection, args, &resource, target, TABLE).await? {
            let found = table::from_server(&answer, columns, prefix);
            grid.header = found.header;
            grid.rows.extend(found.rows);
        }
        if grid.rows.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&grid.to_coloured_text(shell.out.colour));
    }
    match text.is_empty() {
        true => {
            if namespaced && !args.selection.all_namespaces && shell.globals.namespace.is_none() {
                // The kubeconfig's namespace may not be there either.
                connection.require_namespace().await?;
            }
            note(&nothing_found(connection, args, namespaced));
        }
        false => shell.out.text(&text)?,
    }
    Ok(Exit::Ok)
}

fn nothing_found(connection: &Connection, args: &GetArgs, namespaced: bool) -> String {
    match namespaced && !args.selection.all_namespaces {
        true => format!("nothing found in namespace {} (-A looks in all)", connection.namespace),
        false => "nothing found".to_owned(),
    }
}

async fn objects(
    shell: &mut Shell,
    connection: &Connection,
    args: &GetArgs,
    targets: &[Target],
) -> Result<Exit, Failure> {
    let mut found: Vec<(Resource, Value)> = Vec::new();
    let mut single = targets.len() == 1;
    for target in targets {
        let resource = connection.resource(&target.kind).await?;
        single &= target.names.len() == 1;
        for answer in answers(connection, args, &resource, target, JSON).await? {
            let objects = match target.names.is_empty() {
                true => selection::items(&resource, answer),
                false => vec![answer],
            };
            found.extend(objects.into_iter().map(|object| (resource.clone(), object)));
        }
    }
    if args.output == Format::Name {
        for (resource, object) in &found {
            shell.out.line(&resource.label(name_of(object)))?;
        }
        return Ok(Exit::Ok);
    }
    let mut values: Vec<Value> = found.into_iter().map(|(_, object)| shown(args, object)).collect();
    let value = match (single, values.pop()) {
        (true, Some(value)) => value,
        (_, last) => {
            values.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": values})
        }
    };
    shell.out.text(&match args.output {
        Format::Yaml => yaml(&value)?,
        Format::Json | Format::Table | Format::Wide | Format::Name => to_json(&value)?,
    })?;
    Ok(Exit::Ok)
}

fn shown(args: &GetArgs, object: Value) -> Value {
    match args.show_managed_fields {
        true => object,
        false => without_managed_fields(object),
    }
}

/// One answer for each name, or one for the whole list.
async fn answers(
    connection: &Connection,
    args: &GetArgs,
    resource: &Resource,
    target: &Target,
    accept: &str,
) -> Result<Vec<Value>, Failure> {
    if target.names.is_empty() {
        let path = args.selection.collection(resource, connection);
        let query = args.selection.query();
        let list = selection::list(connection, &path, &query, accept, args.chunk_size).await?;
        return Ok(vec![list]);
    }
    if args.selection.all_namespaces && resource.namespaced {
        return Err(Failure::usage("a name is looked for in one namespace: use -n, not -A"));
    }
    let mut answers = Vec::new();
    for name in &target.names {
        let path = resource.object(&connection.namespace, name);
        answers.push(connection.get_as(&path, accept).await?);
    }
    Ok(answers)
}

async fn watch(shell: &mut Shell, args: &GetArgs, target: &Target) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let resource = connection.resource(&target.kind).await?;
    let path = args.selection.collection(&resource, &connection);
    let query = match target.names.as_slice() {
        [] => args.selection.query(),
        [name] => Query::default().with("fieldSelector", format!("metadata.name={name}")),
        _ => return Err(Failure::usage("--watch follows one name, or all of a kind")),
    };
    let accept = match args.output {
        Format::Table | Format::Wide => TABLE,
        Format::Json | Format::Yaml | Format::Name => JSON,
    };
    let mut printer = WatchPrinter::new(args, &resource);
    loop {
        let list = selection::list(&connection, &path, &query, accept, args.chunk_size).await?;
        let resource_version = selection::list_revision(&list);
        printer.first(&mut shell.out, list)?;
        let from = follow::From { path: &path, query: query.clone(), accept, resource_version };
        let followed = follow::follow(&connection, from, |change, object| {
            printer.next(&mut shell.out, change, object)?;
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        match followed {
            Followed::Enough => return Ok(Exit::Ok),
            Followed::Expired => note("the server compacted its history: listing again"),
        }
    }
}

/// Prints events as they come. The widths of the first list stay, so that columns do not dance.
struct WatchPrinter<'a> {
    args: &'a GetArgs,
    resource: &'a Resource,
    widths: Vec<usize>,
    /// As the first table of the watch had them.
    columns: Value,
}

impl<'a> WatchPrinter<'a> {
    fn new(args: &'a GetArgs, resource: &'a Resource) -> WatchPrinter<'a> {
        WatchPrinter { args, resource, widths: Vec::new(), columns: Value::Null }
    }

    fn first(&mut self, out: &mut Out, list: Value) -> Result<(), Failure> {
        match self.args.output {
            Format::Table | Format::Wide => self.rows(out, Change::Added, list)?,
            Format::Json | Format::Yaml | Format::Name => {
                for object in selection::items(self.resource, list) {
                    self.object(out, Change::Added, object)?;
                }
            }
        }
        out.flush()
    }

    fn next(&mut self, out: &mut Out, change: Change, object: Value) -> Result<(), Failure> {
        match self.args.output {
            Format::Table | Format::Wide => self.rows(out, change, object)?,
            Format::Json | Format::Yaml | Format::Name => self.object(out, change, object)?,
        }
        out.flush()
    }

    fn rows(&mut self, out: &mut Out, change: Change, mut answer: Value) -> Result<(), Failure> {
        table::complete_columns(&mut answer, &mut self.columns);
        let columns = match self.args.output {
            Format::Wide => Columns::All,
            Format::Table | Format::Json | Format::Yaml | Format::Name => Columns::Usual,
        };
        let namespace = self.args.selection.all_namespaces && self.resource.namespaced;
        let mut grid = table::from_server(&answer, columns, Prefix { namespace, label: None });
        if self.args.output_watch_events {
            grid.header.insert(0, "EVENT".to_owned());
            for row in &mut grid.rows {
                row.insert(0, format!("{:8}", change.word()));
            }
        }
        if self.widths.is_empty() && !grid.rows.is_empty() {
            self.widths = grid.widths();
            out.text(&table::line(&grid.header, &self.widths))?;
        }
        for row in &grid.rows {
            out.text(&table::line(row, &self.widths))?;
        }
        Ok(())
    }

    fn object(&self, out: &mut Out, change: Change, object: Value) -> Result<(), Failure> {
        let object = shown(self.args, object);
        if self.args.output == Format::Name {
            let label = self.resource.label(name_of(&object));
            return match self.args.output_watch_events {
                true => out.line(&format!("{} {label}", change.word())),
                false => out.line(&label),
            };
        }
        let value = match self.args.output_watch_events {
            true => json!({"type": change.word(), "object": object}),
            false => object,
        };
        match self.args.output {
            Format::Yaml => {
                out.line("---")?;
                out.text(&yaml(&value)?)
            }
            Format::Json | Format::Table | Format::Wide | Format::Name => {
                out.text(&json_line(&value)?)
            }
        }
    }
}
