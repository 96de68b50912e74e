//! `/livez`, `/readyz` and `/healthz`: they tell only whether, so that anybody may ask. Which loops there are and
//! how each fares is told to whoever has signed in.
//!
//! A loop that is dead or late fails `/readyz/loops` and not `/readyz`: an orchestrator restarts or
//! cuts off what is not ready, and neither heals a loop, which the server starts again by itself.

use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};

use axum::response::{IntoResponse, Response};

use tombolo_identity::{Role, Subject};
use tombolo_store::Store;

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

pub(crate) fn answer(api: &Api, subject: &Subject, path: &str, query: &Query) -> Response {
    let path = path.trim_matches('/');
    let (name, part) = path.split_once('/').unwrap_or((path, ""));
    let store = if name == "readyz" { StoreHealth::of(&api.store) } else { StoreHealth::Well };
    let loops = if name == "readyz" { api.loops.ask() } else { Vec::new() };
    let detail = match subject.role {
        Role::Anonymous => Detail::Counts,
        Role::Guest | Role::User | Role::Manager | Role::Admin | Role::Agent(_) | Role::System => {
            Detail::Names
        }
    };
    match told(name, part, store, (&loops, detail)) {
        Ok(verbose) if query.verbose => Answer::text(verbose).into_response(),
        Ok(_) => Answer::text("ok").into_response(),
        Err(why) => Failure::new(503, "ServiceUnavailable", why).into_response(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreHealth {
    Well,
    Closed,
    /// What exactly, and where, is in the log and in the answer to writes: anybody may ask here.
    Damaged,
}

impl StoreHealth {
    fn of(store: &Store) -> StoreHealth {
        match store.damage() {
            Some(_) => StoreHealth::Damaged,
            None if store.is_closed() => StoreHealth::Closed,
            None => StoreHealth::Well,
        }
    }
}

/// How much is told of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    Counts,
    Names,
}

/// All that there is to tell, or why it is not well.
fn told(
    name: &str,
    part: &str,
    store: StoreHealth,
    (loops, detail): (&[LoopHealth], Detail),
) -> Result<String, String> {
    match store {
        StoreHealth::Well => (),
        StoreHealth::Closed => return Err("the store is closed".to_owned()),
        StoreHealth::Damaged => {
            return Err(
                "[-]store damaged: nothing is written any more; stop the server and restore \
                        a backup: tombolo restore --data DIR FILE"
                    .to_owned(),
            );
        }
    }
    let unwell: Vec<String> = loops
        .iter()
        .filter(|one| !one.is_well)
        .map(|one| format!("{} is {}", one.name, one.state.to_lowercase()))
        .collect();
    let counted = format!("{} of {}", unwell.len(), loops.len());
    if part == "loops" && !unwell.is_empty() {
        let which = if detail == Detail::Names { unwell.join(", ") } else { counted };
        return Err(format!("loops are not well: {which}"));
    }
    let mut text = "[+]store ok\n".to_owned();
    if detail == Detail::Counts && !loops.is_empty() {
        let _ = match unwell.as_slice() {
            [] => writeln!(text, "[+]loops ok"),
            _ => writeln!(text, "[-]loops not well: {counted}"),
        };
    }
    for one in loops.iter().filter(|_| detail == Detail::Names) {
        let mark = if one.is_well { '+' } else { '-' };
        let _ = writeln!(text, "[{mark}]loop {} {}", one.name, one.state.to_lowercase());
    }
    let _ = writeln!(text, "{name} check passed");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::StoreHealth::{Closed, Damaged, Well};
    use super::*;

    const IDLE: LoopHealth = LoopHealth { name: "sites", state: "Idle", is_well: true };
    const DEAD: LoopHealth = LoopHealth { name: "placing", state: "Dead", is_well: false };

    #[track_caller]
    fn check(part: &str, store: StoreHealth, loops: &[LoopHealth], expected: Result<&str, &str>) {
        let found = told("readyz", part, store, (loops, Detail::Names));
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_dead_loop_fails_its_own_check_and_no_other() {
        let verbose =
            "[+]store ok\n[+]loop sites idle\n[-]loop placing dead\nreadyz check passed\n";
        check("", Well, &[IDLE, DEAD], Ok(verbose));
        check("store", Well, &[IDLE, DEAD], Ok(verbose));
        check("loops", Well, &[IDLE, DEAD], Err("loops are not well: placing is dead"));
    }

    #[test]
    fn loops_that_are_well_or_none_at_all_pass() {
        check("loops", Well, &[IDLE], Ok("[+]store ok\n[+]loop sites idle\nreadyz check passed\n"));
        check("loops", Well, &[], Ok("[+]store ok\nreadyz check passed\n"));
    }

    #[test]
    fn a_stranger_hears_whether_and_not_which() {
        let of = |part: &str, loops: &[LoopHealth]| {
            told("readyz", part, Well, (loops, Detail::Counts)).unwrap_or_else(|why| why)
        };
        let told = [of("", &[IDLE, DEAD]), of("loops", &[IDLE, DEAD]), of("loops", &[IDLE])];
        assert_eq!(told[0], "[+]store ok\n[-]loops not well: 1 of 2\nreadyz check passed\n");
        assert_eq!(told[1], "loops are not well: 1 of 2");
        assert_eq!(told[2], "[+]store ok\n[+]loops ok\nreadyz check passed\n");
        for name in [IDLE.name, DEAD.name] {
            assert!(!told.concat().contains(name), "{told:?}");
        }
    }

    #[test]
    fn a_closed_store_is_not_ready_whatever_the_loops_do() {
        check("", Closed, &[IDLE], Err("the store is closed"));
        check("loops", Closed, &[IDLE], Err("the store is closed"));
    }

    #[test]
    fn a_damaged_store_is_not_ready_and_says_what_helps() {
        let why = told("readyz", "store", Damaged, (&[IDLE], Detail::Counts)).unwrap_err();
        assert!(why.starts_with("[-]store damaged: "), "{why}");
        assert!(why.contains("tombolo restore --data"), "{why}");
    }
}
