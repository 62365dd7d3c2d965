"""Whether all frames are of one scene: cuts, and pictures that change at once.

A cut, a camera that was pushed, or one that sets its exposure anew changes most of the
picture at once, and for good. What moves before a background does neither.
"""

from collections import deque

import numpy as np

from discrepant.core.linalg import Array

RISE = 0.35  # of the picture that is covered at once: things come in from the side
WITHIN = 3  # frames
STAY = 5  # frames for which it must then stand still: a flash does not
MOST = 0.8  # of the picture; so much is another scene even if it came slowly
LONGER = 12  # frames for which that must stand still
STILL = 0.8  # of what is covered: pixels that are as they were
BACK = 0.7  # of the samples, up to noise, in which a former scene is known again
ALIKE = 0.4  # of the usual likeness of two frames; with less they are of two scenes
LEAST = 0.2  # likeness of frames of one scene; where all moves there are no scenes
SIDE = 48  # rows and columns of the small pictures that are compared, about


class Cuts:
    """Notice that the picture has changed at once, by some samples of it."""

    def __init__(self) -> None:
        self._shares: deque[float] = deque([1.0], maxlen=WITHIN)
        self._since, self._at_once = 0, False
        self._held: deque[Array] = deque(maxlen=STAY + 1)

    def look(self, values: Array, noise: Array, covered: Array) -> bool:
        """Take in samples of a frame; whether another scene has begun `STAY` ago.

        `values` and `noise` have one row a sample; `covered` is where it is in front.
        """
        share = float(covered.mean())
        rose = share - min(self._shares) > RISE
        self._shares.append(share)
        self._held.append(values)
        if share <= RISE:
            self._since, self._at_once = 0, False
            return False
        off = np.abs(values[covered] - self._held[0][covered]).mean(axis=-1)
        if rose:
            self._since, self._at_once = 0, True
            return False
        self._since += 1
        if self._since < STAY or np.mean(off < 3 * noise[covered]) < STILL:
            return False
        return self._at_once or (share > MOST and self._since >= LONGER)

    @property
    def suspected(self) -> bool:
        """Whether the picture has changed at once in the frame looked at last."""
        return self._at_once and self._since == 0


def scene_length(frames: list[Array]) -> int:
    """Return how many of some frames, in their order, are of the first one's scene.

    Frames of one scene have their edges in the same places, whatever the light.
    """
    if len(frames) < 3:
        return len(frames)
    edges = np.stack([_edges(frame) for frame in frames])
    like = edges @ edges.T
    for cut in range(1, len(frames) - 1):
        before, after = like[:cut, :cut], like[cut, cut + 1]
        # A frame without edges, which is not even like itself, is of no scene.
        pairs = before[np.triu_indices(cut, 1)]
        usual = pairs.mean() if cut > 2 else min(after, before.min())
        known = max(like[:cut, cut].mean(), like[:cut, cut + 1].mean())
        if usual > LEAST and known < ALIKE * usual:
            return cut
    return len(frames)


def _edges(frame: Array) -> Array:
    """Return the differences of neighbours in a small picture, of length one."""
    from discrepant.video.model.background_kernels import shrunk

    step = max(1, min(frame.shape[:2]) // SIDE)
    small = np.empty((frame.shape[0] // step, frame.shape[1] // step), np.float32)
    shrunk(frame, step, small)
    both = np.concatenate([np.diff(small, axis=k).ravel() for k in (0, 1)])
    return np.asarray(both / (np.linalg.norm(both) or 1.0))
