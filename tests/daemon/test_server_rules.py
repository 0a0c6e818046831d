"""Which servers may take part, and how loudly their coming and going is told."""

from pathlib import Path

import pytest

from contracts.clock import Clock
from contracts.records import Event
from contracts.run_config import load_run_config
from daemon.events import EventLog
from daemon.fingerprint import fingerprint_of
from daemon.prompts.index import PromptLimits
from daemon.server_rules import Needs, ServerRules
from daemon.servers.pool import ServerPool
from daemon.servers.probe import Probe
from tests.daemon.test_events import decode
from tests.support.runs import make_run


class Ruled:
    def __init__(self, path: Path, **generate: object) -> None:
        run = make_run(path, ["http://h:1"], {"B1": []}, generate=generate)
        self.config = load_run_config(run / "run.toml")
        self.file = path / "fingerprint.json"
        self.events: list[Event] = []
        log = EventLog(lambda line: self.events.append(decode(line)), Clock(), [])
        self.rules = ServerRules(self.config, fingerprint_of(self.config), self.file, log)


async def no_objection(probe: Probe) -> str | None:
    return None


def needs(vocab_size: int | None = 1000, longest: int = 50, whole: int = 114) -> Needs:
    return Needs(PromptLimits(vocab_size, None, None, 64), longest, whole)


@pytest.mark.parametrize(
    ("probe", "known", "words"),
    [
        (Probe("u", vocab_size=1000, max_input_len=110, context_length=114), needs(), None),
        (Probe("u"), needs(), None),
        (Probe("u", vocab_size=999), needs(), "has a vocabulary of 999, the prompts were checked against one of 1000"),
        (Probe("u", vocab_size=999), needs(vocab_size=None), "checked against no vocabulary"),
        (Probe("u", max_input_len=50), needs(), "takes prompts below 50 tokens, the run has one of 50"),
        (Probe("u", context_length=113), needs(), "has room for 113 tokens of prompt and answer, the run needs 114"),
        (Probe("u", vocab_size=1), None, None),
    ],
)
def test_a_server_must_have_room_for_the_prompts(
    probe: Probe, known: Needs | None, words: str | None, tmp_path: Path
) -> None:
    ruled = Ruled(tmp_path)
    text = (tmp_path / "run.toml").read_text().replace("vocab_size = 1000000\n", "")
    (tmp_path / "run.toml").write_text(text)
    ruled.rules._config = load_run_config(tmp_path / "run.toml")
    ruled.rules.needs = known
    objection = ruled.rules.objection(probe)
    assert objection is None if words is None else words in str(objection)


def test_what_run_toml_says_of_the_vocabulary_holds_for_all(tmp_path: Path) -> None:
    ruled = Ruled(tmp_path, vocab_size=2000)
    ruled.rules.needs = needs(vocab_size=2000)
    assert ruled.rules.objection(Probe("u", vocab_size=10)) is None


def test_another_model_is_objected_to(tmp_path: Path) -> None:
    ruled = Ruled(tmp_path)
    assert ruled.rules.objection(Probe("u", model="a")) is None
    assert "'b'" in str(ruled.rules.objection(Probe("u", model="b")))


def test_a_model_that_cannot_be_noted_is_not_used(tmp_path: Path) -> None:
    ruled = Ruled(tmp_path)
    ruled.rules._path = tmp_path / "nowhere" / "fingerprint.json"
    assert "cannot be noted" in str(ruled.rules.objection(Probe("u", model="a")))


@pytest.mark.parametrize(
    ("before", "state", "severity"),
    [
        ("untried", "ok", "info"),
        ("down", "ok", "info"),
        ("untried", "unready", "info"),
        ("down", "unready", "info"),
        ("ok", "unready", "critical"),
        ("ok", "down", "critical"),
        ("untried", "down", "critical"),
        ("untried", "refused", "critical"),
    ],
)
def test_how_loudly_a_change_is_told(before: str, state: str, severity: str, tmp_path: Path) -> None:
    ruled = Ruled(tmp_path)
    slot = ServerPool(ruled.config, lambda slot, before: None, lambda: "", no_objection).slots[0]
    slot.state, slot.reason, slot.probe = state, "because", Probe("http://h:1", notes=["no limit known"])
    ruled.rules.changed(slot, before)
    assert ruled.events[0].severity == severity
    assert ruled.events[0].kind == ("server.up" if state == "ok" else f"server.{state}")
    assert "http://h:1" in ruled.events[0].message
    if state == "ok":
        assert (ruled.events[1].kind, ruled.events[1].severity) == ("server.note", "warning")
    else:
        assert "because" in ruled.events[0].message
