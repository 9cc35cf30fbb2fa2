"""Where the names of curves go that end close to each other."""

from __future__ import annotations

from collections.abc import Sequence


def spread(heights: Sequence[float], least: float) -> list[float]:
    """Heights, in order, moved as little as can be until each is so far above the one before."""
    blocks: list[tuple[float, int]] = []  # the mean of each block's heights, as if all lay on its lowest, and how many
    for number, height in enumerate(heights):
        mean, many = height - number * least, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, many = (before * count + mean * many) / (count + many), count + many
        blocks.append((mean, many))
    flat = [mean for mean, many in blocks for _ in range(many)]
    return [mean + number * least for number, mean in enumerate(flat)]
