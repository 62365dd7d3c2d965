"""
The state of five qubits, some settings wrong
=============================================

Estimate the state of five qubits from Pauli measurements of which some are wrong.

A state is a Hermitian positive semidefinite matrix of trace one; a pure state has rank
one. Each of the 4⁵ products of Pauli matrices is measured by counting ±1 in 1000 runs,
which leaves noise on every mean. In 15% of the settings the mean is arbitrary. For
comparison, linear inversion is projected on the set of states.
"""

import itertools
from functools import reduce
from pathlib import Path

import numpy as np

from discrepant import Sensing, recover
from discrepant.core.plotting import COLOURS, new_figure

rng = np.random.default_rng(0)
qubits, runs, corrupt_fraction = 5, 1000, 0.15
n = 2**qubits
pauli = [
    np.eye(2),
    np.array([[0, 1], [1, 0]]),
    np.array([[0, -1j], [1j, 0]]),
    np.diag([1, -1]),
]
products = [reduce(np.kron, four) for four in itertools.product(pauli, repeat=qubits)]
operator = Sensing(np.array(products))

# The state to prepare: a slightly rotated GHZ state.
ghz = np.zeros(n, complex)
ghz[0] = ghz[-1] = np.sqrt(0.5)
angle = 0.4
rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
psi = reduce(np.kron, [rotation] * qubits) @ ghz
truth = np.outer(psi, psi.conj())

means = operator.forward(truth).real
counts = rng.binomial(runs, np.clip((1 + means) / 2, 0, 1))
y = 2 * counts / runs - 1
wrong = rng.choice(len(y), round(corrupt_fraction * len(y)), replace=False)
y[wrong] = rng.uniform(-1, 1, len(wrong))

result = recover(y, operator, psd=True, random_state=0)


def as_state(X):
    """Return X with its negative eigenvalues removed and trace one."""
    values, vectors = np.linalg.eigh((X + X.conj().T) / 2)
    values = np.maximum(values, 0)
    return (vectors * (values / values.sum())) @ vectors.conj().T


def fidelity(state):
    return float((psi.conj() @ state @ psi).real)


linear = as_state(operator.adjoint(y) / n)
robust = as_state(result.low_rank)
flagged = np.isin(np.arange(len(y)), wrong)
print(f"{result.status}, {result.n_applications} applications")
print(f"rank {result.rank}, noise {result.noise[0]:.3f} (1/√runs is {runs**-0.5:.3f})")
print(
    f"{result.outliers[flagged].mean():.0%} of the wrong settings found, "
    f"{result.outliers[~flagged].mean():.1%} of the right ones flagged"
)
print(f"fidelity: {fidelity(robust):.4f}")
print(f"fidelity of linear inversion: {fidelity(linear):.4f}")

figure, axes = new_figure(4, size=(12.8, 3.4))
panels = {"truth": truth, "linear inversion": linear, "recover": robust}
for ax, (title, state) in zip(axes, panels.items(), strict=False):
    ax.imshow(np.abs(state), cmap="magma", vmin=0, vmax=np.abs(truth).max())
    ax.set(title=f"|{title}|", xticks=[], yticks=[])
deviation = np.abs(y - operator.forward(result.low_rank).real) / result.noise[0]
bins = np.geomspace(0.01, 100, 60)
axes[3].hist(deviation[~flagged], bins, color=COLOURS[0], label="right")
axes[3].hist(deviation[flagged], bins, color=COLOURS[1], alpha=0.8, label="wrong")
axes[3].set(xscale="log", xlabel="deviation, in units of the noise", title="settings")
axes[3].legend()
picture = Path("quantum_state.png")
figure.savefig(picture)
print(f"picture: {picture}")
