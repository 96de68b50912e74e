//! `/livez`, `/readyz` and `/healthz`: they tell only whether, so that anybody may ask.
//!
//! A loop that is dead or late fails `/readyz/loops` and not `/readyz`: an orchestrator restarts or
//! cuts off what is not ready, and neither heals a loop, which the server starts again by itself.

use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};

use axum::response::{IntoResponse, Response};

use crate::answer::Answer;
use crate::request::Query;
use crate::server::Api;
use crate::status::Failure;

/// How one loop beside the API fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopHealth {
    pub name: &'static str,
    /// One word.
    pub state: &'static str,
    pub is_well: bool,
}

type Ask = Box<dyn Fn() -> Vec<LoopHealth> + Send + Sync>;

/// Those who run loops beside this API say here how these fare.
#[derive(Clone, Default)]
pub(crate) struct Loops(Arc<OnceLock<Ask>>);

impl fmt::Debug for Loops {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Loops").field(&self.ask()).finish()
    }
}

impl Loops {
    fn ask(&self) -> Vec<LoopHealth> {
        self.0.get().map_or_else(Vec::new, |ask| ask())
    }
}

impl Api {
    /// With these loops in `/readyz`.
    pub fn telling_of(self, loops: impl Fn() -> Vec<LoopHealth> + Send + Sync + 'static) -> Api {
        // Whoever calls twice has the same loops twice: there is one board in a process.
        let _ = self.loops.0.set(Box::new(loops));
        self
    }
}

pub(crate) fn answer(api: &Api, path: &str, query: &Query) -> Response {
    let path = path.trim_matches('/');
    let (name, part) = path.split_once('/').unwrap_or((path, ""));
    let is_closed = name == "readyz" && api.store.is_closed();
    let loops = if name == "readyz" { api.loops.ask() } else { Vec::new() };
    match told(name, part, is_closed, &loops) {
        Ok(verbose) if query.verbose => Answer::text(verbose).into_response(),
        Ok(_) => Answer::text("ok").into_response(),
        Err(why) => Failure::new(503, "ServiceUnavailable", why).into_response(),
    }
}

/// All that there is to tell, or why it is not well.
fn told(name: &str, part: &str, is_closed: bool, loops: &[LoopHealth]) -> Result<String, String> {
    if is_closed {
        return Err("the store is closed".to_owned());
    }
    let unwell: Vec<String> = loops
        .iter()
        .filter(|one| !one.is_well)
        .map(|one| format!("{} is {}", one.name, one.state.to_lowercase()))
        .collect();
    if part == "loops" && !unwell.is_empty() {
        return Err(format!("loops are not well: {}", unwell.join(", ")));
    }
    let mut text = "[+]store ok\n".to_owned();
    for one in loops {
        let mark = if one.is_well { '+' } else { '-' };
        let _ = writeln!(text, "[{mark}]loop {} {}", one.name, one.state.to_lowercase());
    }
    let _ = writeln!(text, "{name} check passed");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: LoopHealth = LoopHealth { name: "sites", state: "Idle", is_well: true };
    const DEAD: LoopHealth = LoopHealth { name: "placing", state: "Dead", is_well: false };

    #[track_caller]
    fn check(part: &str, is_closed: bool, loops: &[LoopHealth], expected: Result<&str, &str>) {
        let found = told("readyz", part, is_closed, loops);
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_dead_loop_fails_its_own_check_and_no_other() {
        let verbose =
            "[+]store ok\n[+]loop sites idle\n[-]loop placing dead\nreadyz check passed\n";
        check("", false, &[IDLE, DEAD], Ok(verbose));
        check("store", false, &[IDLE, DEAD], Ok(verbose));
        check("loops", false, &[IDLE, DEAD], Err("loops are not well: placing is dead"));
    }

    #[test]
    fn loops_that_are_well_or_none_at_all_pass() {
        check(
            "loops",
            false,
            &[IDLE],
            Ok("[+]store ok\n[+]loop sites idle\nreadyz check passed\n"),
        );
        check("loops", false, &[], Ok("[+]store ok\nreadyz check passed\n"));
    }

    #[test]
    fn a_closed_store_is_not_ready_whatever_the_loops_do() {
        check("", true, &[IDLE], Err("the store is closed"));
        check("loops", true, &[IDLE], Err("the store is closed"));
    }
}
