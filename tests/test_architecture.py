"""Imports point the way that docs/architecture.md says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "retrograd"
FRAMEWORKS = {"devito", "scipy", "matplotlib", "rich", "jax", "torch", "dask", "mpi4py", "segyio"}
FRAMEWORKS |= {"checkpoint_schedules", "pyadjoint"}

CORE = (
    "actions arguments calibrate candidates citations cost demand durable errors events "
    "executor families foresight layout overlap pace pictures place placement "
    "placement_packed placements planner plans position prediction problem ranges recovery "
    "replay report result run schedule_file schedules sizes stores suggest sweep testing "
    "timeline verify"
).split()
MAY_IMPORT = {
    "actions": "",
    "errors": "",
    "suggest": "",
    "ranges": "",
    "arguments": "errors",
    "schedules": "actions arguments errors",
    "layout": "errors",
    "placement": "errors layout",
    "placement_packed": "errors layout placement",
    "placements": "layout placement placement_packed",
    "verify": "actions errors layout ranges",
    "replay": "actions layout placement placements",
    "sizes": "arguments errors",
    "cost": "errors verify",
    "demand": "layout sizes",
    "overlap": "actions cost demand",
    "families": "actions cost demand overlap schedules",
    "prediction": "actions cost demand errors overlap replay schedules verify",
    "position": "actions",
    "durable": "actions errors position stores",
    "recovery": "actions errors families plans position schedules",
    "plans": "actions cost demand prediction sizes",
    "candidates": "cost demand errors families plans prediction sizes",
    "planner": "actions arguments candidates cost demand errors families layout overlap plans "
    "prediction schedules sizes suggest",
    "online_plan": "actions demand errors layout plans prediction schedules sizes",
    "problem": "layout",
    "stores": "arguments errors layout placement placement_packed placements sizes",
    "foresight": "actions stores",
    "events": "actions",
    "pace": "errors",
    "executor": "actions errors events pace problem stores",
    "report": "events result sizes stores",
    "result": "durable errors plans report stores sweep",
    "place": "actions plans problem sizes stores",
    "sweep": "actions durable errors events executor foresight position problem stores",
    "run": "actions arguments calibrate cost durable errors events online_plan place planner plans "
    "problem recovery result sizes stores sweep",
    "calibrate": "actions cost errors events executor problem sizes stores",
    "testing": "actions errors layout problem run verify",
    "schedule_file": "actions errors layout verify",
    "timeline": "actions events",
    "pictures": "actions errors events plans result run sizes timeline",
    "citations": "errors suggest",
    "adapters": " ".join(CORE),
    "seismic": "retrograd errors",
    "cli": "retrograd seismic " + " ".join(CORE),
    "retrograd": "calibrate cost errors layout planner plans result run schedules verify",
}
"""For each module: what it may import of ours; ``retrograd`` is the public names."""


def module_of(path: Path) -> str:
    """The module or folder directly below the package that a file belongs to."""
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "retrograd" if first == "__init__" else first


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports, at any depth, except for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path) -> set[str]:
    """The modules of ours, directly below the package, that a file imports."""
    found = set()
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "retrograd":
            known = len(parts) > 1 and (parts[1] in MAY_IMPORT)
            found.add(parts[1] if known else "retrograd")
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_module_may(path: Path) -> None:
    module = module_of(path)
    assert module in MAY_IMPORT, f"give {module} a line in MAY_IMPORT and in docs/architecture.md"
    assert ours(path) - {module} <= set(MAY_IMPORT[module].split())


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_frameworks_are_imported_by_adapters_and_applications_only(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)} & FRAMEWORKS
    if module_of(path) == "adapters":
        assert used <= {p.removesuffix(".py") for p in path.relative_to(SOURCE).parts}  # its own
    elif module_of(path) not in ("seismic", "cli", "pictures"):
        assert not used


def test_adapters_do_not_know_one_another() -> None:
    adapters = SOURCE / "adapters"
    for path in adapters.rglob("*.py"):
        mine = path.relative_to(adapters).parts[0].removesuffix(".py")
        others = {
            name.split(".")[2] for name in imports(path) if name.startswith("retrograd.adapters.")
        }
        assert others <= {mine}, path


def test_there_are_no_cycles() -> None:
    graph = {module: set(allowed.split()) for module, allowed in MAY_IMPORT.items()}
    graph["report"] -= {"result"}  # for types only
    while graph:
        leaves = [m for m, needs in graph.items() if not needs & graph.keys() - {m}]
        assert leaves, f"a cycle among {sorted(graph)}"
        for leaf in leaves:
            del graph[leaf]


def test_the_documentation_shows_the_same_table() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Which way imports point")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", table, re.M))))
    assert named >= set(CORE) | {"adapters", "seismic", "cli"}


def test_the_core_runs_with_numpy_alone() -> None:
    """Without adapters, seismic and cli, and with no framework to be found."""
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        first = name.split(".")
        if first[0] in {sorted(FRAMEWORKS)!r} or first[:2] in (
            ["retrograd", "adapters"], ["retrograd", "seismic"], ["retrograd", "cli"]):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import retrograd
plan = retrograd.plan(1615, 2, 1, 201, free_start=True)
assert plan.forward_steps == 3042
assert retrograd.verify(plan.schedule, steps=1615, restart_nbytes=2, free_start=True).actions > 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
