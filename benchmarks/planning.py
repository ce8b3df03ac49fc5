"""How long does it take to plan a schedule, beside checkpoint_schedules and pyRevolve?

Everything in one run and one process. A row is the seconds until the first action, the seconds
until the last one, and the actions; for the exact ones also the distance from a proven bound.

    python benchmarks/planning.py                 # about four minutes, most of them not ours
    python benchmarks/planning.py --ours
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter

from retrograd.schedules import (
    DiskRevolve,
    HRevolve,
    Levels,
    Mixed,
    PeriodicDiskRevolve,
    Revolve,
    TieredMixed,
    TierSlots,
    disk_revolve,
    hrevolve,
    mixed_best,
    tiered_mixed,
)
from retrograd.schedules.mixed_price import best_price
from retrograd.schedules.mixed_tree import make_shape

TIERS_2 = (TierSlots("memory", 20), TierSlots("disk", 200, 2.0, 2.0))
TIERS_3 = (TierSlots("device", 10), TierSlots("memory", 50, 0.5, 0.5))
TIERS_3 += (TierSlots("disk", 200, 2.0, 2.0),)


def ours() -> dict[str, Callable[[], Iterable[object]]]:
    """What is planned, by name."""
    return {
        "Revolve(1615, 100)": lambda: Revolve(1615, 100),
        "Revolve(10⁶, 50)": lambda: Revolve(10**6, 50),
        "Mixed(1615, 2, 1, 410)": lambda: Mixed(1615, 2, 1, 410),
        "Mixed(1615, 2, 1, 25)": lambda: Mixed(1615, 2, 1, 25),
        "Mixed(10⁴, 2, 1, 50)": lambda: Mixed(10**4, 2, 1, 50),
        "Mixed(10⁴, 20, 7, 1000)": lambda: Mixed(10**4, 20, 7, 1000),
        "Mixed(10⁴, 2, 1, 5000)": lambda: Mixed(10**4, 2, 1, 5000),
        "Mixed(10⁶, 2, 1, 300)": lambda: Mixed(10**6, 2, 1, 300),
        "Mixed(10⁶, 2, 1, 10⁵)": lambda: Mixed(10**6, 2, 1, 10**5),
        "Levels(1615, 2, 1, 28)": lambda: Levels(1615, 2, 1, 28, free_start=True),
        "Levels(10⁶, 2, 1, 303)": lambda: Levels(10**6, 2, 1, 303, free_start=True),
        "HRevolve(1615, 20 + 200)": lambda: HRevolve(1615, TIERS_2),
        "HRevolve(1615, 10 + 50 + 200)": lambda: HRevolve(1615, TIERS_3),
        "DiskRevolve(1615, 20)": lambda: DiskRevolve(1615, 20, 2.0, 2.0),
        "PeriodicDiskRevolve(10⁶, 20)": lambda: PeriodicDiskRevolve(10**6, 20, 2.0, 2.0),
        "TieredMixed(1615, 25 + 200)": lambda: TieredMixed(1615, 2, 1, 25, 200, 2.0, 2.0),
    }


def theirs() -> dict[str, Callable[[], Iterable[object]]]:
    """The same from checkpoint_schedules 1.0.4, whose tables are made when it is constructed."""
    import checkpoint_schedules as other

    return {
        "checkpoint_schedules.Revolve(1615, 100)": lambda: other.Revolve(1615, 100),
        "checkpoint_schedules.Mixed(300, 75)": lambda: other.MixedCheckpointSchedule(300, 75),
        "checkpoint_schedules.HRevolve(200, 10 + 20)": lambda: other.HRevolve(200, 10, 20),
        "checkpoint_schedules.Multistage(1615, 100)": lambda: other.MultistageCheckpointSchedule(
            1615, 100, 0
        ),
    }


def pyrevolve_seconds(steps: int, slots: int) -> tuple[float, int]:
    """pyRevolve's plan of one gradient, walked without running anything."""
    from pyrevolve.schedulers import CRevolve

    began = perf_counter()
    actions = CRevolve(slots, steps).oplist  # walked when it is made
    return perf_counter() - began, len(actions)


def forget() -> None:
    """Empty what is remembered from one plan to the next."""
    mixed_best.best_tree.cache_clear()
    for module in (disk_revolve, hrevolve, tiered_mixed):
        module._tables.cache_clear()


def timed(make: Callable[[], Iterable[object]], repeats: int) -> dict[str, float]:
    """Medians of the seconds to the first and to the last action."""
    firsts, lasts = [], []
    for _ in range(repeats):
        forget()
        began = perf_counter()
        actions = iter(make())
        next(actions)
        firsts.append(perf_counter() - began)
        count = 1 + sum(1 for _ in actions)
        lasts.append(perf_counter() - began)
    return {
        "first_s": statistics.median(firsts),
        "last_s": statistics.median(lasts),
        "actions": count,
    }


def peak_nbytes(make: Callable[[], Iterable[object]]) -> int:
    """Bytes that Python takes while all actions pass by."""
    forget()
    tracemalloc.start()
    for _ in zip(range(200_000), make(), strict=False):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bounds() -> list[dict[str, object]]:
    """Mixed beside its proven lower bound, exact and beyond the exact range."""
    found = []
    for steps, sizes in (
        (10_000, (2, 1, 50)),
        (20_000, (2, 1, 300)),
        (10**5, (2, 1, 300)),
        (10**6, (2, 1, 300)),
        (10**6, (20, 7, 5000)),
    ):
        forward = Mixed(steps, *sizes).forward_steps
        priced = best_price(make_shape(steps, sizes, False, False))
        bound = priced.cost(steps) // (steps + 1)
        found.append({"steps": steps, "sizes": sizes, "forward": forward, "bound": bound})
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", action="store_true", help="leave the other packages out")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    for name, make in ours().items():
        rows[name] = timed(make, 3) | {"peak_bytes": peak_nbytes(make)}
        say(name, rows[name])
    for found in bounds():
        excess = found["forward"] / found["bound"] - 1
        print(f"Mixed{(found['steps'], *found['sizes'])}: {excess:.2e} above its lower bound")
    if not options.ours:
        for name, make in theirs().items():
            rows[name] = timed(make, 1)
            say(name, rows[name])
        seconds, count = pyrevolve_seconds(1615, 100)
        rows["pyRevolve(1615, 100)"] = {"first_s": 0.0, "last_s": seconds, "actions": count}
        say("pyRevolve(1615, 100)", rows["pyRevolve(1615, 100)"])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def say(name: str, row: dict[str, float]) -> None:
    """One row, as text."""
    rate = row["actions"] / max(row["last_s"] - row["first_s"], 1e-9)
    peak = f"{row['peak_bytes'] / 1e6:8.2f} MB" if "peak_bytes" in row else ""
    print(
        f"{name:<46} first {row['first_s']:9.4f} s, last {row['last_s']:9.4f} s, "
        f"{row['actions']:>9} actions, {rate:10.3g}/s {peak}",
        flush=True,
        file=sys.stdout,
    )


if __name__ == "__main__":
    main()
