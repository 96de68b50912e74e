//! Small languages of compose files: command lines, sizes, ports.

/// A command line cut as a shell would: blanks, quotes, backslashes; nothing is expanded.
pub(super) fn command_line(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('"'), '\\') | (None, '\\') => {
                let next = letters.next().unwrap_or('\\');
                let keeps = quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`');
                let into = word.get_or_insert_default();
                if keeps {
                    into.push('\\');
                }
                into.push(next);
            }
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// A size as the model spells it: in compose files every unit counts by 1024.
pub(super) fn size(written: &str) -> String {
    let text = written.trim();
    let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let unit = match unit.as_str() {
        "" | "b" => "",
        "k" | "kb" | "ki" | "kib" => "Ki",
        "m" | "mb" | "mi" | "mib" => "Mi",
        "g" | "gb" | "gi" | "gib" => "Gi",
        "t" | "tb" | "ti" | "tib" => "Ti",
        _ => return written.to_owned(),
    };
    format!("{}{unit}", number.trim())
}

/// `[HOST:]CONTAINER[/PROTOCOL]` in its parts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PortText<'t> {
    pub(super) address: Option<&'t str>,
    pub(super) published: Option<&'t str>,
    pub(super) target: &'t str,
    pub(super) protocol: Option<&'t str>,
}

pub(super) fn port(text: &str) -> PortText<'_> {
    let (rest, protocol) = match text.split_once('/') {
        Some((rest, protocol)) => (rest, Some(protocol)),
        None => (text, None),
    };
    let Some((before, target)) = rest.rsplit_once(':') else {
        return PortText { address: None, published: None, target: rest, protocol };
    };
    // An IPv6 address stands in brackets.
    let (address, published) = match before.rsplit_once(':') {
        Some((address, published)) => (Some(address), published),
        None => (None, before),
    };
    let published = (!published.is_empty()).then_some(published);
    PortText { address, published, target, protocol }
}

/// `8080` or `8000-8010`, both ends included.
pub(super) fn port_range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
    (0 < first && first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_a_command_line_as_a_shell_does() {
        assert_eq!(
            command_line("a  b 'c d' \"e \\\"f\\\"\" g\\ h ''"),
            ["a", "b", "c d", "e \"f\"", "g h", ""]
        );
        assert_eq!(command_line(""), Vec::<String>::new());
        assert_eq!(command_line("open 'quote"), ["open", "quote"]);
    }

    #[test]
    fn counts_sizes_by_1024() {
        assert_eq!(size("512m"), "512Mi");
        assert_eq!(size("1.5GB"), "1.5Gi");
        assert_eq!(size("100"), "100");
        assert_eq!(size("7 parsecs"), "7 parsecs");
    }

    #[test]
    fn cuts_ports_into_their_parts() {
        let whole = port("127.0.0.1:8080:80/udp");
        assert_eq!(whole.address, Some("127.0.0.1"));
        assert_eq!(whole.published, Some("8080"));
        assert_eq!((whole.target, whole.protocol), ("80", Some("udp")));
        assert_eq!(port("[::1]:80:90").address, Some("[::1]"));
        assert_eq!(port("80").target, "80");
        assert_eq!(port("127.0.0.1::80").published, None);
        assert_eq!(port_range("9-11"), Some(9..=11));
        assert_eq!(port_range("11-9"), None);
        assert_eq!(port_range("0"), None);
    }
}
