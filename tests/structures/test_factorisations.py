"""Parameterisations: gradient steps, values, starts, and the dual variable."""

import numpy as np
import pytest

from discrepant import InputError
from discrepant.structures.factorisations import (
    Factor,
    Hadamard,
    PSDFactor,
    gaussian_factors,
)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


# name → (constructor, names of parameters, the factor c of the loss c‖value − y‖²)
CASES = {
    "psd": (lambda rng: PSDFactor(rng.standard_normal((4, 3))), ("U",), 0.25),
    "factor": (
        lambda rng: Factor(rng.standard_normal((4, 2)), rng.standard_normal((3, 2))),
        ("U", "V"),
        0.5,
    ),
    "hadamard": (
        lambda rng: Hadamard(rng.standard_normal((4, 3)), rng.standard_normal((4, 3))),
        ("g", "h"),
        0.25,
    ),
}


def rebuild(parameters, arrays):
    return type(parameters)(*arrays)


@pytest.mark.parametrize("name", CASES)
def test_descend_is_a_gradient_step(name, rng):
    make, names, weight = CASES[name]
    start = make(rng)
    arrays = [getattr(start, part).copy() for part in names]
    y = rng.standard_normal(start.value().shape)

    def loss(arrays):
        return weight * np.sum((rebuild(start, arrays).value() - y) ** 2)

    moved = rebuild(start, [a.copy() for a in arrays])
    moved.descend(moved.value() - y, 1e-7)
    for i, part in enumerate(names):
        numeric = np.zeros_like(arrays[i])
        for at in np.ndindex(numeric.shape):
            up, down = [a.copy() for a in arrays], [a.copy() for a in arrays]
            up[i][at] += 1e-6
            down[i][at] -= 1e-6
            numeric[at] = (loss(up) - loss(down)) / 2e-6
        step = (arrays[i] - getattr(moved, part)) / 1e-7
        np.testing.assert_allclose(step, numeric, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_value_follows_the_parameters(name, rng):
    make, names, _ = CASES[name]
    parameters = make(rng)
    parameters.descend(rng.standard_normal(parameters.value().shape), 0.1)
    rebuilt = rebuild(parameters, [getattr(parameters, part) for part in names])
    np.testing.assert_allclose(parameters.value(), rebuilt.value(), rtol=1e-12)


def test_dual_is_minus_the_integral_of_the_residual(rng):
    corruption = Hadamard.gaussian((3, 2), 1e-4, rng)
    alpha, tau, total = 2.0, 1e-3, np.zeros((3, 2))
    for _ in range(500):
        r = rng.standard_normal((3, 2))
        corruption.descend(r, alpha * tau)
        total -= tau * r
    np.testing.assert_allclose(corruption.dual(alpha), total, atol=1e-5)


def test_starting_points(rng):
    assert np.all(Hadamard.gaussian((4,), 0.1, rng).value() == 0)
    assert gaussian_factors((5, 5), 1.0, rng, psd=True).U.shape == (5, 5)
    assert gaussian_factors((5, 3), 1.0, rng, psd=False).V.shape == (3, 3)
    for width in (0, -1, 6):
        with pytest.raises(InputError, match="width"):
            gaussian_factors((5, 5), 1.0, rng, psd=True, width=width)
