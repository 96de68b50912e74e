#!/usr/bin/env python3
"""Solves dumped placement models with CP-SAT and compares: how far our answers are from the best,
and how much quicker they come. One JSON line at the end; `make bench-placement` calls it.

    scripts/bench-placement.py FOLDER [--seconds 30]

FOLDER holds NAME.json (a placement model, docs/placement-model.md) and NAME.answer.json with
{"feasible", "objective", "bound", "optimal", "seconds", "chosen"} for each: what Tombolo found, and
how long the search took, in the same run. Every answer is first judged by the model alone: whether
it breaks a rule, and what it is worth. CP-SAT gets one worker, as we have one core. Both times are
those on the processor.
"""

import argparse
import json
import pathlib
import sys
import time


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--seconds", type=float, default=30, help="for CP-SAT, each model")
    options = arguments.parse_args()
    try:
        from ortools.sat.python import cp_model  # noqa: F401
    except ImportError:
        sys.exit("OR-tools is not installed; `make bench-placement` installs it")
    rows = []
    for path in sorted(options.folder.glob("*.answer.json")):
        model = json.loads(path.with_name(path.name.replace(".answer.json", ".json")).read_text())
        ours = json.loads(path.read_text())
        if ours["feasible"] and judge(model, ours["chosen"]) != ours["objective"]:
            sys.exit(f"{path.name} is not what the model makes of it: {judge(model, ours['chosen'])}")
        theirs = solve(model, options.seconds)
        rows.append(compare(path.name.split(".")[0], ours, theirs))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if not rows:
        sys.exit(f"no NAME.answer.json in {options.folder}")
    kinds = {}
    for row in rows:
        kinds.setdefault(row["name"].rsplit("-", 1)[0], []).append(row)
    by_kind = {kind: summary(of_kind) for kind, of_kind in kinds.items()}
    print(json.dumps({"bench": "placement against CP-SAT", **summary(rows), "by_kind": by_kind}))
    if any(row["disagrees"] for row in rows):
        sys.exit("CP-SAT and Tombolo disagree about what is possible")


def judge(model, chosen):
    """The objective of an answer, or a sentence about the first rule that it breaks."""
    worth = 0
    used, carried = {}, {}
    zones = [model["nodes"][node]["zone"] for node, _ in chosen]
    for item, (node, engine) in zip(model["items"], chosen):
        values = [c["value"] for c in item["candidates"] if (c["node"], c["engine"]) == (node, engine)]
        if len(values) != 1:
            return f"{item['id']} is on a node that is no candidate"
        worth += values[0]
        for resource, demand in item["demand"].items():
            used[node, resource] = used.get((node, resource), 0) + demand
    for (node, resource), demand in used.items():
        if demand > model["nodes"][node]["capacity"].get(resource, 0):
            return f"node {node} has not so much {resource}"
    for edge in model["edges"]:
        a, b = zones[edge["a"]], zones[edge["b"]]
        route, limit = model["routes"][a][b], edge["latency_us_max"]
        if route is None or (limit is not None and route["latency_us"] > limit):
            return f"{edge} has no way that is short enough"
        worth -= edge["traffic"] * model["zone_cost"][a][b]
        for link in route["links"] if a != b else ():
            carried[link] = carried.get(link, 0) + edge["bandwidth_bps"]
    for link, rate in carried.items():
        left = model["links"][link]["bandwidth_bps"]
        if left is not None and rate > left:
            return f"link {link} is too narrow"
    for rule in "apart", "together":
        for group in model[rule]:
            places = [zones[i] if group["scope"] == "zone" else chosen[i][0] for i in group["items"]]
            most = len(places) if rule == "apart" else 1
            if places and len(set(places)) != most:
                return f"{group} are not {rule}"
    for items in model["same_engine"]:
        if len({chosen[i][1] for i in items}) > 1:
            return f"{items} have several engines"
    return worth - crowding(model, chosen, zones)


def share(model, item, node):
    """What an item takes of a node, in thousandths."""
    whole = model["load"]["nodes"][node]["whole"]
    shares = [1000 * item["demand"].get(name, 0) // amount for name, amount in whole.items()]
    return min(1000, max(shares, default=0))


def load_cost(model, load):
    return sum(step["cost"] * max(0, load - step["above"]) for step in model["load"]["steps"])


def crowding(model, chosen, zones):
    """What the load of nodes costs, and items in one place that would rather not be."""
    cost, loads = 0, {}
    for item, (node, _) in zip(model["items"], chosen):
        if item["loads"] and model["load"]["nodes"]:
            loads[node] = loads.get(node, 0) + share(model, item, node)
    for node, load in loads.items():
        before = model["load"]["nodes"][node]["before"]
        cost += load_cost(model, before + load) - load_cost(model, before)
    for group in model["scatter"]:
        places = [zones[i] if group["scope"] == "zone" else chosen[i][0] for i in group["items"]]
        for place in set(places):
            count = places.count(place)
            cost += group["cost"] * (count * (count - 1) // 2)
    return cost


def compare(name, ours, theirs):
    """A gap is counted against the better of the two answers; the summary only takes models that
    CP-SAT has proven, where that is the best there is."""
    gap = None
    disagrees = ours["feasible"] and theirs["status"] == "INFEASIBLE"
    disagrees |= not ours["feasible"] and ours["optimal"] and theirs["objective"] is not None
    if ours["feasible"] and theirs["objective"] is not None:
        best = max(theirs["objective"], ours["objective"])
        gap = 100 * (best - ours["objective"]) / max(1, abs(best))
        proven = theirs["status"] == "OPTIMAL"
        disagrees |= proven and ours["objective"] > theirs["objective"]
        disagrees |= ours["bound"] < theirs["objective"]
    return {
        "name": name,
        "status": theirs["status"],
        "ours": ours["objective"] if ours["feasible"] else None,
        "proven": ours["optimal"],
        "cp_sat": theirs["objective"],
        "gap_percent": gap,
        "seconds": ours["seconds"],
        "cp_sat_seconds": theirs["seconds"],
        "disagrees": disagrees,
        "missed": not ours["feasible"] and theirs["objective"] is not None,
    }


def summary(rows):
    optimal = [row for row in rows if row["status"] == "OPTIMAL" and row["gap_percent"] is not None]
    gaps = [row["gap_percent"] for row in optimal]
    ours = sum(row["seconds"] for row in rows)
    theirs = sum(row["cp_sat_seconds"] for row in rows)
    ratios = sorted(row["cp_sat_seconds"] / max(row["seconds"], 1e-9) for row in rows)
    return {
        "models": len(rows),
        "proven_by_cp_sat": len(optimal),
        "proven_by_us": sum(row["proven"] for row in rows),
        "found_by_cp_sat": sum(row["cp_sat"] is not None for row in rows),
        "found_by_us": sum(row["ours"] is not None for row in rows),
        "seconds_worst": max(row["seconds"] for row in rows),
        "missed": sum(row["missed"] for row in rows),
        "disagreements": sum(row["disagrees"] for row in rows),
        "gap_percent_mean": sum(gaps) / len(gaps) if gaps else None,
        "gap_percent_worst": max(gaps, default=None),
        "seconds_total": ours,
        "cp_sat_seconds_total": theirs,
        "speed_ratio_of_totals": theirs / max(ours, 1e-9),
        "speed_ratio_median": ratios[len(ratios) // 2],
    }


def solve(model, seconds):
    from ortools.sat.python import cp_model

    cp = cp_model.CpModel()
    chosen = [
        [cp.new_bool_var(f"x{i}_{k}") for k in range(len(item["candidates"]))]
        for i, item in enumerate(model["items"])
    ]
    terms = []
    for item, literals in zip(model["items"], chosen):
        cp.add_exactly_one(literals) if literals else cp.add_bool_or([])
        terms += [c["value"] * x for c, x in zip(item["candidates"], literals)]
    add_capacities(cp, model, chosen)
    at_zone = zones_of(cp, model, chosen)
    add_groups(cp, model, chosen, at_zone)
    terms += add_edges(cp, model, at_zone)
    terms += add_load(cp, model, chosen)
    terms += add_scatter(cp, model, chosen, at_zone)
    cp.maximize(sum(terms))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    # Building the model in Python is not CP-SAT's fault, and does not count.
    started = time.process_time()
    status = solver.solve(cp)
    seconds = time.process_time() - started
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return {
        "status": solver.status_name(status),
        "objective": round(solver.objective_value) if found else None,
        "seconds": seconds,
    }


def add_capacities(cp, model, chosen):
    used = {}
    for item, literals in zip(model["items"], chosen):
        for candidate, x in zip(item["candidates"], literals):
            for resource, demand in item["demand"].items():
                used.setdefault((candidate["node"], resource), []).append(demand * x)
    for (node, resource), sums in used.items():
        cp.add(sum(sums) <= model["nodes"][node]["capacity"].get(resource, 0))


def zones_of(cp, model, chosen):
    """For every item: zone -> a literal that says whether it is there."""
    result = []
    for i, (item, literals) in enumerate(zip(model["items"], chosen)):
        by_zone = {}
        for candidate, x in zip(item["candidates"], literals):
            by_zone.setdefault(model["nodes"][candidate["node"]]["zone"], []).append(x)
        there = {}
        for zone, inside in by_zone.items():
            there[zone] = cp.new_bool_var(f"z{i}_{zone}")
            cp.add(sum(inside) == there[zone])
        result.append(there)
    return result


def by_node(model, chosen, i):
    result = {}
    for candidate, x in zip(model["items"][i]["candidates"], chosen[i]):
        result.setdefault(candidate["node"], []).append(x)
    return {node: sum(literals) for node, literals in result.items()}


def add_groups(cp, model, chosen, at_zone):
    def places(group):
        if group["scope"] == "zone":
            return [at_zone[i] for i in group["items"]]
        return [by_node(model, chosen, i) for i in group["items"]]

    for group in model["apart"]:
        everyone = places(group)
        for place in set().union(*everyone) if everyone else ():
            cp.add(sum(p[place] for p in everyone if place in p) <= 1)
    for group in model["together"]:
        everyone = places(group)
        for first, second in zip(everyone, everyone[1:]):
            for place in set(first) | set(second):
                cp.add(first.get(place, 0) == second.get(place, 0))
    for items in model["same_engine"]:
        engines = []
        for i in items:
            of = {}
            for candidate, x in zip(model["items"][i]["candidates"], chosen[i]):
                of.setdefault(candidate["engine"], []).append(x)
            engines.append({engine: sum(literals) for engine, literals in of.items()})
        for first, second in zip(engines, engines[1:]):
            for engine in set(first) | set(second):
                cp.add(first.get(engine, 0) == second.get(engine, 0))


def add_load(cp, model, chosen):
    """Costs rise, so each step is a variable that is at least what is above it."""
    terms, loads = [], {}
    for item, literals in zip(model["items"], chosen):
        for candidate, x in zip(item["candidates"], literals):
            if item["loads"] and model["load"]["nodes"]:
                part = share(model, item, candidate["node"])
                loads.setdefault(candidate["node"], []).append((part, x))
    for node, parts in loads.items():
        before = model["load"]["nodes"][node]["before"]
        most = before + sum(part for part, _ in parts)
        for s, step in enumerate(model["load"]["steps"]):
            already = max(0, before - step["above"])
            if step["cost"] > 0 and most > step["above"]:
                over = cp.new_int_var(already, most, f"l{node}_{s}")
                cp.add(over >= before - step["above"] + sum(part * x for part, x in parts))
                terms.append(-step["cost"] * (over - already))
    return terms


def add_scatter(cp, model, chosen, at_zone):
    """Every two items that share a place, as a literal of its own where they are few, and by counting where not."""
    terms = []
    for g, group in enumerate(model["scatter"]):
        everyone = [
            at_zone[i] if group["scope"] == "zone" else by_node(model, chosen, i)
            for i in group["items"]
        ]
        for place in set().union(*everyone) if everyone else ():
            there = sum(p[place] for p in everyone if place in p)
            size = sum(place in p for p in everyone)
            if size < 2 or group["cost"] == 0:
                continue
            pairs = cp.new_int_var(0, size * (size - 1) // 2, f"s{g}_{place}")
            count = cp.new_int_var(0, size, f"c{g}_{place}")
            cp.add(count == there)
            cp.add_allowed_assignments([count, pairs], [(k, k * (k - 1) // 2) for k in range(size + 1)])
            terms.append(-group["cost"] * pairs)
    return terms


def add_edges(cp, model, at_zone):
    terms = []
    links = {}
    for e, edge in enumerate(model["edges"]):
        for a, there in at_zone[edge["a"]].items():
            for b, here in at_zone[edge["b"]].items():
                if edge["a"] == edge["b"] and a != b:
                    continue
                route = model["routes"][a][b]
                limit = edge["latency_us_max"]
                if route is None or (limit is not None and route["latency_us"] > limit):
                    cp.add_bool_or([there.negated(), here.negated()])
                    continue
                cost = edge["traffic"] * model["zone_cost"][a][b]
                uses = edge["bandwidth_bps"] > 0 and a != b and route["links"]
                if cost == 0 and not uses:
                    continue
                both = cp.new_bool_var(f"e{e}_{a}_{b}")
                cp.add_bool_or([there.negated(), here.negated(), both])
                cp.add_implication(both, there)
                cp.add_implication(both, here)
                terms.append(-cost * both)
                for link in route["links"] if uses else ():
                    links.setdefault(link, []).append(edge["bandwidth_bps"] * both)
    for link, sums in links.items():
        left = model["links"][link]["bandwidth_bps"]
        if left is not None:
            cp.add(sum(sums) <= left)
    return terms


if __name__ == "__main__":
    main()
