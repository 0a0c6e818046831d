"""One sample as lines: its facts, what went wrong with it, and its ids or text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contracts.details.latest import Record
from contracts.details.sample import SampleStory
from contracts.records import Requeue, StoredSample
from eagle3_tui.text import UNKNOWN, cell_width, human_bytes, human_duration, human_exact, human_rate
from eagle3_tui.token_text import Piece
from eagle3_tui.widgets.detail import Fact, wrapped
from eagle3_tui.widgets.line import Part, safe
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp

_SHOWN_FAILURES = 4
_TAB = 4


def story_facts(story: SampleStory, now: float, look: Look) -> list[Fact]:
    """Return what is known of a sample, the most important first."""
    facts = [Fact("state", ((story.state, look.bold),)), _tokens(story, look)]
    if story.record is not None:
        facts += _record_facts(story.record, now, look)
    if story.stored:
        facts += _stored_facts(story.stored[-1], now, look, held=story.is_stored)
    failures = story.failures[-_SHOWN_FAILURES:]
    if len(story.failures) > len(failures):
        facts.append(Fact("failed", ((f"{len(story.failures)} times; the last ones:", look.warn),)))
    for failure in failures:
        when = stamp(failure.at, now)
        if isinstance(failure, Requeue):
            facts.append(Fact("put back", ((f"{when}  by a person", look.plain),)))
            continue
        check = f", check {failure.check}" if failure.check else ""
        said = f"{when}  {failure.stage}, attempt {failure.attempt}: {failure.error}{check}: {failure.message}"
        facts.append(Fact("failed", ((said, look.warn), (f"then: {failure.next}", look.plain))))
    return facts


def _tokens(story: SampleStory, look: Look) -> Fact:
    record = story.record
    prompt = len(story.prompt_ids) if story.prompt_ids is not None else (record.prompt_tokens if record else None)
    parts = [(f"prompt {human_exact(prompt)} tokens", look.plain)]
    if story.loss_mask is not None:
        parts.append((f"pre-tokenized, {story.loss_mask.count('1'):,} of them to learn from", look.plain))
    elif record is not None:
        parts.append((f"answer {human_exact(record.completion_tokens)}", look.bold))
        ended = record.finish_reason or UNKNOWN
        parts.append((f"ended by {ended}", look.warn if ended == "length" else look.plain))
        if record.matched is not None:
            parts.append((f"matched {record.matched}", look.plain))
        if record.ids is not None and record.ids != record.completion_tokens:
            parts.append((f"but {record.ids:,} ids", look.bad))
        if record.think_end is not None:
            parts.append(("thinking closed" if record.think_end else "thinking not closed", look.plain))
    if story.source_line is not None:
        parts.append((f"line {story.source_line:,} of the imported file", look.dim))
    return Fact("tokens", tuple(parts))


def _record_facts(record: Record, now: float, look: Look) -> list[Fact]:
    if record.why is not None:
        return [Fact("line", ((f"at byte {record.offset:,}: {record.outcome}: {record.why}", look.bad),))]
    times = [] if record.finished_at is None else [(f"answered {stamp(record.finished_at, now)}", look.plain)]
    if record.took_s is not None:
        times.append((f"took {human_duration(record.took_s)}", look.plain))
        if record.completion_tokens and record.took_s > 0:
            times.append((f"{human_rate(record.completion_tokens / record.took_s)} tok/s", look.plain))
    if record.e2e_latency_s is not None:
        times.append((f"server's own time {human_duration(record.e2e_latency_s)}", look.plain))
    if record.attempt is not None:
        times.append((f"attempt {record.attempt}", look.warn if record.attempt > 1 else look.plain))
    if record.cached_tokens is not None:
        times.append((f"{record.cached_tokens:,} tokens from the cache", look.plain))
    where = [(text, look.plain) for text in (record.server, record.rid) if text is not None]
    where.append((f"byte {record.offset:,} of raw_responses.jsonl", look.dim))
    return [*([Fact("times", tuple(times))] if times else []), Fact("where", tuple(where))]


def _stored_facts(stored: StoredSample, now: float, look: Look, *, held: bool) -> list[Fact]:
    layers = ", ".join(map(str, stored.layers))
    parts = [
        (f"{human_exact(stored.tokens)} rows", look.good if held else look.bad),
        (f"{human_exact(stored.loss_tokens)} to learn from", look.plain),
        (human_bytes(stored.bytes), look.plain),
        (f"layers {layers} and last ({stored.norm})", look.plain),
        (f"{stored.hidden_size} wide {stored.dtype}", look.plain),
        (stored.capture, look.plain),
    ]
    if not held:
        parts.insert(0, ("taken out again;", look.bad))
    if stored.truncated_from is not None:
        parts.append((f"cut from {human_exact(stored.truncated_from)}", look.warn))
    file = [
        (f"{stored.file}, row {stored.row}" + (f", byte {stored.offset:,}" if stored.offset else ""), look.plain),
        (stored.layout, look.plain),
        (stored.checksum, look.dim),
        (f"stored {stamp(stored.at, now)}", look.dim),
    ]
    return [Fact("stored", tuple(parts)), Fact("in", tuple(file))]


def id_rows(title: str, ids: Sequence[int] | None, width: int, look: Look) -> list[list[Part]]:
    """Return token ids in columns, with the number of the first of each line."""
    if ids is None:
        return [[(title, look.bold), (": no ids that can be used", look.dim)], []]
    size = max((len(str(number)) for number in ids), default=1)
    margin = len(f"{len(ids):,}")
    count = max((width - margin - 3) // (size + 1), 1)
    rows: list[list[Part]] = [[(f"{title}, {len(ids):,} ids", look.bold)]]
    for start in range(0, len(ids), count):
        text = " ".join(str(number).rjust(size) for number in ids[start : start + count])
        rows.append([(f"{start:>{margin},}  ", look.dim), (text, look.plain)])
    return [*rows, []]


def text_rows(title: str, pieces: Iterable[Piece], width: int, look: Look) -> list[list[Part]]:
    """Return text over as many lines as it takes; its line breaks hold, special tokens stand out."""
    rows: list[list[Part]] = [[(title, look.bold)], []]
    used = 0
    for piece in pieces:
        style = look.active if piece.special else look.plain
        for number, raw in enumerate(piece.text.split("\n")):
            if number:
                rows.append([])
                used = 0
            text = safe(raw.removesuffix("\r").expandtabs(_TAB), look)
            if used and text and used + cell_width(text) > width:
                # What fits on the line that was begun, the rest on lines of its own.
                head = wrapped(text, width - used)[0]
                if cell_width(head) > width - used:
                    head = ""
                rows[-1].append((head, style))
                text = text[len(head) :]
                rows.append([])
                used = 0
            for index, row in enumerate(wrapped(text, width) if text else ()):
                if index:
                    rows.append([])
                    used = 0
                rows[-1].append((row, style))
                used += cell_width(row)
    return [*rows, []]
