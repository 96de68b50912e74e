//! What a command came to when it failed: an exit code, a sentence, and what to do next.
//!
//! Every command returns a [`Failure`]; `main` prints it. [`of_request`] turns what the client
//! library reports into one. All of it is pure.

use std::{io, process::ExitCode};

use kube::core::Status;
use tombolo_model::Reason;

/// The exit codes that scripts rely on. `--help` lists them from [`Exit::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    Failed,
    Usage,
    NotFound,
    Conflict,
    Denied,
    Unreachable,
    Timeout,
    NotPlaced,
    /// As a command that ran elsewhere ended.
    Command(u8),
}

impl Exit {
    #[cfg(test)]
    pub(crate) const ALL: [Exit; 9] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::NotFound,
        Exit::Conflict,
        Exit::Denied,
        Exit::Unreachable,
        Exit::Timeout,
        Exit::NotPlaced,
    ];

    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Conflict => 4,
            Exit::Denied => 5,
            Exit::Unreachable => 6,
            Exit::Timeout => 7,
            Exit::NotPlaced => 8,
            Exit::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A clause, as in STYLE: lower case, no full stop. Empty if there is nobody left to tell.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// The HTTP status if a server said it, else 0.
    pub(crate) status: u16,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None, status: 0 }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// A file that could not be read or written, with the path in front.
    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Failure {
        // The number of the error is for programs.
        let said = error.to_string();
        let said = said.split(" (os error ").next().unwrap_or_default();
        Failure::failed(format!("{}: {said}", path.display()))
    }
}

impl From<io::Error> for Failure {
    /// Whoever read our output has gone: end quietly, as `head` expects.
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Exit::Ok, ""),
            _ => Failure::failed(format!("cannot write the output: {error}")),
        }
    }
}

/// One answer of the server: which of our exit codes it is, and what helps.
struct Rule {
    reason: &'static str,
    code: u16,
    exit: Exit,
    hint: Option<&'static str>,
}

/// The reason decides, and where there is none, the code; so the more special row stands first.
const RULES: &[Rule] = &[
    Rule { reason: "NotFound", code: 404, exit: Exit::NotFound, hint: None },
    Rule {
        reason: "AlreadyExists",
        code: 0,
        exit: Exit::Conflict,
        hint: Some("use `tombolo apply` to change what is there"),
    },
    Rule {
        reason: "Conflict",
        code: 409,
        exit: Exit::Conflict,
        hint: Some("somebody changed it meanwhile: look at it and try again"),
    },
    Rule {
        reason: "Unauthorized",
        code: 401,
        exit: Exit::Denied,
        hint: Some(
            "the token or certificate in the kubeconfig is not accepted (any more): \
             `tombolo config view` shows which is used",
        ),
    },
    Rule {
        reason: "Forbidden",
        code: 403,
        exit: Exit::Denied,
        hint: Some(
            "an admin makes a token with `tombolo token create --role ROLE NAME`; roles are guest \
             (reads), user (one namespace), manager (sites, nodes, policies) and admin",
        ),
    },
    Rule {
        reason: "Timeout",
        code: 408,
        exit: Exit::Timeout,
        hint: Some("raise --request-timeout, or try again"),
    },
    Rule { reason: "ServerTimeout", code: 504, exit: Exit::Timeout, hint: Some("try again") },
    Rule {
        reason: "Expired",
        code: 410,
        exit: Exit::Failed,
        hint: Some("the server has compacted that revision away: start again from a fresh list"),
    },
    // As a shell says it.
    Rule { reason: Reason::CommandNotFound.word(), code: 0, exit: Exit::Command(127), hint: None },
    Rule { reason: Reason::NotExecutable.word(), code: 0, exit: Exit::Command(126), hint: None },
    Rule {
        reason: Reason::NotRunning.word(),
        code: 0,
        exit: Exit::Unreachable,
        hint: Some(
            "wait until it runs: `tombolo get assignments` and `tombolo events` say how far it is",
        ),
    },
    Rule {
        reason: Reason::NodeUnreachable.word(),
        code: 0,
        exit: Exit::Unreachable,
        hint: Some("what runs there goes on; `tombolo node ls` shows which nodes are there"),
    },
    Rule {
        reason: Reason::NodeSilent.word(),
        code: 0,
        exit: Exit::Timeout,
        hint: Some("what runs there goes on; `tombolo node ls` shows which nodes are there"),
    },
    Rule { reason: "Invalid", code: 422, exit: Exit::Failed, hint: None },
    Rule {
        reason: "TooManyRequests",
        code: 429,
        exit: Exit::Failed,
        hint: Some("the server is overloaded: try again in a moment"),
    },
    Rule {
        reason: "ServiceUnavailable",
        code: 503,
        exit: Exit::Unreachable,
        hint: Some("the server is there but not ready: try again in a moment"),
    },
    Rule {
        reason: "InsufficientStorage",
        code: 507,
        exit: Exit::Failed,
        hint: Some("free space where the server keeps its data; writes resume by themselves"),
    },
];

/// `server` is the address from the kubeconfig, for sentences about not reaching it.
pub(crate) fn of_request(error: &kube::Error, server: &str) -> Failure {
    match error {
        kube::Error::Api(status) => of_status(status),
        kube::Error::InferKubeconfig(cause) => Failure::failed(format!("kubeconfig: {cause}")),
        kube::Error::SerdeError(cause) => Failure::failed(format!(
            "{server} answered with something unexpected: {cause}"
        ))
        .hint("is it a Kubernetes-style API server? `tombolo config view` shows the address"),
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
            unreachable(error, server)
        }
        other => Failure::failed(innermost(other)),
    }
}

pub(crate) fn of_status(status: &Status) -> Failure {
    let rule = RULES
        .iter()
        .find(|rule| rule.reason == status.reason)
        .or_else(|| RULES.iter().find(|rule| status.reason.is_empty() && rule.code == status.code))
        .or_else(|| RULES.iter().find(|rule| rule.code != 0 && rule.code == status.code));
    let message = match status.message.as_str() {
        "" => format!("the server answered {} {}", status.code, status.reason).trim().to_owned(),
        message => message.trim_end_matches('.').to_owned(),
    };
    let failure = Failure {
        exit: rule.map_or(Exit::Failed, |rule| rule.exit),
        message,
        hint: rule.and_then(|rule| rule.hint).map(str::to_owned),
        status: status.code,
    };
    match is_ownership_conflict(status) {
        true => failure.hint(
            "another field manager owns these fields: leave them out of the file, or take them \
             over with --force-conflicts",
        ),
        false => failure,
    }
}

fn is_ownership_conflict(status: &Status) -> bool {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == "FieldManagerConflict")
}

fn unreachable(error: &kube::Error, server: &str) -> Failure {
    let cause = innermost(error);
    let failure =
        Failure::new(Exit::Unreachable, format!("cannot reach the server at {server}: {cause}"));
    if cause.contains("certificate") {
        return failure.hint(
            "the server's certificate does not match the kubeconfig: was its data folder made \
             anew? Use the kubeconfig that `tombolo up` wrote last",
        );
    }
    failure.hint("start one with `tombolo up`, or name another with --kubeconfig")
}

/// The innermost cause says most; what stands around it is the library's layering.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    /// What the server says, and what we make of it.
    #[track_caller]
    fn check(status: serde_json::Value, expect: Expect) {
        let status: Status = serde_json::from_value(status).expect("a Status");
        let failure = of_status(&status);
        let hint = failure.hint.unwrap_or_default();
        expect.assert_eq(&format!("{}: {}\n{hint}", failure.exit.code(), failure.message));
    }

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes: Vec<u8> = Exit::ALL.into_iter().map(Exit::code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn the_reason_decides_before_the_code() {
        check(
            json!({"code": 404, "reason": "NotFound", "message": "apps \"web\" not found"}),
            expect![[r#"
                3: apps "web" not found
            "#]],
        );
        check(
            json!({"code": 409, "reason": "AlreadyExists", "message": "app \"web\" already exists"}),
            expect![[r#"
                4: app "web" already exists
                use `tombolo apply` to change what is there"#]],
        );
        check(
            json!({"code": 409, "reason": "Conflict", "message": "changed."}),
            expect![[r#"
            4: changed
            somebody changed it meanwhile: look at it and try again"#]],
        );
        check(
            json!({"code": 504, "reason": "Timeout", "message": "slow"}),
            expect![[r#"
            7: slow
            raise --request-timeout, or try again"#]],
        );
    }

    #[test]
    fn the_code_decides_where_there_is_no_known_reason() {
        check(
            json!({"code": 503, "reason": "", "message": ""}),
            expect![[r#"
            6: the server answered 503
            the server is there but not ready: try again in a moment"#]],
        );
        check(
            json!({"code": 403, "reason": "Strange", "message": "no"}),
            expect![[r#"
                5: no
                an admin makes a token with `tombolo token create --role ROLE NAME`; roles are guest (reads), user (one namespace), manager (sites, nodes, policies) and admin"#]],
        );
        check(
            json!({"code": 418, "reason": "Teapot", "message": ""}),
            expect![[r#"
            1: the server answered 418 Teapot
        "#]],
        );
    }

    #[test]
    fn a_conflict_over_fields_says_how_to_take_them() {
        check(
            json!({"code": 409, "reason": "Conflict", "message": "conflict with \"kubectl\"",
                "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".spec.x"}]}}),
            expect![[r#"
                4: conflict with "kubectl"
                another field manager owns these fields: leave them out of the file, or take them over with --force-conflicts"#]],
        );
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Ok, ""));
    }
}
