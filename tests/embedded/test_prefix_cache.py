"""What counts as cached."""

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.embedded.prefix_cache import PrefixCache

IDS = st.lists(st.integers(0, 2), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(IDS, max_size=5), IDS)
def test_the_longest_shared_prefix_but_the_last_token(earlier: list[list[int]], ids: list[int]) -> None:
    cache = PrefixCache()
    for each in earlier:
        cache.remember(each)
    longest = 0
    for each in earlier:
        shared = 0
        while shared < min(len(each), len(ids)) and each[shared] == ids[shared]:
            shared += 1
        longest = max(longest, shared)
    assert cache.cached(ids) == max(0, min(longest, len(ids) - 1))


def test_keys_keep_apart_and_old_ones_are_forgotten() -> None:
    cache = PrefixCache(most=2)
    cache.remember([1, 2, 3], "a")
    assert cache.cached([1, 2, 3, 4], "a") == 3
    assert cache.cached([1, 2, 3, 4], "b") == cache.cached([1, 2, 3, 4]) == 0
    for _ in range(2):
        cache.remember([9, 9])
    assert cache.cached([1, 2, 3, 4], "a") == 0
    cache.clear()
    assert cache.cached([9, 9, 9]) == 0
