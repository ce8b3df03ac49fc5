"""Nested tuples, lists and dicts of arrays and numbers, as named arrays and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import NotSupported

_FORM: Final = "form"


def taken_apart(value: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a value by name, and its form, from which `put_together` makes it again.

    Raises
    ------
    NotSupported
        for what consists of anything else than tuples, lists, dicts, arrays and numbers.

    >>> apart = taken_apart((np.arange(3), {"misfit": 0.5, "terms": [2]}))
    >>> put_together(apart)
    (array([0, 1, 2]), {'misfit': 0.5, 'terms': [2]})
    """
    arrays: dict[str, NDArray[Any]] = {}
    form = json.dumps(_form(value, arrays))
    return {_FORM: np.frombuffer(form.encode(), dtype=np.uint8), **arrays}


def put_together(arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The value that `taken_apart` took apart."""
    return _value(json.loads(arrays[_FORM].tobytes().decode()), arrays)


def _form(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """What JSON can say of a value: a kind, and what it needs."""
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        name = str(len(arrays))
        arrays[name] = np.asarray(value)
        return ["array" if isinstance(value, np.ndarray) else "scalar", name]
    if value is None or type(value) in (bool, int, float, str):
        return ["value", value]
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if type(value) in (tuple, list):
        return [type(value).__name__, [_form(part, arrays) for part in value]]
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return ["dict", {key: _form(part, arrays) for key, part in value.items()}]
    raise NotSupported(
        f"an adjoint that holds a {type(value).__name__} cannot be kept on disk: make it of plain "
        "tuples, lists, dicts with text as keys, arrays and numbers, or leave resume= out"
    )


def _value(form: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    kind, *rest = form
    match kind:
        case "array":
            return arrays[rest[0]]
        case "scalar":
            return arrays[rest[0]][()]
        case "value":
            return rest[0]
        case "complex":
            return complex(*rest)
        case "dict":
            return {key: _value(part, arrays) for key, part in rest[0].items()}
        case _:
            parts = [_value(part, arrays) for part in rest[0]]
            return tuple(parts) if kind == "tuple" else parts
