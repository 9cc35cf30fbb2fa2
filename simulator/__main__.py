"""Run seeds from the command line."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from itertools import count

from simulator.host_faults import KINDS
from simulator.host_run import HostSimulation, simulate_hosts
from simulator.run import JOB, Failed, Simulation, simulate
from simulator.workflows import has_workflow


def show(run: Simulation) -> None:
    """Print the steps of a run."""
    for step in run.outside.steps(JOB):
        place = f"{step.number:4} tx {step.transaction:3} {step.rule:14} {step.who:14}"
        print(f"{place} {step.at} {step.choice[:90]}")


def on_hosts(options: argparse.Namespace) -> int:
    """Run seeds on several hosts, and tell which faults they played."""
    states: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    messages, last = 0, options.seed + options.seeds
    for seed in count(options.seed):
        if seed >= last and faults.total() >= options.faults:
            break
        run = HostSimulation(seed, trace=print) if options.trace else None
        try:
            played = simulate_hosts(seed, run)
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
        finally:
            if run is not None:
                show(run)
        states[played.result.state] += 1
        faults.update(played.faults)
        messages += played.messages
        if options.heads:
            print(f"{seed} {played.result.state} {played.result.steps} {played.result.head}")
    for kind in KINDS:
        print(f"{faults[kind]:6} {kind}")
    ends = ", ".join(f"{state} {number}" for state, number in sorted(states.items()))
    print(f"{faults.total()} faults, {messages} messages lost or doubled, in {states.total()} seeds: {ends}")
    return 0


def main() -> int:
    """Run one seed with its trace, or many."""
    parser = argparse.ArgumentParser(prog="simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--workflows", action="store_true", help="only those that have a workflow")
    parser.add_argument("--trace", action="store_true", help="print every step of the run")
    parser.add_argument("--heads", action="store_true", help="print what each seed came to, and its chain's head")
    parser.add_argument("--hosts", action="store_true", help="turns run on several hosts, which fail")
    parser.add_argument("--faults", type=int, default=0, help="with --hosts: go on until so many faults were played")
    options = parser.parse_args()
    if options.hosts:
        return on_hosts(options)
    states: Counter[str] = Counter()
    seeds = range(options.seed, options.seed + options.seeds)
    for seed in filter(has_workflow, seeds) if options.workflows else seeds:
        run = Simulation(seed, trace=print if options.trace else None) if options.trace else None
        try:
            result = run.run() if run is not None else simulate(seed)
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
        finally:
            if run is not None:
                show(run)
        states[result.state] += 1
        if options.heads:
            print(f"{seed} {result.state} {result.steps} {result.head}")
    print(f"{states.total()} seeds: " + ", ".join(f"{state} {count}" for state, count in sorted(states.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
