"""The very folder that a daemon works in, whatever its path leads to by now.

A run folder may be moved or deleted under its daemon. Whatever made its files by their paths would then begin a second
run at the old place, or write into another one that is there now. So the folder is held open, and known by device and
inode: a link, a bind mount or another name of the same folder is no other folder.
"""

from __future__ import annotations

import errno
import os
import weakref
from pathlib import Path

from contracts.run_dir import RunDir


class RunAwayError(OSError):
    """The run folder is not at its path any more: nothing may be made or read there. ``strerror`` is a sentence."""


class RunPlace:
    """A run folder, held open from the start of its daemon.

    Args:
        path: Where it is now.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ending = False
        """The daemon is at its end: its last lines go along with the files, where the folder was moved to."""
        self._descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # Not closed by hand: threads that a disk holds up may look longer than the session lives.
        weakref.finalize(self, os.close, self._descriptor)
        self._identity = _identity(os.fstat(self._descriptor))

    @property
    def inside(self) -> Path:
        """A path that leads into this very folder, wherever it is; for what is to follow it."""
        return Path(f"/proc/self/fd/{self._descriptor}")

    @property
    def is_deleted(self) -> bool:
        """Whether it is gone for good, not only somewhere else."""
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError:
            return False  # a network disk does not tell

    def trouble(self) -> str | None:
        """Return why nothing may be written below `path`, in a sentence that says what to do; None: all is well."""
        try:
            there = _identity(self.path.stat())
            if there == self._identity:
                return None if RunDir(self.path).config.exists() else self._emptied()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return None  # what it is says whoever reads or writes there
        if self.is_deleted:
            return f"the run folder {self.path} was deleted: nothing can be written any more, its daemon ends"
        now_at = self._now_at()
        what = "moved or deleted" if now_at is None else f"moved to {now_at}"
        new_path = "NEWPATH" if now_at is None else RunDir(now_at).quoted
        return (
            f"the run folder {self.path} was {what}: move it back, it goes on by itself; "
            f"or stop with: eagle3 stop {new_path}"
        )

    def check(self) -> None:
        """See that something may be made below `path`.

        Raises:
            RunAwayError: The folder is not there any more.
        """
        trouble = self.trouble()
        if trouble is not None:
            raise RunAwayError(errno.ENOENT, trouble)

    def _emptied(self) -> str:
        return (
            f"{RunDir(self.path).config} is gone: were the files of the run moved or deleted? Put them back, it goes "
            "on by itself; or stop with eagle3 stop and the folder that they are in now"
        )

    def _now_at(self) -> Path | None:
        """Return where the folder is now, as far as the kernel knows."""
        try:
            found = self.inside.readlink()
            return found if _identity(found.stat()) == self._identity else None
        except OSError:
            return None


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino
