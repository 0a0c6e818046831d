"""All that the journals say of one sample: found by its id in a few bounded steps, or by where its response is."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from contracts.details.latest import Record, record_of
from contracts.details.windows import SEARCHED, Finder, Line, line_at, matching, search
from contracts.fold.dataset import DatasetFold
from contracts.fold.failures import SampleFailure
from contracts.fold.run import RunFold
from contracts.records import Failure, NextStep, Requeue, StoredSample
from contracts.run_dir import FAILURES, HIDDEN_STATES, PROMPTS, RESPONSES
from contracts.sample_id import sample_key
from contracts.shapes.output_ids import ids_in

_FILES: Final = (RESPONSES, FAILURES, HIDDEN_STATES, PROMPTS)
_ID_KEYS: Final = b"sample_id|custom_id|id|conversation_id|question_id|primary_id|_async_position"
_MOST_IDS: Final = 4_000_000
"""Characters of ids that are decoded; longer ones are given as the text that they are, cut."""
_ATTEMPTS: Final = 50


class SampleRef(msgspec.Struct, frozen=True):
    """Which sample is meant."""

    dataset: str | None
    """None: whichever has it."""
    key: str | None
    """Its id as text; None for a line that names none."""
    offset: int | None = None
    """Where its response line begins, when that is known."""


class SampleStory(msgspec.Struct, frozen=True):
    """One sample."""

    dataset: str
    key: str | None
    prompt_ids: tuple[int, ...] | None
    """None: there is no prompt of that id, or it is not known yet."""
    loss_mask: str | None
    """As it is written; None: not pre-tokenized."""
    source_line: int | None
    record: Record | None
    output_ids: tuple[int, ...] | None
    """None: no answer, or none of which the ids can be used (they contradict the count, or are not in the line)."""
    text: str | None
    """The text of an answer that holds it (other tools' lines)."""
    failures: tuple[Failure | Requeue, ...]
    """Its attempts that failed, and what a person put back, in order; the last `_ATTEMPTS`."""
    stored: tuple[StoredSample, ...]
    """Its records in the index of the store; the last one holds unless ``is_stored`` is False."""
    is_stored: bool
    state: str
    """In a few words, what became of it."""


class Lookup(msgspec.Struct, frozen=True):
    """How far the search for a sample is; the next call to `look_up` goes on from it."""

    ref: SampleRef
    dataset: int = 0
    """Number of the data set that is being searched."""
    file: int = 0
    place: int = 0
    found: dict[str, tuple[Line, ...]] = {}
    """Lines of the sample, by file."""
    searched: int = 0
    """Bytes so far."""
    total: int = 0
    """Bytes to search, of the data sets that are not ruled out."""
    story: SampleStory | None = None
    missing: str | None = None
    """Why there is none; None while it may still be found."""

    @property
    def done(self) -> bool:
        """Whether there is nothing to go on with."""
        return self.story is not None or self.missing is not None


_PROMPT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FAILURE: Final[msgspec.json.Decoder[Failure | Requeue]] = msgspec.json.Decoder(Failure | Requeue)
_STORED: Final = msgspec.json.Decoder(StoredSample)
_IDS: Final = msgspec.json.Decoder(tuple[int, ...])


def look_up(fold: RunFold, now: float, lookup: Lookup) -> Lookup:
    """Go on with a search, over at most `SEARCHED` bytes.

    Raises:
        OSError: A journal cannot be read.
    """
    if lookup.done:
        return lookup
    names = _candidates(fold, lookup.ref)
    if lookup.dataset >= len(names):
        return msgspec.structs.replace(lookup, missing=_not_found(fold, lookup.ref))
    dataset = fold.datasets[names[lookup.dataset]]
    if not lookup.total:
        lookup = msgspec.structs.replace(lookup, total=sum(_size(fold.datasets[name]) for name in names))
    if lookup.file == 0 and lookup.place == 0 and lookup.ref.offset is not None:
        lookup = _with_known_line(dataset, lookup, lookup.ref.offset)
    if lookup.ref.key is None:
        return msgspec.structs.replace(lookup, story=_story(dataset, lookup))
    left = SEARCHED
    while left > 0 and lookup.file < len(_FILES):
        lookup, read = _step(dataset, lookup, left)
        left -= max(read, 1)
    if lookup.file < len(_FILES):
        return lookup
    if any(lookup.found.values()):
        return msgspec.structs.replace(lookup, story=_story(dataset, lookup))
    return msgspec.structs.replace(lookup, dataset=lookup.dataset + 1, file=0, place=0, found={})


def id_finder(key: str) -> Finder:
    """Return what finds lines that may name a sample: its id as a JSON text in any spelling, or as a number."""
    forms = {json.dumps(key).encode(), json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")}
    forms |= {form.replace(b"/", b"\\/") for form in forms}
    ways = [_finding(form) for form in sorted(forms)]
    if re.fullmatch(r"0|-?[1-9][0-9]*", key):
        # Among ids such a number is everywhere, so only behind a key that holds names.
        ways.append(matching(re.compile(rb'"(?:' + _ID_KEYS + rb')" ?: ?' + key.encode() + rb"(?![0-9.eE])")))
    return lambda block, place: min((found for way in ways if (found := way(block, place)) >= 0), default=-1)


def _finding(text: bytes) -> Finder:
    return lambda block, place: block.find(text, place)


def _candidates(fold: RunFold, ref: SampleRef) -> list[str]:
    """Data sets that may have it: where the fold knows the sample, no other is searched."""
    names = [name for name in fold.datasets if ref.dataset in (None, name)]
    if ref.key is None or ref.dataset is not None:
        return names
    key = sample_key(ref.key)
    known = [name for name in names if _knows(fold.datasets[name], key)]
    return known or names


def _knows(dataset: DatasetFold, key: bytes) -> bool:
    failures = dataset.failures
    return key in dataset.responses.done or key in dataset.hidden.stored or key in failures.samples


def _with_known_line(dataset: DatasetFold, lookup: Lookup, offset: int) -> Lookup:
    """Take the response from where it is; the file need not be searched."""
    text = line_at(dataset.folder.responses, offset)
    lines = () if text is None else (Line(offset, text),)
    return msgspec.structs.replace(lookup, file=1, place=0, found={RESPONSES: lines})


def _step(dataset: DatasetFold, lookup: Lookup, most_bytes: int) -> tuple[Lookup, int]:
    """Search a stretch of one file; return the lookup and how many bytes that was."""
    name, key = _FILES[lookup.file], lookup.ref.key
    assert key is not None
    position = dataset.tails[name].position
    end = None if position is None else position.offset
    found = search(dataset.folder.path / name, id_finder(key), lookup.place, end, 1 << 30, most_bytes)
    lines = (*lookup.found.get(name, ()), *(line for line in found.hits if _names(line.text, name, key)))
    # One response and one prompt are enough; of attempts and index records all are wanted.
    enough = bool(lines) and name in (RESPONSES, PROMPTS)
    read = found.next - lookup.place
    lookup = msgspec.structs.replace(
        lookup,
        found={**lookup.found, name: lines[-_ATTEMPTS:]},
        place=found.next,
        searched=lookup.searched + read,
    )
    if found.done or enough:
        lookup = msgspec.structs.replace(lookup, file=lookup.file + 1, place=0)
    return lookup, read


def _names(line: bytes, file: str, key: str) -> bool:
    if file == RESPONSES:
        return record_of(Line(0, line)).key == key
    try:
        own = _PROMPT.decode(line).get("sample_id")
        return own is not None and str(msgspec.json.decode(own)) == key
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _size(dataset: DatasetFold) -> int:
    return sum(0 if tail.position is None else tail.position.offset for tail in dataset.tails.values())


def _not_found(fold: RunFold, ref: SampleRef) -> str:
    where = f"data set {ref.dataset}" if ref.dataset is not None else f"any of {len(fold.datasets)} data sets"
    return f"no sample {ref.key} in {where}"


def _story(dataset: DatasetFold, lookup: Lookup) -> SampleStory:
    found = lookup.found
    response = next(iter(found.get(RESPONSES, ())), None)
    record = None if response is None else record_of(response)
    key = lookup.ref.key if lookup.ref.key is not None else (None if record is None else record.key)
    prompt = next(iter(found.get(PROMPTS, ())), None)
    ids, mask, source = _prompt(prompt)
    index = [_decoded_stored(line) for line in found.get(HIDDEN_STATES, ())]
    raw = None if key is None else sample_key(key)
    return SampleStory(
        dataset=dataset.name,
        key=key,
        prompt_ids=ids,
        loss_mask=mask,
        source_line=source,
        record=record,
        output_ids=None if response is None or raw is None else _ids(ids_in(response.text, raw)),
        text=None if response is None else _text_of(response.text),
        failures=tuple(each for line in found.get(FAILURES, ()) if (each := _decoded_failure(line)) is not None),
        stored=tuple(each for each in index if each is not None),
        is_stored=raw is not None and raw in dataset.hidden.stored,
        state=_state(dataset, raw, record, mask is not None),
    )


def _state(dataset: DatasetFold, key: bytes | None, record: Record | None, pretokenized: bool) -> str:
    """Return what became of a sample, in a few words."""
    if key is None:
        return "answered; its line names no sample"
    words = []
    failure = dataset.failures.samples.get(key)
    if pretokenized:
        words.append("brings its own answer")
    elif key in dataset.responses.done:
        words.append("answered")
    elif failure is not None:
        words.append(_failed_words(failure))
    elif record is not None:
        words.append(f"not answered: {record.outcome}")
    else:
        words.append("not answered yet")
    captured = dataset.failures.extract.get(key)
    if key in dataset.hidden.stored:
        words.append("hidden states stored")
    elif captured is not None:
        words.append(
            "hidden states: " + (f"left out: {captured.message}" if captured.is_skipped else _failed_words(captured))
        )
    return ", ".join(words)


def _failed_words(failure: SampleFailure) -> str:
    then = {NextStep.RETRY: "is tried again", NextStep.QUARANTINED: "given up", NextStep.REFUSED: "refused"}
    return f"failed ({failure.error}), {then.get(failure.next, 'stopped its data set')}"


def _prompt(line: Line | None) -> tuple[tuple[int, ...] | None, str | None, int | None]:
    if line is None:
        return None, None, None
    raw = _PROMPT.decode(line.text)
    mask, source = raw.get("loss_mask"), _any(raw.get("source_line"))
    text = None if mask is None else bytes(mask)[:_MOST_IDS].decode("utf-8", "replace")
    ids = raw.get("input_ids")
    return _ids(None if ids is None else bytes(ids)), text, source if type(source) is int else None


def _any(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _ids(text: bytes | None) -> tuple[int, ...] | None:
    if text is None or len(text) > _MOST_IDS:
        return None
    try:
        return _IDS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _decoded_failure(line: Line) -> Failure | Requeue | None:
    try:
        return _FAILURE.decode(line.text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _decoded_stored(line: Line) -> StoredSample | None:
    try:
        return _STORED.decode(line.text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # a sample taken out again; `is_stored` says what holds


class _Worded(msgspec.Struct):
    """Where known shapes keep the text of an answer."""

    text: Any = None
    generation: Any = None
    response: Any = None
    choices: Any = None


_WORDED: Final = msgspec.json.Decoder(_Worded)


def _text_of(line: bytes) -> str | None:
    try:
        worded = _WORDED.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    for value in (worded.text, worded.generation, worded.response):
        if isinstance(value, str):
            return value
    choices = worded.choices
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        said = message.get("content") if isinstance(message, dict) else choices[0].get("text")
        return said if isinstance(said, str) else None
    return None
