"""The socket's file: private, stale ones cleared, foreign ones left; known failures 62 and 63."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.run_dir import SOCKET_PATH_LIMIT, RunDir
from daemon.control.socket_file import SocketFile, SocketTrouble


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.sock"


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


@pytest.mark.usefixtures("wide_umask")
def test_the_socket_is_private_whatever_the_umask(path: Path) -> None:
    with SocketFile(path).listen():
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert connects(path)


@pytest.mark.usefixtures("wide_umask")
def test_the_mode_is_private_from_the_first_moment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Path, "chmod", lambda self, _mode: seen.append(stat.S_IMODE(self.lstat().st_mode)))
    SocketFile(path).listen().close()
    assert seen == [0o600]


def test_remove_takes_away_what_it_made(path: Path) -> None:
    file = SocketFile(path)
    file.listen().close()
    file.remove()
    assert not path.exists()
    file.remove()


def test_remove_leaves_the_socket_of_a_newer_daemon(path: Path) -> None:
    old, new = SocketFile(path), SocketFile(path)
    listener = old.listen()
    path.rename(path.with_name("moved"))  # keeps the inode in use, so that the new one differs
    with listener, new.listen():
        old.remove()
        assert connects(path)


def test_remove_survives_a_file_that_is_gone(path: Path) -> None:
    file = SocketFile(path)
    file.listen().close()
    path.unlink()
    file.remove()


# 63


def test_case_63_the_socket_of_a_killed_daemon_is_replaced(path: Path) -> None:
    SocketFile(path).listen().close()
    assert not connects(path)
    with SocketFile(path).listen():
        assert connects(path)


def test_case_63_a_living_daemon_keeps_its_socket(path: Path) -> None:
    with SocketFile(path).listen():
        before = path.lstat().st_ino
        with pytest.raises(SocketTrouble, match="another daemon answers there"):
            SocketFile(path).listen()
        assert path.lstat().st_ino == before
        assert connects(path)


def test_case_63_a_living_daemon_that_does_not_accept_keeps_its_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        with pytest.raises(SocketTrouble, match="another daemon answers there"):
            SocketFile(path).listen()
        assert path.is_socket()


@pytest.mark.parametrize("kind", ["folder", "plain file", "link"])
def test_case_63_something_else_at_the_path_is_one_plain_sentence(path: Path, kind: str) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "plain file":
        path.write_text("precious")
    else:
        path.symlink_to("nowhere")
    with pytest.raises(SocketTrouble) as caught:
        SocketFile(path).listen()
    assert str(caught.value).startswith(f"{path}: a ")
    assert "where the control socket belongs; move it away" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert os.path.lexists(path)
    assert kind != "plain file" or path.read_text() == "precious"


def test_case_63_a_folder_that_cannot_be_written_is_one_plain_sentence(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() == 0:  # root may write everywhere: let the system call say what it says to others

        def refused(_self: socket.socket, _address: bytes) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("daemon.control.socket_file.socket.socket.bind", refused)
    path.parent.chmod(0o500)
    with pytest.raises(SocketTrouble, match=r"Permission denied; its folder must be writable for this user$"):
        SocketFile(path).listen()
    path.parent.chmod(0o700)


def test_a_missing_folder_is_one_plain_sentence(tmp_path: Path) -> None:
    with pytest.raises(SocketTrouble, match="its folder is missing"):
        SocketFile(tmp_path / "gone" / "daemon.sock").listen()


# 62


def test_case_62_a_name_beyond_the_limit_is_refused_with_the_limit_and_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / ("d" * SOCKET_PATH_LIMIT)
    with pytest.raises(SocketTrouble, match=f"limit {SOCKET_PATH_LIMIT}.*XDG_RUNTIME_DIR"):
        SocketFile(path).listen()


@pytest.fixture
def short_runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("r")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("contracts.run_dir.tempfile.gettempdir", lambda: str(folder))
    return folder / f"eagle3-{os.getuid()}"


def test_case_62_the_runtime_folder_is_made_for_this_user_alone(tmp_path: Path, short_runtime: Path) -> None:
    run = RunDir(tmp_path / ("d" * 150))
    run.path.mkdir()
    with SocketFile(run.socket).listen():
        assert run.socket.parent == short_runtime
        assert stat.S_IMODE(short_runtime.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["writable for others", "link"])
def test_case_62_a_runtime_folder_of_doubtful_owners_is_refused(tmp_path: Path, short_runtime: Path, kind: str) -> None:
    if kind == "link":
        short_runtime.symlink_to(tmp_path)
    else:
        short_runtime.mkdir()
        short_runtime.chmod(0o777)
    with pytest.raises(SocketTrouble, match="nobody else can write to"):
        SocketFile(RunDir(tmp_path / ("d" * 150)).socket).listen()
