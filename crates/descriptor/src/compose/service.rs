//! One service of a compose file as a component.

use std::collections::BTreeSet;

use tombolo_model::Duration;
use tombolo_model::component::{Component, ExecCheck, Health};
use tombolo_model::run::Container;
use tombolo_yaml::{Node, Value};

use crate::beyond::{Beyond, Keep, foreign};
use crate::compose::keys::{TAKEN, UNSAID};
use crate::compose::mounts::Shared;
use crate::compose::{deploy, extensions, ports, words};
use crate::fields::{Field, Fields};
use crate::kubernetes::pod::unsaid;
use crate::reader::Reader;

/// A service, still without the connections that need to know the others.
#[derive(Debug)]
pub(super) struct Service<'a> {
    pub(super) key: String,
    pub(super) field: Field<'a>,
    pub(super) component: Component,
    pub(super) container: Container,
    /// Whether a container cannot say it, so that its own words are kept.
    pub(super) is_kept: bool,
    /// The services that it waits for or is linked to.
    pub(super) calls: Vec<Call<'a>>,
    /// Other names under which it can be called.
    pub(super) aliases: Vec<String>,
}

/// Another service by its key.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) key: String,
    field: Field<'a>,
    /// Compose itself goes on without it.
    optional: bool,
    /// It waits until the other has ended well.
    pub(super) until_done: bool,
}

impl<'a> Call<'a> {
    fn new(key: String, field: Field<'a>) -> Call<'a> {
        Call { key, field, optional: false, until_done: false }
    }

    pub(super) fn tell_missing<'n>(
        &self,
        known: impl Iterator<Item = &'n str>,
        reader: &mut Reader<'_>,
    ) {
        if self.optional {
            self.field.dropped(reader, "the service that it waits for is not there");
            return;
        }
        let message = format!("there is no service named {:?}", self.key);
        let span = match self.field.node.as_str() {
            Some(_) => self.field.node.span,
            None => self.field.key_span,
        };
        let diagnostic = self.field.error(reader, "service-unknown", message);
        diagnostic.mended_by_nearest(span, &self.key, known);
    }
}

impl<'a> Service<'a> {
    /// Nothing for a service that cannot run.
    pub(super) fn read(
        key: &str,
        field: &Field<'a>,
        shared: &mut Shared<'_>,
        reader: &mut Reader<'_>,
    ) -> Option<Service<'a>> {
        let mut fields = field.fields(reader)?;
        for settled in ["extends", "profiles"] {
            fields.take(settled);
        }
        let name = reader.label(key, &field.path, field.key_span)?;
        let mut service = Service {
            key: key.to_owned(),
            field: field.clone(),
            component: Component { name, ..Component::default() },
            container: Container::default(),
            is_kept: false,
            calls: Vec::new(),
            aliases: Vec::new(),
        };
        let mut beyond = Beyond::new(Keep::WhenNeeded, "Docker");
        service.read_program(&mut fields, shared, &mut beyond, reader);
        read_environment(&mut fields, &mut service.container, shared, reader);
        service.read_surroundings(&mut fields, shared, &mut beyond, reader);
        deploy::read(&mut fields, &mut service.component, reader);
        unsaid(&mut fields, UNSAID, &mut beyond, reader);
        extensions(&mut fields, reader);
        let known: Vec<&str> =
            TAKEN.iter().copied().chain(UNSAID.iter().map(|(key, _, _)| *key)).collect();
        fields.finish(foreign(&known), reader);
        service.is_kept = !beyond.tell(reader);
        Some(service)
    }

    /// What runs.
    fn read_program(
        &mut self,
        fields: &mut Fields<'a>,
        shared: &Shared<'_>,
        beyond: &mut Beyond<'a>,
        reader: &mut Reader<'_>,
    ) {
        let container = &mut self.container;
        let build = fields.take("build");
        match (fields.take("image"), build) {
            (Some(image), build) => {
                container.image = image.text(reader).unwrap_or_default();
                if let Some(build) = build {
                    build.dropped(reader, "images are built before, and pulled from a registry");
                }
            }
            (None, Some(build)) => {
                container.image = built_image(&build, shared.app(), &self.key);
                tell_build(&build, &container.image, reader);
            }
            (None, None) if fields.peek("provider").is_some() => (),
            (None, None) => {
                fields.missing(reader, "image", "the image, with its tag");
            }
        }
        for (key, into) in
            [("entrypoint", &mut container.command), ("command", &mut container.args)]
        {
            let Some(command) = fields.take(key) else { continue };
            *into = match &command.node.value {
                Value::String(line) => words::command_line(line),
                _ => command.texts(reader),
            };
        }
        container.workdir = fields.take("working_dir").and_then(|path| path.text(reader));
        container.user = fields.take("user").and_then(|user| user.text(reader));
        for (key, into) in
            [("cap_add", &mut container.capabilities), ("group_add", &mut container.groups)]
        {
            *into = fields.take(key).map(|list| distinct(&list, reader)).unwrap_or_default();
        }
        if let Some(privileged) = fields.take("privileged") {
            container.privileged = privileged.boolean(reader).unwrap_or(false);
        }
        if let Some(restart) = fields.take("restart") {
            match restart.node.raw() {
                // Just as every instance is kept running.
                Some("always" | "unless-stopped") => (),
                Some(_) | None => beyond.minor(&restart, "an instance that ends is started again"),
            }
        }
        if let Some(grace) = fields.take("stop_grace_period") {
            self.component.stop_grace = grace.duration(reader);
        }
        self.component.health = fields.take("healthcheck").and_then(|check| health(&check, reader));
    }

    /// What it needs around it: ports, volumes, files, other services.
    fn read_surroundings(
        &mut self,
        fields: &mut Fields<'a>,
        shared: &mut Shared<'_>,
        beyond: &mut Beyond<'a>,
        reader: &mut Reader<'_>,
    ) {
        ports::read(fields, &mut self.component, &mut self.container, reader);
        shared.mount(fields, &mut self.container, beyond, reader);
        if let Some(list) = fields.take("depends_on") {
            self.read_dependencies(&list, reader);
        }
        for link in fields.take_list("links", reader) {
            let Some(text) = link.str(reader) else { continue };
            let (key, alias) = text.split_once(':').unwrap_or((text, text));
            if alias != key {
                link.changed(reader, "the service is called by its own name, not by this one");
            }
            self.calls.push(Call::new(key.to_owned(), link));
        }
        if let Some(networks) = fields.take("networks") {
            for alias in networks.node.as_map().into_iter().flatten() {
                let aliases = alias.1.get("aliases").and_then(|list| list.as_list());
                let names = aliases.into_iter().flatten().filter_map(|name| name.as_str());
                self.aliases.extend(names.map(str::to_owned));
            }
            let why = "components reach each other by their names, whatever network they are in";
            beyond.minor(&networks, why);
        }
        for key in ["container_name", "hostname"] {
            let name = fields.peek(key).and_then(|name| name.as_str());
            self.aliases.extend(name.map(str::to_owned));
        }
    }

    fn read_dependencies(&mut self, list: &Field<'a>, reader: &mut Reader<'_>) {
        if list.node.as_map().is_none() {
            for one in list.list(reader) {
                if let Some(key) = one.text(reader) {
                    self.calls.push(Call::new(key, one));
                }
            }
            return;
        }
        for (key, field) in list.pairs(reader) {
            let mut call = Call::new(key, field.clone());
            if let Some(mut fields) = field.fields(reader) {
                if let Some(condition) = fields.take("condition") {
                    match condition.node.as_str() {
                        Some("service_started") => (),
                        Some("service_completed_successfully") => call.until_done = true,
                        Some(_) | None => condition.dropped(
                            reader,
                            "instances start in order, and try again until they succeed",
                        ),
                    }
                }
                if let Some(restart) = fields.take("restart") {
                    restart.dropped(reader, "an instance is not restarted because of another");
                }
                if let Some(required) = fields.take("required") {
                    call.optional = required.boolean(reader) == Some(false);
                    required.dropped(reader, "a component goes on trying to reach the others");
                }
                fields.finish(foreign(&["condition", "required", "restart"]), reader);
            }
            self.calls.push(call);
        }
    }
}

/// The texts of a list, each once.
fn distinct(list: &Field<'_>, reader: &mut Reader<'_>) -> Vec<String> {
    let texts: BTreeSet<String> = list.texts(reader).into_iter().collect();
    texts.into_iter().collect()
}

/// What `docker compose build` calls the image of a service that names none.
fn built_image(build: &Field<'_>, app: &str, key: &str) -> String {
    let tags = build.node.get("tags").and_then(Node::as_list).unwrap_or_default();
    let tag = tags.iter().find_map(Node::as_str).filter(|tag| !tag.is_empty());
    tag.map_or_else(|| format!("{app}-{}", key.to_lowercase()), str::to_owned)
}

fn tell_build(build: &Field<'_>, image: &str, reader: &mut Reader<'_>) {
    let message = format!(
        "Tombolo builds no images; this one is taken to be {image:?}, as docker compose calls it"
    );
    build.warning(reader, "image-assumed", message).expecting(
        "an image that is there: run \"docker compose build\" on the node, or build it, push it to \
         a registry and name it as \"image\"",
    );
}

fn read_environment(
    fields: &mut Fields<'_>,
    container: &mut Container,
    shared: &Shared<'_>,
    reader: &mut Reader<'_>,
) {
    if let Some(files) = fields.take("env_file") {
        let single = files.node.as_list().is_none();
        let list = if single { vec![files.clone()] } else { files.list(reader) };
        for file in list {
            read_env_file(&file, shared, container, reader);
        }
    }
    let Some(environment) = fields.take("environment") else { return };
    if environment.node.as_map().is_some() {
        for (name, value) in environment.pairs(reader) {
            let text = match value.node.is_null() {
                true => shared.variable(&name, &value, reader),
                false => value.text(reader),
            };
            container.env.extend(text.map(|text| (name, text)));
        }
        return;
    }
    for line in environment.list(reader) {
        let Some(text) = line.str(reader) else { continue };
        match text.split_once('=') {
            Some((name, value)) => {
                container.env.insert(name.to_owned(), value.to_owned());
            }
            None => {
                let value = shared.variable(text, &line, reader);
                container.env.extend(value.map(|value| (text.to_owned(), value)));
            }
        }
    }
}

fn read_env_file(
    file: &Field<'_>,
    shared: &Shared<'_>,
    container: &mut Container,
    reader: &mut Reader<'_>,
) {
    let mut required = true;
    let mut named = file.clone();
    if file.node.as_map().is_some() {
        let Some(mut fields) = file.fields(reader) else { return };
        let flag = fields.take("required").and_then(|flag| flag.boolean(reader));
        required = flag.unwrap_or(true);
        if let Some(format) = fields.take("format") {
            format.dropped(reader, "env files are read with their quotes");
        }
        let path = fields.need("path", reader, "the path of the file");
        fields.finish(foreign(&["format", "path", "required"]), reader);
        let Some(path) = path else { return };
        named = path;
    }
    let Some(path) = named.str(reader) else { return };
    match reader.file(path) {
        Some(text) => {
            named.changed(reader, "the variables of the file are in the App");
            container.env.extend(shared.env_file(&text, &named, reader));
        }
        None if required => {
            named
                .error(reader, "file-missing", format!("the file {path:?} cannot be read"))
                .expecting("the file beside this one, or \"required: false\"");
        }
        None => named.dropped(reader, "the file is not there"),
    }
}

fn health(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Health> {
    let mut fields = field.fields(reader)?;
    let disabled = fields.take("disable").and_then(|flag| flag.boolean(reader)).unwrap_or(false);
    let test = fields.take("test");
    let mut health = Health::default();
    let time =
        |field: Field<'_>, reader: &mut Reader<'_>| -> Option<Duration> { field.duration(reader) };
    health.interval = fields.take("interval").and_then(|one| time(one, reader));
    health.timeout = fields.take("timeout").and_then(|one| time(one, reader));
    health.startup = fields.take("start_period").and_then(|one| time(one, reader));
    let retries = fields.take("retries").and_then(|count| count.integer(reader, 1..=1000));
    health.failures = retries.and_then(|count| u32::try_from(count).ok());
    if let Some(start) = fields.take("start_interval") {
        start.dropped(reader, "checks have one interval");
    }
    extensions(&mut fields, reader);
    let known =
        ["disable", "interval", "retries", "start_interval", "start_period", "test", "timeout"];
    fields.finish(foreign(&known), reader);
    let command = match test.as_ref().map(|test| (test, &test.node.value)) {
        Some((_, Value::String(line))) => shell(line),
        Some((test, _)) => {
            let words = test.texts(reader);
            match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
                Some(("NONE", _)) | None => Vec::new(),
                Some(("CMD", command)) => command.to_vec(),
                Some(("CMD-SHELL", line)) => shell(&line.join(" ")),
                Some((first, _)) => {
                    let message =
                        format!("a test begins with CMD, CMD-SHELL or NONE, not {first:?}");
                    test.error(reader, "invalid-value", message)
                        .expecting("[CMD, program, argument, …] or [CMD-SHELL, \"line\"]");
                    Vec::new()
                }
            }
        }
        None => Vec::new(),
    };
    if command.is_empty() || disabled {
        field.dropped(reader, "a health check without a command checks nothing");
        return None;
    }
    health.exec = Some(ExecCheck { command });
    Some(health)
}

fn shell(line: &str) -> Vec<String> {
    ["/bin/sh", "-c", line].map(str::to_owned).to_vec()
}
