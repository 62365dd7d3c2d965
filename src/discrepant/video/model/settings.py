"""Constants of the background model, by name and unit.

Intensities are in grey levels of 0 to 255. The constants were chosen on walkers pasted
into a street, grey and in colour, and before a tree in the wind; docs/video.md lists
the exceptions. The named tuples are passed to compiled kernels, which read their fields
by name.
"""

from typing import NamedTuple

import numpy as np

# Frames that determine the first background.
START_FRAMES = 12  # frames before the first background image: a walker moves on in them
PREVIEW_FRAMES = 36  # frames sampled beforehand where the source can be read again
PREVIEW_SPAN = 300  # frames that the sample covers: light and objects change with time
LARGE_FRAME = 500_000  # pixels above which every second row is updated per frame

# Regression of a frame on the background.
FIT_SAMPLES = 2400  # values that the fit uses; more do not improve it
ILLUMINATION_MODES = (4, 3)  # cosines down and across
ILLUMINATION_RIDGE = 0.003  # ridge towards even light, relative to the samples' weight
MIN_GAIN = 0.05  # smallest gain: a darker frame says nothing about the background
DARK = 8  # grey levels below which a ratio of intensities is mostly noise

# Patterns of change: flicker, a lamp, waves.
PATTERN_WINDOW = 32  # frames in which a pattern is searched
MAX_PATTERNS = 3  # patterns at a time
COVERED_FRAMES = 8  # frames at the window's end in which an object covers a pixel
PATTERN_EIGENVALUE = 10.0  # least eigenvalue, in units of the edge of the noise's

# Absorption of objects that stay.
DEFAULT_LEARNING_TIME = 60.0  # seconds until an object that stays becomes background
OUTLINE_VOTE = 0.2  # log-odds that a component is a ghost, per vote along its outline
MAX_GHOST_SPEED = 30.0  # votes per frame for the new value of a ghost, at most

# Components and the final mask.
MIN_COMPONENT = 12  # pixels: a smaller component is noise, and the background learns it
MIN_AREA_FRACTION = 5e-4  # of the frame: smaller components are not in the final mask
MIN_THICKNESS = 1.7  # pixels, 2·area/border: thinner components are trembling edges
MAX_HOLE, MAX_HOLE_FRACTION = 60, 4e-4  # pixels, and of the frame: holes to fill
MEDIAN_RADIUS = 0.1  # of the final median, in square roots of a component's pixels
DETAIL_SIDE = 100  # pixels of the frame's side per pixel of its finest detail
MAX_DETAIL = 6  # pixels of the finest detail at most
MAX_BORDER_DEPTH = 3  # pixels of a soft border at most
BORDER_CONTRAST = 0.4  # contrast of a border pixel, relative to the object beside it


class PixelSettings(NamedTuple):
    """Constants of the classification of single pixels and their smoothing.

    The first two depend on the number of channels.
    """

    offset: np.float32  # squared residual, in variances, at which the score is zero
    shadow_misfit: np.float32  # largest misfit of a shadow, in noise variances
    # Weight of each of eight neighbours.
    space_weight: np.float32 = np.float32(0.5)
    shadow_min: np.float32 = np.float32(0.5)  # least factor of a shadow
    # Least colour and texture of a shadow, in variances.
    shadow_content: np.float32 = np.float32(2)
    # Least factor of a shadow without colour and texture.
    shadow_plain_min: np.float32 = np.float32(0.75)
    # Noise variance above which everything would pass as a shadow.
    shadow_max_variance: np.float32 = np.float32(25)
    shadow_reach: int = 1  # pixels to each side of the window: penumbras are narrow

    @classmethod
    def of(cls, channels: int) -> "PixelSettings":
        """Return the constants for frames of some number of channels.

        Colour adds the two values of chroma to the squared residual. Without it, a
        plain dark coat resembles a shadow, so less misfit is allowed.
        """
        offset, misfit = (12, 8) if channels > 1 else (9, 4)
        return cls(np.float32(offset), np.float32(misfit))


class FeedbackSettings(NamedTuple):
    """Constants of the feedback of short-lived components on the decision."""

    growth: np.float32 = np.float32(1.5)  # of the factor, per component that vanishes
    decay: np.float32 = np.float32(1 - 1 / 4000)  # of the factor, per frame
    max_factor: np.float32 = np.float32(30)  # of the variances
    lifetime: int = 25  # frames within which the component of a moving background goes
    margin: int = 4  # pixels around such a component where the factor grows, too
    reach: int = 3  # pixels that a component may move between two frames


class VarianceFloor(NamedTuple):
    """Least variances of the noise: rounding, compression, subsampled chroma."""

    brightness: np.float32 = np.float32(4.0)  # squared grey levels
    relative: np.float32 = np.float32(0.015)  # least sigma, relative to the brightness
    chroma: np.float32 = np.float32(8.0)  # squared grey levels


class UpdateSettings(NamedTuple):
    """Constants of the update of the background by one frame."""

    learning_rate: np.float32  # weight of a new frame in the background image
    floor: VarianceFloor
    max_age: np.float32 = np.float32(300)  # frames that a value rests on, at most


LEARNING_RATE = 1 / 150  # weight of a new frame in the background image
VARIANCE_FLOOR = VarianceFloor()
