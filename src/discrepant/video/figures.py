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
    """Draw background and foreground of one frame, and the activity over time."""
    figure, axes = new_figure(size=(8.4, 5.2))
    axes.remove()
    panels = figure.subplot_mosaic("ab;cc", height_ratios=(3, 1))
    panels["a"].imshow(background, cmap="gray", interpolation="nearest")
    panels["a"].set(title=f"background of frame {number}", xticks=[], yticks=[])
    panels["b"].imshow(mask, cmap="gray", interpolation="nearest")
    panels["b"].set(title="foreground", xticks=[], yticks=[])
    draw_activity(panels["c"], np.arange(len(activity)), activity)
    panels["c"].axvline(number, color=COLOURS[1], lw=1)
    panels["c"].set(xlabel="frame")
    return figure


def draw_activity(axes: Any, time: Array, activity: Array) -> None:
    """Draw the percentage of the pixels that are foreground, over time."""
    axes.fill_between(time, 100 * activity, color=COLOURS[0], alpha=0.3, lw=0)
    axes.plot(time, 100 * activity, color=COLOURS[0], lw=1)
    axes.set(ylabel="% of the pixels", title="Foreground")
    axes.set_ylim(bottom=0)


@styled
def activity_plot(activity: Array, rate: float) -> "Figure":
    """Draw the foreground of a video over its time in seconds."""
    figure, axes = new_figure(size=(8, 2.6))
    draw_activity(axes, np.arange(len(activity)) / rate, activity)
    axes.set(xlabel="seconds")
    return figure
