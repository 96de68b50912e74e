//! Wishes that a node meets or does not: labels that an instance would like, taints that ask it to stay away. They add to
//! the value of a node beside its score. Made by [`Wish::new`](super::Wish), told by the explanations.

use tombolo_model::component::Preference;
use tombolo_model::needs::{Needs, TaintEffect};

use crate::continuum::Continuum;
use crate::filter;
use crate::words;

/// What a taint `PreferNoSchedule` weighs, in points.
const TAINT: i32 = 10;

/// What a node has beside its score, in hundredths of a point: by node, if there is anything to it.
pub(super) fn bonuses(
    continuum: &Continuum<'_>,
    prefers: &[Preference],
    needs: &Needs,
) -> Option<Vec<i32>> {
    let soft = |node: &u32| soft_taints(continuum, *node, needs).next().is_some();
    let nodes = || 0..u32::try_from(continuum.nodes.len()).unwrap_or(u32::MAX);
    let wishes = prefers.iter().any(|wish| !wish.labels.is_empty());
    if !wishes && !nodes().any(|node| soft(&node)) {
        return None;
    }
    let bonus = |node: u32| {
        let met = prefers.iter().filter(|wish| meets(continuum, node, wish));
        let met: i32 = met.map(points).sum();
        let taints = soft_taints(continuum, node, needs).count();
        100 * (met - TAINT * i32::try_from(taints).unwrap_or(i32::MAX / 1_000))
    };
    Some(nodes().map(bonus).collect())
}

/// The wishes that `here` meets and `there` does not, in words.
pub(crate) fn lost(
    continuum: &Continuum<'_>,
    prefers: &[Preference],
    needs: &Needs,
    (here, there): (u32, u32),
) -> Vec<String> {
    let labels = prefers.iter().filter(|wish| !wish.labels.is_empty());
    let labels =
        labels.filter(|wish| meets(continuum, here, wish) && !meets(continuum, there, wish));
    let mut lost: Vec<String> = labels
        .map(|wish| {
            let rules: Vec<String> = wish.labels.iter().map(ToString::to_string).collect();
            format!("it would rather have {}", words::list(&rules))
        })
        .collect();
    let taints = soft_taints(continuum, there, needs)
        .map(|taint| format!("it would rather not have {}", filter::taint_words(taint)));
    lost.extend(taints);
    lost
}

fn meets(continuum: &Continuum<'_>, node: u32, wish: &Preference) -> bool {
    let admits = |rule: &tombolo_model::needs::LabelRule| {
        rule.admits(filter::label(continuum, node, &rule.key))
    };
    !wish.labels.is_empty() && wish.labels.iter().all(admits)
}

fn points(wish: &Preference) -> i32 {
    i32::try_from(wish.weight.min(100)).unwrap_or(100)
}

fn soft_taints<'a>(
    continuum: &Continuum<'a>,
    node: u32,
    needs: &Needs,
) -> impl Iterator<Item = &'a tombolo_model::needs::Taint> {
    let tainted = continuum.node(node).tainted;
    continuum.taints(node).filter(move |taint| {
        tainted
            && taint.effect == TaintEffect::PreferNoSchedule
            && !needs.tolerations.iter().any(|by| filter::tolerated(taint, by))
    })
}
