//! `tombolo sim`: made-up continua, as files.

use std::{fs, io::Write as _, path::Path};

use serde::Serialize;
use tombolo_placement::instance::{COMPONENTS_MAX, NODES_MAX, SITES_MAX, Shape, instance};

use crate::{
    args::{InstanceArgs, SimCommand},
    failure::{Exit, Failure},
    output::object::yaml,
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, command: &SimCommand) -> Result<Exit, Failure> {
    match command {
        SimCommand::Instance(args) => write_instance(shell, args),
    }
}

fn write_instance(shell: &mut Shell, args: &InstanceArgs) -> Result<Exit, Failure> {
    for (what, count, max) in [
        ("--sites", args.sites, SITES_MAX),
        ("--nodes", args.nodes, NODES_MAX),
        ("--components", args.components, COMPONENTS_MAX),
    ] {
        if count == 0 || count > max {
            return Err(Failure::usage(format!("{what} {count}: from 1 to {max}")));
        }
    }
    if args.nodes < args.sites {
        let (nodes, sites) = (args.nodes, args.sites);
        return Err(Failure::usage(format!("{nodes} nodes are too few for {sites} sites")));
    }
    let made = instance(&Shape {
        sites: args.sites,
        nodes: args.nodes,
        components: args.components,
        seed: args.seed,
    });
    fs::create_dir_all(&args.dir).map_err(|error| Failure::file(&args.dir, &error))?;
    let topology = args.dir.join("topology.yaml");
    let mut documents = Documents::create(&topology)?;
    documents.write_all(&made.sites)?;
    documents.write_all(&made.nodes)?;
    documents.write_all(&made.links)?;
    documents.finish()?;
    let app = args.dir.join("app.yaml");
    let mut documents = Documents::create(&app)?;
    documents.write_all(std::slice::from_ref(&made.app))?;
    documents.finish()?;
    for path in [topology, app] {
        shell.out.line(&path.display().to_string())?;
    }
    Ok(Exit::Ok)
}

/// A file of YAML documents, one after the other.
struct Documents<'a> {
    path: &'a Path,
    file: std::io::BufWriter<fs::File>,
    first: bool,
}

impl<'a> Documents<'a> {
    fn create(path: &'a Path) -> Result<Documents<'a>, Failure> {
        let file = fs::File::create(path).map_err(|error| Failure::file(path, &error))?;
        Ok(Documents { path, file: std::io::BufWriter::new(file), first: true })
    }

    fn write_all<T: Serialize>(&mut self, objects: &[T]) -> Result<(), Failure> {
        for object in objects {
            let value = serde_json::to_value(object)
                .map_err(|error| Failure::failed(format!("cannot write this: {error}")))?;
            let mark = if self.first { "" } else { "---\n" };
            self.first = false;
            write!(self.file, "{mark}{}", yaml(&value)?)
                .map_err(|error| Failure::file(self.path, &error))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| Failure::file(self.path, &error))
    }
}
