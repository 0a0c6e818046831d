"""The file of a Unix socket: made for this user alone, a stale one cleared, a foreign one never touched."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final

from contracts.run_dir import SOCKET_PATH_LIMIT, runtime_dir

_BACKLOG: Final = 64
_PROBE_S: Final = 2.0


class SocketTrouble(Exception):
    """The control socket cannot be made; the message is one sentence with the path and what to do."""


class SocketFile:
    """One socket path and, once bound, the file there that is ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ours: tuple[int, int] | None = None

    def listen(self) -> socket.socket:
        """Return a listening, non-blocking socket at the path, mode 0600 from its first moment.

        Raises:
            SocketTrouble: Something else is there, another daemon answers there, or the folder does not allow it.
        """
        self._check_length()
        try:
            self._make_folder()
            self._clear_stale()
            return self._bind()
        except OSError as error:
            raise SocketTrouble(
                f"{self.path}: the control socket cannot be made: {error.strerror or error}{_advice(error.errno)}"
            ) from error

    def remove(self) -> None:
        """Remove the file, if it is still the one that `listen` made: a newer daemon's socket stays."""
        if self._ours is None:
            return
        try:
            there = self.path.lstat()
            if (there.st_dev, there.st_ino) == self._ours:
                self.path.unlink()
        except FileNotFoundError:
            pass
        self._ours = None

    def _check_length(self) -> None:
        length = len(os.fsencode(self.path))
        if length > SOCKET_PATH_LIMIT:
            raise SocketTrouble(
                f"{self.path}: {length} bytes are too long for a socket (limit {SOCKET_PATH_LIMIT}); "
                "set XDG_RUNTIME_DIR to a folder with a short name, for the daemon and for every client"
            )

    def _make_folder(self) -> None:
        """Make the runtime folder when the path is there; a name in a shared /tmp is not trusted for its name alone."""
        folder = self.path.parent
        if folder != runtime_dir():
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise SocketTrouble(
                f"{folder}: must be a folder of this user that nobody else can write to; "
                "move it away or set XDG_RUNTIME_DIR to one that is"
            )

    def _clear_stale(self) -> None:
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            what = "folder" if stat.S_ISDIR(found.st_mode) else "file that is not a socket"
            raise SocketTrouble(f"{self.path}: a {what} stands where the control socket belongs; move it away")
        if _answers(self.path):
            raise SocketTrouble(f"{self.path}: another daemon answers there; stop it first with: eagle3 stop")
        self.path.unlink(missing_ok=True)

    def _bind(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux gives the file the mode of the unbound socket: never wider, whatever the umask, for no moment.
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(os.fsencode(self.path))
            self.path.chmod(0o600)
            bound = self.path.lstat()
            self._ours = (bound.st_dev, bound.st_ino)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        return listener


def _answers(path: Path) -> bool:
    """Whether somebody listens there. Only a refused connection proves that nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fsencode(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):
            return True
    return True


def _advice(code: int | None) -> str:
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "; its folder must be writable for this user"
    if code == errno.ENOENT:
        return "; its folder is missing"
    if code in (errno.EOPNOTSUPP, errno.EPERM):
        return "; this file system has no sockets: put the run directory on another one"
    return ""
