"""Real public prompts through the embedded server: each is answered, none twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole_run import WholeRun, embedded_server, records_in, shared_sources


@pytest.mark.timeout(120)
def test_every_prompt_is_answered_once(tmp_path: Path) -> None:
    sources = shared_sources()
    if sources is None:
        pytest.skip("no ../shared/data beside the repository")
    # What is to be seen is what becomes of the prompts; the model's own answers to long ones are the demo's matter.
    with embedded_server("--no-model", "--seed", "7", "--max-running-requests", "32") as url:
        run = WholeRun(tmp_path / "run", url, sources, concurrency=32, max_new_tokens=6)
        run.finish(seconds=100)
    assert {name: len(run.responses(name)) for name in run.names} == {
        name: records_in(source) for name, source in sources.items()
    }
    assert not any(run.failures(name) for name in run.names)
    run.assert_all_done_once()
