//! How many of a service, and what each needs: `deploy`, and the older keys beside it.

use tombolo_model::component::Component;
use tombolo_model::needs::Needs;
use tombolo_model::quantity::Arch;

use crate::beyond::foreign;
use crate::compose::{extensions, mounts};
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;

const REPLICAS_MAX: u32 = 10_000;

pub(super) fn read(fields: &mut Fields<'_>, component: &mut Component, reader: &mut Reader<'_>) {
    let mut needs = Needs::default();
    if let Some(scale) = fields.take("scale") {
        component.replicas = scale.count(reader, REPLICAS_MAX);
    }
    if let Some(deploy) = fields.take("deploy") {
        read_deploy(&deploy, component, &mut needs, reader);
    }
    if let Some(platform) = fields.take("platform") {
        read_platform(&platform, &mut needs, reader);
    }
    // The older keys count where `deploy` says nothing.
    let cpus = fields.take("cpus").and_then(|cpus| cpus.cpu(reader));
    needs.cpu = needs.cpu.or(cpus);
    for key in ["mem_reservation", "mem_limit"] {
        let memory = fields.take(key).and_then(|memory| mounts::size(&memory, reader));
        needs.memory = needs.memory.or(memory);
    }
    if let Some(gpus) = fields.take("gpus") {
        match gpus.node.as_list() {
            Some(_) => gpus
                .list(reader)
                .iter()
                .for_each(|one| read_device(one, Device::Gpu, &mut needs, reader)),
            None => {
                gpus.assumed(reader, "one graphics processor is asked for");
                needs.gpu = Some(1);
            }
        }
    }
    component.needs = (needs != Needs::default()).then_some(needs);
}

fn read_deploy(
    field: &Field<'_>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(replicas) = fields.take("replicas") {
        component.replicas = replicas.count(reader, REPLICAS_MAX);
    }
    if let Some(mode) = fields.take("mode") {
        match mode.str(reader) {
            Some("replicated") | None => (),
            Some("global") => {
                mode.dropped(reader, "one instance runs; onEach gives one on each node")
            }
            Some(_) => mode.dropped(reader, "an instance runs all the time"),
        }
    }
    if let Some(resources) = fields.take("resources") {
        read_resources(&resources, needs, reader);
    }
    if let Some(placement) = fields.take("placement") {
        read_placement(&placement, component, needs, reader);
    }
    if let Some(update) = fields.take("update_config")
        && let Some(mut inner) = update.fields(reader)
    {
        let count = inner.take("parallelism").and_then(|count| count.count(reader, REPLICAS_MAX));
        component.unavailable_max = count.filter(|count| *count > 0);
        inner.finish(
            Rest::Dropped("an update keeps the old instance until the new one is well"),
            reader,
        );
    }
    extensions(&mut fields, reader);
    let known = ["mode", "placement", "replicas", "resources", "update_config"];
    let dropped = [
        ("endpoint_mode", "components reach each other by their names"),
        ("labels", "labels are for other tools"),
        ("restart_policy", "an instance that ends is started again"),
        ("rollback_config", "a failed update goes back to what ran before"),
    ];
    fields.finish(Rest::Foreign { known: &known, dropped: &dropped }, reader);
}

/// What is reserved counts; where nothing is reserved, the limit does.
fn read_resources(field: &Field<'_>, needs: &mut Needs, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    for part in ["reservations", "limits"] {
        let Some(amounts) = fields.take(part) else { continue };
        let Some(mut inner) = amounts.fields(reader) else { continue };
        if let Some(cpus) = inner.take("cpus") {
            let amount = cpus.cpu(reader);
            match needs.cpu {
                None => needs.cpu = amount,
                Some(_) => cpus.dropped(reader, "the reservation counts, the limit does not"),
            }
        }
        if let Some(memory) = inner.take("memory") {
            let amount = mounts::size(&memory, reader);
            match needs.memory {
                None => needs.memory = amount,
                Some(_) => memory.dropped(reader, "the reservation counts, the limit does not"),
            }
        }
        for device in inner.take_list("devices", reader) {
            read_device(&device, Device::Any, needs, reader);
        }
        extensions(&mut inner, reader);
        let dropped = [
            ("generic_resources", "there is no such resource"),
            ("pids", "processes are not counted"),
        ];
        inner.finish(
            Rest::Foreign { known: &["cpus", "devices", "memory"], dropped: &dropped },
            reader,
        );
    }
    fields.finish(foreign(&["limits", "reservations"]), reader);
}

fn read_device(field: &Field<'_>, kind: Device, needs: &mut Needs, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    let capabilities = match kind {
        Device::Gpu => fields.take("capabilities"),
        Device::Any => fields.need("capabilities", reader, "[gpu]"),
    };
    let words = capabilities.as_ref().map(|list| list.texts(reader)).unwrap_or_default();
    let count = fields.take("count");
    let ids = fields.take("device_ids").map(|ids| ids.list(reader).len());
    let dropped = [
        ("driver", "a graphics processor of any make will do"),
        ("options", "devices have no options"),
    ];
    let known = ["capabilities", "count", "device_ids"];
    fields.finish(Rest::Foreign { known: &known, dropped: &dropped }, reader);
    let is_gpu = |word: &String| matches!(word.as_str(), "gpu" | "nvidia");
    if kind == Device::Any && !words.iter().any(is_gpu) {
        field.dropped(reader, "only graphics processors are reserved");
        return;
    }
    if let Some(capabilities) = &capabilities
        && !words.iter().all(is_gpu)
    {
        capabilities.dropped(reader, "a graphics processor has all of its capabilities");
    }
    let amount = match (&count, ids) {
        (Some(count), _) if count.node.as_str() == Some("all") => {
            count.assumed(reader, "one graphics processor is asked for");
            Some(1)
        }
        (Some(count), _) => count.count(reader, 1024),
        (None, Some(ids)) => {
            field.changed(reader, "as many graphics processors, whichever they are");
            u32::try_from(ids).ok()
        }
        (None, None) => Some(1),
    };
    needs.gpu = amount.map(|amount| needs.gpu.unwrap_or(0).saturating_add(amount)).or(needs.gpu);
}

/// What an entry of a list of devices stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    Gpu,
    /// Its capabilities say it.
    Any,
}

/// `linux/arm64/v8`
fn read_platform(field: &Field<'_>, needs: &mut Needs, reader: &mut Reader<'_>) {
    let Some(text) = field.str(reader).filter(|text| !text.is_empty()) else { return };
    let mut parts = text.split('/');
    let first = parts.next().unwrap_or_default();
    let arch = match parts.next() {
        Some(arch) => arch,
        None if first == "linux" => return,
        None => first,
    };
    match arch.parse::<Arch>() {
        Ok(arch) => needs.arch.push(arch),
        Err(error) => {
            field.error(reader, "invalid-quantity", error.to_string());
        }
    }
    if let Some(variant) = parts.next() {
        let what = format!("the variant {variant:?} of the architecture does not count");
        field.assumed(reader, &what);
    }
}

fn read_placement(
    field: &Field<'_>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    for constraint in fields.take_list("constraints", reader) {
        read_constraint(&constraint, needs, reader);
    }
    for preference in fields.take_list("preferences", reader) {
        // Swarm's word for a wish. As a rule it would leave instances without a place.
        preference.dropped(
            reader,
            "instances spread over equally good nodes by themselves; it is not a rule",
        );
    }
    if let Some(most) = fields.take("max_replicas_per_node") {
        match most.count(reader, REPLICAS_MAX) {
            Some(1) => {
                let name = component.name.clone();
                component.affinity.get_or_insert_default().apart.push(name);
            }
            Some(0) | None => (),
            Some(_) => most.dropped(reader, "instances are either kept apart or not"),
        }
    }
    fields.finish(foreign(&["constraints", "max_replicas_per_node", "preferences"]), reader);
}

/// `node.labels.zone == north`
fn read_constraint(field: &Field<'_>, needs: &mut Needs, reader: &mut Reader<'_>) {
    let Some(text) = field.str(reader) else { return };
    let Some((key, value)) = text.split_once("==") else {
        field.dropped(reader, "a node is chosen by what it is, not by what it is not");
        return;
    };
    let (key, value) = (key.trim(), value.trim().to_owned());
    match key {
        "node.hostname" => needs.nodes = vec![value],
        "node.platform.arch" => match value.parse() {
            Ok(arch) => needs.arch = vec![arch],
            Err(_) => field.dropped(reader, "there is no such architecture"),
        },
        "node.platform.os" if value == "linux" => (),
        key => {
            match key.strip_prefix("node.labels.").or_else(|| key.strip_prefix("engine.labels.")) {
                Some(label) => {
                    needs.labels.insert(label.to_owned(), value);
                }
                None => {
                    field.dropped(reader, "a node is chosen by its name, architecture or labels")
                }
            }
        }
    }
}
