from __future__ import annotations

import pytest

from contracts.records import CaptureCheck
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from tests.daemon.capture.dumps import make_order, make_rid

RID = make_rid(1)


def test_a_response_is_prompt_and_answer_without_the_last_token() -> None:
    order = make_order(RID, [5, 6, 7], [8, 9, 2])
    assert order.ids.tolist() == [5, 6, 7, 8, 9]
    assert order.mask.tolist() == [0, 0, 0, 1, 1]
    assert (str(order.ids.dtype), str(order.mask.dtype)) == ("int64", "uint8")
    assert (order.rows, order.truncated_from) == (5, None)


def test_a_pretokenized_sample_is_the_whole_of_its_ids() -> None:
    order = make_order(RID, [5, 6, 7, 8])
    assert order.ids.tolist() == [5, 6, 7, 8]
    assert order.mask.tolist() == [0, 1, 0, 1]
    assert order.rows == 4


@pytest.mark.parametrize(
    ("limit", "ids", "mask", "cut_from"),
    [(4, [5, 6, 7, 8], [0, 0, 0, 1], 5), (5, [5, 6, 7, 8, 9], [0, 0, 0, 1, 1], None), (2, [5, 6], [0, 0], 5)],
)
def test_a_limit_cuts_ids_and_mask(limit: int, ids: list[int], mask: list[int], cut_from: int | None) -> None:
    order = make_order(RID, [5, 6, 7], [8, 9, 2], limit=limit)
    assert (order.ids.tolist(), order.mask.tolist(), order.truncated_from) == (ids, mask, cut_from)


def test_what_is_cut_is_in_the_dump_of_an_answer_and_not_in_that_of_a_prefill() -> None:
    generating = make_order(RID, [5, 6, 7], [8, 9, 2], limit=4)
    afterwards = make_order(RID, [5, 6, 7], [8, 9, 2], limit=4, capture="afterwards")
    assert (generating.rows, generating.fed_ids.tolist()) == (5, [5, 6, 7, 8, 9])
    assert (afterwards.rows, afterwards.fed_ids.tolist()) == (4, [5, 6, 7, 8])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt_ids": b"[1, 2"}, "the prompt has no usable token ids"),
        ({"prompt_ids": b"[1, -2]"}, "the prompt has token ids from -2 to 1"),
        ({"prompt_ids": b"[1, 4294967296]"}, "to 4294967296"),
        ({"prompt_ids": b"[99999999999999999999999]"}, "the prompt has no usable"),
        ({"prompt_ids": b"[1.5]"}, "the prompt has no usable"),
        ({"prompt_ids": b"[]"}, "the prompt has no token ids"),
        ({"output_ids": b"[]"}, "the answer has no token ids"),
        ({"output_ids": b"null"}, "the answer has no usable"),
        ({"output_ids": b"\xff"}, "the answer has no usable"),
    ],
)
def test_unusable_ids_are_named(changes: dict[str, bytes], words: str) -> None:
    order = make_order(RID, [5, 6, 7], [8, 9], **changes)
    with pytest.raises(CaptureFault, match=words) as raised:
        _ = order.ids
    assert raised.value.check is CaptureCheck.NO_IDS
    assert not raised.value.systematic


@pytest.mark.parametrize(
    ("mask", "words"), [(b"[0, 1]", "2 values in the loss mask for 3 token ids"), (b"[0, 1, 2]", "no list of 0 and 1")]
)
def test_a_mask_that_does_not_fit_is_refused(mask: bytes, words: str) -> None:
    order = make_order(RID, [5, 6, 7], loss_mask=mask)
    with pytest.raises(CaptureFault, match=words):
        _ = order.mask


@pytest.mark.parametrize("both", [b"[1]", None])
def test_an_order_is_of_an_answer_or_of_a_mask(both: bytes | None) -> None:
    with pytest.raises(ValueError, match="an answer or a loss mask"):
        TakeOrder("d", 1, b"1", RID, b"[1]", both, both, "generating", None, "http://127.0.0.1:1")
