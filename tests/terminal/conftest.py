"""A tmux for the tests of a file, and runs that are looked at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.tmux import WHY_NOT, Tmux, a_tmux


@pytest.fixture(scope="module")
def tmux() -> Iterator[Tmux]:
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    with a_tmux() as server:
        yield server
