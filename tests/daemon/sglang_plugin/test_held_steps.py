"""Held decode steps give back each request's rows, however requests come, go and change places."""

from __future__ import annotations

import random

import torch

from daemon.sglang_plugin.eagle3_sglang.held_steps import HeldSteps
from daemon.sglang_plugin.eagle3_sglang.rows import Piece, joined
from tests.daemon.sglang_plugin.dumps import WIDTH, batch, row, token

A, B, C = "e3.run.a.1.1", "e3.run.b.1.2", "e3.run.c.1.3"


def step(*places: tuple[str, int]) -> list[tuple[str, int, int]]:
    return [(rid, position, 1) for rid, position in places]


def take_all(held: HeldSteps) -> dict[str, list[Piece]]:
    taken = {rid: held.take(rid) for rid in held.rids()}
    held.clear()
    return taken


def assert_rows(rid: str, pieces: list[Piece], numbers: dict[int, int], salt: int = 0) -> None:
    """The pieces hold the rid's rows at these positions, with the numbers of their batches."""
    found = {}
    for piece in pieces:
        marks = torch.frombuffer(bytearray(b"".join(piece.marks)), dtype=torch.int32).reshape(-1, 2)
        rows = torch.frombuffer(bytearray(b"".join(piece.rows)), dtype=torch.float32).reshape(-1, WIDTH)
        assert len(marks) == len(rows) == piece.count
        for place in range(piece.count):
            position = piece.first + place
            assert torch.equal(rows[place], row(rid, position, salt))
            assert marks[place, 0] == token(rid, position)
            found[position] = int(marks[place, 1])
    assert found == numbers


def test_rows_of_one_request_are_together_and_only_once() -> None:
    held = HeldSteps(WIDTH * 4)
    for number in range(1, 6):
        assert held.add(batch(*step((A, 4 + number), (B, 9 + number))), number) == []
    assert (held.steps, held.nbytes) == (5, 10 * WIDTH * 4)
    (piece,) = joined(held.take(B))
    assert (piece.first, piece.count, len(piece.marks), len(piece.rows)) == (10, 5, 1, 5)
    assert held.take(B) == []
    assert_rows(B, [piece], {9 + number: number for number in range(1, 6)})
    assert held.rids() == [A, B]
    assert_rows(A, held.take(A), {4 + number: number for number in range(1, 6)})
    held.clear()
    assert (held.steps, held.nbytes, held.rids()) == (0, 0, [])


def test_requests_that_are_not_in_the_next_step_are_told() -> None:
    held = HeldSteps(WIDTH * 4)
    assert held.add(batch(*step((A, 0), (B, 0), (C, 0))), 1) == []
    assert held.add(batch(*step((C, 1))), 2) == [A, B]
    assert held.add(batch(*step((A, 1), (C, 2))), 3) == []
    assert_rows(A, held.take(A), {0: 1, 1: 3})
    assert held.nbytes == 6 * WIDTH * 4  # what the others keep alive


def test_request_that_was_taken_may_go_on() -> None:
    held = HeldSteps(WIDTH * 4)
    held.add(batch(*step((A, 0), (B, 0))), 1)
    assert_rows(A, held.take(A), {0: 1})
    held.add(batch(*step((A, 1), (B, 1))), 2)
    assert_rows(A, held.take(A), {1: 2})
    held.add(batch(*step((A, 2), (B, 2))), 3)
    rest = take_all(held)
    assert_rows(A, rest[A], {2: 3})
    assert_rows(B, rest[B], {0: 1, 1: 2, 2: 3})


def test_positions_that_jump_do_not_become_one_piece() -> None:
    held = HeldSteps(WIDTH * 4)
    held.add(batch(*step((A, 0), (B, 0))), 1)
    held.add(batch(*step((A, 5), (B, 1))), 2)
    rest = take_all(held)
    assert [(piece.first, piece.count) for piece in joined(rest[A])] == [(0, 1), (5, 1)]
    assert [(piece.first, piece.count) for piece in joined(rest[B])] == [(0, 2)]


def test_two_rows_of_one_request_are_no_step() -> None:
    held = HeldSteps(WIDTH * 4)
    assert held.add(batch(*step((A, 0), (A, 1))), 1) is None
    assert (held.steps, held.rids()) == (0, [])


def test_any_order() -> None:
    chance = random.Random(3)
    held, at, numbers = HeldSteps(WIDTH * 4), dict.fromkeys((A, B, C, "e3.d", "e3.e"), 0), {}
    got: dict[str, list[Piece]] = {rid: [] for rid in at}
    running = [A, B]
    for number in range(1, 400):
        if chance.random() < 0.3:
            running = chance.sample(list(at), chance.randint(1, len(at)))
        ended = held.add(batch(*step(*((rid, at[rid]) for rid in running))), number)
        assert ended is not None
        for rid in running:
            numbers[rid, at[rid]] = number
            at[rid] += 1
        for rid in [*ended, *chance.sample(list(at), chance.choice([0, 0, 0, 1]))]:
            got[rid] += held.take(rid)
        if chance.random() < 0.05:
            for rid, pieces in take_all(held).items():
                got[rid] += pieces
    for rid, pieces in take_all(held).items():
        got[rid] += pieces
    for rid, pieces in got.items():
        assert sum(piece.count for piece in pieces) == at[rid]
        assert_rows(rid, pieces, {position: numbers[rid, position] for position in range(at[rid])})
