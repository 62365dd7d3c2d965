"""
Spikes among the Fourier samples of a series of images
======================================================

Recover a series of images from half of its Fourier samples, some of them spikes.

A scanner measures a random half of the Fourier transform of each frame. Now and then an
electric discharge adds a spike to a sample, which is a wave across the whole image.
Frames are similar, so that pixels × frames is a matrix of low rank. `recover` finds the
spikes without knowing their number. For comparison, two fits with the true rank use all
samples, and all samples below five medians of their frequency.
"""

from pathlib import Path

import numpy as np

from discrepant import recover
from discrepant.core.plotting import image_panels
from discrepant.paper.synthetic import relative_error

rng = np.random.default_rng(0)
side, frames = 48, 24
grid = np.linspace(-1, 1, side)
x, y = np.meshgrid(grid, grid)
time = np.linspace(0, 2 * np.pi, frames)


def disc(cx, cy, rx, ry):
    """Return an ellipse that is one inside."""
    return ((x - cx) ** 2 / rx**2 + (y - cy) ** 2 / ry**2 < 1).astype(float)


body = disc(0, 0, 0.85, 0.7) - 0.5 * disc(-0.35, 0.1, 0.3, 0.4)
heart, vessel = disc(0.3, 0.1, 0.25, 0.3), disc(0.2, -0.45, 0.1, 0.1)
parts = np.stack([body, heart, vessel], axis=-1).reshape(-1, 3)
courses = np.stack([np.ones(frames), 0.4 * np.sin(time), 0.5 * np.cos(2 * time)])
truth = parts @ courses  # pixels × frames, of rank three


class Fourier:
    """Some Fourier samples of each frame: an operator is two methods and two shapes."""

    signal_shape = (side * side, frames)

    def __init__(self, sampled):
        self.sampled = sampled  # frames × side × side
        self.data_shape = (int(sampled.sum()),)

    def forward(self, X):
        stack = X.T.reshape(frames, side, side)
        return np.fft.fft2(stack, norm="ortho")[self.sampled]

    def adjoint(self, z):
        stack = np.zeros((frames, side, side), complex)
        stack[self.sampled] = z
        return np.fft.ifft2(stack, norm="ortho").reshape(frames, -1).T


operator = Fourier(rng.random((frames, side, side)) < 0.5)
clean = operator.forward(truth)


def complex_normal(size):
    return (rng.standard_normal(size) + 1j * rng.standard_normal(size)) / np.sqrt(2)


samples = clean + 0.01 * complex_normal(clean.size)
spikes = rng.choice(clean.size, clean.size // 100, replace=False)
samples[spikes] += 5 * complex_normal(len(spikes))

result = recover(samples, operator, real=True, random_state=0)
flagged = np.isin(np.arange(clean.size), spikes)
print(f"{result.status}, {result.n_applications} transforms")
print(f"rank {result.rank}, noise {result.noise[0]:.4f} of each part")
print(
    f"{result.outliers[flagged].mean():.1%} of the spikes found, "
    f"{result.outliers[~flagged].mean():.2%} of the other samples flagged"
)


def least_squares(used, rank, steps=100):
    """Fit a low rank to samples by projected gradient steps."""
    X = np.zeros_like(truth)
    for _ in range(steps):
        X = X + operator.adjoint(used * (samples - operator.forward(X))).real
        U, s, Vt = np.linalg.svd(X, full_matrices=False)
        X = (U[:, :rank] * s[:rank]) @ Vt[:rank]
    return X


frequency = np.hypot(*np.meshgrid(*[np.fft.fftfreq(side, 1 / side)] * 2))
ring = np.round(np.broadcast_to(frequency, operator.sampled.shape)[operator.sampled])
medians = np.array([np.median(np.abs(samples[ring == r])) for r in np.unique(ring)])
small = np.abs(samples) < 5 * medians[np.searchsorted(np.unique(ring), ring)]
plain = least_squares(np.ones(samples.size), rank=3)
cut = least_squares(small, rank=3)
print(f"error: {relative_error(result.low_rank, truth):.4f}")
print(f"error of least squares: {relative_error(plain, truth):.4f}")
print(f"error without samples above five medians: {relative_error(cut, truth):.4f}")

frame = 6
panels = {
    "half of the samples": operator.adjoint(samples).real,
    "least squares": plain,
    "five medians": cut,
    "recover": result.low_rank,
    "truth": truth,
}
picture = Path("kspace_spikes.png")
image_panels({k: v[:, frame].reshape(side, side) for k, v in panels.items()}).savefig(
    picture
)
print(f"picture: {picture}")
