"""
Sensors placed by distances, some of them wrong
===============================================

Locate sixty sensors from distances of which some are wrong.

A squared distance is linear in the matrix of inner products of the positions, which is
positive semidefinite and, in the plane, of rank two. Half of the pairs have a measured
distance; one in ten is an echo and too long. For comparison, multidimensional scaling
(SMACOF) fits all measured distances by least squares.
"""

from pathlib import Path

import numpy as np

from discrepant import recover
from discrepant.core.plotting import COLOURS, new_figure

rng = np.random.default_rng(0)
sensors, noise = 60, 0.002
places = rng.random((sensors, 2))
places -= places.mean(axis=0)


class Distances:
    """Squared distances of pairs as a function of centred inner products.

    Distances do not depend on the centre. X is therefore expressed in a basis of the
    vectors that sum to zero: positions are basis @ U for X = U Uᵀ.
    """

    def __init__(self, pairs, count):
        self.i, self.j = pairs
        ones = np.ones((count, 1)) / np.sqrt(count)
        self.basis = np.linalg.qr(np.hstack([ones, np.eye(count)[:, 1:]]))[0][:, 1:]
        self.arms = self.basis[self.i] - self.basis[self.j]  # pairs × (count − 1)
        self.signal_shape = (count - 1, count - 1)
        self.data_shape = self.i.shape

    def forward(self, X):
        return np.einsum("pi,pi->p", self.arms @ X, self.arms)

    def adjoint(self, z):
        return (self.arms * z[:, None]).T @ self.arms

    def forward_factors(self, U, V):
        return np.einsum("pr,pr->p", self.arms @ U, self.arms @ V)


upper = np.transpose(np.triu_indices(sensors, 1))
pairs = upper[rng.random(len(upper)) < 0.5].T
distances = np.linalg.norm(places[pairs[0]] - places[pairs[1]], axis=1)
distances = distances + noise * rng.standard_normal(distances.size)
wrong = rng.random(distances.size) < 0.1
distances[wrong] += rng.uniform(0.1, 1.0, int(wrong.sum()))

operator = Distances(pairs, sensors)
result = recover(distances**2, operator, psd=True, random_state=0)
(U,) = result.factors
print(f"{result.status}, {result.n_applications} applications, rank {result.rank}")
print(
    f"{result.outliers[wrong].mean():.0%} of the wrong distances found, "
    f"{result.outliers[~wrong].mean():.1%} of the right ones flagged"
)


def smacof(steps=500):
    """Return positions that fit all distances by least squares (majorisation)."""
    i, j = pairs
    laplacian = np.zeros((sensors, sensors))
    np.add.at(laplacian, (i, i), 1)
    np.add.at(laplacian, (j, j), 1)
    laplacian[i, j] = laplacian[j, i] = -1
    inverse = np.linalg.pinv(laplacian)
    at = np.linalg.svd(operator.adjoint(distances**2), hermitian=True)[0][:, :2]
    at = operator.basis @ at + 0.01 * rng.standard_normal((sensors, 2))
    for _ in range(steps):
        arms = at[i] - at[j]
        length = np.maximum(np.linalg.norm(arms, axis=1), 1e-9)
        pull = arms * (distances / length)[:, None]
        total = np.zeros_like(at)
        np.add.at(total, i, pull)
        np.add.at(total, j, -pull)
        at = inverse @ total
    return at


def aligned(at):
    """Return positions rotated and mirrored onto the true ones."""
    at = at - at.mean(axis=0)
    left, _, right = np.linalg.svd(at.T @ places)
    return at @ left @ right


solutions = {
    "SMACOF": aligned(smacof()),
    "recover": aligned((operator.basis @ U)[:, :2]),
}
figure, axes = new_figure(2, size=(9.2, 4.4))
for ax, (name, at) in zip(axes, solutions.items(), strict=True):
    error = np.sqrt(np.mean(np.sum((at - places) ** 2, axis=1)))
    print(f"root mean square error of a position, {name}: {error:.5f}")
    ax.plot(*np.stack([places, at], axis=1).T, color="#999999", lw=1)
    ax.scatter(*places.T, s=30, facecolors="none", edgecolors=COLOURS[5], label="true")
    ax.scatter(*at.T, s=9, color=COLOURS[0], label="estimate")
    ax.set(title=f"{name}: error {error:.4f}", aspect="equal", xticks=[], yticks=[])
axes[0].legend(loc="upper left")
picture = Path("localisation.png")
figure.savefig(picture)
print(f"picture: {picture}")
