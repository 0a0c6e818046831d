"""A run that has something of everything: data sets, answers, failures, events, readings of GPUs and servers."""

from __future__ import annotations

from pathlib import Path

from contracts.records import FailureClass, NextStep, Severity
from tests.support.records import NOW, event, failure, make_run, response, write


def wide_run(folder: Path, texts: tuple[str, ...] = ("連字 in a text", "plain")) -> Path:
    """Make a run without a daemon.

    Args:
        folder: Is made.
        texts: Put wherever the files of a run hold text of somebody else.
    """
    run = make_run(folder, datasets=("d1", "d2"), prompts=20)
    toml = run.config.read_text(encoding="utf-8")
    run.config.write_text(toml.replace('name = "test"', f'name = "{folder.name}"'), encoding="utf-8")
    for name in ("d1", "d2"):
        data = run.dataset(name)
        write(data.responses, [response(f"{name}-{n}", server=texts[n % len(texts)], rid=texts[0]) for n in range(8)])
        for number, text in enumerate(texts):
            write(
                data.failures,
                [
                    failure(text, message=text, server=text, rid=text, error=FailureClass.REJECTED,
                            next=NextStep.QUARANTINED),
                    failure(f"{name}-{10 + number}", message=text, error=FailureClass.REJECTED,
                            next=NextStep.QUARANTINED),
                ],
            )  # fmt: skip
    write(
        run.events,
        [event("server.down", NOW + n, message=text, severity=Severity.WARNING, data={"server": text, "why": text})
         for n, text in enumerate(texts)],
    )  # fmt: skip
    run.log.write_text("".join(f"2026-11-30 19:59:50,152 ERROR eagle3: {text}\n" for text in texts), encoding="utf-8")
    return folder
