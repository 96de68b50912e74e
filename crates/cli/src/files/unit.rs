//! Which texts are read together: Kubernetes objects that lie in files of their own, compose files that
//! are laid over each other. Pure; start with [`units`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tombolo_descriptor::{Files, Folder, Format, Options, Reading, Source, Together, detect};
use tombolo_yaml::{Limits, Node};

use super::{Place, Text, is_workload};

/// Texts that are read as one; mostly a single one.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    texts: Vec<Text>,
    together: Together,
    /// Why it is not read together with the files beside it, which it may need.
    apart: Option<String>,
}

impl Unit {
    #[cfg(test)]
    pub(crate) fn of(text: Text) -> Unit {
        Unit::new(vec![text])
    }

    fn new(texts: Vec<Text>) -> Unit {
        let sources: Vec<Source<'_>> = texts.iter().map(Text::source).collect();
        let together = Together::new(&sources);
        Unit { texts, together, apart: None }
    }

    pub(super) fn apart(&self) -> Option<&str> {
        self.apart.as_deref()
    }

    /// At least one.
    pub(crate) fn texts(&self) -> &[Text] {
        &self.texts
    }

    /// What became of each text.
    pub(crate) fn read(&self, options: &Options) -> Vec<(Source<'_>, Reading)> {
        let mut reading = self.together.read(options, self);
        if let Some(why) = &self.apart {
            let alone = reading.diagnostics.iter_mut().filter(|found| found.code == NOTHING_RUNS);
            alone.for_each(|found| found.expected = Some(why.clone()));
        }
        self.together.apart(&reading)
    }
}

/// Further files are those beside the first text.
impl Files for Unit {
    fn read(&self, path: &str) -> Option<String> {
        self.texts[0].read(path)
    }

    fn folder(&self) -> Option<String> {
        self.texts[0].folder()
    }

    fn folder_at(&self, path: &str) -> Option<Folder> {
        self.texts[0].folder_at(path)
    }
}

/// A text, as far as it matters to the others.
struct About {
    role: Role,
    objects: Vec<Named>,
}

/// Kind, namespace and name of an object.
type Named = (String, String, String);

/// What a text is to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    /// It says all by itself.
    Whole,
    /// Kubernetes objects with something to run among them.
    Runs,
    /// Kubernetes objects that belong to what others run.
    Beside,
    /// A compose file of a project with this name, if it gives one.
    Compose(Option<String>),
}

/// The mistake of a file whose objects say something about workloads that are elsewhere.
pub(super) const NOTHING_RUNS: &str = "nothing-runs";

/// Kinds that say something about workloads.
pub(crate) const BESIDE: &[&str] = &[
    "ConfigMap",
    "HorizontalPodAutoscaler",
    "Ingress",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
];

/// The texts of a command line, each with those that it goes with.
pub(crate) fn units(texts: Vec<Text>, options: &Options) -> Vec<Unit> {
    let about: Vec<About> = texts.iter().map(|text| about(text, options.format)).collect();
    let (mut with, apart) = kubernetes(&texts, &about);
    with.extend(compose(&texts, &about));
    let mut units = Vec::new();
    let mut taken = vec![false; texts.len()];
    for index in 0..texts.len() {
        if taken[index] {
            continue;
        }
        let alone = vec![index];
        let group = with.iter().find(|group| group.contains(&index)).unwrap_or(&alone);
        group.iter().for_each(|index| taken[*index] = true);
        let unit = Unit::new(group.iter().map(|index| texts[*index].clone()).collect());
        units.push(Unit { apart: apart.get(&index).cloned(), ..unit });
    }
    units
}

/// Kubernetes objects that need each other: those of a folder with all that is in it, or of each folder
/// within it where an object would be there twice. And of files that need others and stay alone, why.
fn kubernetes(texts: &[Text], about: &[About]) -> (Vec<Vec<usize>>, BTreeMap<usize, String>) {
    let is_object = |index: &usize| matches!(about[*index].role, Role::Runs | Role::Beside);
    let mut places: Vec<(&Place, Vec<usize>)> = Vec::new();
    for index in (0..texts.len()).filter(is_object) {
        let place = &texts[index].place;
        match places.iter_mut().find(|(known, _)| *known == place && *place != Place::Rendered) {
            Some((_, group)) => group.push(index),
            None => places.push((place, vec![index])),
        }
    }
    // Files that each run something and say all about it stay apart.
    let needs_each_other = |group: &Vec<usize>| {
        let has = |role: Role| group.iter().any(|index| about[*index].role == role);
        has(Role::Runs) && has(Role::Beside)
    };
    let mut groups = Vec::new();
    let mut apart = BTreeMap::new();
    for (_, all) in places {
        if twice(&all, about).is_none() {
            groups.push(all);
            continue;
        }
        let mut folders: Vec<(Option<&Path>, Vec<usize>)> = Vec::new();
        for index in all {
            let folder = Path::new(&texts[index].name).parent();
            match folders.iter_mut().find(|(known, _)| *known == folder) {
                Some((_, group)) => group.push(index),
                None => folders.push((folder, vec![index])),
            }
        }
        for (_, group) in folders {
            let Some((object, [first, second])) = twice(&group, about) else {
                groups.push(group);
                continue;
            };
            let (kind, _, name) = object;
            let why = format!(
                "the other files of the folder, which are not read as one because the {kind} \
                 {name:?} is in {} and in {}; name those that belong together: -f FILE -f FILE",
                texts[first].name, texts[second].name
            );
            let alone = group.iter().filter(|index| about[**index].role == Role::Beside);
            apart.extend(
                alone.filter(|_| needs_each_other(&group)).map(|index| (*index, why.clone())),
            );
        }
    }
    groups.retain(needs_each_other);
    (groups, apart)
}

/// The first object that is there twice, and in which texts.
fn twice<'a>(group: &[usize], about: &'a [About]) -> Option<(&'a Named, [usize; 2])> {
    let mut seen = BTreeMap::new();
    let mut objects =
        group.iter().flat_map(|index| about[*index].objects.iter().map(|object| (object, *index)));
    objects.find_map(|(object, index)| Some((object, [seen.insert(object, index)?, index])))
}

/// Compose files of one project: those that are named together, as with docker compose, and in a folder
/// the one of the usual name with the one that is laid over it.
fn compose(texts: &[Text], about: &[About]) -> Vec<Vec<usize>> {
    let name = |index: usize| match &about[index].role {
        Role::Compose(name) => Some(name),
        Role::Whole | Role::Runs | Role::Beside => None,
    };
    let mut named: Vec<Vec<usize>> = Vec::new();
    let mut laid_over: Vec<Vec<usize>> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let Some(own) = name(index) else { continue };
        let goes = |group: &&mut Vec<usize>| {
            let given = group.iter().find_map(|other| name(*other).cloned().flatten());
            own.is_none() || given.is_none() || given == *own
        };
        match (&text.place, over(&text.name)) {
            (Place::Named, _) => match named.iter_mut().find(goes) {
                Some(group) => group.push(index),
                None => named.push(vec![index]),
            },
            (Place::In(_), Some(path)) => {
                let is_it = |other: &usize| Path::new(&texts[*other].name) == path;
                let upper = (0..texts.len()).filter(|other| name(*other).is_some()).find(is_it);
                laid_over.extend(upper.map(|upper| vec![index, upper]));
            }
            (Place::In(_) | Place::Rendered, _) => (),
        }
    }
    named.into_iter().chain(laid_over).collect()
}

/// The file that compose lays over one of the usual name.
fn over(file: &str) -> Option<PathBuf> {
    let path = Path::new(file);
    let name = path.file_name()?.to_str()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let usual = matches!(stem, "compose" | "docker-compose");
    usual.then(|| path.with_file_name(format!("{stem}.override.{ending}")))
}

fn about(text: &Text, from: Option<Format>) -> About {
    let (documents, _) = tombolo_yaml::documents(&text.text, &Limits::default());
    let role = match from.or_else(|| detect(&documents).ok()) {
        Some(Format::Kubernetes) if documents.iter().any(is_workload) => Role::Runs,
        Some(Format::Kubernetes) if documents.iter().any(is_beside) => Role::Beside,
        Some(Format::Compose) => {
            let name = documents.first().and_then(|first| first.get("name"));
            Role::Compose(name.and_then(Node::as_str).map(str::to_owned))
        }
        Some(_) | None => Role::Whole,
    };
    let word = |document: &Node, path: &[&str]| {
        document.at(path).and_then(Node::as_str).unwrap_or_default().to_owned()
    };
    let named = |document: &Node| {
        let kind = match is_workload(document) {
            // They become components, whatever kind they are of.
            true => "workload".to_owned(),
            false => word(document, &["kind"]),
        };
        let metadata = |key| word(document, &["metadata", key]);
        (kind, metadata("namespace"), metadata("name"))
    };
    let objects = documents.iter().filter(|one| one.get("metadata").is_some()).map(named);
    About { role, objects: objects.collect() }
}

fn is_beside(document: &Node) -> bool {
    let of = |key: &str| document.get(key).and_then(Node::as_str).unwrap_or_default();
    match of("kind") {
        "List" => {
            let items = document.get("items").and_then(Node::as_list);
            items.into_iter().flatten().any(is_beside)
        }
        kind => BESIDE.contains(&kind),
    }
}
