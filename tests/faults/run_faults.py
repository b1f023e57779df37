"""Try every kind of fault and print what was tried, survived and lost: `make faults`.

The numbers are arguments; `--share 0.1` takes a tenth of each.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "faults"), str(TESTS)]

NUMBERS = {
    "kills": 100,
    "model_kills": 20,
    "sweep_kills": 20,
    "ray_sweeps": 1,
    "disk": 50,
    "processes": 20,
    "mutations": 1000,
    "hostile": 500,
    "command_lines": 8000,
    "configurations": 2000,
    "environments": 47,
}
"""How often each kind of fault is tried."""


def main() -> int:
    """Run what was asked for; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in NUMBERS.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, metavar="N", help=f"default: {number}")
    parser.add_argument("--share", type=float, default=1.0, help="take this share of each default")
    parser.add_argument("--only", action="store_true", help="try only what is named")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    numbers = {name: max(1, round(arguments.share * NUMBERS[name])) for name in NUMBERS}
    if arguments.only:
        numbers = dict.fromkeys(numbers, 0)
    given = {name: getattr(arguments, name) for name in NUMBERS}
    numbers |= {name: number for name, number in given.items() if number is not None}
    with tempfile.TemporaryDirectory(prefix="narl-faults-") as folder:
        return try_all(numbers, Path(folder), arguments.seed)


def try_all(numbers: dict[str, int], folder: Path, seed: int) -> int:
    """Try every kind of fault so many times; return 1 if anything was lost."""
    from fault_processes import NARL, Processes, try_full_disks, try_kills, try_many, undisturbed
    from fault_tally import Tally, print_table

    logging.getLogger("narl").setLevel(logging.CRITICAL)  # damage is warned of, as it should be
    tallies: list[Tally] = []

    def add(name: str, call: Callable[[int], Tally]) -> None:
        if numbers[name]:
            begin = time.monotonic()
            tallies.append(call(numbers[name]))
            seconds = time.monotonic() - begin
            print(f"{tallies[-1].name}: {seconds:.0f} s", file=sys.stderr, flush=True)

    # Processes first: they are forked from one that has not used JAX.
    processes = Processes(folder / "processes", folder / "programs")
    if numbers["model_kills"]:
        with_models = undisturbed(processes, NARL)
        add("model_kills", lambda n: try_kills(processes, with_models, n, seed))
    if numbers["kills"] or numbers["disk"] or numbers["processes"]:
        reference = undisturbed(processes)
        add("kills", lambda n: try_kills(processes, reference, n, seed))
        add("disk", lambda n: try_full_disks(processes, reference, n, seed))
        add("processes", lambda n: try_many(processes, reference, n))

    from fault_sweeps import try_ray_sweeps, try_sweep_kills

    add("ray_sweeps", try_ray_sweeps)
    add("sweep_kills", lambda n: try_sweep_kills(folder / "sweeps", folder / "programs", n, seed))

    from fault_artifacts import make_artifacts
    from fault_commands import try_command_lines, try_configurations
    from fault_environments import try_environments
    from fault_hostile import try_hostile
    from fault_mutations import try_mutations

    made = make_artifacts(folder / "made")
    add("mutations", lambda n: try_mutations(made, n, folder, seed))
    add("hostile", lambda n: try_hostile(made, n, folder, seed))
    add("command_lines", lambda n: try_command_lines(made, n, folder, seed))
    add("configurations", lambda n: try_configurations(n, seed))
    add("environments", lambda n: try_environments(n, folder))
    print_table(tallies)
    return int(any(tally.lost for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
