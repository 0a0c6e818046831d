"""What probes leave in the dump folder goes, also when it comes late."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from daemon.capture.probe_dumps import LATE_S, ProbeDumps
from daemon.sglang_plugin.eagle3_sglang.dump_format import dump_path, error_path
from tests.support.runs import until


def probe(number: int) -> str:
    return f"e3.0123456789abcdef.probe.s.{number}"


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 100.0
        self.dumps = ProbeDumps(path, lambda: self.now)

    def write(self, number: int, path: Callable[[Path, str], Path] = dump_path) -> None:
        path(self.path, probe(number)).write_bytes(b"rows")

    @property
    def left(self) -> int:
        return len(list(self.path.iterdir()))


def test_it_goes_with_its_probe(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number, path in enumerate((dump_path, error_path)):
        folder.write(number, path)
        folder.dumps.over(probe(number))
        assert folder.left == 0


def test_what_came_after_the_end_of_one_goes_with_the_next(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.dumps.over(probe(0))
    folder.write(0)
    folder.now += 15.0
    folder.dumps.over(probe(1))
    assert folder.left == 0


async def test_an_end_waits_for_what_may_still_come(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.dumps.over(probe(0))
    settling = asyncio.create_task(folder.dumps.settle())
    await asyncio.sleep(0)
    folder.write(0)
    await until(lambda: folder.left == 0)
    assert not settling.done()
    folder.now += LATE_S + 0.1
    await settling


async def test_an_end_waits_for_nothing_that_was_taken(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.dumps.over(probe(0), taken=True)
    await folder.dumps.settle()
