"""What a command will do, in numbers, before it is sent: pure functions of the status."""

from __future__ import annotations

from typing import Final

from contracts.commands import DEFAULT, Command, Drain, Retry, Set, Stop
from contracts.status import DatasetStatus, RunStatus
from eagle3_tui.dialogs.retryable import Retryable
from eagle3_tui.text import counted, human_count, human_duration, human_exact, human_rate

_KEPT: Final = f"It is kept over restarts, whatever run.toml says, until it is set to {DEFAULT!r}."


def consequences(command: Command, status: RunStatus | None, reach: Retryable | None = None) -> list[str]:
    """Return sentences about what a command does.

    Args:
        command: To be sent.
        status: The run as it is now; None: not known yet.
        reach: For a retry: what it can put back; None: not known.
    """
    if isinstance(command, Retry):
        return _retry(command, reach)
    if status is None:
        return ["The run has not been read yet: nothing can be said about what this does."]
    if isinstance(command, Drain):
        return _drain(status)
    if isinstance(command, Stop):
        return _stop(status)
    if isinstance(command, Set):
        said = [] if command.concurrency is None else _concurrency(command.concurrency, status)
        for name, target in command.targets.items():
            data = next((one for one in status.datasets if one.name == name), None)
            said += [] if data is None else _target(data, target)
        return [*said, _KEPT]
    return []


def left(data: DatasetStatus) -> int | None:
    """Return how many prompts have no answer yet; None: unknown."""
    return None if data.to_answer is None else max(data.to_answer - data.done, 0)


def _drain(status: RunStatus) -> list[str]:
    oldest = (
        "" if status.oldest_request_s is None else f", the oldest is open for {human_duration(status.oldest_request_s)}"
    )
    if status.totals.in_flight == 0:
        said = ["No new request is sent, and none is open."]
    else:
        verb = "finishes" if status.totals.in_flight == 1 else "finish"
        said = [f"No new request is sent. {_requests(status.totals.in_flight)} still {verb}{oldest}."]
    if status.taking:
        said.append(f"{counted(status.taking, 'capture that is', 'captures that are')} under way will be stored.")
    return [*said, f"Then the daemon ends. {_rest(status)}", "While it drains, r takes it back."]


def _stop(status: RunStatus) -> list[str]:
    open_now, mean = status.totals.in_flight, status.totals.avg_completion_tokens
    if open_now == 0:
        return ["The daemon ends now. No request is open, so nothing is lost.", _rest(status)]
    verb = "is" if open_now == 1 else "are"
    said = [f"The daemon ends now. {_requests(open_now)} {verb} given up, and sent again at the next start."]
    if open_now and mean:
        said.append(f"Up to about {human_count(round(open_now * mean))} tokens are then generated twice.")
    return [*said, _rest(status), "To let them finish first: D (drain)."]


def _requests(count: int | None) -> str:
    return "Open requests" if count is None else counted(count, "open request")


def _rest(status: RunStatus) -> str:
    rest, totals = left(status.totals), status.totals
    if totals.target_tokens is not None and totals.completion_tokens is not None:
        missing = max(totals.target_tokens - totals.completion_tokens, 0)
        what = f"{human_count(missing)} of {human_count(totals.target_tokens)} tokens are still to come"
    else:
        what = "The rest waits" if rest is None else f"{counted(rest, 'sample has', 'samples have')} no answer yet"
    return f"{what}; go on with: eagle3 start {status.path}"


def _concurrency(wanted: int | str, status: RunStatus) -> list[str]:
    now, open_now = status.concurrency, status.totals.in_flight
    before = f"Now {human_exact(now)} at once, {human_exact(open_now)} are open."
    if isinstance(wanted, str):
        return [before, "It becomes what run.toml says."]
    if now is None or wanted == now:
        return [before]
    if wanted > now:
        return [
            before,
            f"{counted(wanted - now, 'more is', 'more are')} sent as soon as there are servers to take them.",
        ]
    over = 0 if open_now is None else max(open_now - wanted, 0)
    return [before, f"Nothing is aborted: {human_exact(over)} open ones finish before the next new one is sent."]


def _target(data: DatasetStatus, wanted: int | str) -> list[str]:
    has, now = data.completion_tokens, data.target_tokens
    before = f"{data.name} has {human_exact(has)} tokens, " + (
        "no target." if now is None else f"of {human_exact(now)}."
    )
    if isinstance(wanted, str):
        return [before, "Its target becomes what run.toml says."]
    missing = wanted - (has or 0)
    if missing <= 0:
        return [before, "That is reached already: nothing new is sent for it, what is open finishes."]
    said = [
        before,
        f"{human_exact(missing)} tokens are then still to come{_answers(missing, data)}{_time(missing, data)}.",
    ]
    rest, mean = left(data), data.avg_completion_tokens
    if rest is not None and mean and rest * mean < missing:
        prompts = counted(rest, "prompt without an answer gives", "prompts without an answer give")
        said.append(f"Its {prompts} about {human_count(round(rest * mean))}: too few.")
    return said


def _answers(missing: int, data: DatasetStatus) -> str:
    mean = data.avg_completion_tokens
    return f", about {human_count(round(missing / mean))} answers of {human_rate(mean)}" if mean else ""


def _time(missing: int, data: DatasetStatus) -> str:
    rate = data.tokens_per_s
    return f", {human_duration(missing / rate)} at its present {human_rate(rate)} tok/s" if rate else ""


def _retry(command: Retry, reach: Retryable | None) -> list[str]:
    if command.sample_id is not None:
        return ["This one sample is sent again, if it failed and has no answer yet; the daemon says whether."]
    if reach is None:
        return []
    samples = counted(reach.samples(command.dataset, command.error), "sample that was", "samples that were")
    said = [f"{samples} given up will be sent again."]
    going_on = reach.going_on(command.dataset, command.error)
    if going_on:
        said.append(f"Stopped until now, and going on again: {', '.join(going_on)}.")
    return said
