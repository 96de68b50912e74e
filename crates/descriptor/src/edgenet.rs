//! EdgeNet's selective deployments: workloads, and selectors that say on what continents, in what
//! countries, states or cities they run, and how often. Called through the table of formats; the
//! workloads themselves are read by [`crate::kubernetes`].

use tombolo_model::App;
use tombolo_model::needs::{Place, PlaceKey, PlaceOperator};
use tombolo_yaml::{Key, Node, Span, Value};

use crate::beyond::foreign;
use crate::fields::{Field, Rest};
use crate::kubernetes::assemble::File;
use crate::path::Path;
use crate::reader::Reader;

/// The lists of workloads, and the kind and version of what is in them.
const LISTS: &[(&str, &str, &str)] = &[
    ("cronjob", "CronJob", "batch/v1"),
    ("daemonset", "DaemonSet", "apps/v1"),
    ("deployment", "Deployment", "apps/v1"),
    ("job", "Job", "batch/v1"),
    ("statefulset", "StatefulSet", "apps/v1"),
];

const QUANTITY_MAX: i64 = 10_000;
/// What the name of a place takes beside its letters.
const PLACE_BYTES: usize = 24;

/// Reads the documents of one text: one App for each selective deployment. Other Kubernetes
/// documents beside it (Services, ConfigMaps, older files also the workloads) belong to each.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let is_selective = |document: &&Node| {
        document.get("kind").and_then(Node::as_str) == Some("SelectiveDeployment")
    };
    let mut apps = Vec::new();
    for (number, document) in documents.iter().filter(is_selective).enumerate() {
        reader.begin_app(apps.len());
        let others = reader.others_count();
        let beside = documents.iter().filter(|other| !is_selective(other) && !other.is_null());
        apps.extend(selective(document, beside, reader));
        if number > 0 {
            // The first has brought the Secrets and ConfigMaps of all.
            reader.keep_others(others);
        }
    }
    apps
}

fn selective<'a>(
    document: &'a Node,
    beside: impl Iterator<Item = &'a Node>,
    reader: &mut Reader<'_>,
) -> Option<App> {
    let mut fields = Field::document(document).fields(reader)?;
    for key in ["apiVersion", "kind"] {
        // They are what it was recognised by.
        let _ = fields.take(key);
    }
    let metadata = fields.need("metadata", reader, "a mapping with the name")?;
    let mut head = metadata.fields(reader)?;
    let name = head.need("name", reader, "the name of the selective deployment")?.label(reader)?;
    let namespace = head.take("namespace").and_then(|namespace| namespace.text(reader));
    head.finish(Rest::Dropped("it is about the object that was read, not about the App"), reader);
    let spec = fields.need("spec", reader, "workloads and a selector")?;
    if let Some(status) = fields.take("status") {
        status.dropped(reader, "a status is written by whoever runs the application");
    }
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    fields.finish(foreign(&known), reader);

    let mut fields = spec.fields(reader)?;
    let mut places = Vec::new();
    for selector in fields.take_list("selector", reader) {
        places.extend(place(&selector, reader));
    }
    let workloads = fields.take("workloads");
    for key in ["controller", "controllers", "type"] {
        if let Some(older) = fields.take(key) {
            older.assumed(reader, "the workloads that it names stand beside it in the same text");
        }
    }
    if let Some(recovery) = fields.take("recovery") {
        recovery
            .dropped(reader, "what happens when a node falls silent is the App's rule disconnect");
    }
    let known = ["controller", "controllers", "recovery", "selector", "type", "workloads"];
    fields.finish(foreign(&known), reader);

    let objects = workloads.as_ref().map(|all| listed(all, reader)).unwrap_or_default();
    let mut file = File::default();
    for (object, path, key_span) in &objects {
        let root = Field { node: object, path: path.clone(), key_span: *key_span };
        file.sort_in(root, reader);
    }
    for other in beside {
        let other = Field::document(other);
        if other.may_copy_node(other.node, reader) {
            file.sort_in(other, reader);
        }
    }
    let mut app = file.into_app(Some(name), std::slice::from_ref(document), reader)?;
    app.metadata.namespace = namespace.or(app.metadata.namespace);
    let names = places.iter().flat_map(|place: &Place| &place.values);
    let bytes = names.map(|name| PLACE_BYTES + name.len()).sum();
    for component in &mut app.spec.components {
        if spec.may_copy(bytes, reader) {
            component.places.clone_from(&places);
        }
    }
    Some(app)
}

/// The workloads in their lists. What list an object is in says its kind, so it may leave it out.
fn listed<'a>(all: &Field<'a>, reader: &mut Reader<'_>) -> Vec<(Node, Path<'a>, Span)> {
    let mut objects = Vec::new();
    let Some(mut fields) = all.fields(reader) else { return objects };
    for (key, kind, version) in LISTS {
        for object in fields.take_list(key, reader) {
            let node = with_kind(object.node, kind, version);
            objects.push((node, object.path, object.key_span));
        }
    }
    let known: Vec<&str> = LISTS.iter().map(|(key, _, _)| *key).collect();
    fields.finish(foreign(&known), reader);
    objects
}

fn with_kind(object: &Node, kind: &str, version: &str) -> Node {
    let Value::Map(entries) = &object.value else { return object.clone() };
    let mut entries = entries.clone();
    for (key, text) in [("kind", kind), ("apiVersion", version)] {
        if object.get(key).is_none() {
            let key = Key::new(key, object.span);
            let value = Node::new(Value::String(text.to_owned()), object.span);
            entries.insert(0, (key, value));
        }
    }
    Node::new(Value::Map(entries), object.span)
}

/// `{name: Country, operator: In, value: [Greece], quantity: 2}`
fn place(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Place> {
    let mut fields = field.fields(reader)?;
    let key = fields.take_any(&["name", "type"]);
    let operator = fields.take("operator");
    let values = fields.take("value");
    let quantity = fields.take("quantity");
    fields.finish(foreign(&["name", "operator", "quantity", "value"]), reader);
    let Some(key) = key else {
        field
            .error(reader, "missing-field", "\"name\" is missing")
            .expecting("Continent, Country, State or City");
        return None;
    };
    let keys = [
        ("Continent", Some(PlaceKey::Continent)),
        ("Country", Some(PlaceKey::Country)),
        ("State", Some(PlaceKey::Region)),
        ("Region", Some(PlaceKey::Region)),
        ("City", Some(PlaceKey::City)),
        ("Site", Some(PlaceKey::Site)),
        ("Polygon", None),
    ];
    let Some(by) = key.one_of(reader, &keys)? else {
        field.dropped(reader, "a place is a continent, country, region, city or site, not a shape");
        return None;
    };
    let operators = [("In", PlaceOperator::In), ("NotIn", PlaceOperator::NotIn)];
    let operator = match operator {
        Some(operator) => operator.one_of(reader, &operators)?,
        None => PlaceOperator::In,
    };
    let mut names = Vec::new();
    for value in values.map(|values| values.list_or_one(reader)).unwrap_or_default() {
        let Some(text) = value.str(reader) else { continue };
        if text.contains('_') {
            value.changed(reader, "EdgeNet writes \"_\" for a blank");
        }
        names.push(text.replace('_', " "));
    }
    if names.is_empty() {
        field
            .error(reader, "missing-field", "\"value\" is missing")
            .expecting("a list of places, such as [Greece, Italy]");
        return None;
    }
    let quantity = quantity.and_then(|count| match count.integer(reader, 0..=QUANTITY_MAX)? {
        0 => {
            count.changed(reader, "on all nodes there; here one instance runs in each place");
            None
        }
        count => u32::try_from(count).ok(),
    });
    Some(Place { by, operator, values: names, quantity })
}
