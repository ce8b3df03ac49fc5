"""What to cite for a schedule, as BibTeX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from retrograd.errors import InvalidArgument
from retrograd.suggest import nearest


@dataclass(frozen=True, slots=True)
class Entry:
    """A BibTeX entry; its fields are written as they stand, accents as LaTeX commands."""

    kind: str
    key: str
    fields: dict[str, str]

    def bibtex(self) -> str:
        """The entry as text, with a line for each field."""
        width = max(map(len, self.fields))
        lines = [f"  {name:<{width}} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


RETROGRAD: Final = Entry(
    "misc",
    "retrograd",
    {
        "author": "{The retrograd developers}",
        "title": "{retrograd}: gradients of long simulations, in the memory you have",
        "note": "Python package",
    },
)
_GRIEWANK_WALTHER_2000: Final = Entry(
    "article",
    "GriewankWalther2000",
    {
        "author": "Griewank, Andreas and Walther, Andrea",
        "title": "Algorithm 799: {revolve}: an implementation of checkpointing for the reverse or "
        "adjoint mode of computational differentiation",
        "journal": "ACM Transactions on Mathematical Software",
        "volume": "26",
        "number": "1",
        "pages": "19--45",
        "year": "2000",
        "doi": "10.1145/347837.347846",
    },
)
_STUMM_WALTHER_2009: Final = Entry(
    "article",
    "StummWalther2009",
    {
        "author": "Stumm, Philipp and Walther, Andrea",
        "title": "{MultiStage} approaches for optimal offline checkpointing",
        "journal": "SIAM Journal on Scientific Computing",
        "volume": "31",
        "number": "3",
        "pages": "1946--1967",
        "year": "2009",
        "doi": "10.1137/080718036",
    },
)
_WANG_MOIN_IACCARINO_2009: Final = Entry(
    "article",
    "WangMoinIaccarino2009",
    {
        "author": "Wang, Qiqi and Moin, Parviz and Iaccarino, Gianluca",
        "title": "Minimal repetition dynamic checkpointing algorithm for unsteady adjoint "
        "calculation",
        "journal": "SIAM Journal on Scientific Computing",
        "volume": "31",
        "number": "4",
        "pages": "2549--2567",
        "year": "2009",
        "doi": "10.1137/080727890",
    },
)
_STUMM_WALTHER_2010: Final = Entry(
    "article",
    "StummWalther2010",
    {
        "author": "Stumm, Philipp and Walther, Andrea",
        "title": "New algorithms for optimal online checkpointing",
        "journal": "SIAM Journal on Scientific Computing",
        "volume": "32",
        "number": "2",
        "pages": "836--854",
        "year": "2010",
        "doi": "10.1137/080742439",
    },
)
_ANDERSON_TAN_WANG_2012: Final = Entry(
    "article",
    "AndersonTanWang2012",
    {
        "author": "Anderson, J. E. and Tan, L. and Wang, D.",
        "title": "Time-reversal checkpointing methods for {RTM} and {FWI}",
        "journal": "Geophysics",
        "year": "2012",
        "doi": "10.1190/geo2011-0114.1",
    },
)
_AUPY_HERRMANN_HOVLAND_ROBERT_2016: Final = Entry(
    "article",
    "AupyHerrmannHovlandRobert2016",
    {
        "author": "Aupy, Guillaume and Herrmann, Julien and Hovland, Paul and Robert, Yves",
        "title": "Optimal multistage algorithm for adjoint computation",
        "journal": "SIAM Journal on Scientific Computing",
        "volume": "38",
        "number": "3",
        "pages": "C232--C255",
        "year": "2016",
        "doi": "10.1137/15M1019222",
    },
)
_PRINGLE_2016: Final = Entry(
    "techreport",
    "PringleJonesGoswamiNarayananGoldberg2016",
    {
        "author": "Pringle, Gavin J. and Jones, Daniel C. and Goswami, Sudipta and "
        "Narayanan, Sri Hari Krishna and Goldberg, Daniel",
        "title": "Providing the {ARCHER} community with adjoint modelling tools for "
        "high-performance oceanographic and cryospheric computation",
        "institution": "EPCC",
        "year": "2016",
        "url": "https://nora.nerc.ac.uk/id/eprint/516314",
    },
)
_AUPY_HERRMANN_2017: Final = Entry(
    "article",
    "AupyHerrmann2017",
    {
        "author": "Aupy, Guillaume and Herrmann, Julien",
        "title": "Periodicity in optimal hierarchical checkpointing schemes for adjoint "
        "computations",
        "journal": "Optimization Methods and Software",
        "volume": "32",
        "number": "3",
        "pages": "594--624",
        "year": "2017",
        "doi": "10.1080/10556788.2016.1230612",
    },
)
_KUKREJA_PYREVOLVE_2018: Final = Entry(
    "misc",
    "KukrejaHuckelheimLangeLouboutinWaltherFunkeGorman2018",
    {
        "author": 'Kukreja, Navjot and H{\\"u}ckelheim, Jan and Lange, Michael and '
        "Louboutin, Mathias and Walther, Andrea and Funke, Simon W. and Gorman, Gerard",
        "title": "High-level python abstractions for optimal checkpointing in inversion problems",
        "year": "2018",
        "eprint": "1802.02474",
        "archiveprefix": "arXiv",
        "primaryclass": "cs.MS",
    },
)
_KUKREJA_STREAMING_2018: Final = Entry(
    "misc",
    "KukrejaHuckelheimGorman2018",
    {
        "author": 'Kukreja, Navjot and H{\\"u}ckelheim, Jan and Gorman, Gerard',
        "title": "Backpropagation for long sequences: beyond memory constraints with constant "
        "overheads",
        "year": "2018",
        "eprint": "1806.01117",
        "archiveprefix": "arXiv",
        "primaryclass": "cs.DC",
    },
)
_HERRMANN_PALLEZ_2020: Final = Entry(
    "article",
    "HerrmannPallez2020",
    {
        "author": "Herrmann, Julien and Pallez, Guillaume",
        "title": "{H-Revolve}: a framework for adjoint computation on synchronous hierarchical "
        "platforms",
        "journal": "ACM Transactions on Mathematical Software",
        "volume": "46",
        "number": "2",
        "year": "2020",
        "doi": "10.1145/3378672",
    },
)
_MADDISON_2024: Final = Entry(
    "article",
    "Maddison2024",
    {
        "author": "Maddison, James R.",
        "title": "Step-based checkpointing with high-level algorithmic differentiation",
        "journal": "Journal of Computational Science",
        "volume": "82",
        "pages": "102405",
        "year": "2024",
        "doi": "10.1016/j.jocs.2024.102405",
    },
)

_MIXED: Final = (_MADDISON_2024, _ANDERSON_TAN_WANG_2012)

CITATIONS: Final[dict[str, tuple[Entry, ...]]] = {
    "keep-all": (_KUKREJA_PYREVOLVE_2018,),
    "revolve": (_GRIEWANK_WALTHER_2000,),
    "mixed": _MIXED,
    "levels": (RETROGRAD, *_MIXED),
    "variable": (RETROGRAD, _GRIEWANK_WALTHER_2000, _MADDISON_2024),
    "sweeps": (RETROGRAD, _MADDISON_2024),
    "multistage": (_STUMM_WALTHER_2009, _GRIEWANK_WALTHER_2000),
    "disk-revolve": (_AUPY_HERRMANN_HOVLAND_ROBERT_2016,),
    "periodic-disk-revolve": (_AUPY_HERRMANN_2017,),
    "h-revolve": (_HERRMANN_PALLEZ_2020,),
    "tiered-mixed": (RETROGRAD, _MADDISON_2024, _HERRMANN_PALLEZ_2020),
    "blocks": (RETROGRAD, _KUKREJA_STREAMING_2018),
    "two-level": (_PRINGLE_2016,),
    "streaming": (_KUKREJA_STREAMING_2018,),
    "online-revolve": (_STUMM_WALTHER_2010, _WANG_MOIN_IACCARINO_2009),
}
"""What to cite for each schedule, by name; where `RETROGRAD` is among them, the schedule is its
own and the others are the nearest prior work."""


def cite(schedule: str) -> str:
    """BibTeX entries for a schedule, by its name.

    Raises
    ------
    InvalidArgument
        for a name that is no schedule's.

    Examples
    --------
    >>> print(cite("two-level").splitlines()[0])
    @techreport{PringleJonesGoswamiNarayananGoldberg2016,
    """
    if schedule not in CITATIONS:
        raise InvalidArgument(
            f"there is no schedule {schedule!r}{nearest(schedule, CITATIONS)}: "
            f"write one of {', '.join(CITATIONS)}"
        )
    return "\n\n".join(entry.bibtex() for entry in CITATIONS[schedule])
