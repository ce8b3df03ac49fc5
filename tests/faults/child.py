"""What the tests of faults run in a process of its own: ``python -m tests.faults.child what …``."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from retrograd.errors import StoreFull
from retrograd.stores import DiskStore
from tests.faults.loop import Loop, bits, gradient, run_of

_ROOT = Path(__file__).parents[2]


def start(what: str, *words: object) -> subprocess.Popen[str]:
    """Begin one of the functions below in a process of its own."""
    paths = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.child", what, *map(str, words)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], say: str = "") -> tuple[int, str, str]:
    """Wait for its end: the exit status, and what it wrote to stdout and stderr."""
    try:
        out, complaints = process.communicate(say, timeout=60)
    finally:
        process.kill()
    return process.returncode, out, complaints


def call(what: str, *words: object) -> tuple[int, str, str]:
    """Run one of the functions below in a process of its own."""
    return finish(start(what, *words))


def _say(*lines: object) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def signalled(scratch: str, name: str, phase: str, schedule: str) -> None:
    """Send a signal to itself from the user's function."""
    loop = Loop()
    loop.disturb(phase, 3, lambda: os.kill(os.getpid(), signal.Signals[name]))
    gradient(run_of(loop, scratch, schedule))
    _say("not ended")


def signalled_while_it_waits(scratch: str, name: str) -> None:
    """Get a signal while all buffers are full and the disk is slow."""
    write = DiskStore.save

    def slow(store: DiskStore, *args: Any) -> None:
        time.sleep(0.3)
        write(store, *args)

    DiskStore.save = slow  # type: ignore[method-assign]
    number = signal.Signals[name]
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), number))
    timer.daemon = True
    loop = Loop()
    loop.disturb("forward", 2, timer.start)
    gradient(run_of(loop, scratch, "multistage"))
    _say("not ended")


def limited(scratch: str, nbytes: str, compress: str) -> None:
    """Make no file larger than so many bytes: from the beginning, and then from the forward on."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    loop, options = Loop(), {"compress": compress or None}
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(nbytes), hard))
    try:
        run_of(loop, scratch, "tiered-mixed", **options)
    except StoreFull as error:
        _say(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    with run_of(loop, scratch, "tiered-mixed", **options) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(nbytes), hard))
        run.forward()
        result = run.reverse()
        _say(*result.failures, bits(result).hex())


def again_and_again(scratch: str, times: str) -> None:
    """Make gradients as soon as a line is read."""
    with run_of(Loop(), scratch, "tiered-mixed") as run:
        _say("ready")
        sys.stdin.readline()
        _say(*{gradient(run).hex() for _ in range(int(times))})


_WHAT: dict[str, Callable[..., None]] = {
    each.__name__: each for each in (signalled, signalled_while_it_waits, limited, again_and_again)
}

if __name__ == "__main__":
    _WHAT[sys.argv[1]](*sys.argv[2:])
