"""The public names: explicit, documented, and light to import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import retrograd

MODULES = [retrograd, retrograd.arrays, retrograd.devito, retrograd.seismic]
HEAVY = ("devito", "scipy", "matplotlib", "rich", "jax", "torch", "sympy", "blosc2", "zfpy")


@pytest.mark.parametrize("module", [m for m in MODULES if hasattr(m, "__all__")])
def test_names_exist_and_stand_there_once(module: ModuleType) -> None:
    """Their order is the linter's business (RUF022)."""
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def public_things() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in MODULES:
        names = getattr(module, "__all__", ["Problem"])
        for name in names:
            thing = getattr(module, name)
            found[f"{module.__name__}.{name}"] = thing
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and (callable(value) or hasattr(value, "fget")):
                        found[f"{module.__name__}.{name}.{member}"] = value
    return found


@pytest.mark.parametrize(("name", "thing"), public_things().items(), ids=lambda v: str(v)[:60])
def test_every_public_name_is_documented(name: str, thing: Any) -> None:
    if (
        inspect.ismodule(thing)
        or inspect.isclass(thing)
        or callable(thing)
        or hasattr(thing, "fget")
    ):
        assert inspect.getdoc(thing), name


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = retrograd.nonsense


def test_importing_is_light() -> None:
    """No framework is loaded."""
    code = f"import sys, retrograd; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
