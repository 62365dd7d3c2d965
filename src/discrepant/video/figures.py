"""Figures of separated videos: background, foreground mask and activity over time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def plot_separation(
    background: Array, mask: Array, number: int, activity: Array
) -> "Figure":
    """Draw the background and what is in front in one frame, and how much in each."""
    figure, axes = new_figure(size=(8.4, 5.2))
    axes.remove()
    shown = figure.subplot_mosaic("ab;cc", height_ratios=(3, 1))
    shown["a"].imshow(background, cmap="gray", interpolation="nearest")
    shown["a"].set(title=f"background of frame {number}", xticks=[], yticks=[])
    shown["b"].imshow(mask, cmap="gray", interpolation="nearest")
    shown["b"].set(title="in front", xticks=[], yticks=[])
    draw_activity(shown["c"], np.arange(len(activity)), activity)
    shown["c"].axvline(number, color=COLOURS[1], lw=1)
    shown["c"].set(xlabel="frame")
    return figure


def draw_activity(axes: Any, time: Array, activity: Array) -> None:
    """Draw how much of the picture is in front, over time."""
    axes.fill_between(time, 100 * activity, color=COLOURS[0], alpha=0.3, lw=0)
    axes.plot(time, 100 * activity, color=COLOURS[0], lw=1)
    axes.set(ylabel="% of the picture", title="What is in front")
    axes.set_ylim(bottom=0)
