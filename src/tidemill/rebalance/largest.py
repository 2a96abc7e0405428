"""The largest of many items, in bounded memory and without sorting all of them in one slice."""

from heapq import heappush, heappushpop

Item = tuple[int, int]


def keep_largest(heap: list[Item], item: Item, count_max: int) -> None:
    """Add an item to a heap that holds the `count_max` largest ones."""
    if len(heap) < count_max:
        heappush(heap, item)
    else:
        heappushpop(heap, item)
