//! Several texts that say one thing together: a folder with one object in each file, a compose file and
//! what is laid over it. They are read as one text; what is told about it shows the file that it is in.
//! Called by the CLI; start with [`Together`].

use tombolo_yaml::{Limits, Lines, Mend, Node, Severity, Span};

use crate::reader::Reader;
use crate::{Diagnostic, Files, Note, Options, Reading, Source, read_parsed};

/// All texts of a set: each alone may have 8 MiB, and places are counted in four bytes.
const BYTES_MAX: usize = 64 << 20;

/// Texts that are read as one.
#[derive(Clone, Debug)]
pub struct Together {
    /// One after the other.
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    name: String,
    start: usize,
    end: usize,
}

impl Together {
    pub fn new(sources: &[Source<'_>]) -> Together {
        let mut together = Together { text: String::new(), parts: Vec::new() };
        for source in sources {
            let start = together.text.len();
            together.text.push_str(source.text);
            let end = together.text.len();
            together.parts.push(Part { name: source.name.to_owned(), start, end });
            together.text.push('\n');
        }
        together
    }

    /// What all texts say together.
    pub fn read(&self, options: &Options, files: &dyn Files) -> Reading {
        let name = self.parts.first().map_or("", |part| part.name.as_str());
        let mut reader = Reader::new(name, files);
        reader.profiles.clone_from(&options.profiles);
        if self.text.len() > BYTES_MAX {
            let message = format!("the texts are {} bytes long together", self.text.len());
            let mut diagnostic = Diagnostic::error("too-large", Span::default(), message);
            diagnostic.expecting(format!("{BYTES_MAX} at most"));
            reader.diagnose(diagnostic);
            return reader.finish(options.format, Vec::new());
        }
        let mut documents = Vec::new();
        let mut is_broken = false;
        for part in &self.parts {
            let text = &self.text[part.start..part.end];
            let (mut found, problems) = tombolo_yaml::documents(text, &Limits::default());
            let start = u32::try_from(part.start).unwrap_or(u32::MAX);
            is_broken |= problems.iter().any(|problem| problem.severity == Severity::Error);
            for problem in problems {
                let diagnostic = moved(&Diagnostic::from(problem), |byte| byte + start);
                reader.diagnose(diagnostic);
            }
            found.iter_mut().for_each(|document: &mut Node| document.move_by(start));
            documents.append(&mut found);
            reader.begin_text(start);
        }
        read_parsed(&self.text, documents, is_broken, options.format, reader)
    }

    /// What was read, file by file: diagnostics and notes are with the file that they speak of, the Apps and
    /// all else with the first.
    pub fn apart(&self, reading: &Reading) -> Vec<(Source<'_>, Reading)> {
        let mut apart: Vec<(Source<'_>, Reading)> = self
            .parts
            .iter()
            .map(|part| {
                (self.source(part), Reading { format: reading.format, ..Reading::default() })
            })
            .collect();
        for diagnostic in &reading.diagnostics {
            let (index, own) = self.within(diagnostic);
            apart[index].1.diagnostics.push(own);
        }
        for note in &reading.notes {
            let index = self.part_at(note.span.start);
            let span = back(note.span, self.start(index));
            apart[index].1.notes.push(Note { span, ..note.clone() });
        }
        if let Some((_, first)) = apart.first_mut() {
            first.apps.clone_from(&reading.apps);
            first.others.clone_from(&reading.others);
        }
        apart
    }

    fn start(&self, index: usize) -> u32 {
        u32::try_from(self.parts[index].start).unwrap_or(u32::MAX)
    }

    fn source<'t>(&'t self, part: &'t Part) -> Source<'t> {
        Source { name: &part.name, text: &self.text[part.start..part.end] }
    }

    /// The text in which a place is.
    fn part_at(&self, byte: u32) -> usize {
        let after = self.parts.partition_point(|part| part.start <= byte as usize);
        after.saturating_sub(1)
    }

    /// A diagnostic as its own text has it. What it refers to in another text is named.
    fn within(&self, diagnostic: &Diagnostic) -> (usize, Diagnostic) {
        let index = self.part_at(diagnostic.span.start);
        let is_here = |span: &Span| self.part_at(span.start) == index;
        let mut own = diagnostic.clone();
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            own.related.into_iter().partition(|(span, _)| is_here(span));
        own.related = here;
        for (span, what) in elsewhere {
            let other = self.part_at(span.start);
            let source = self.source(&self.parts[other]);
            let at = Lines::new(source.text).position(back(span, self.start(other)).start);
            let (name, line, column) = (source.name, at.line, at.column);
            own.message = format!("{} ({what}: {name}:{line}:{column})", own.message);
        }
        let start = self.start(index);
        (index, moved(&own, |byte| byte.saturating_sub(start)))
    }
}

fn back(span: Span, start: u32) -> Span {
    Span::new(span.start.saturating_sub(start), span.end.saturating_sub(start))
}

/// A diagnostic whose places are counted from elsewhere.
fn moved(diagnostic: &Diagnostic, place: impl Fn(u32) -> u32) -> Diagnostic {
    let to = |span: Span| Span::new(place(span.start), place(span.end));
    let mend = diagnostic.mend.as_ref();
    Diagnostic {
        span: to(diagnostic.span),
        mend: mend.map(|mend| Mend { span: to(mend.span), replacement: mend.replacement.clone() }),
        related: diagnostic.related.iter().map(|(span, what)| (to(*span), what.clone())).collect(),
        ..diagnostic.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::*;
    use crate::{Colour, render, render_notes};

    fn sources<'t>(texts: &[(&'t str, &'t str)]) -> Vec<Source<'t>> {
        texts.iter().map(|(name, text)| Source { name, text }).collect()
    }

    #[test]
    fn what_is_told_shows_the_file_that_it_is_in() {
        let files: BTreeMap<String, String> = BTreeMap::new();
        let texts = [
            ("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {}\n"),
            (
                "pod.yaml",
                "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - \
                 {image: 'i:1', volumeMounts: [{name: x, mountPath: /x}]}\n",
            ),
            ("broken.yaml", "kind: [\n"),
        ];
        let together = Together::new(&sources(&texts));
        let reading = together.read(&Options::default(), &files);
        let apart = together.apart(&reading);
        let shown = apart.iter().map(|(source, own)| {
            render(*source, &own.diagnostics, Colour::Never)
                + &render_notes(*source, &own.notes, Colour::Never)
        });
        expect![[r#"
            service.yaml:3:12: dropped metadata.name: no workload here is behind this Service
            pod.yaml:6:42: error[volume-unknown]: the pod has no volume named "x"
            6 |   - {image: 'i:1', volumeMounts: [{name: x, mountPath: /x}]}
              |                                          ^
              = at spec.containers[0].volumeMounts[0].name
            broken.yaml:1:7: error[syntax]: a list in brackets does not end
            1 | kind: [
              |       ^
              = expected "]"
        "#]]
        .assert_eq(&shown.collect::<String>());
    }
}
