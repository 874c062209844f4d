"""The colours of amounts: from none to the most, in one hue, so that dark is more for everyone."""

from __future__ import annotations

STOPS = ("#eff3fa", "#c6dbef", "#8fc0e0", "#539ecd", "#2371b5", "#08408a")  # after ColorBrewer's Blues
RAMP_LENGTH = 32


def ramp_color(share: float) -> str:
    """The colour of a share of the greatest amount, 0.0 to 1.0.

    Example:
        >>> ramp_color(0.0), ramp_color(1.0)
        ('#eff3fa', '#08408a')
    """
    position = min(max(share, 0.0), 1.0) * (len(STOPS) - 1)
    index = min(int(position), len(STOPS) - 2)
    part = position - index
    low, high = (bytes.fromhex(stop[1:]) for stop in STOPS[index : index + 2])
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(low, high, strict=True))
