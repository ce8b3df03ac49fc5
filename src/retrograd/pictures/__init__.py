"""Pictures of schedules and of runs: steps downwards, time across.

What moves is slanted, a restart is a level line, records are an area. Files are SVG, which needs
nothing, or PNG, which needs Matplotlib; `text` draws with characters.
"""

from __future__ import annotations

from pathlib import Path

from retrograd.errors import InvalidArgument
from retrograd.pictures.curve import save_curve
from retrograd.pictures.picture import Shown, picture_of
from retrograd.pictures.png import save_png
from retrograd.pictures.svg import svg
from retrograd.pictures.terminal import Terminal, in_characters

__all__ = ["Shown", "Terminal", "draw", "save_curve", "text"]


def draw(shown: Shown, path: str | Path, *, name: str | None = None) -> Path:
    """Write the picture of a run, a plan or a schedule to a file, and return its path.

    What is smaller than a pixel is merged or left out, and a line below the picture says so.

    Parameters
    ----------
    shown : a `retrograd.Result`, drawn in the seconds that it took; a `retrograd.Plan` or any
        iterable of actions, drawn in steps executed.
    path : where to, ending in ``.svg`` or ``.png``.
    name : what the title calls it; the schedule's own name if left out.

    Raises
    ------
    InvalidArgument
        for another ending, a path that cannot be written, or nothing to draw.
    MissingExtra
        for PNG without Matplotlib.

    Examples
    --------
    >>> import tempfile
    >>> from retrograd.schedules import Revolve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = draw(Revolve(30, slots=4), f"{folder}/revolve.svg")
    ...     path.stat().st_size < 20_000
    True
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".svg", ".png"):
        better = path.parent / f"{path.stem or 'picture'}.svg"
        raise InvalidArgument(f"{path}: a picture is an .svg or a .png file: write {better}")
    picture = picture_of(shown, name)
    try:
        if ending == ".svg":
            path.write_text(svg(picture), encoding="utf-8")
        else:
            save_png(picture, path)
    except OSError as error:
        raise InvalidArgument(
            f"{path} cannot be written: {error.strerror}; name a file in a directory that you may "
            "write to"
        ) from error
    return path


def text(shown: Shown, terminal: Terminal | None = None, *, name: str | None = None) -> str:
    """The picture of a run, a plan or a schedule in characters.

    Parameters
    ----------
    shown, name : as for `draw`.
    terminal : its size and what it shows; 80 by 30 characters with Unicode if left out.

    Examples
    --------
    >>> from retrograd.schedules import KeepAll
    >>> print(text(KeepAll(6), Terminal(width=40, height=20)))  # doctest: +ELLIPSIS
    KeepAll: 6 steps, 6 forward steps (1.000 times)
    at most 6 records in memory
    ...
    """
    return in_characters(picture_of(shown, name), terminal or Terminal())
