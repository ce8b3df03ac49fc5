"""Tables of a run, as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrograd.events import Kind
from retrograd.sizes import format_nbytes

if TYPE_CHECKING:
    from retrograd.result import Result
    from retrograd.stores.compressed import Statistics


def report(result: Result) -> str:
    """What was chosen, what it took in bytes, and steps, calls and seconds by kind."""
    tally, plan = result.tally, result.plan
    lines = [
        f"{plan.name}: {tally.forward_steps} forward steps for {plan.steps} "
        f"({tally.forward_steps / plan.steps:.3f} times)",
        f"arena {format_nbytes(result.arena_nbytes)} of a budget of "
        f"{format_nbytes(plan.memory_nbytes)}; keeping everything takes "
        f"{format_nbytes(plan.keep_all_nbytes)}",
        f"the problem's own fields take {format_nbytes(plan.demand.fixed_nbytes)} besides",
        "",
        f"{'':<10} {'calls':>8} {'steps':>9} {'seconds':>10}",
    ]
    lines += [
        f"{kind.value:<10} {tally.calls[kind]:>8} {tally.steps[kind]:>9} "
        f"{tally.seconds[kind]:>10.3f}"
        for kind in Kind
    ]
    lines.append(f"{'total':<10} {'':>8} {'':>9} {result.seconds:>10.3f}")
    if result.resumed:
        lines.append(f"resumed: {result.resumed}")
    if result.kept is not None:
        kept = result.kept
        lines.append(f"{kept.snapshots} snapshots to go on from took {kept.seconds:.3f} s")
    lines += _disk_lines(result)
    if result.compression is not None:
        lines.append(_compression_line(result.compression))
    lines += [f"recovered: {failure}" for failure in result.failures]
    return "\n".join(lines)


def _compression_line(found: Statistics) -> str:
    return (
        f"compressed {format_nbytes(found.raw_nbytes)} to "
        f"{format_nbytes(found.compressed_nbytes)} ({found.ratio:.3g} times less) at "
        f"{found.encode_rate / 1e6:.0f} MB/s, and back at {found.decode_rate / 1e6:.0f} MB/s; "
        f"the largest error is {found.largest_relative_error:.2g} of an array's largest magnitude"
    )


def _disk_lines(result: Result) -> list[str]:
    """What went to disk and back, and how long that was waited for."""
    moved = result.transfers
    if moved is None:
        return []
    return [
        "",
        f"disk: at most {format_nbytes(result.plan.prediction.disk_nbytes)}, "
        f"{format_nbytes(moved.written_nbytes)} written in {moved.write_seconds:.3f} s and "
        f"{format_nbytes(moved.read_nbytes)} read in {moved.read_seconds:.3f} s in the background; "
        f"waited for {moved.waited_seconds:.3f} s",
    ]
