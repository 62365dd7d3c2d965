"""What can speak against a fit: one enum, with a sentence for the user each."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from discrepant.fixed_rank.noise import FitWithNoise

# Size of the noise, of a component that it may hide and of the error that it leaves,
# relative to data and low-rank part, above which it is reported.
MAX_NOISE_EFFECT = 0.25


class Doubt(Enum):
    """A reason not to rely on a fit; the value is the sentence of its warning."""

    NOTHING_GAINED = (
        "No component is significant: none exceeds the noise, so the low-rank part is "
        "zero or need not be the truth."
    )
    NO_SHORTER = (
        "The low-rank part does not describe the data in fewer digits than zero does: "
        "it may have been fitted to noise and corruption."
    )
    LARGE_NOISE = (
        "The noise is {noise:.0%} of the size of the data. It may hide components of "
        "up to {hidden:.0%} of the largest one, leaves an expected error of {error:.0%}"
        " in the low-rank part, and may consist of corruption that was not separated."
    )
    UNSETTLED = (
        "The flags of corrupt values did not settle: they are less reliable than their "
        "probabilities."
    )
    NOT_PREDICTED = (
        "Held-out entries are not predicted: their residuals are {ratio:.1f} times as "
        "large as the noise suggests, so the low-rank part may be wrong."
    )
    AMBIGUOUS = (
        "Another low-rank part that fits about as well differs by {distance:.0%}: the "
        "data do not decide between them."
    )
    EXTRAPOLATED = (
        "The low-rank part has values far beyond all of the data: it extrapolates, and "
        "may be wrong."
    )
    UNDETERMINED = (
        "The data do not determine X{where}: it can change there without changing any "
        "value that fits, and is a guess. More, or different, data are needed."
    )
    TOO_FEW = (
        "The {count} measurements that fit are too few for a low-rank part of rank "
        "{rank}, which has {freedom} degrees of freedom: it need not be the truth."
    )
    MOSTLY_CORRUPT = (
        "{fraction:.0%} of the entries do not fit the low-rank part: it may be wrong."
    )
    UNCONFIRMED = (
        "The result is an optimum of the convex program, which neither an exact fit "
        "nor a noise level confirms: it need not be the truth. Flags are unreliable, "
        "and {fraction:.0%} of the data do not fit. More data, or fewer corrupt ones, "
        "are needed; a smaller alpha leaves more to the low-rank part."
    )
    UNEQUAL_COLUMNS = (
        "The columns differ in size by a factor of {ratio:.0e}. Entries of large "
        "columns are classified as corrupt, or small columns are lost; rescale the "
        "columns first."
    )
    NOT_LOW_RANK = (
        "The data are not of low rank with noise: the low-rank part is an approximation"
        " that may be far off. Flags come from a model of the rows, and do not depend "
        "on it."
    )
    CONSTANT_COLUMNS = (
        "More than half of the entries are equal in {columns}: their entries are not "
        "classified."
    )
    WIDE_TAILS = (
        "{fraction:.0%} of the flags would vanish if the residuals were {factor:g} "
        "times as large: unusual entries may be correct."
    )
    CLUSTERED_FLAGS = (
        "{fraction:.0%} of the flags lie in {where}: entries there may be unusual "
        "rather than corrupt."
    )
    ROWS_PREDICT_BETTER = (
        "The other entries of a row predict an entry better than the low-rank part "
        "does: the flags are unreliable. Load the data into memory for flags by such "
        "a model."
    )
    NARROW = (
        "A table of {rows}×{columns} is narrow for a low-rank fit with noise: its "
        "flags are less reliable than fdr states. discrepant.clean is intended for "
        "such tables."
    )
    FEW_STORED = (
        "{rows} rows and {columns} columns store fewer entries than the rank, {rank}: "
        "their low-rank part is a guess."
    )
    STOPPED = "The fit was stopped early; the result so far may be far off."
    NOT_CONVERGED = "The fit {status}: raise max_iter."
    NOT_OPTIMAL = "{status}; {certificate}: raise max_iter, or tol."

    def warning(self, **figures: Any) -> "FitWarning":
        """Return the warning of this doubt, with its figures filled in."""
        unfinished = (Doubt.STOPPED, Doubt.NOT_CONVERGED, Doubt.NOT_OPTIMAL)
        kind = FitConvergenceWarning if self in unfinished else FitWarning
        return kind(self, self.value.format(**figures))


# Doubts about the low-rank part, on which flags by a model of the rows do not depend.
ABOUT_LOW_RANK = {
    Doubt.NOTHING_GAINED,
    Doubt.NO_SHORTER,
    Doubt.LARGE_NOISE,
    Doubt.NOT_PREDICTED,
    Doubt.AMBIGUOUS,
    Doubt.EXTRAPOLATED,
    Doubt.MOSTLY_CORRUPT,
    Doubt.NOT_CONVERGED,
}


class FitWarning(UserWarning):
    """A warning about a fit, with the doubt that it states."""

    def __init__(self, doubt: Doubt, sentence: str) -> None:
        super().__init__(sentence)
        self.doubt = doubt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.doubt, str(self))


class FitConvergenceWarning(FitWarning, ConvergenceWarning):  # type: ignore[misc]
    """A warning about a fit that did not end by itself."""


def doubts_of_noise(fit: FitWithNoise, *, of_entries: bool) -> Iterator[FitWarning]:
    """Yield a warning if the noise of a fit is large for its low-rank part.

    Large noise of entries may be corruption that was not separated. Measurements that
    mix all entries may have more noise, which many of them average out.
    """
    noise, hidden, error = fit.noise_fraction, fit.detection_limit, fit.expected_error
    if max(noise * of_entries, hidden, error) > MAX_NOISE_EFFECT:
        yield Doubt.LARGE_NOISE.warning(noise=noise, hidden=hidden, error=error)
