"""What is said of a data set on its own screen."""

from __future__ import annotations

from rich.style import Style

from contracts.details.dataset import DatasetDetail
from contracts.details.lengths import LengthSteps, quantile
from contracts.details.prompts import PromptLengths
from contracts.progress import dataset_progress
from contracts.status import DatasetStatus, HiddenStatus, RunStatus
from eagle3_tui.progress_text import lost_text, share_text
from eagle3_tui.text import UNKNOWN, human_bytes, human_count, human_duration, human_exact, human_percent, human_rate
from eagle3_tui.widgets.detail import Fact
from eagle3_tui.widgets.line import Group, Part, group
from eagle3_tui.widgets.look import MOVING, Look
from eagle3_tui.widgets.times import moment


def dataset_title(name: str, own: DatasetStatus | None, status: RunStatus | None, look: Look) -> list[Group]:
    """Return the title line: name, stage, how much is done, how fast, when it is done."""
    groups = [group(name, look.bold, look, shrink_to=10)]
    if own is None or status is None:
        return groups
    sign, word, style = look.stage(own.stage)
    groups.append(group(f"{sign} {word}", style, look))
    if own.to_answer == 0 and own.prompts and not own.done:
        stored = "-" if own.hidden is None else human_exact(own.hidden.stored)
        groups.append(group(f"{stored}/{human_exact(own.prompts)} stored", look.bold, look))
        groups.append(group("prompts bring their answers", look.plain, look, rank=4))
    else:
        groups.append(group(f"{human_exact(own.done)}/{human_exact(own.to_answer)} answers", look.plain, look, rank=1))
        target = f" of {human_count(own.target_tokens)}" if own.target_tokens else ""
        groups.append(group(f"{human_count(own.completion_tokens)}{target} tokens", look.bold, look))
        groups.append(group(f"{human_rate(own.tokens_per_s)} tok/s", look.plain, look, rank=2))
    if own.eta_s and status.state in MOVING:
        groups.append(group(f"done {moment(status.at + own.eta_s, status.at)}", look.plain, look, rank=3, right=True))
    return groups


def dataset_facts(
    detail: DatasetDetail, own: DatasetStatus | None, look: Look, prompts: PromptLengths | None = None
) -> list[Fact]:
    """Return facts about prompts, tokens, ends, failures and hidden states; what is zero and harmless is left out.

    Args:
        detail: Of the data set.
        own: Its status; None: none yet.
        look: Signs and styles.
        prompts: How long its prompts are; said where they bring their answers.
    """
    facts = []
    if detail.halted is not None:
        facts.append(Fact("HALTED", ((detail.halted, look.bad),)))
    if detail.extract_halted is not None:
        facts.append(Fact("HALTED", ((f"hidden states: {detail.extract_halted}", look.bad),)))
    if own is not None:
        facts.append(_prompts(own, look))
        if detail.is_brought:
            facts += _brought(detail, prompts, look)
        else:
            facts += [_tokens(detail, own, look), _ends(detail, own, look)]
    facts.append(_failures(detail, look))
    if own is not None and own.hidden is not None:
        facts += _hidden(detail, own.hidden, look)
    facts.append(Fact("folder", ((detail.folder, look.dim),)))
    return facts


def _prompts(own: DatasetStatus, look: Look) -> Fact:
    parts: list[Part] = [(f"{human_exact(own.prompts)} usable", look.plain)]
    if own.pretokenized:
        parts.append((f"{human_exact(own.pretokenized)} bring their answer", look.plain))
    parts.append((f"{human_exact(own.in_flight)} in flight", look.plain))
    parts += _counted(("waiting for retry", own.waiting_retry), ("refused", own.refused), style=look.warn)
    parts += _counted(("unreadable lines", own.unreadable), style=look.bad)
    parts += _counted(("duplicates", own.duplicates), ("incomplete", own.incomplete), style=look.plain)
    return Fact("prompts", tuple(parts))


def _tokens(detail: DatasetDetail, own: DatasetStatus, look: Look) -> Fact:
    parts: list[Part] = [
        (f"{human_count(own.completion_tokens)} answered", look.bold),
        (f"{human_count(own.prompt_tokens)} asked", look.plain),
        (f"mean {UNKNOWN if own.avg_completion_tokens is None else f'{own.avg_completion_tokens:,.0f}'}", look.plain),
    ]
    if detail.lengths is not None:
        parts += _quantiles(detail.lengths, look)
    progress = dataset_progress(own) if own.target_tokens else None
    if progress is not None:
        parts.append((f"{share_text(progress)} of the target", look.plain))
        parts += [(lost_text(progress, own), look.warn)] if progress.given_up else []
    parts += _counted(("without a count", own.unknown_counts), style=look.warn)
    parts += _counted(("over the target", own.overrun_tokens), style=look.plain)
    if own.eta_s:
        parts.append((f"ETA {human_duration(own.eta_s)}", look.plain))
    return Fact("tokens", tuple(parts))


def _brought(detail: DatasetDetail, prompts: PromptLengths | None, look: Look) -> list[Fact]:
    """Of prompts that bring their answers: how long they are, and whether anything is done with them here."""
    facts = []
    if prompts is not None and prompts.steps is not None:
        whole = "" if prompts.looked_at >= detail.prompts else f" (of {human_exact(prompts.looked_at)} looked at)"
        steps = prompts.steps
        ends: Part = (f"{steps.edges[0]:,} to {steps.edges[-1] - 1:,} tokens{whole}", look.bold)
        facts.append(Fact("lengths", (ends, *_quantiles(steps, look))))
    if not detail.extracts:
        said = 'nothing to do here: answers are there, and run.toml\'s stages have no "extract"'
        facts.append(Fact("", ((said, look.plain),)))
    return facts


def _quantiles(steps: LengthSteps, look: Look) -> list[Part]:
    shares = (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
    return [(f"{label} {quantile(steps, share):,}", look.plain) for label, share in shares]


def _ends(detail: DatasetDetail, own: DatasetStatus, look: Look) -> Fact:
    total = sum(own.finish_reasons.values())
    ordered = sorted(own.finish_reasons.items(), key=lambda item: -item[1])
    parts: list[Part] = [
        (f"{reason} {human_exact(count)} ({human_percent(100 * count / total)})", look.plain)
        for reason, count in ordered
    ]
    parts += _counted(("thinking not closed", detail.think_missing), style=look.warn)
    parts += _counted(("count contradicts ids", detail.contradictions), style=look.bad)
    parts += _counted(("without an id", detail.nameless), style=look.warn)
    return Fact("ended by", tuple(parts) or (("no answer yet", look.dim),))


def _failures(detail: DatasetDetail, look: Look) -> Fact:
    parts: list[Part] = []
    for failed in detail.failed:
        stage = "" if failed.stage == "generate" else f"{failed.stage}: "
        attempts = "" if failed.attempts is None else f" ({human_exact(failed.attempts)} attempts)"
        style = look.warn if failed.open else look.plain
        parts.append((f"{stage}{failed.error} {human_exact(failed.open)} open{attempts}", style))
    return Fact("failed", tuple(parts) or (("nothing", look.dim),))


def _hidden(detail: DatasetDetail, hidden: HiddenStatus, look: Look) -> list[Fact]:
    parts: list[Part] = [
        (f"{human_exact(hidden.stored)} of {human_exact(hidden.to_store)}", look.bold),
        (human_bytes(hidden.bytes), look.plain),
        (f"{human_count(hidden.tokens)} rows", look.plain),
        (f"{human_rate(hidden.mb_per_s)} MB/s", look.plain),
    ]
    parts += [(f"{kind} {human_exact(count)}", look.plain) for kind, count in detail.captures.items()]
    parts += _counted(("in work", hidden.in_work), style=look.active)
    parts += _counted(("given up", hidden.given_up), ("failed", hidden.failed), style=look.warn)
    parts += _counted(("left out", hidden.skipped), ("cut", hidden.truncated), style=look.plain)
    parts += _counted(("taken out", detail.dropped), ("odd", detail.odd), style=look.bad)
    facts = [Fact("stored", tuple(parts))]
    if detail.checks:
        said = tuple((f"{kind} {human_exact(count)}", look.warn) for kind, count in detail.checks.items())
        facts.append(Fact("checks", said))
    form = detail.form
    if form is not None:
        layers = ", ".join(map(str, form.layers))
        rows = (f"layers {layers} and last ({form.norm})", f"{form.hidden_size} wide", form.dtype, form.layout)
        facts.append(Fact("form", tuple((text, look.plain) for text in (*rows, *([form.model] if form.model else [])))))
    return facts


def _counted(*counts: tuple[str, int | None], style: Style) -> list[Part]:
    return [(f"{human_exact(count)} {label}", style) for label, count in counts if count]
