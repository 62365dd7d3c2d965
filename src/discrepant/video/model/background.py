"""The background of a fixed camera, followed frame by frame.

A frame is a plate in the present light, patterns of its changes (flicker, a lamp,
waves) whose number follows the scene, noise of each pixel's own size, and what is in
front of it all.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discrepant.core.linalg import Array
from discrepant.video.model.bands import Band, Bands


@dataclass(frozen=True)
class Tuning:
    """The constants of the model, in grey levels of 0 to 255 where they have a unit.

    Chosen on walkers pasted into a street, grey and in colour, and before a tree in the
    wind; docs/video.md says which were chosen elsewhere.
    """

    # What is looked at.
    start: int = 12  # frames before the first plate: a walker leaves his place
    look: int = 36  # frames of a file or an array that are looked at beforehand
    look_ahead: int = 300  # of the first so many: light and things change with time
    samples: int = 2400  # values that tell the light; more tell no more
    large: int = 500_000  # pixels beyond which rows learn in turns
    # The light, and patterns of change.
    light_modes: tuple[int, int] = (4, 3)  # cosines down and across
    stiff: float = 0.003  # how firmly the light is even, beside what the samples say
    window: int = 32  # frames in which a pattern shows
    patterns: int = 3  # most of them
    stands_out: float = 10.0  # times the edge of the noise's eigenvalues
    # The odds of a pixel.
    offset: float = 9.0  # squared distance, in sigmas, at which they are even
    hue_offset: float = 3.0  # more where hue has its say: two numbers more
    cap: float = 6.0  # no pixel says more than e⁶ : 1
    calm: float = 2.0  # and a restless one no more than this many powers of its rate
    floor: float = 4.0  # least variance of brightness: rounding, compression
    relative: float = 0.015  # and least sigma, of the brightness itself
    hue_floor: float = 8.0  # least variance of hue, which files keep at half size
    # What neighbours say.
    time_weight: float = 1.0  # of what was believed a frame ago
    space_weight: float = 0.35  # of each of eight neighbours, in every round
    rounds: int = 3
    # A shadow: the background times a factor, up to noise, in a window.
    shade_least: float = 0.5
    shade_most: float = 0.97
    shade_reach: int = 1  # pixels to each side: penumbras are narrow
    shade_spread: float = 8.0  # times the noise's variance that may be left
    shade_grey: float = 3.0  # and without colour, where a plain coat is much alike
    shade_noise: float = 25.0  # most variance: beyond, all would pass for shadow
    # Whole things.
    least: int = 12  # pixels
    evidence: float = 30.0  # log odds, together
    thick: float = 1.7  # pixels: an edge that trembles is thinner
    hole: float = 4e-4  # of the picture that is closed as a hole, and no less than
    least_hole: int = 60  # pixels
    half: float = 0.4  # of the contrast inside, which a pixel at the border must have
    # Learning.
    memory: float = 1 / 150  # share of a frame in a settled plate
    blink: float = 1 / 50  # share of a frame in the rate of flips
    unrest: float = 0.2  # flips a frame, from which on a pixel sways
    stand: float = 2.0  # a thing that stopped is background after twice the plate's age
    vote: float = 0.2  # log odds that it is a ghost, of a vote along its outline
    soonest: float = 30.0  # times as soon, at most, is a ghost background
    most: float = 150.0  # frames of age that count


TUNING = Tuning()
DIMMEST = 0.05  # light that is reckoned with: less shows no plate to learn from
DARK = 8  # grey levels below which a ratio says nothing


class Light:
    """Smooth fields of light, and its tint: a factor for each channel.

    The fields are cosines down and across, few of each. `across` has an entry for each
    value of a row, channel by channel.
    """

    def __init__(self, shape: tuple[int, ...], modes: tuple[int, int]) -> None:
        height, width, channels = shape
        self.down = _cosines(height, modes[0])
        self._across = _cosines(width, modes[1]).astype(np.float32)
        self._tints = _cosines(channels, channels)[1:].astype(np.float32)
        self.across = np.concatenate(
            [
                np.repeat(self._across, channels, axis=1),
                np.tile(self._tints, (1, width)),
            ]
        )
        self.shape = modes

    def at(self, rows: Array, columns: Array) -> Array:
        """Return all modes but the even light, at some pixels: one row a mode.

        Pixels have a value for each channel.
        """
        both = self.down[:, None, rows] * self._across[None][:, :, columns]
        fields = both.reshape(-1, len(rows))[1:]
        each = np.repeat(fields, self._tints.shape[1], axis=1)
        return np.concatenate([each, np.tile(self._tints, (1, len(rows)))])

    def rows(self, gain: float, field: Array | None) -> Array:
        """Return, for each row of the image, the coefficients of `across`."""
        height = self.down.shape[1]
        if field is None:
            return np.full((height, 1), gain, np.float32)
        count = self.shape[0] * self.shape[1]
        table = np.concatenate([[gain], field[: count - 1]]).reshape(self.shape)
        tints = np.tile(field[count - 1 :], (height, 1))
        each = np.concatenate([self.down.T @ table, tints], axis=1)
        return np.ascontiguousarray(each.astype(np.float32))


def _cosines(size: int, count: int) -> Array:
    places = (np.arange(size) + 0.5) / size
    return np.asarray(np.cos(np.pi * np.arange(count)[:, None] * places))


class Place(NamedTuple):
    """Where a frame lies: coordinates, the light on each row, residuals of samples.

    ``patterns`` names the pattern of each coordinate, see `Background.patterns`.
    """

    c: Array
    light: Array
    away: Array
    patterns: tuple[int, ...]


class Background:
    """Plate, patterns and noise of a scene, and where the light stands now.

    Parameters
    ----------
    first : ndarray of shape (frames, rows, columns, channels)
        The first frames, or some of all of them.
    age : float
        For how many frames the plate counts as seen.
    bands : Bands
        Of the rows of a frame.

    Attributes
    ----------
    patterns : tuple of int
        The number of each pattern in ``U``; the plate has number 0. A pattern keeps its
        number when others come and go, and no number is used twice.
    """

    def __init__(
        self, first: Array, age: float, bands: Bands, tuning: Tuning = TUNING
    ) -> None:
        self.tuning = tuning
        self._bands = bands
        height, width, channels = first.shape[1:]
        rng = np.random.default_rng(0)
        count = min(tuning.samples // channels, height * width)
        self.places = np.sort(rng.choice(height * width, count, replace=False))
        self.light = Light(first.shape[1:], tuning.light_modes)
        # Eight bits end at white; what wider types hold has no end that is known.
        self.white = np.float32(255 if first.dtype == np.uint8 else np.inf)
        at = self.light.at(*np.divmod(self.places, width))
        self._modes = at.astype(np.float32)  # of samples
        plate, self.variance = _first_plate(first, self.places, bands, tuning)
        self.U = plate[None]
        self.patterns: tuple[int, ...] = (0,)
        self._learned = 0  # patterns so far
        self.support = np.full((height, width), min(age, tuning.most), np.float32)
        self.other = plate.copy()
        self.rival = np.zeros((height, width), np.float32)
        self.restless = np.zeros((height, width), np.float32)
        self.was = np.zeros((height, width), bool)
        self._inertia = np.eye(1)
        self._energy = np.zeros(0)
        t = tuning
        self.turns = 1 if height * width <= t.large else 2
        self._turn = 0
        self._learning = np.array(
            [
                t.memory * self.turns,
                t.blink,
                t.stand,
                t.most,
                t.floor,
                t.relative,
                t.hue_floor,
                t.unrest,
            ],
            np.float32,
        )
        self.extend([(frame, None) for frame in first])

    @property
    def rank(self) -> int:
        """Rank of the background: the plate and its patterns."""
        return len(self.U)

    @property
    def noise(self) -> Array:
        """Standard deviation of each pixel's noise, in grey levels."""
        return self._spread(self.variance)

    @property
    def sampled_noise(self) -> Array:
        """The noise at the samples."""
        return self._spread(self.variance.reshape(2, -1)[:, self.places])

    def _spread(self, variance: Array) -> Array:
        channels = self.U.shape[-1]
        hue = variance[1] * ((channels - 1) / channels)
        return np.asarray(np.sqrt(variance[0] + hue))

    def locate(self, frame: Array) -> Place:
        """Return where a frame lies: coordinates, light, and residuals of samples."""
        from discrepant.video.model.coordinates import coordinates, sampled, shown

        rank, (modes, count) = self.rank, self._modes.shape
        noise = np.repeat(self.sampled_noise, self.U.shape[-1])
        basis, (values,) = (np.empty((n, count), np.float32) for n in (rank + modes, 1))
        sampled(self.U, self.places, noise, basis)
        sampled(frame[None], self.places, noise, values[None])
        bright = basis[0] * noise > DARK
        lit = bright.any()
        c, ridge = np.zeros((2, rank + modes))
        c[0] = np.median(values[bright] / basis[0, bright]) if lit else 1.0
        ridge[0] = 0.0 if lit else 1.0  # in the dark nothing tells the light
        away = coordinates(basis[:rank], values, ridge[:rank], c[:rank])
        power, square = shown(self._modes, basis[0], away, basis[rank:])
        # A mode that is there stands out from what the noise alone would give; things
        # in front, of a few pixels in a hundred, do not.
        uneven = power >= 40 + 0.01 * count
        if uneven:
            ridge[0], ridge[rank:] = 0.0, self.tuning.stiff * square
            away = coordinates(basis, values, ridge, c)
        c[0] = max(c[0], DIMMEST)
        field = c[rank:] if uneven else None
        return Place(c[:rank], self.light.rows(c[0], field), away, self.patterns)

    def shows(self, frame: Array, share: float) -> bool:
        """Whether a frame shows this scene: in that share of samples, up to noise."""
        return bool(np.mean(np.abs(self.locate(frame).away) < 3) > share)

    def expect(self, place: Place, out: Array, band: Band) -> None:
        """Fill rows of what the background should look like."""
        from discrepant.video.model import background_kernels as kernels

        across = self.light.across[: place.light.shape[1]]
        c = place.c.astype(np.float32)
        kernels.expect(self.U, c, place.light, across, self.white, out, *band)

    def learn(
        self,
        frame: Array,
        expected: Array,
        covered: Array,
        raw: Array,
        haste: Array,
        place: Place,
        gain: Array,
        band: Band,
    ) -> None:
        """Let a band of the background follow a frame."""
        from discrepant.video.model import background_kernels as kernels

        kernels.learn(
            frame, expected, covered, raw, haste, self.was, self.U,
            place.c.astype(np.float32), gain, self.variance, self.restless,
            self.support, self.other, self.rival, *band,
            self._turn % self.turns, self.turns, self._learning,
        )  # fmt: skip

    def gain_of(self, c: Array) -> Array:
        """Return how far each pattern moves per unit of residual (recursive LS)."""
        self._turn += 1
        forget = 1 - self.tuning.memory
        self._inertia = forget * self._inertia + np.outer(c, c)
        if self.rank > 1:
            self._energy += self.tuning.memory * (c[1:] ** 2 - self._energy)
        ridge = 1e-6 * np.trace(self._inertia) * np.eye(self.rank)
        return np.linalg.solve(self._inertia + ridge, c).astype(np.float32)

    def extend(self, recent: list[tuple[Array, Array | None]]) -> None:
        """Look in some frames, each with its mask, for patterns of change.

        A pattern is there where the residuals of many samples move together: the
        largest eigenvalue of their Gram matrix lies far above the edge of the noise's.
        """
        from discrepant.video.model import background_kernels as kernels

        room = self.tuning.patterns + 1 - self.rank
        if room <= 0 or len(recent) < self.tuning.start:
            return
        places = [self.locate(frame) for frame, _ in recent]
        shares, ways = _together([place.away for place in places])
        found = int(np.sum(shares[:room] > self.tuning.stands_out))
        if not found:
            return
        expected = np.empty(self.U.shape[1:], np.float32)
        new = np.zeros((found, *self.U.shape[1:]), np.float32)
        weight = np.full((found, *self.U.shape[1:3]), 1e-3, np.float32)
        nothing = np.zeros(self.U.shape[1:3], bool)

        def add(band: Band) -> None:
            for (frame, mask), place, way in zip(recent, places, ways, strict=True):
                self.expect(place, expected, band)
                hidden = nothing if mask is None else mask
                parts = way[:found].astype(np.float32)
                kernels.gather(
                    frame, expected, hidden, self.variance, parts, new, weight, *band
                )

        self._bands.each(add)
        self.U = np.concatenate([self.U, new / weight[..., None]])
        numbers = range(self._learned + 1, self._learned + found + 1)
        self.patterns, self._learned = (*self.patterns, *numbers), numbers[-1]
        self._inertia = np.diag(
            [*np.diag(self._inertia), *np.full(found, 1 / self.tuning.memory)]
        )
        self._energy = np.concatenate([self._energy, np.full(found, 1 / len(recent))])

    def drop(self) -> None:
        """Forget patterns that no longer show."""
        if self.rank == 1:
            return
        size = np.sqrt(((self.U[1:] ** 2).mean(axis=-1) / self.noise**2).mean((1, 2)))
        keep = np.concatenate([[True], np.sqrt(self._energy) * size > 0.1])
        if not keep.all():
            self.U = np.ascontiguousarray(self.U[keep])
            self.patterns = tuple(np.array(self.patterns)[keep].tolist())
            self._inertia = self._inertia[np.ix_(keep, keep)]
            self._energy = self._energy[keep[1:]]


def _together(residuals: list[Array]) -> tuple[Array, Array]:
    """Return how far eigenvalues of residuals stand out, and each frame's part in them.

    They are those of the Gram matrix, over the edge of what noise alone would give.
    """
    Z = np.stack(residuals)
    Z = np.where(np.abs(Z) < 6, np.clip(Z, -3, 3), 0.0)
    frames, count = Z.shape
    typical = max(np.median(np.abs(Z)) * 1.4826, 0.05)
    edge = (typical * (np.sqrt(count) + np.sqrt(frames))) ** 2
    values, vectors = np.linalg.eigh(Z @ Z.T)
    return values[::-1] / edge, vectors[:, ::-1]


def _first_plate(
    first: Array, places: Array, bands: Bands, tuning: Tuning
) -> tuple[Array, Array]:
    """Return the median of frames brought to one light, and a first noise."""
    from scipy.ndimage import uniform_filter

    from discrepant.video.model import background_kernels as kernels

    times, height, width, channels = first.shape
    some = first.reshape(times, -1, channels)[:, places]
    middle = np.median(some, axis=0)
    scale = np.ones((times, channels), np.float32)
    for k in range(channels):
        bright = middle[:, k] > DARK
        if bright.any():
            gains = np.median(some[:, bright, k] / middle[bright, k], axis=1)
            scale[:, k] /= np.maximum(gains, DIMMEST)
    scale = np.tile(scale, (1, width))
    plate = np.empty((height, width, channels), np.float32)
    spread = np.empty((2, height, width), np.float32)
    bands.each(lambda band: kernels.first_look(first, scale, plate, spread, *band))
    # The neighbours of a pixel are heard, and a step has the noise of two frames.
    variance = (uniform_filter(spread, (0, 5, 5)) * 1.4826) ** 2 / 2
    least = tuning.floor + (tuning.relative * plate.mean(axis=-1)) ** 2
    variance[0] = np.maximum(variance[0], least)
    variance[1] = np.maximum(variance[1], tuning.hue_floor)
    return plate, variance
