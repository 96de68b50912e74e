//! What a command is about: `KIND`, `KIND NAME…`, `KIND/NAME…` or `KIND,KIND`. Pure.

use crate::failure::Failure;

/// More would not fit on a command line a person writes, and each costs a request.
const NAMES_MAX: usize = 1_000;

/// One kind, and its names; no names means all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// As typed: `app`, `apps`, `App`, `apps.tombolo.dev`.
    pub(crate) kind: String,
    pub(crate) names: Vec<String>,
}

pub(crate) fn parse(words: &[String]) -> Result<Vec<Target>, Failure> {
    if words.is_empty() {
        return Err(Failure::usage("say what: KIND, KIND NAME or KIND/NAME")
            .hint("for example `app`, `app web` or `app/web`; `tombolo get --help` has more"));
    }
    if words.len() > NAMES_MAX {
        return Err(Failure::usage(format!("more than {NAMES_MAX} names at once")));
    }
    match words.iter().any(|word| word.contains('/')) {
        true => slashed(words),
        false => spaced(words),
    }
}

/// Exactly one object, for commands that take no more.
pub(crate) fn parse_one(word: &str) -> Result<(String, String), Failure> {
    let (kind, name) = split(word)?;
    Ok((kind.to_owned(), name.to_owned()))
}

/// `app/web app/api node/a`: neighbours of one kind go together, the order stays.
fn slashed(words: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets: Vec<Target> = Vec::new();
    for word in words {
        let (kind, name) = split(word)?;
        match targets.last_mut() {
            Some(last) if last.kind == kind => last.names.push(name.to_owned()),
            _ => targets.push(Target { kind: kind.to_owned(), names: vec![name.to_owned()] }),
        }
    }
    Ok(targets)
}

fn split(word: &str) -> Result<(&str, &str), Failure> {
    let wrong = || {
        Failure::usage(format!("`{word}` is not KIND/NAME"))
            .hint("write `app/web app/api` or `app web api`, not a mix of both")
    };
    let (kind, name) = word.split_once('/').ok_or_else(wrong)?;
    match kind.is_empty() || name.is_empty() || name.contains('/') {
        true => Err(wrong()),
        false => Ok((kind, name)),
    }
}

/// `apps`, `app web api`, `apps,nodes`.
fn spaced(words: &[String]) -> Result<Vec<Target>, Failure> {
    let (kinds, names) = (&words[0], &words[1..]);
    let target = |kind: &str| Target { kind: kind.to_owned(), names: names.to_vec() };
    let targets: Vec<Target> =
        kinds.split(',').filter(|kind| !kind.is_empty()).map(target).collect();
    match targets.is_empty() {
        true => Err(Failure::usage(format!("`{kinds}` is not a kind"))),
        false => Ok(targets),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(words: &str, expect: Expect) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let text = match parse(&words) {
            Ok(targets) => targets
                .iter()
                .map(|target| format!("{}: {}\n", target.kind, target.names.join(" ")))
                .collect(),
            Err(failure) => format!("error: {}", failure.message),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn a_kind_alone_means_all_of_it() {
        check(
            "apps",
            expect![[r#"
            apps: 
        "#]],
        );
        check(
            "apps,nodes",
            expect![[r#"
            apps: 
            nodes: 
        "#]],
        );
    }

    #[test]
    fn names_follow_the_kind_or_a_slash() {
        check(
            "app web api",
            expect![[r#"
            app: web api
        "#]],
        );
        check(
            "app/web app/api node/a app/x",
            expect![[r#"
            app: web api
            node: a
            app: x
        "#]],
        );
    }

    #[test]
    fn a_mix_and_a_void_are_usage_errors() {
        check("", expect!["error: say what: KIND, KIND NAME or KIND/NAME"]);
        check("app/web api", expect!["error: `api` is not KIND/NAME"]);
        check("app/", expect!["error: `app/` is not KIND/NAME"]);
        check("/web", expect!["error: `/web` is not KIND/NAME"]);
        check("app/web/x", expect!["error: `app/web/x` is not KIND/NAME"]);
        check(",", expect!["error: `,` is not a kind"]);
    }
}
