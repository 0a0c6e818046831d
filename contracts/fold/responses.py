"""The fold over one response file.

Every line goes through `contracts.shapes`, except those like our own writer's: of them the ids are cut out, counted in
one pass and not decoded. A line that is in any way not like that, keys, values and all, goes the usual way. In bulk, of
gigabytes at a time, most ids are not even counted, which makes reading a matter of memory bandwidth.

What bulk reading sees of the ids is their width, whether a quote is among them, and pages that a power cut left full of
zeros. Of other damage, and of counts that differ from the ids by less than their width tells, it looks at every 64th
line. The first contradiction found so has the whole file read again, line by line (`wants_exact`).
"""

from __future__ import annotations

import zlib
from typing import Annotated, Final

import msgspec

from contracts.fold.anew import start_again
from contracts.fold.history import FINE_S, Bucket, History
from contracts.fold.lengths import Lengths
from contracts.fold.pace import Pace
from contracts.fold.places import Places
from contracts.shapes import BadLine, Outcome, ResponseFact, decode_response_line, merge_parts
from contracts.shapes.answer import FAILED_REASONS, stamp
from contracts.shapes.values import MAX_COUNT, printable

_EXACT_EVERY: Final = 64
_PAGE: Final = 4096
_HEAD_BYTES: Final = 1024
"""Within so many bytes from its start a line like ours begins its ids."""
_USUAL: Final = ("stop", "length")
_LONGEST_S: Final = 7 * 86_400.0
"""No request is open for longer: times that say so are none to reckon with."""
_COMPACT: Final = (b'"output_ids":[', 14, 2)
_SPACED: Final = (b'"output_ids": [', 15, 3)
"""What begins the ids (no text within a JSON line can hold it), its length, and how many bytes behind their end the
next key begins: as we write it, and as Python's own json module does."""

_KEY: Final = b'"output_ids"'
_NEWLINE: Final = ord("\n")
_QUOTE: Final = ord('"')


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Our record with its ids cut out. Any further key might change what the line means."""

    sample_id: Annotated[str, msgspec.Meta(min_length=1)] | int
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
    completion_tokens: int
    finish_reason: str
    output_ids: tuple[()]
    think_end: bool | None = None
    finished_at: float = -1.0
    started_at: float | None = None
    rid: str = ""
    server: str = ""
    attempt: int = 0
    matched: int | str | None = None
    cached_tokens: int | None = None
    e2e_latency_s: float | None = None
    schema: int = 0


_RECORD: Final = msgspec.json.Decoder(_Record)


class ResponseFold(msgspec.Struct):
    """Counts of one ``raw_responses.jsonl``; a `contracts.journal.tail.LineSink`."""

    lines: int = 0
    done: set[bytes] = set()
    """Keys of the samples that have an accepted response."""
    nameless: int = 0
    """Of them, those whose line names no sample: nobody can find their prompt."""
    duplicates: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    known: int = 0
    """Responses that state a completion count."""
    unknown: int = 0
    finish_reasons: dict[str, int] = {}
    failures: dict[bytes, str] = {}
    """Samples that have only failed attempts in this file (other tools write them here), with the reason."""
    skipped: int = 0
    empty: int = 0
    parts: dict[bytes, ResponseFact] = {}
    """Stream pieces and unfinished answers without an end yet."""
    unreadable: Places = msgspec.field(default_factory=Places)
    contradictions: Places = msgspec.field(default_factory=Places)
    """Lines whose count differs from their number of ids. They are counted by what they state."""
    history: History = msgspec.field(default_factory=History)
    lengths: Lengths = msgspec.field(default_factory=Lengths)
    """Of the responses that state a completion count, in tokens."""
    times: Lengths = msgspec.field(default_factory=Lengths)
    """For how long their requests were open, in tenths of a second; of those that say it."""
    pace: Pace = msgspec.field(default_factory=Pace)
    """Of the responses that state a count and when they were finished."""
    think_missing: int = 0
    """Responses that say their thinking part was not closed."""
    notes: list[str] = []
    """Resets of the file, for the person who watches; taken by the reader."""
    unchecked: int = 0
    """Responses whose ids were not counted, but only held against their width."""
    exact: bool = False
    """Read every line of this file in full, also in bulk."""

    @property
    def wants_exact(self) -> bool:
        """Whether counts contradict ids in this file and not all of it was looked at: then it is to be read again."""
        return self.contradictions.count > 0 and self.unchecked > 0

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        start_again(self, ("notes", "exact"))
        self.notes.append(why)

    def begin_exact(self) -> None:
        """Start again, and read every line in full from now on."""
        start_again(self, ("notes", "exact"))
        self.exact = True

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Count whole lines; see `LineSink`."""
        if not self.exact and b"\0" not in block[-offset % _PAGE : end : _PAGE]:
            self._feed_quickly(block, end, offset, _EXACT_EVERY if bulk else 1)
            return
        position = 0
        while position < end:
            self.lines += 1
            newline = block.find(b"\n", position, end)
            self._slow(block, position, newline, offset)
            position = newline + 1

    def _feed_quickly(self, block: bytearray, end: int, offset: int, every: int) -> None:
        """Count whole lines, with a look at the ids of every so manieth only."""
        find, decode = block.find, _RECORD.decode
        done, reasons, lines = self.done, dict.fromkeys(_USUAL, 0), self.lines
        duplicates = prompt_sum = completion_sum = 0
        opening, length, back = _COMPACT
        begin = until = 0.0  # of the bucket
        bucket = Bucket()
        responses_in = tokens_in = timed_in = open_in = 0  # of it, not yet added
        seen: list[int] = []
        took: list[int] = []
        position = 0
        while position < end:
            lines += 1
            start = find(opening, position, position + _HEAD_BYTES)
            ids = start + length
            # The first quote behind the ids begins the next key: not so where a line was torn in its ids and another
            # one continues it, or where the ids come last.
            quote = find(_QUOTE, ids, end) if start > 0 and find(_NEWLINE, position, start) < 0 else -1
            close = quote - back
            newline = find(_NEWLINE, quote if quote > 0 else position, end)
            record = None
            if quote > 0 and find(_KEY, close, newline) < 0:  # a second list of ids is what counts
                # Cut at the wrong place, this is no JSON, or the ids in it are not empty.
                try:
                    record = decode(block[position:ids] + block[close:newline])
                except (msgspec.DecodeError, UnicodeDecodeError):
                    record = None
            if (
                record is None
                or not 2 * (tokens := record.completion_tokens) - 1 <= close - ids <= 8 * tokens
                or (lines % every == 0 and _count_ids(block[ids:close]) != tokens)
                or ((reason := record.finish_reason) not in reasons and not _new_reason(reason, reasons))
            ):
                self.lines = lines
                if responses_in and begin < until:
                    bucket.responses += responses_in
                    bucket.tokens += tokens_in
                    self.pace.add(begin, responses_in, tokens_in, timed_in, open_in)
                responses_in = tokens_in = timed_in = open_in = 0
                newline = find(_NEWLINE, position, end)
                self._slow(block, position, newline, offset)
                opening, length, back = _SPACED if find(_SPACED[0], position, newline) >= 0 else _COMPACT
                begin = until = 0.0  # the history may have been coarsened
                position = newline + 1
                continue
            position = newline + 1
            name = record.sample_id
            key = name.encode() if isinstance(name, str) else b"%d" % name
            if key in done:
                duplicates += 1
                continue
            done.add(key)
            prompt_sum += record.prompt_tokens
            completion_sum += tokens
            reasons[reason] += 1
            seen.append(tokens)
            at = record.finished_at
            if not begin <= at < until:
                if responses_in and begin < until:
                    bucket.responses += responses_in
                    bucket.tokens += tokens_in
                    self.pace.add(begin, responses_in, tokens_in, timed_in, open_in)
                responses_in = tokens_in = timed_in = open_in = 0
                begin, until, bucket = self._bucket(at)
            responses_in += 1
            tokens_in += tokens
            started = record.started_at
            if started is not None and 0.0 < started <= at < started + _LONGEST_S:
                timed_in += tokens
                open_in += (open_ms := int((at - started) * 1000.0))
                took.append(open_ms // 100)
            if reason == "length":
                bucket.lengths += 1
            if record.think_end is False:
                self.think_missing += 1
                bucket.think_missing += 1
        if responses_in and begin < until:
            bucket.responses += responses_in
            bucket.tokens += tokens_in
            self.pace.add(begin, responses_in, tokens_in, timed_in, open_in)
        self.lengths.add(seen)
        self.times.add(took)
        self.lines = lines
        self.unchecked += sum(reasons.values()) if every > 1 else 0
        self.duplicates += duplicates
        self.known += sum(reasons.values())
        self.prompt_tokens += prompt_sum
        self.completion_tokens += completion_sum
        for reason, count in reasons.items():
            if count:
                self._count_reason(reason, count)
        if self.failures or self.parts:
            for key in done & (self.failures.keys() | self.parts.keys()):
                self.failures.pop(key, None)
                self.parts.pop(key, None)

    def _bucket(self, at: float) -> tuple[float, float, Bucket]:
        """Return begin, end and bucket of a time; for no time a bucket that is thrown away."""
        if stamp(at) is None:
            return at, at, Bucket()
        begin = float(int(at) // FINE_S * FINE_S)
        return begin, begin + FINE_S, self.history.bucket(at)

    def _slow(self, block: bytearray, start: int, newline: int, offset: int) -> None:
        """Count one line of any known shape."""
        facts = decode_response_line(bytes(block[start:newline]))
        if isinstance(facts, BadLine):
            self.unreadable.add(offset + start, self.lines, facts.why)
            return
        for index, fact in enumerate(facts):
            # A line that names no sample is a record of its own: its place is its name.
            key = fact.key if fact.key is not None else b"@%d#%d" % (offset + start, index)
            if fact.part:
                if key in self.done:
                    continue
                older = self.parts.get(key)
                fact = fact if older is None else merge_parts(older, fact)
                self.parts[key] = fact
                if fact.outcome is not Outcome.COMPLETE:
                    continue
                del self.parts[key]
            self._apply(key, fact, offset + start)

    def _apply(self, key: bytes, fact: ResponseFact, place: int) -> None:
        if fact.outcome is Outcome.SKIPPED:
            self.skipped += 1
        elif fact.outcome is Outcome.EMPTY:
            self.empty += 1
        elif fact.outcome is Outcome.FAILED:
            if key not in self.done:
                self.failures[key] = fact.message or "failed"
        elif fact.outcome is Outcome.INCOMPLETE:
            if key not in self.done:
                self.parts[key] = fact
        elif key in self.done:
            self.duplicates += 1
        else:
            self._complete(key, fact, place)

    def _complete(self, key: bytes, fact: ResponseFact, place: int) -> None:
        self.done.add(key)
        self.nameless += fact.key is None
        self.failures.pop(key, None)
        self.parts.pop(key, None)
        tokens = fact.completion_tokens
        if tokens is None:
            self.unknown += 1
        else:
            self.known += 1
            self.completion_tokens += tokens
            self.lengths.add([tokens])
            if fact.n_output_ids is not None and fact.n_output_ids != tokens:
                self._contradiction(place, tokens, fact.n_output_ids)
        self.prompt_tokens += fact.prompt_tokens or 0
        self._count_reason(fact.finish_reason or "unknown", 1)
        self.think_missing += fact.think_end is False
        if fact.finished_at is not None:
            bucket = self.history.bucket(fact.finished_at)
            bucket.responses += 1
            bucket.tokens += tokens or 0
            bucket.lengths += fact.finish_reason == "length"
            bucket.think_missing += fact.think_end is False
            if tokens is not None:
                self._keep_pace(fact, fact.finished_at, tokens)

    def _keep_pace(self, fact: ResponseFact, at: float, tokens: int) -> None:
        started = fact.started_at
        if started is not None and 0.0 < started <= at < started + _LONGEST_S:
            open_ms = int((at - started) * 1000.0)
            self.pace.add(at, 1, tokens, tokens, open_ms)
            self.times.add([open_ms // 100])
        else:
            self.pace.add(at, 1, tokens, 0, 0)

    def _contradiction(self, place: int, stated: int, counted: int) -> None:
        self.contradictions.add(place, self.lines, f"completion_tokens is {stated}, but there are {counted} output_ids")

    def _count_reason(self, reason: str, count: int) -> None:
        self.finish_reasons[reason] = self.finish_reasons.get(reason, 0) + count


_KINDS: Final = bytes(1 if byte == ord(",") else 0 if byte in b"0123456789" else 0xFF for byte in range(256))
"""Of every byte: part of an id, a comma, or anything else."""
_ADLER: Final = 65_520
"""Below it the lower half of an Adler-32 is the sum of all bytes, and one more."""


def _count_ids(ids: bytearray) -> int | None:
    """Return how many ids these are, or None when it is anything but ids and commas."""
    if b" " in ids:
        ids = ids.replace(b", ", b",").strip()  # a blank elsewhere is not between two ids, but within one
    kinds = ids.translate(_KINDS)
    if 0xFF in kinds:
        return None
    # Nothing else at hand adds bytes up as quickly: `bytes.count` takes three times as long where there are so many.
    commas = (zlib.adler32(kinds) & 0xFFFF) - 1 if len(kinds) < _ADLER else kinds.count(1)
    return commas + 1 if ids else 0


def _new_reason(reason: str, reasons: dict[str, int]) -> bool:
    """Make room to count a finish reason; False when it ends no response, or is not counted under its own name."""
    plain = bool(reason) and reason not in FAILED_REASONS and printable(reason, 64) == reason
    if plain:
        reasons[reason] = 0
    return plain
