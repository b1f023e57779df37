"""Pictures of simple bodies, drawn with NumPy so that they need neither a display nor OpenGL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

Point = tuple[float, float]
"""Horizontal and vertical coordinate in metres, upwards."""
Colour = tuple[int, int, int]

BACKGROUND: Colour = (250, 250, 248)
GREY: Colour = (150, 155, 160)
GREEN: Colour = (90, 160, 90)
RED: Colour = (190, 70, 60)
BLUE: Colour = (60, 90, 150)


class Capsule(NamedTuple):
    """A line with round ends; a disc where both ends are the same point."""

    start: Point
    end: Point
    radius: float
    colour: Colour


def draw_capsules(
    capsules: Iterable[Capsule],
    centre: Point,
    view_width: float,
    shape: tuple[int, int] = (240, 320),
) -> UInt8[np.ndarray, "height width 3"]:
    """Return a picture of the capsules, the later ones in front of the earlier ones.

    ``centre`` is the point in the middle of the picture, ``view_width`` its width in metres, and
    ``shape`` its height and width in pixels.
    """
    height, width = shape
    pixel = view_width / width
    across = centre[0] + (np.arange(width) - (width - 1) / 2) * pixel
    upwards = centre[1] - (np.arange(height) - (height - 1) / 2) * pixel
    picture = np.broadcast_to(np.array(BACKGROUND, float), (height, width, 3))
    for capsule in capsules:
        distance = _distance_to_segment(across, upwards[:, None], capsule.start, capsule.end)
        # The edge is blurred over one pixel.
        cover = np.clip((capsule.radius - distance) / pixel + 0.5, 0.0, 1.0)[..., None]
        picture = picture + cover * (np.array(capsule.colour, float) - picture)
    return np.rint(picture).astype(np.uint8)


def _distance_to_segment(
    across: np.ndarray, upwards: np.ndarray, start: Point, end: Point
) -> np.ndarray:
    """Return the distance of every pixel to the line between two points."""
    along = (end[0] - start[0], end[1] - start[1])
    squared_length = along[0] ** 2 + along[1] ** 2
    x, y = across - start[0], upwards - start[1]
    projection = x * along[0] + y * along[1]
    share = np.clip(projection / squared_length, 0.0, 1.0) if squared_length > 0.0 else 0.0
    return np.hypot(x - share * along[0], y - share * along[1])
