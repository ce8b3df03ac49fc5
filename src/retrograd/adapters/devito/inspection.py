"""What a pair of Devito operators computes, found in how they touch their functions.

A step of the forward is one iteration of its time loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from retrograd.adapters.devito.accesses import Access, accesses
from retrograd.adapters.devito.findings import Buffered, Findings, HeldField, StateField, Unread
from retrograd.adapters.devito.refusals import (
    refuse_buffered,
    refuse_late_updates,
    refuse_other_shapes,
    refuse_split_updates,
    refuse_swapped,
    refuse_unkept,
    refuse_unknown_names,
)
from retrograd.errors import NotSupported

Operator = Any


def inspect(
    forward: Operator, gradient: Operator, names: Mapping[str, str], *, apart: bool = True
) -> Findings:
    """Find state, records and outputs in two operators, or say why they cannot be run.

    Parameters
    ----------
    forward, gradient : operators as users build them, with ``save=nt`` wavefields.
    names : names of wavefields in the gradient operator, mapped to those in the forward.
    apart : keep wavefields that the gradient does not read out of the records.

    Raises
    ------
    NotSupported
        with the reason and what can be done.
    """
    for operator in (forward, gradient):
        refuse_split_updates(operator)
    ours, theirs = accesses(forward), accesses(gradient)
    refuse_swapped(ours, theirs)
    foreign = {name: access for name, access in theirs.items() if not _is_adjoint(access)}
    inner = {name: names.get(name, name) for name in foreign}
    read = {inner[name] for name, access in foreign.items() if access.reads}
    saved = tuple(_state(ours))
    written = {name for name, access in ours.items() if access.writes}
    refuse_unknown_names(names, foreign, written)
    state = tuple(f for f in saved if f.function.name in read or not apart)
    known = {item.function.name for item in state}
    held = (
        *(Unread(f.function, f.written, max(1, f.depth)) for f in saved if f not in state),
        *_buffered(ours),
        *_timeless_state(ours),
    )
    refuse_unkept(held, read)
    refuse_late_updates(forward, held)
    records = {
        inner[name]: tuple(sorted(access.reads))
        for name, access in foreign.items()
        if inner[name] in known and access.reads
    }
    gradient_names = {inner[name]: name for name in foreign if inner[name] in records}
    if not records:
        raise NotSupported(
            f"the gradient operator reads none of the forward's wavefields {sorted(known)}: if "
            'they have other names there, pass names={"name there": "name in the forward"}'
        )
    refuse_buffered(foreign, gradient_names)
    refuse_other_shapes(ours, foreign, gradient_names)
    return Findings(
        state=state,
        records=records,
        gradient_names=gradient_names,
        outputs=tuple(n for n, a in ours.items() if a.writes and a.is_sparse),
        forward_accumulators=tuple(_timeless_outputs(ours)),
        adjoint=tuple(n for n, a in theirs.items() if a.writes and a.function.is_TimeFunction),
        accumulators=tuple(
            n
            for n, a in theirs.items()
            if a.writes and not a.function.is_TimeFunction and not a.is_sparse
        ),
        reverse_outputs=tuple(n for n, a in theirs.items() if a.writes and a.is_sparse),
        covered=all(ours[item.function.name].covers for item in saved),
        held=held,
        every=_common_rate([ours[name] for name in known]),
    )


def _common_rate(accesses: list[Access]) -> int:
    rates = {access.every for access in accesses}
    if len(rates) == 1:
        return rates.pop()
    names = sorted(access.function.name for access in accesses)
    raise NotSupported(
        f"the gradient reads wavefields {names} that are kept every {sorted(rates)} iterations: "
        "keep all that it reads at one rate, on one ConditionalDimension"
    )


def _state(found: Mapping[str, Access]) -> Iterator[StateField]:
    for name, access in found.items():
        if not access.writes or not access.is_saved:
            continue
        if len(access.writes) != 1:
            raise NotSupported(
                f"the forward writes {name!r} at the time offsets {sorted(access.writes)}: a "
                "step must write one new sample of each wavefield"
            )
        (written,) = access.writes
        if max(access.reads, default=written) > written:
            raise NotSupported(f"the forward reads {name!r} at a later sample than it writes")
        yield StateField(access.function, written, written - min(access.reads | {written}))


def _buffered(found: Mapping[str, Access]) -> Iterator[Buffered]:
    for access in found.values():
        function = access.function
        if access.writes and function.is_TimeFunction and not access.is_saved:
            yield Buffered(function, tuple(needed_samples(access, int(function._time_size))))


def needed_samples(access: Access, count: int) -> Iterator[int]:
    """The offsets of the samples, of ``count`` that are used in turn, that a restart must have.

    Before iteration t, sample ``x`` is next written by iteration t + i with x = written + i
    modulo ``count``. It is needed if an iteration up to that one reads it. Offsets are known
    modulo ``count`` only, which is all that this needs.
    """
    (written, *others) = sorted(access.writes)
    for until in range(count):
        sample = written + until - count
        delays = {offset: (sample - offset) % count for offset in access.reads}
        if (
            others
            or not access.covers
            or any(
                delay < until or (delay == until and offset in access.early)
                for offset, delay in delays.items()
            )
        ):
            yield sample


def _timeless_state(found: Mapping[str, Access]) -> Iterator[HeldField]:
    for access in found.values():
        if _is_timeless(access) and access.elsewhere:
            yield HeldField(access.function)


def _is_timeless(access: Access) -> bool:
    """Whether it is written and has no time, and is neither source nor receiver."""
    return bool(access.writes) and not access.function.is_TimeFunction and not access.is_sparse


def _timeless_outputs(found: Mapping[str, Access]) -> Iterator[str]:
    for name, access in found.items():
        if _is_timeless(access) and not access.elsewhere:
            yield name


def _is_adjoint(access: Access) -> bool:
    """Whether it is the gradient operator's own, also if the forward has one of its name."""
    return bool(access.writes) and bool(access.function.is_TimeFunction) and not access.is_saved
