"""What steps and transfers cost, and the seconds that a schedule will take."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from retrograd.errors import InvalidArgument
from retrograd.verify import Counts


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of steps and calls, and bytes per second of transfers.

    `retrograd.calibrate` measures all of them on a problem.

    Attributes
    ----------
    forward_step, reverse_step : seconds of a step within a long call.
    forward_call, reverse_call : seconds that a call takes besides its steps.
    copy_rate : bytes per second at which live rows are moved within memory.
    write_rate, read_rate : bytes per second to and from disk, compression included.
    disk_ratio : bytes for each byte that lies on disk: above 1 where items are compressed.

    Raises
    ------
    InvalidArgument
        for seconds that are negative or rates that are not positive, and for what is no number.
    """

    forward_step: float
    reverse_step: float = 0.0
    forward_call: float = 0.0
    reverse_call: float = 0.0
    copy_rate: float = math.inf
    write_rate: float = math.inf
    read_rate: float = math.inf
    disk_ratio: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_rate = field.name.endswith(("_rate", "_ratio"))
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidArgument(f"{field.name}={value!r} is not a number: {_HOW[is_rate]}")
            if is_rate and not value > 0:
                raise InvalidArgument(f"{field.name} is {value!r}: {_HOW[True]}")
            if not is_rate and not 0 <= value < math.inf:
                raise InvalidArgument(f"{field.name} is {value!r}: {_HOW[False]}")

    def transfers(self, nbytes: int) -> tuple[float, float]:
        """Seconds to write so many bytes to disk, and to read them."""
        return nbytes / self.write_rate, nbytes / self.read_rate

    def seconds(self, counts: Counts, moved_nbytes: int = 0) -> float:
        """The seconds of a schedule's steps and of the moves within memory.

        Parameters
        ----------
        counts : what the schedule does, as `retrograd.verify` counts it.
        moved_nbytes : bytes of live rows that are moved within memory.
        """
        return (
            counts.forward_steps * self.forward_step
            + counts.reversed_steps * self.reverse_step
            + counts.forward_calls * self.forward_call
            + counts.reverse_calls * self.reverse_call
            + moved_nbytes / self.copy_rate
        )


_HOW = {
    True: "give bytes per second, a positive number such as 2e9",
    False: "give seconds, a number that is not negative such as 0.01",
}
