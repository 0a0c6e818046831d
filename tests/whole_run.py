"""A whole run for tests: its folder over prompt files, daemon and server as processes, and what they left.

What a run left is read with json.loads line by line, by nothing of ours: a second opinion on every count.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from contracts.run_dir import RunDir

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED_DATA: Final = ROOT.parent / "shared" / "data"
SHARED_FILES: Final = {
    "B1_gsm8k": "gsm8k_test_400.jsonl",
    "B2_mt_bench": "mt_bench_question.jsonl",
    "B3_sharegpt": "sharegpt_40.json",
}
_IMPORTED_LINE: Final = re.compile(r"\(line (\d+) of the imported file\)")

Record = dict[str, Any]


def shared_sources() -> dict[str, Path] | None:
    """The real public prompt files by data set, or None where the shared folder is not there."""
    found = {name: SHARED_DATA / file for name, file in SHARED_FILES.items()}
    return found if all(path.is_file() for path in found.values()) else None


def records_in(source: Path) -> int:
    """How many records a prompt file holds: elements of an array, or lines."""
    text = source.read_text(encoding="utf-8")
    return len(json.loads(text)) if source.suffix == ".json" else len(text.splitlines())


@contextmanager
def embedded_server(*words: str) -> Iterator[str]:
    """The URL of an embedded server started with these arguments; killed at the end."""
    command = [sys.executable, "-m", "daemon.embedded", *words]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("ready http://"), f"the embedded server did not start: {line!r}"
            yield line.split()[1]
        finally:
            server.kill()


class WholeRun:
    """A run directory whose prompts are text, for a server with byte-level ids.

    Args:
        path: Is made.
        url: The server.
        sources: Prompt file of each data set.
        concurrency: Requests open at once.
        max_new_tokens: Longest answer.
        sampling: More of ``[sampling]``.
        api_key: Of the server.
    """

    def __init__(
        self,
        path: Path,
        url: str,
        sources: Mapping[str, Path],
        *,
        concurrency: int,
        max_new_tokens: int,
        sampling: Mapping[str, object] | None = None,
        api_key: str | None = None,
    ) -> None:
        self.dir = RunDir(path)
        self.names = list(sources)
        self.max_new_tokens = max_new_tokens
        parameters = {"temperature": 0.6, "max_new_tokens": max_new_tokens, **(sampling or {})}
        server = {"url": url} if api_key is None else {"url": url, "api_key": api_key}
        tables: list[tuple[str, Mapping[str, object]]] = [
            ("[run]", {"name": path.name}),
            ("[generate]", {"concurrency": concurrency, "over_long": "refuse", "retry_base_s": 0.2}),
            ("[sampling]", parameters),
            ("[tokenizer]", {"path": "bytes"}),
            ("[[servers]]", server),
            *(("[[datasets]]", {"name": name, "prompts": str(source)}) for name, source in sources.items()),
        ]
        path.mkdir(parents=True)
        self.dir.config.write_text("".join(_table(head, values) for head, values in tables), encoding="utf-8")

    @contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon of this run; killed at the end if it is still there."""
        with (
            (self.dir.path / "stderr.txt").open("ab") as said,
            subprocess.Popen(
                [sys.executable, "-m", "daemon", "run", str(self.dir.path)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "PYTHONUTF8": "1"},
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def finish(self, *, seconds: float) -> None:
        """Run a daemon until all is done: exit code 0."""
        with self.daemon() as process:
            self.wait_end(process, 0, seconds=seconds)

    def wait_end(self, process: subprocess.Popen[bytes], code: int, *, seconds: float) -> None:
        """Wait until a daemon has ended with this exit code."""
        try:
            ended_with = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the daemon still runs after {seconds:.0f} s\n{self.told()}") from None
        assert ended_with == code, self.told()

    def wait(
        self, process: subprocess.Popen[bytes], what: str, condition: Callable[[], bool], *, seconds: float
    ) -> None:
        """Wait until something holds while the daemon runs."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert process.poll() is None, f"the daemon ended before: {what}\n{self.told()}"
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}\n{self.told()}"
            time.sleep(0.01)

    def wait_responses(self, process: subprocess.Popen[bytes], least: int, *, seconds: float) -> None:
        """Wait until so many responses are in the files."""
        self.wait(process, f"{least} responses", lambda: self.answered() >= least, seconds=seconds)

    def answered(self) -> int:
        """Whole lines in all response files."""
        files = [self.dir.dataset(name).responses for name in self.names]
        return sum(file.read_bytes().count(b"\n") for file in files if file.exists())

    def said(self, kind: str) -> bool:
        """Whether an event of this kind was written."""
        return any(event["kind"] == kind for event in _records(self.dir.events))

    def prompts(self, name: str) -> list[Record]:
        """All of ``prompts.jsonl``."""
        return _records(self.dir.dataset(name).prompts)

    def responses(self, name: str) -> list[Record]:
        """All of ``raw_responses.jsonl``."""
        return _records(self.dir.dataset(name).responses)

    def failures(self, name: str) -> list[Record]:
        """All of ``failures.jsonl``."""
        return _records(self.dir.dataset(name).failures)

    def refused(self, name: str) -> dict[int, str]:
        """Why lines of the source were refused, by the line that each refusal names."""
        reasons: dict[int, str] = {}
        for failure in self.failures(name):
            if failure["error"] != "invalid_input":
                continue
            line = failure["line"]
            assert f"line {line}: " in failure["message"]
            if "source" not in failure:
                named = _IMPORTED_LINE.search(failure["message"])
                assert named, f"names no line of the source: {failure}"
                line = int(named[1])
            assert line not in reasons, f"line {line} is refused twice"
            reasons[line] = failure["message"]
        return reasons

    def status(self) -> tuple[int, Record]:
        """Exit code and object of ``eagle3 status --json``."""
        command = [sys.executable, "-m", "eagle3_tui", "status", str(self.dir.path), "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        status: Record = json.loads(done.stdout)
        return done.returncode, status

    def told(self) -> str:
        """What the daemon said, for the message of a failed assertion."""
        files = (self.dir.path / "stderr.txt", self.dir.events, self.dir.log)
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files if file.exists()
        )

    def assert_all_done_once(self) -> None:
        """Every usable prompt has one response, none has two, no line is torn, and the status counts the same."""
        code, status = self.status()
        assert (code, status["state"]) == (0, "finished")
        assert [dataset["name"] for dataset in status["datasets"]] == self.names
        sums: Counter[str] = Counter()
        for dataset in status["datasets"]:
            counts = self._count(dataset["name"])
            assert {key: dataset[key] for key in counts} == counts
            sums.update(counts)
        assert {key: status["totals"][key] for key in sums} == dict(sums)
        assert status["unreadable"] == []

    def _count(self, name: str) -> dict[str, int]:
        """Count one data set, and check each of its records."""
        refused = self.refused(name)
        usable = {str(prompt["sample_id"]): prompt for prompt in self.prompts(name)}
        for line, prompt in [(prompt["source_line"], prompt) for prompt in usable.values()]:
            if line in refused:
                del usable[str(prompt["sample_id"])]
        responses = self.responses(name)
        assert sorted(str(each["sample_id"]) for each in responses) == sorted(usable)
        for each in responses:
            assert each["prompt_tokens"] == len(usable[str(each["sample_id"])]["input_ids"])
            assert each["completion_tokens"] == len(each["output_ids"]) > 0
            assert each["completion_tokens"] <= self.max_new_tokens
            assert each["finish_reason"] in ("stop", "length")
            assert each["finish_reason"] == "stop" or each["completion_tokens"] == self.max_new_tokens
        assert len({each["rid"] for each in responses}) == len(responses)
        return {
            "prompts": len(usable),
            "refused": len(refused),
            "done": len(responses),
            "failed": 0,
            "quarantined": 0,
            "unreadable": 0,
            "unknown_counts": 0,
            "duplicates": 0,
            "prompt_tokens": sum(each["prompt_tokens"] for each in responses),
            "completion_tokens": sum(each["completion_tokens"] for each in responses),
            "truncated": sum(each["finish_reason"] == "length" for each in responses),
        }


def _records(path: Path) -> list[Record]:
    """Decode every line of a journal. A file that is being written may end in half a line: that one is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


def _table(head: str, values: Mapping[str, object]) -> str:
    # A JSON string, number, truth value or array of them is written the same in TOML.
    return "\n".join([head, *(f"{key} = {json.dumps(value)}" for key, value in values.items())]) + "\n\n"
