//! Acting: carries out the actions of a plan within bounds and reports what came of them. Called by the
//! loops whose actions are about an object each.

use std::fmt;
use std::future::Future;

use futures::stream::{self, StreamExt as _};

use tombolo_model::phrase::with_causes;
use tombolo_plan::supervision::Report;

/// How much one look may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// More would hold up the next look.
    pub(crate) actions_max: usize,
    /// More would leave others no room in the store's next commit; fewer would wait for the disk one
    /// after the other instead of sharing its commits.
    pub(crate) at_once: usize,
}

/// Does each action once. What fails is told and not tried again: the next look decides anew.
pub(crate) async fn carry_out<A, D>(
    actions: Vec<A>,
    bounds: Bounds,
    apply: impl Fn(A) -> D,
) -> Report
where
    A: fmt::Display,
    D: Future<Output = Result<(), kube::Error>>,
{
    let deferred = actions.len().saturating_sub(bounds.actions_max);
    let mut report = Report { deferred, ..Report::default() };
    let work = actions.into_iter().take(bounds.actions_max).map(|action| {
        let told = action.to_string();
        tracing::debug!(action = told, "applying");
        let applied = apply(action);
        async move { (told, applied.await) }
    });
    let mut work = std::pin::pin!(stream::iter(work).buffered(bounds.at_once));
    while let Some((action, applied)) = work.next().await {
        match applied {
            Ok(()) => {
                tracing::info!(action, "applied");
                report.done += 1;
            }
            Err(error) => report.failed.push(failure(&action, &error)),
        }
    }
    if deferred > 0 {
        tracing::info!(deferred, "more to do than one look takes");
    }
    report
}

/// What failed and why, as one sentence. The harness logs it, once however often it fails.
pub(crate) fn failure(action: &str, error: &kube::Error) -> String {
    match error {
        // The status that comes with it says the same in the words of a program.
        kube::Error::Api(status) => format!("{action}: {}", status.message),
        _ => format!("{action}: {}", with_causes(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_look_does_so_much_tries_each_once_and_tells_what_is_left() {
        let done = Mutex::new(Vec::new());
        let apply = async |number: u32| {
            done.lock().unwrap().push(number);
            match number {
                2 => Err(kube::Error::LinesCodecMaxLineLengthExceeded),
                _ => Ok(()),
            }
        };
        let bounds = Bounds { actions_max: 3, at_once: 2 };
        let report = carry_out(vec![1, 2, 3, 4, 5], bounds, apply).await;
        assert_eq!(*done.lock().unwrap(), [1, 2, 3]);
        assert_eq!((report.done, report.failed.len(), report.deferred), (2, 1, 2));
        assert!(report.failed[0].starts_with("2: "), "{:?}", report.failed);
        let report = carry_out(Vec::<u32>::new(), bounds, apply).await;
        assert_eq!(report, Report::default());
    }
}
