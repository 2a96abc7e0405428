"""Which arrivals the kept log holds, and where."""

from random import Random
from time import process_time

from tidemill.timer.kept_arrivals import ArrivalsByOffset


def test_the_newest_copy_of_an_arrival_is_found() -> None:
    kept = ArrivalsByOffset(5, [(3, 7), (4, 2)])
    kept.add([1, 7, 9])
    kept.add([2])

    assert [5, 8, 6, 7, None] == [kept.offset_of(arrival) for arrival in (1, 2, 7, 9, 3)]


def test_offsets_are_those_of_a_model_while_records_are_moved_and_end() -> None:
    for seed in range(30):
        random = Random(seed)
        kept, model, over, end = ArrivalsByOffset(), list[tuple[int, int]](), set[int](), 0
        for _ in range(60):
            moved = sorted(random.sample(range(40), random.randrange(1, 6)))
            kept.add(moved)
            model += list(enumerate(moved, end))
            end += len(moved)
            over |= set(random.sample(range(40), random.randrange(0, 3)))
            if random.random() < 0.1:
                over.clear()
            newest = {arrival: offset for offset, arrival in model}
            needed = [offset for offset, arrival in model if arrival not in over and newest[arrival] == offset]
            first = needed[0] if needed else end
            assert first == kept.first_needed(lambda arrival, over=over: arrival not in over)  # type: ignore[misc]
            model = [it for it in model if it[0] >= first]
            held = {arrival: offset for offset, arrival in model}
            assert [held.get(arrival) for arrival in range(40)] == [kept.offset_of(arrival) for arrival in range(40)]


def test_a_search_does_not_read_all_arrivals() -> None:
    """Otherwise a decision about 10,000 of a million kept records stops each replica for half a minute."""
    kept = ArrivalsByOffset()
    kept.add(range(0, 400_000, 2))
    kept.add(range(1, 400_000, 2))
    began = process_time()
    found = [kept.offset_of(arrival) for arrival in range(0, 400_000, 80)]

    assert list(range(0, 200_000, 40)) == found
    assert process_time() - began < 0.5


def test_the_bits_of_a_chunk_have_its_first_arrival_lowest() -> None:
    kept = ArrivalsByOffset()
    kept.add([(1 << 16) + 1, (1 << 16) + 9])

    assert [0, 1 << 1 | 1 << 9] == [kept.bits(0), kept.bits(1)]
