//! The files on the disk: what a path means, what a folder holds, and programs that render what is no
//! file of objects yet (Helm charts, kustomizations). Start with [`each`].

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_descriptor::{Files, Folder};

use super::{Asked, FILE_BYTES_MAX, Text};
use crate::failure::Failure;

const FILES_MAX: usize = 2_000;
/// Folders within folders; a link that leads back would be one without end.
const DEPTH_MAX: usize = 32;
/// What of a folder that a descriptor names can become part of an App.
const CARRIED_FILES_MAX: usize = 64;
const CARRIED_BYTES_MAX: u64 = 1 << 20;
const KUSTOMIZATIONS: &[&str] = &["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// How a text came to be among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Somebody named it.
    Named,
    /// It is in this folder, which somebody named.
    In(PathBuf),
    /// A program wrote it.
    Rendered,
}

/// Files that a descriptor names are read beside it, and nowhere else: a descriptor from somebody
/// else must not send our keys anywhere.
impl Files for Text {
    fn read(&self, path: &str) -> Option<String> {
        let path = self.beside(path)?;
        bounded(fs::File::open(&path).ok()?, &path, FILE_BYTES_MAX).ok()
    }

    fn folder(&self) -> Option<String> {
        let folder = match &self.place {
            Place::In(folder) => folder,
            Place::Named | Place::Rendered => self.folder.as_ref()?,
        };
        Some(folder.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned())
    }

    fn folder_at(&self, path: &str) -> Option<Folder> {
        let folder = self.beside(path).filter(|path| path.is_dir())?;
        Some(match carried(&folder) {
            Ok(texts) if texts.is_empty() => return None,
            Ok(texts) => Folder::Texts(texts),
            Err(why) => Folder::Unfit(why),
        })
    }
}

impl Text {
    /// A path within the folder of the text, wherever links lead.
    fn beside(&self, path: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let is_inside = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let path = folder.join(path);
        let (real, home) = (path.canonicalize().ok()?, folder.canonicalize().ok()?);
        (is_inside && real.starts_with(home)).then_some(path)
    }
}

/// The texts of a folder by their paths in it, or why they cannot be carried along.
fn carried(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut texts = BTreeMap::new();
    let mut bytes_left = CARRIED_BYTES_MAX;
    let mut waiting = vec![(folder.to_owned(), 0)];
    while let Some((at, depth)) = waiting.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", at.display());
        for entry in fs::read_dir(&at).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            let about = fs::symlink_metadata(&path).map_err(failed)?;
            if about.is_dir() && depth < DEPTH_MAX {
                waiting.push((path, depth + 1));
                continue;
            }
            if !about.is_file() {
                return Err(format!("{name} is a link or no file"));
            }
            if texts.len() == CARRIED_FILES_MAX {
                return Err(format!("it has more than {CARRIED_FILES_MAX} files"));
            }
            let left = bytes_left.checked_sub(about.len());
            bytes_left = left.ok_or_else(|| "it is larger than 1 MiB".to_owned())?;
            let bytes = fs::read(&path).map_err(failed)?;
            let text = String::from_utf8(bytes).map_err(|_| format!("{name} is no text"))?;
            texts.insert(name, text);
        }
    }
    Ok(texts)
}

/// A file by name, and its text or why it cannot be read.
pub(crate) type Named = (String, Result<Text, Failure>);

/// The texts of all files, in order.
pub(crate) fn texts_up_to(
    bytes_max: u64,
    asked: &Asked<'_>,
    stdin: impl Read,
) -> Result<Vec<Text>, Failure> {
    each(bytes_max, asked, stdin)?.into_iter().map(|(_, text)| text).collect()
}

/// The texts of all files by name, those that cannot be read among them.
pub(crate) fn each(
    bytes_max: u64,
    asked: &Asked<'_>,
    stdin: impl Read,
) -> Result<Vec<Named>, Failure> {
    if asked.paths.is_empty() {
        return Err(Failure::usage("no file: name one, a folder, or - for stdin"));
    }
    let mut stdin = Some(stdin);
    let mut texts = Vec::new();
    for path in asked.paths {
        match (path.as_str(), stdin.take()) {
            ("-", Some(stdin)) => {
                let name = "stdin".to_owned();
                let text = bounded(stdin, Path::new("stdin"), bytes_max);
                let text = text.map(|text| Text {
                    name: name.clone(),
                    text,
                    folder: None,
                    place: Place::Named,
                });
                texts.push((name, text));
            }
            ("-", None) => return Err(Failure::usage("stdin (`-`) can be read only once")),
            (path, kept) => {
                stdin = kept;
                for found in at(Path::new(path), asked.recursive)? {
                    texts.push((found.name(), found.text(bytes_max)));
                }
            }
        }
    }
    Ok(texts)
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    File(PathBuf, Place),
    Chart(PathBuf),
    Kustomization(PathBuf),
}

impl Found {
    fn name(&self) -> String {
        match self {
            Found::File(path, _) | Found::Chart(path) | Found::Kustomization(path) => {
                path.display().to_string()
            }
        }
    }

    fn text(self, bytes_max: u64) -> Result<Text, Failure> {
        match self {
            Found::File(path, place) => text_at(&path, bytes_max, place),
            Found::Chart(folder) => chart(&folder),
            Found::Kustomization(folder) => kustomization(&folder),
        }
    }
}

fn at(path: &Path, recursive: bool) -> Result<Vec<Found>, Failure> {
    if let Some(rendered) = to_render(path) {
        return Ok(vec![rendered]);
    }
    if !path.is_dir() {
        return Ok(vec![Found::File(path.to_owned(), Place::Named)]);
    }
    let mut found = Vec::new();
    in_folder(path, path, recursive, 0, &mut found)?;
    if found.is_empty() {
        let folder = path.display();
        let message = format!("{folder}: no file in it ends in .yaml, .yml or .json");
        let failure = Failure::usage(message);
        return Err(match recursive {
            true => failure,
            false => failure.hint("-R looks into the folders within it as well"),
        });
    }
    Ok(found)
}

fn to_render(path: &Path) -> Option<Found> {
    let has = |name: &&str| path.join(name).is_file();
    if has(&"Chart.yaml") {
        return Some(Found::Chart(path.to_owned()));
    }
    KUSTOMIZATIONS.iter().any(has).then(|| Found::Kustomization(path.to_owned()))
}

/// The files of a folder by their names, and then the folders in it if they are wanted.
fn in_folder(
    root: &Path,
    folder: &Path,
    recursive: bool,
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::file(folder, &error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed));
    let mut paths = paths.collect::<Result<Vec<PathBuf>, Failure>>()?;
    paths.sort();
    for path in &paths {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            found.push(Found::File(path.clone(), Place::In(root.to_owned())));
        }
        if found.len() > FILES_MAX {
            let root = root.display();
            return Err(Failure::usage(format!("{root}: more than {FILES_MAX} files")));
        }
    }
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let folders = paths.iter().filter(|path| path.is_dir() && !is_hidden(path));
    for path in folders.filter(|_| recursive && depth < DEPTH_MAX) {
        match to_render(path) {
            Some(rendered) => found.push(rendered),
            None => in_folder(root, path, recursive, depth + 1, found)?,
        }
    }
    Ok(())
}

fn chart(folder: &Path) -> Result<Text, Failure> {
    let name = folder.canonicalize().ok();
    let name = name.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    let release = name.map_or("release".to_owned(), |name| name.to_lowercase());
    let release = release.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let folder_text = folder.display().to_string();
    match rendered("helm", &["template", release.trim_matches('-'), &folder_text])? {
        Some(text) => Ok(text),
        None => Err(Failure::failed(format!(
            "{folder_text} is a Helm chart, and there is no helm here"
        ))
        .hint(format!(
            "install helm, or render it elsewhere: helm template {folder_text} | tombolo apply -f -"
        ))),
    }
}

fn kustomization(folder: &Path) -> Result<Text, Failure> {
    let folder = folder.display().to_string();
    for (program, verb) in [("kustomize", "build"), ("kubectl", "kustomize")] {
        if let Some(text) = rendered(program, &[verb, &folder])? {
            return Ok(text);
        }
    }
    let message = format!("{folder} is a kustomization, and there is no kustomize or kubectl here");
    Err(Failure::failed(message).hint(format!(
        "install one of them, or render it elsewhere: kubectl kustomize {folder} | tombolo apply -f -"
    )))
}

/// What a program writes; nothing if there is no such program.
fn rendered(program: &str, arguments: &[&str]) -> Result<Option<Text>, Failure> {
    let command = format!("{program} {}", arguments.join(" "));
    let failed = |why: &str| Failure::failed(format!("{command}: {why}"));
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error.to_string())),
    };
    if !ran.status.success() {
        return Err(failed(String::from_utf8_lossy(&ran.stderr).trim()));
    }
    let text = bounded(ran.stdout.as_slice(), Path::new(&command), FILE_BYTES_MAX)?;
    Ok(Some(Text { name: command, text, folder: None, place: Place::Rendered }))
}

pub(super) fn text_at(path: &Path, bytes_max: u64, place: Place) -> Result<Text, Failure> {
    let file = fs::File::open(path).map_err(|error| Failure::file(path, &error))?;
    let folder = path.parent().map(|parent| match parent.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => parent.to_owned(),
    });
    let name = path.display().to_string();
    Ok(Text { name, text: bounded(file, path, bytes_max)?, folder, place })
}

fn bounded(reader: impl Read, path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    reader
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file(path, &error))?;
    if bytes.len() as u64 > bytes_max {
        let mebibytes = bytes_max >> 20;
        return Err(Failure::usage(format!("{}: larger than {mebibytes} MiB", path.display())));
    }
    let begins = [[0xff, 0xfe], [0xfe, 0xff]];
    if begins.iter().any(|mark| bytes.starts_with(mark)) {
        let message = format!("{}: UTF-16 text, not UTF-8", path.display());
        return Err(Failure::usage(message).hint("save the file as UTF-8"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::usage(format!("{}:{line}: not UTF-8 text", path.display()))
            .hint("save the file as UTF-8")
    })
}
