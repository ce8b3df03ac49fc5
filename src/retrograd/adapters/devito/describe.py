"""A table of what was found in a pair of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrograd.sizes import format_nbytes

if TYPE_CHECKING:
    from retrograd.adapters.devito.problem import Problem


def describe(problem: Problem) -> str:
    """State, records, adjoint state, outputs and both time ranges, as text."""
    findings, layout, timeline = problem.findings, problem.layout, problem.timeline
    lines = [
        f"steps          {timeline.steps} (iterations {timeline.first} to {timeline.last}"
        + (f", {timeline.every} a step" if timeline.every > 1 else "")
        + "; the "
        f"gradient runs {timeline.reverse_last} to {timeline.reverse_first})",
        f"restart        {format_nbytes(layout.restart_nbytes)}: {layout.depth} samples of each "
        "wavefield that the gradient reads"
        + (", and what else belongs to the state" if layout.held else ""),
        f"record         {format_nbytes(layout.record_nbytes)}: one more sample of each, "
        + ("part of the state" if layout.record_in_state else "made by the step"),
        f"keep-all       {format_nbytes(problem.keep_all_nbytes)}",
        "",
        f"{'wavefield':<14} {'sample':>10}  the gradient reads",
    ]
    for state, field in zip(findings.state, layout.state, strict=True):
        name = state.function.name
        read = ", ".join(_at(offset) for offset in findings.records.get(name, ())) or "nothing"
        alias = findings.gradient_names.get(name, name)
        other = f" (there called {alias})" if alias != name else ""
        lines.append(f"{name:<14} {format_nbytes(field.nbytes):>10}  {read}{other}")
    for held in layout.held:
        lines.append(f"{held.name:<14} {format_nbytes(held.nbytes):>10}  nothing; in restarts only")
    roles = {
        "adjoint state": findings.adjoint,
        "accumulators": findings.accumulators,
        "receivers": findings.outputs,
        "forward sums": findings.forward_accumulators,
    }
    lines.append("")
    lines += [f"{role:<14} {', '.join(names)}" for role, names in roles.items() if names]
    if problem.compared:
        lines.append(f"{'proof':<14} {problem.compared} arrays compared, all as the first time")
    return "\n".join(lines)


def _at(offset: int) -> str:
    return f"t{offset:+d}" if offset else "t"
