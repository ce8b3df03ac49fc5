"""Failures that all ranks have, that one has before it starts, and that one has on its way."""

from __future__ import annotations

import sys
from typing import Any

import devito
from mpi4py import MPI
from tests.adapters.devito.conftest import Wave, build

import retrograd
from retrograd.errors import BudgetTooSmall, InvalidArgument, NotSupported, RankFailed

devito.configuration["log-level"] = "ERROR"
COMM = MPI.COMM_WORLD


def say(text: str) -> None:
    sys.stdout.write(f"rank {COMM.rank} {text}\n")
    sys.stdout.flush()


def checkpointed(wave: Wave, samples: int, **options: Any) -> Any:
    return retrograd.devito.checkpointed(
        wave.forward, wave.gradient, memory=samples * wave.sample_nbytes, **options
    )


def all_fail(wave: Wave) -> None:
    run = checkpointed(wave, 6)
    for arguments, kind in (({"dtt": 1.0}, InvalidArgument), ({"resume": "here"}, NotSupported)):
        try:
            run.forward(**arguments)
        except kind as error:
            say(f"has {type(error).__name__}")
    wave.run(run)


def an_early_exchange() -> None:
    """Devito puts both updates into one loop over x, and all exchanges before it."""
    grid = devito.Grid(shape=(8, 8))
    fields = {"grid": grid, "space_order": 2, "time_order": 1}
    u, a = (devito.TimeFunction(name=n, save=s, **fields) for n, s in (("u", 9), ("a", None)))
    s = devito.TimeFunction(name="s", **fields)
    forward = devito.Operator(
        [devito.Eq(u.forward, u + s.dxc), devito.Eq(s.forward, s + u.forward.dyc)]
    )
    gradient = devito.Operator([devito.Eq(a.backward, a + u)])
    try:
        retrograd.devito.Problem(forward, gradient)
    except NotSupported as error:
        say(f"has {error}")


def one_has_too_little(wave: Wave) -> None:
    try:
        checkpointed(wave, 6 if COMM.rank == 0 else 1)
    except (BudgetTooSmall, RankFailed) as error:
        say(f"has {type(error).__name__}: {error}")


def one_fails_on_its_way(wave: Wave, sweep: str) -> None:
    phase = ""

    def fail(event: Any) -> None:
        if COMM.rank == 1 and phase == sweep and 10 <= event.stop <= 20:
            raise OSError("the disk of rank 1 is full")

    run = checkpointed(wave, 6, observers=[fail])
    phase = "forward"
    run.forward(dt=wave.dt)
    phase = "reverse"
    run.reverse(dt=wave.dt)
    say("got through")


def main(what: str) -> None:
    wave = build(2)
    if what in ("forward", "reverse"):
        one_fails_on_its_way(wave, what)
    elif what == "early":
        an_early_exchange()
    else:
        all_fail(wave)
        one_has_too_little(wave)


if __name__ == "__main__":
    main(sys.argv[1])
