"""What is asked of arguments: whole numbers, and flags that are True or False."""

from __future__ import annotations

import operator

from retrograd.errors import InvalidArgument


def whole(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int that is at least `least`; NumPy integers are welcome.

    Raises
    ------
    InvalidArgument : for anything else, bool and whole floats included.
    """
    if not isinstance(value, bool):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if number >= least:
                return number
    raise InvalidArgument(
        f"{name}={value!r} is not a whole number of at least {least}: "
        f"write an int, such as {name}={max(least, 1)}"
    )


def flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False.

    Raises
    ------
    InvalidArgument : for anything else; a count in the place of a flag would pass as true.
    """
    if isinstance(value, bool):
        return value
    raise InvalidArgument(
        f"{name}={value!r} is neither True nor False: write {name}=True or leave it out"
    )
