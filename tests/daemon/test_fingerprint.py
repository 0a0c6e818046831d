"""A resume that would mix two kinds of data is refused, with the difference."""

from pathlib import Path

import pytest

from contracts.run_config import RunConfig, load_run_config
from daemon.fingerprint import (
    Fingerprint,
    FingerprintError,
    check_fingerprint,
    check_model,
    fingerprint_difference,
    fingerprint_of,
)
from tests.support.runs import make_run


def config(path: Path, **how: object) -> RunConfig:
    return load_run_config(make_run(path, ["http://h"], {"B1": []}, **how) / "run.toml")  # type: ignore[arg-type]


def test_while_there_are_no_responses_anything_may_change(tmp_path: Path) -> None:
    file = tmp_path / "fingerprint.json"
    check_fingerprint(file, config(tmp_path, sampling={"temperature": 0.6}), has_responses=False)
    found, note = check_fingerprint(file, config(tmp_path, sampling={"temperature": 0.7}), has_responses=False)
    assert (found.sampling["temperature"], note) == (0.7, None)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"sampling": {"temperature": 0.7}}, "[sampling] temperature was 0.6, is 0.7"),
        ({"sampling": {}}, "[sampling] temperature was 0.6, is 'not set'"),
        ({"sampling": {"temperature": 0.6, "stop": ["x"]}}, "[sampling] stop was 'not set', is ['x']"),
        ({"sampling": {"temperature": 0.6}, "generate": {"over_long": "clip"}}, "over_long was 'refuse', is 'clip'"),
        ({"sampling": {"temperature": 0.6}, "tokenizer": "bytes"}, "tokenizer was None, is 'bytes'"),
    ],
)
def test_a_difference_is_refused_and_named(how: dict[str, object], words: str, tmp_path: Path) -> None:
    file = tmp_path / "fingerprint.json"
    check_fingerprint(file, config(tmp_path, sampling={"temperature": 0.6}), has_responses=False)
    before = file.read_bytes()
    changed = config(tmp_path, **how)
    with pytest.raises(FingerprintError) as caught:
        check_fingerprint(file, changed, has_responses=True)
    assert words in str(caught.value) and str(file) in str(caught.value)
    assert words in str(fingerprint_difference(file, changed))
    assert file.read_bytes() == before


def test_what_does_not_change_the_data_may_change(tmp_path: Path) -> None:
    file = tmp_path / "fingerprint.json"
    check_fingerprint(file, config(tmp_path), has_responses=False)
    other = config(tmp_path, concurrency=99, targets={"B1": 5}, generate={"max_attempts": 9})
    assert check_fingerprint(file, other, has_responses=True)[1] is None


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"sampling": 3}', b"\xff"])
def test_one_that_says_nothing_is_made_again_and_that_is_said(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "fingerprint.json"
    if content is not None:
        file.write_bytes(content)
    found, note = check_fingerprint(file, config(tmp_path), has_responses=True)
    assert found == fingerprint_of(config(tmp_path))
    assert "could not be checked" in str(note)
    assert check_fingerprint(file, config(tmp_path), has_responses=True)[1] is None


def test_looking_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "fingerprint.json"
    assert fingerprint_difference(file, config(tmp_path)) is None
    assert not file.exists()


def test_the_first_model_is_the_runs(tmp_path: Path) -> None:
    file = tmp_path / "fingerprint.json"
    found, _ = check_fingerprint(file, config(tmp_path), has_responses=False)
    assert check_model(found, file, None) is None
    assert check_model(found, file, "/models/a") is None
    assert check_model(found, file, "/models/a") is None
    refused = check_model(found, file, "/models/b")
    assert "'/models/b'" in str(refused) and "'/models/a'" in str(refused)
    again, _ = check_fingerprint(file, config(tmp_path), has_responses=True)
    assert again.model == "/models/a"
    assert isinstance(again, Fingerprint)
