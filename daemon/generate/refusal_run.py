"""How many samples in a row were refused, in the order in which they were sent."""

from __future__ import annotations


class RefusalRun:
    """Tells a server that refuses everything from one that refuses some samples.

    The order of the answers would not do: refusals come at once and answers after minutes, so that a few bad samples in
    a hundred look like nothing but refusals for the first while.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        """Last number of a run -> its first."""
        self._last: dict[int, int] = {}
        """First number of a run -> its last."""

    def add(self, number: int) -> int:
        """Note that the sample sent as the ``number``-th was refused; return the length of the run that it is in."""
        first = self._first.pop(number - 1, number)
        last = self._last.pop(number + 1, number)
        self._first[last], self._last[first] = first, last
        return last - first + 1
