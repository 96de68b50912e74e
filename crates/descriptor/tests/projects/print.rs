//! Examples as the projects' documents print them.

/// The part of a document from the line that begins with `from` up to the line that begins with
/// `to`, without the fences.
pub(crate) fn cut(text: &str, from: &str, to: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.starts_with(from)).unwrap();
    let length = lines[start..].iter().position(|line| line.starts_with(to)).unwrap();
    let part = &lines[start..start + length];
    part.iter().filter(|line| !line.starts_with("```")).map(|line| format!("{line}\n")).collect()
}
