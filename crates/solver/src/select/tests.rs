//! What [`select`](super::select()) promises, against a search that tries everything and against
//! [`Problem::check`], which shares no code with it.

mod oracle;
mod planted;
mod tight;
mod tiny;

use super::{Dice, Limits, Outcome, Selection, select};
use crate::problem::{Adjust, Choice, ItemId, Load, NodeId, Problem, Scope, ZoneId};
use crate::sample::{self, Size};

#[track_caller]
fn solve(problem: &Problem, seed: u64) -> Selection {
    // A small part of the default, because tests run without optimisation.
    let limits = Limits { seed, work: 300_000, ..Limits::default() };
    let selection = select(problem, &limits).expect("the problem is valid");
    let objective = problem.check(&selection.chosen).unwrap_or_else(|broken| {
        let all: Vec<String> = broken.iter().map(ToString::to_string).collect();
        panic!("seed {seed}: {}", all.join("; "))
    });
    assert_eq!(objective, selection.objective, "seed {seed}");
    assert!(selection.bound >= selection.objective, "seed {seed}");
    selection
}

#[test]
fn agrees_with_trying_everything_on_tiny_problems() {
    let mut infeasible = 0;
    for seed in 0..12_000 {
        let problem = tiny::problem(seed, 1);
        let found = solve(&problem, seed);
        match oracle::best(&problem) {
            Some(best) => {
                assert_eq!(found.parts, [Outcome::Placed], "seed {seed}");
                assert_eq!(found.objective, best, "seed {seed}");
                assert!(found.optimal, "seed {seed}: {found:?}");
            }
            None => {
                assert_eq!(found.parts, [Outcome::Infeasible], "seed {seed}");
                assert!(found.optimal, "seed {seed}");
                infeasible += 1;
            }
        }
    }
    assert!((1_000..8_000).contains(&infeasible), "{infeasible} of 12,000 have no answer");
}

/// Blocks that meet on nodes alone have a search of their own.
#[test]
fn agrees_with_trying_everything_where_only_room_is_short() {
    let mut crowded = 0;
    for seed in 0..4_000 {
        let mut problem = tiny::problem(seed, 1);
        problem.edges.clear();
        problem.together.clear();
        problem.same_engine.clear();
        problem.apart.retain(|group| group.scope == Scope::Node);
        problem.scatter.retain(|group| group.scope == Scope::Node);
        let found = solve(&problem, seed);
        let best = oracle::best(&problem);
        assert_eq!(best.is_some(), found.parts == [Outcome::Placed], "seed {seed}");
        assert_eq!(best.unwrap_or(0), found.objective, "seed {seed}");
        assert!(found.optimal, "seed {seed}");
        for node in &mut problem.nodes {
            node.capacity.fill(u64::MAX);
        }
        problem.apart.clear();
        crowded += usize::from(best.is_some() && oracle::best(&problem) > best);
    }
    assert!(crowded > 500, "in {crowded} somebody has to yield");
}

#[test]
fn proves_the_best_of_twenty_that_want_the_same_nodes() {
    for seed in 0..6 {
        let size = Size {
            zones: 4,
            nodes: 30,
            parts: 1,
            items: 20,
            classes: 2,
            load: 60,
            ..medium(seed, false)
        };
        let problem = sample::problem(&size);
        let found = select(&problem, &Limits::default()).expect("the problem is valid");
        assert_eq!(problem.check(&found.chosen), Ok(found.objective), "seed {seed}");
        assert!(found.optimal, "seed {seed}: {} of {}", found.objective, found.bound);
    }
}

#[test]
fn serves_parts_by_priority_and_leaves_out_only_those_without_room() {
    for seed in 0..1_000 {
        let problem = tiny::problem(seed, 3);
        let found = solve(&problem, seed);
        let (placed, best) = oracle::best_by_parts(&problem);
        let outcome = |placed: &bool| match placed {
            true => Outcome::Placed,
            false => Outcome::Infeasible,
        };
        let expected: Vec<Outcome> = placed.iter().map(outcome).collect();
        assert_eq!(found.parts, expected, "seed {seed}");
        assert_eq!(found.objective, best, "seed {seed}");
        assert!(found.optimal, "seed {seed}");
    }
}

fn medium(seed: u64, network: bool) -> Size {
    let mut dice = Dice::new(seed);
    let items = 2 + dice.below(10);
    let load = 5 + dice.below(60) as u64;
    Size { zones: 8, nodes: 60, parts: 1 + dice.below(6), items, classes: 4, network, load, seed }
}

#[test]
fn never_breaks_a_constraint_and_is_the_same_every_time() {
    for seed in 0..30 {
        let problem = sample::problem(&medium(seed, seed % 3 > 0));
        let found = solve(&problem, seed);
        assert_eq!(found, solve(&problem, seed), "seed {seed}");
    }
}

#[test]
fn does_not_care_for_the_order_of_input() {
    for seed in 0..30 {
        let problem = sample::problem(&medium(seed, seed % 2 == 0));
        let found = solve(&problem, 7);
        let (shuffled, items) = tiny::shuffle(&problem, seed);
        let again = solve(&shuffled, 7);
        assert_eq!(found.objective, again.objective, "seed {seed}");
        let name = |problem: &Problem, choice: Option<Choice>| {
            choice.map(|c| {
                let engine = problem.engines[usize::from(c.engine)].clone();
                (problem.nodes[c.node].id.clone(), engine)
            })
        };
        for (item, moved_to) in items.iter().enumerate() {
            let (before, after) = (found.chosen[item], again.chosen[*moved_to]);
            assert_eq!(name(&problem, before), name(&shuffled, after), "seed {seed}");
        }
    }
}

#[test]
fn another_node_never_makes_a_proven_answer_worse() {
    for seed in 0..1_500 {
        let with = tiny::problem(seed, 1);
        let without = tiny::without_last_node(&with);
        let (with, without) = (solve(&with, seed), solve(&without, seed));
        if without.parts == [Outcome::Placed] {
            assert_eq!(with.parts, [Outcome::Placed], "seed {seed}");
            assert!(with.objective >= without.objective, "seed {seed}");
        }
    }
}

#[test]
fn stops_when_told_to() {
    let size = Size { parts: 40, items: 12, nodes: 400, ..medium(3, true) };
    let problem = sample::problem(&size);
    let asked = std::cell::Cell::new(0u32);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let limits = Limits { work: u64::MAX, stop: &stop, ..Limits::default() };
    let stopped = select(&problem, &limits).expect("the problem is valid");
    assert!(problem.check(&stopped.chosen).is_ok());
    assert!(asked.get() < 200, "asked {} times", asked.get());
    let little = select(&problem, &Limits { work: 5_000, ..Limits::default() });
    let little = little.expect("the problem is valid");
    assert!(problem.check(&little.chosen).is_ok());
    let more = select(&problem, &Limits { work: 3_000_000, ..Limits::default() });
    assert!(little.work < more.expect("the problem is valid").work);
}

#[test]
fn the_bound_of_a_large_problem_holds_for_better_answers_too() {
    let mut better = 0;
    for seed in 0..4 {
        let size = Size { parts: 10, items: 10, load: 50, ..medium(seed, seed % 2 == 0) };
        let problem = sample::problem(&size);
        let of = |work| select(&problem, &Limits { work, ..Limits::default() }).unwrap();
        let (hurried, patient) = (of(1_000), of(400_000));
        if hurried.parts == patient.parts {
            assert!(hurried.bound >= patient.objective, "seed {seed}");
            better += usize::from(patient.objective > hurried.objective);
        }
    }
    assert!(better > 0, "patience never gained anything");
}

/// Ten good nodes with room for a large item or two small ones, fifty poor ones for a small item, and
/// many poorer ones for a large item: too far down the list to be kept where lists are cut.
fn good_ones_are_few() -> Problem {
    let mut problem = tiny::problem(0, 0);
    problem.nodes.clear();
    problem.load = Load::default();
    problem.classes.clear();
    for (count, room, value) in [(10, 2, 100), (50, 1, 10), (40, 2, 9)] {
        for number in 0..count {
            let id = format!("worth-{value:03}-{number:02}");
            let capacity = Box::new([room, room]);
            problem.nodes.push(crate::problem::Node { id, zone: ZoneId(0), capacity });
            let node = NodeId::new(problem.nodes.len() - 1);
            let candidate = crate::problem::Candidate { node, engine: 0, value };
            match problem.classes.first_mut() {
                Some(class) => class.candidates.push(candidate),
                None => problem.classes.push(crate::problem::Class { candidates: vec![candidate] }),
            }
        }
    }
    for (count, need) in [(10, 2), (50, 1)] {
        for number in 0..count {
            let item = ItemId::new(problem.items.len());
            let id = format!("needs-{need}-{number:02}");
            let demand = Box::new([need, need]);
            problem.items.push(crate::problem::Item {
                id: id.clone(),
                demand,
                ..Default::default()
            });
            problem.parts.push(crate::problem::Part {
                id,
                priority: 0,
                items: vec![item],
                packs: false,
            });
        }
    }
    problem
}

#[test]
fn the_bound_counts_what_was_left_out_of_the_lists() {
    let problem = good_ones_are_few();
    let of = |listed_max| {
        select(&problem, &Limits { listed_max, ..Limits::default() }).expect("it is valid")
    };
    let (whole, cut) = (of(usize::MAX), of(0));
    assert_eq!(whole.parts, cut.parts);
    assert!(whole.objective > cut.objective, "the lists were not cut");
    assert!(cut.bound >= whole.objective, "{} is no bound of {}", cut.bound, whole.objective);
    assert!(!cut.optimal);
}

/// As many that avoid each other as there are nodes: every answer is the best, and the bound says so.
#[test]
fn who_must_be_everywhere_is_bounded_by_all_places() {
    let mut problem = good_ones_are_few();
    problem.nodes.truncate(60);
    problem.classes[0].candidates.truncate(60);
    problem.items.iter_mut().for_each(|item| item.demand = Box::new([1, 1]));
    let items: Vec<ItemId> = ItemId::first(60).collect();
    let one = crate::problem::Part { items: items.clone(), ..problem.parts[0].clone() };
    problem.parts = vec![one];
    problem.apart.push(crate::problem::Group { items, scope: Scope::Node });
    let found = solve(&problem, 0);
    assert_eq!((found.objective, found.bound), (10 * 100 + 50 * 10, 10 * 100 + 50 * 10));
    assert!(found.optimal);
}

#[test]
fn a_part_without_room_does_not_spoil_the_others() {
    let mut problem = sample::problem(&Size { parts: 20, ..medium(5, true) });
    let first = problem.parts[7].items[0];
    problem.items[first].demand[0] = u64::MAX;
    problem.parts[7].priority = 9;
    let found = solve(&problem, 0);
    assert_eq!(found.parts[7], Outcome::Infeasible);
    let placed = found.parts.iter().filter(|outcome| **outcome == Outcome::Placed).count();
    assert_eq!(placed, 19);
}

#[test]
fn odd_numbers_do_no_harm() {
    let empty = solve(&Problem::default(), 0);
    assert_eq!((empty.objective, empty.bound, empty.optimal), (0, 0, true));
    for seed in 0..200 {
        // Only what must not share a node is in each other's way.
        let mut problem = tiny::problem(seed, 2);
        problem.resources.clear();
        problem.load = Load::default();
        problem.nodes.iter_mut().for_each(|node| node.capacity = Box::default());
        problem.items.iter_mut().for_each(|item| item.demand = Box::default());
        problem.edges.clear();
        problem.same_engine.clear();
        let (_, best) = oracle::best_by_parts(&problem);
        assert_eq!(solve(&problem, seed).objective, best, "seed {seed}, without resources");
    }
    for seed in 0..500 {
        let mut problem = tiny::problem(seed, 2);
        let mut dice = Dice::new(seed);
        for item in &mut problem.items {
            if dice.below(3) == 0 {
                item.demand.iter_mut().for_each(|demand| *demand = u64::MAX - dice.roll() % 2);
            }
            item.adjust.push(Adjust { node: NodeId(u32::MAX), engine: None, delta: i32::MIN });
            item.barred.push(NodeId(u32::MAX));
            item.current = Some(NodeId(u32::MAX));
        }
        for node in &mut problem.nodes {
            if dice.below(3) == 0 {
                node.capacity.iter_mut().for_each(|capacity| *capacity = u64::MAX);
            }
        }
        for class in &mut problem.classes {
            for candidate in &mut class.candidates {
                candidate.value = [i32::MIN, i32::MAX, 0, -1][dice.below(4)];
            }
        }
        for edge in &mut problem.edges {
            edge.bandwidth_bps = [0, u64::MAX, 1][dice.below(3)];
            edge.traffic = [-(1 << 30), 1 << 30, 0][dice.below(3)];
        }
        let (placed, best) = oracle::best_by_parts(&problem);
        let found = solve(&problem, seed);
        let expected: Vec<bool> = found.parts.iter().map(|o| *o == Outcome::Placed).collect();
        assert_eq!(placed, expected, "seed {seed}");
        assert_eq!(found.objective, best, "seed {seed}");
    }
}

#[test]
fn what_is_no_problem_gets_a_sentence() {
    use crate::problem::{Edge, Group};
    let check = |change: &dyn Fn(&mut Problem), expected: &str| {
        let mut problem = sample::problem(&Size { parts: 2, ..medium(1, true) });
        change(&mut problem);
        let error = select(&problem, &Limits::default()).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    };
    check(&|p| p.items[0].class = 99, "app-00000/0000 has a class that is not there");
    check(&|p| p.nodes[1].id = "node-000000".into(), "two nodes are called node-000000");
    check(&|p| p.nodes[1].zone = ZoneId(99), "node node-000001 is in a zone that is not there");
    check(&|p| p.items[0].demand = Box::new([]), "app-00000/0000 has 0 demands for 3 resources");
    check(&|p| p.routes[0].truncate(1), "routes are not a square of 8 zones");
    check(&|p| p.parts[0].items.push(ItemId(0)), "app-00000/0000 is in two parts");
    check(&|p| p.parts[0].items.retain(|item| *item != ItemId(0)), "app-00000/0000 is in no part");
    check(
        &|p| p.together.push(Group { items: vec![ItemId(0); 2], scope: Scope::Node }),
        "a group names app-00000/0000 twice",
    );
    check(
        &|p| p.edges[0].traffic = i64::MIN,
        "traffic times zone_cost reaches 2176715800697727090688; at most 1099511627776 is taken",
    );
    check(
        &|p| {
            let b = p.parts[1].items[0];
            let edge = Edge { a: ItemId(0), b, traffic: 1, latency_us_max: None, bandwidth_bps: 0 };
            p.edges.push(edge);
        },
        "app-00000/0000 and app-00001/0000 are tied, but not of one part",
    );
}

#[test]
fn the_model_as_json_has_the_same_answer() {
    for seed in 0..300 {
        let problem = tiny::problem(seed, 1);
        let read = Problem::from_json(&problem.to_json()).expect("our own words");
        let (ours, theirs) = (solve(&problem, 0), solve(&read, 0));
        assert_eq!(ours.objective, theirs.objective, "seed {seed}");
        assert_eq!(ours.parts[0], theirs.parts[0], "seed {seed}");
    }
}
