"""The fold over one response file.

Our own writer's lines are recognised by their first and last few keys, with the ids skipped unread: that is what makes
counting gigabytes a matter of memory bandwidth. Every other line goes through `contracts.shapes`.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from contracts.fold.history import FINE_S, Bucket, History
from contracts.fold.places import Places
from contracts.shapes import BadLine, Outcome, ResponseFact, decode_response_line, merge_parts


def _head(space: bytes) -> re.Pattern[bytes]:
    """Return a pattern for the keys before the ids, as our writer orders them, with ``space`` after a separator."""
    keys = (
        rb'\{"sample_id":_(?:"([^"\\\x00-\x1f]*)"|(0|-?[1-9][0-9]*)),_"prompt_tokens":_([0-9]{1,9}),_'
        rb'"completion_tokens":_([0-9]{1,9}),_"finish_reason":_"([a-z_]*)",_"output_ids":_\['
    )
    return re.compile(keys.replace(b":_", b":" + space).replace(b",_", b"," + space))


_COMPACT: Final = _head(b"")
_SPACED: Final = _head(b" ")
"""As Python's own json module writes them."""

_FINISHED: Final = b'],"finished_at":'
_ENDINGS: Final = (b"]}", b'],"')
_NEVER: Final = b"\x00"
_TEN_DIGITS: Final = re.compile(rb"([0-9]{9})[0-9](?![0-9])")
_BRACE: Final = 0x7D
_EXACT_EVERY: Final = 32
"""In bulk reading the ids of every 32nd line are counted, otherwise of every line."""


class _Rest(msgspec.Struct):
    """The keys behind the ids that are counted by."""

    think_end: bool | None = None
    finished_at: float | None = None


_REST: Final = msgspec.json.Decoder(_Rest)


class ResponseFold(msgspec.Struct):
    """Counts of one ``raw_responses.jsonl``; a `contracts.journal.tail.LineSink`."""

    lines: int = 0
    done: set[bytes] = set()
    """Keys of the samples that have an accepted response."""
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
    think_seen: int = 0
    """Responses that say whether the thinking part was closed."""
    think_missing: int = 0
    notes: list[str] = []
    """Resets of the file, for the person who watches; taken by the reader."""

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        fresh = ResponseFold()
        for name in self.__struct_fields__:
            if name != "notes":
                setattr(self, name, getattr(fresh, name))
        self.notes.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Count whole lines; see `LineSink`."""
        match, other = _COMPACT.match, _SPACED.match
        find, rfind, starts = block.find, block.rfind, block.startswith
        done, failures, reasons = self.done, self.failures, dict[bytes, int]()
        every = _EXACT_EVERY if bulk else 1
        prompt_sum = completion_sum = known = 0
        stamp, bucket = _NEVER, Bucket()
        position = 0
        while position < end:
            self.lines += 1
            newline = find(b"\n", position, end)
            head = match(block, position, newline)
            if head is None:
                head = other(block, position, newline)
                if head is None:
                    self._slow(block, position, newline, offset)
                    position = newline + 1
                    continue
                match, other = other, match
            ids = head.end()
            close = rfind(b"]", ids, newline)
            # Whole in itself: no second object follows the first (a line torn in its ids and continued by another
            # would hold one), the last bracket ends the ids, and the line ends as an object does.
            if (
                close < 0
                or find(b"{", ids, newline) >= 0
                or block[newline - 1] != _BRACE
                or not (starts(stamp, close) or starts(_ENDINGS, close))
            ):
                self._slow(block, position, newline, offset)
                position = newline + 1
                continue
            text, number, prompts, completions, reason = head.groups()
            key = number if text is None else text
            tokens = int(completions)
            if self.lines % every == 0 or not 2 * tokens - 1 <= close - ids <= 8 * tokens:
                count = _count_ids(block[ids:close])
                if count is None:
                    self._slow(block, position, newline, offset)
                    position = newline + 1
                    continue
                if count != tokens:
                    self._contradiction(offset + position, tokens, count)
            position = newline + 1
            if key in done:
                self.duplicates += 1
                continue
            done.add(key)
            known += 1
            prompt_sum += int(prompts)
            completion_sum += tokens
            reasons[reason] = reasons.get(reason, 0) + 1
            if failures:
                failures.pop(key, None)
            if not starts(stamp, close):
                stamp, bucket = self._bucket_of(block, close, newline)
            bucket.responses += 1
            bucket.tokens += tokens
            if reason == b"length":
                bucket.lengths += 1
        self.known += known
        self.prompt_tokens += prompt_sum
        self.completion_tokens += completion_sum
        for name, count_of in reasons.items():
            self._count_reason(name.decode("ascii"), count_of)

    def _bucket_of(self, block: bytearray, close: int, newline: int) -> tuple[bytes, Bucket]:
        """Return the bucket of the record whose ids end at ``close``, and the bytes by which others of it are known.

        Those bytes hold nine of the ten digits of a time in seconds: the number of a bucket of ten seconds.
        """
        finished = close + len(_FINISHED)
        if block.startswith(_FINISHED, close):
            found = _TEN_DIGITS.match(block, finished, newline)
            if found:
                return bytes(block[close : finished + 9]), self.history.bucket(int(found.group(1)) * FINE_S)
        return _NEVER, self._odd_bucket(bytes(block[close:newline]))

    def _odd_bucket(self, rest: bytes) -> Bucket:
        """Return the bucket of a record with other keys first; one that is thrown away when it has no time."""
        try:
            keys = _REST.decode(b'{"output_ids":[' + rest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Bucket()
        bucket = Bucket() if keys.finished_at is None else self.history.bucket(keys.finished_at)
        if keys.think_end is not None:
            self.think_seen += 1
            self.think_missing += not keys.think_end
            bucket.think_missing += not keys.think_end
        return bucket

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
        self.failures.pop(key, None)
        self.parts.pop(key, None)
        tokens = fact.completion_tokens
        if tokens is None:
            self.unknown += 1
        else:
            self.known += 1
            self.completion_tokens += tokens
            if fact.n_output_ids is not None and fact.n_output_ids != tokens:
                self._contradiction(place, tokens, fact.n_output_ids)
        self.prompt_tokens += fact.prompt_tokens or 0
        self._count_reason(fact.finish_reason or "unknown", 1)
        if fact.think_end is not None:
            self.think_seen += 1
            self.think_missing += not fact.think_end
        if fact.finished_at is not None:
            bucket = self.history.bucket(fact.finished_at)
            bucket.responses += 1
            bucket.tokens += tokens or 0
            bucket.lengths += fact.finish_reason == "length"
            bucket.think_missing += fact.think_end is False

    def _contradiction(self, place: int, stated: int, counted: int) -> None:
        self.contradictions.add(place, self.lines, f"completion_tokens is {stated}, but there are {counted} output_ids")

    def _count_reason(self, reason: str, count: int) -> None:
        self.finish_reasons[reason] = self.finish_reasons.get(reason, 0) + count


def _count_ids(ids: bytearray) -> int | None:
    """Return how many ids stand between the brackets, or None when something else does."""
    if ids.translate(None, b"0123456789, "):
        return None
    if not ids.strip():
        return 0
    return ids.count(b",") + 1
