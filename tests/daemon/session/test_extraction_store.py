"""Stores that were damaged between two sessions: found, named, made again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.store.repair import repair_store
from daemon.store.verify import verify_run
from tests.support.extracting import (
    NORMS,
    SHORT,
    check_stored,
    dumping,
    extract,
    in_memory,
    indexed,
    left_in,
    pretokenized,
    prompts,
    stored_ids,
)
from tests.support.runs import events, failures, make_run, records, responses, run_to_end

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


def first_file(run: Path) -> Path:
    """Of a store with a file for each sample: that of the first record."""
    record = next(iter(indexed(run).values()))
    return run / "hidden_states" / "B1" / record.file


def cut(run: Path) -> None:
    path = first_file(run)
    path.write_bytes(path.read_bytes()[:-100])


def empty(run: Path) -> None:
    first_file(run).write_bytes(b"")


def delete(run: Path) -> None:
    first_file(run).unlink()


def overwrite(run: Path) -> None:
    first_file(run).write_bytes(b"something else")


CHEAP: list[Callable[[Path], None]] = [cut, empty, delete, overwrite]


def flip(run: Path) -> None:
    path = first_file(run)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def exchange(run: Path) -> None:
    one, other, *_ = [run / "hidden_states" / "B1" / record.file for record in indexed(run).values()]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def lengthen(run: Path) -> None:
    with first_file(run).open("ab") as file:
        file.write(b"more")


@pytest.mark.parametrize("layout", ["speculators", "specforge"])
async def test_case_21_damage_is_found_at_the_next_start_and_made_again(memory: Path, layout: str) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps, dump_norm=NORMS[layout]) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(8), "A1": pretokenized(2)}, sampling=SHORT,
            extract=extract(dumps, layout=layout),
        )  # fmt: skip
        assert await run_to_end(run) is False
        before = responses(run)
        for number, damage in enumerate(CHEAP):
            damaged = next(iter(indexed(run).values())).sample_id
            damage(run)
            if number == 0:  # what a crash leaves: a file that no record accounts for, one under a temporary name
                for name in ("hs_99.safetensors", "e3-99.ckpt"):
                    (first_file(run).parent / name).write_bytes(b"x" * 99)
                (first_file(run).parent / f".{first_file(run).name}.part").write_bytes(b"x" * 99)
            assert await run_to_end(run) is False
            dropped = [
                each for each in records(run / "prepared" / "B1" / "hidden_states.jsonl")
                if each["type"] == "dropped" and not each["why"].startswith("renumbered")
            ]  # fmt: skip
            assert len(dropped) == number + 1
            assert dropped[-1]["sample_id"] == damaged
            said = [each["message"] for each in events(run, "store.repaired")]
            assert sum(f"sample {damaged!r} will be made again" in each for each in said) >= 1
            assert check_stored(run, layout=layout) == 10
        assert responses(run) == before, "no answer was made again"
        assert failures(run) == []
    assert left_in(dumps) == []


@pytest.mark.parametrize("damage", [flip, exchange, lengthen])
async def test_what_only_reading_finds_is_found_by_verify_repaired_and_made_again(
    memory: Path, damage: Callable[[Path], None]
) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps, dump_norm="over_weight") as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(6)}, sampling=SHORT,
            extract=extract(dumps, layout="speculators"),
        )  # fmt: skip
        assert await run_to_end(run) is False
        damage(run)
        report, stores = verify_run(run, holding_lock=True)
        assert report.left > 0
        said = [sentence for store in stores for sentence in repair_store(store).said]
        assert any("and will be made again" in sentence for sentence in said), said
        assert await run_to_end(run) is False
    assert check_stored(run, layout="speculators") == 6
    assert left_in(dumps) == []


async def test_what_is_missing_is_made_again_beside_other_work(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps, dump_norm="over_weight") as server:
        data = {"B1": prompts(6), "A1": pretokenized(4)}
        more = extract(dumps, layout="speculators")
        run = make_run(memory / "run", [server.url], data, sampling=SHORT, extract=more)
        assert await run_to_end(run) is False
        delete(run)
        (run / "hidden_states" / "A1" / next(iter(indexed(run, "A1").values())).file).unlink()
        make_run(run, [server.url], {"B1": prompts(12), "A1": pretokenized(5)}, sampling=SHORT, extract=more)
        assert await run_to_end(run) is False
    assert check_stored(run, layout="speculators") == 17
    assert left_in(dumps) == []


async def test_damage_to_a_shard_costs_only_the_samples_in_it(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(8)}, sampling=SHORT, extract=extract(dumps))
        assert await run_to_end(run) is False
        shard = run / "hidden_states" / "B1" / "shard-0.e3s"
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
        kept = [record for record in indexed(run).values() if record.offset + record.bytes <= shard.stat().st_size]
        assert await run_to_end(run) is False
        assert [record for record in indexed(run).values() if record in kept] == kept
    assert check_stored(run) == 8
    assert left_in(dumps) == []


async def test_an_index_line_that_was_lost_is_made_again_and_a_torn_one_cut_off(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(6)}, sampling=SHORT, extract=extract(dumps))
        assert await run_to_end(run) is False
        index = run / "prepared" / "B1" / "hidden_states.jsonl"
        lines = index.read_bytes().splitlines(keepends=True)
        index.write_bytes(b"".join(lines[1:-1]) + lines[-1][:40])
        assert await run_to_end(run) is False
    assert stored_ids(run) == [f"p{number}" for number in range(6)]
    assert check_stored(run) == 6


async def test_a_store_that_is_not_there_at_all_is_no_reason_to_make_all_again(memory: Path) -> None:
    """Its disk may not be mounted: nothing is dropped, and what to do is said."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(4)}, sampling=SHORT, extract=extract(dumps))
        assert await run_to_end(run) is False
        before = (run / "prepared" / "B1" / "hidden_states.jsonl").read_bytes()
        (run / "hidden_states").rename(run / "elsewhere")
        with pytest.raises(Exception, match="mount its disk"):
            await run_to_end(run)
        assert (run / "prepared" / "B1" / "hidden_states.jsonl").read_bytes() == before
        for folder in (run / "hidden_states").iterdir():
            folder.rmdir()
        (run / "hidden_states").rmdir()
        (run / "elsewhere").rename(run / "hidden_states")
        assert await run_to_end(run) is False
    assert check_stored(run) == 4
