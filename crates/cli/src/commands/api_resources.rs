//! `tombolo api-resources`: the kinds that the server has.

use serde_json::{Value, json};

use crate::{
    args::ApiResourcesArgs,
    catalogue::Resource,
    failure::{Exit, Failure},
    output::{
        Format, harmless,
        object::{json as to_json, yaml},
        table::Grid,
    },
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &ApiResourcesArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let mut all = connection.discover().await?.to_vec();
    all.sort_by_key(|one| (one.group != "tombolo.dev", one.group.clone(), one.plural.clone()));
    let text = match args.output {
        Format::Table | Format::Wide => grid(&all).to_text(),
        Format::Name => all.iter().map(|one| format!("{}\n", harmless(&full_name(one)))).collect(),
        Format::Json => to_json(&values(&all))?,
        Format::Yaml => yaml(&values(&all))?,
    };
    shell.out.text(&text)?;
    Ok(Exit::Ok)
}

/// As it may be typed where two groups have a kind of one name.
fn full_name(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    }
}

fn grid(all: &[Resource]) -> Grid {
    let mut grid = Grid::new(&["NAME", "SHORT", "APIVERSION", "NAMESPACED", "KIND"]);
    for one in all {
        let namespaced = if one.namespaced { "yes" } else { "no" };
        let (short, version) = (one.short_names.join(","), one.api_version());
        let cells = [one.plural.as_str(), &short, &version, namespaced, &one.kind];
        grid.rows.push(cells.into_iter().map(harmless).collect());
    }
    grid
}

fn values(all: &[Resource]) -> Value {
    let value = |one: &Resource| {
        json!({"name": one.plural, "shortNames": one.short_names, "kind": one.kind,
            "apiVersion": one.api_version(), "namespaced": one.namespaced})
    };
    all.iter().map(value).collect()
}
