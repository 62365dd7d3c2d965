"""Laws that every structure obeys: blocks, norms, proximal maps and tangent spaces."""

import numpy as np
import pytest

from discrepant import InputError
from discrepant.structures import (
    Columns,
    Entries,
    Groups,
    Rows,
    Structure,
    Tiles,
    Unfolding,
    Whole,
)

SHAPE, TENSOR = (13, 9), (5, 6, 4)
LABELS = np.random.default_rng(5).integers(0, 7, SHAPE)


class Diagonals(Structure):
    """Blocks are the diagonals of a matrix, as a user would write them."""

    def split(self, X):
        m, n = X.shape
        blocks = np.zeros((m + n - 1, 1, min(m, n)))
        for k in range(1 - m, n):
            values = np.diagonal(X, k)
            blocks[k + m - 1, 0, : len(values)] = values
        return blocks

    def join(self, blocks, shape):
        X = np.empty(shape)
        for (i, j), _ in np.ndenumerate(X):
            X[i, j] = blocks[j - i + shape[0] - 1, 0, min(i, j)]
        return X


def structures():
    shifted = list(Tiles(4, 5, offsets=4).parts())[3]
    pairs = [(s, SHAPE) for s in (Whole(), Rows(), Columns(), Entries())]
    pairs += [(s, SHAPE) for s in (Groups(LABELS), Tiles(4, 5), shifted, Diagonals())]
    pairs += [(Unfolding(k), TENSOR) for k in range(3)] + [(Entries(), TENSOR)]
    return pairs


every = pytest.mark.parametrize(
    ("structure", "shape"), structures(), ids=lambda value: getattr(value, "name", "")
)


def draw(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@every
def test_join_is_the_inverse_of_split(structure, shape):
    X = draw(shape)
    blocks = structure.split(X)
    np.testing.assert_array_equal(structure.join(blocks, shape), X)
    assert np.sum(blocks**2) == pytest.approx(np.sum(X**2))  # the padding is zero


@every
def test_norms_are_dual(structure, shape):
    X, M = draw(shape), draw(shape, 1)
    assert np.vdot(X, M) <= structure.norm(X) * structure.dual_norm(M)
    # Equality at the subgradient: singular values of one in every block.
    U, _, Vt = np.linalg.svd(structure.split(X), full_matrices=False)
    G = structure.join(U @ Vt, shape)
    assert np.vdot(X, G) == pytest.approx(structure.norm(X))
    assert structure.norm(3 * X) == pytest.approx(3 * structure.norm(X))


@every
@pytest.mark.parametrize("threshold", [0.1, 1.5, 1e3])
def test_prox_is_optimal(structure, shape, threshold):
    X = draw(shape)
    Z = structure.prox(X, threshold)
    # X − Z is in the subdifferential of threshold·γ at Z.
    assert structure.dual_norm(X - Z) <= threshold * (1 + 1e-9)
    assert np.vdot(X - Z, Z) == pytest.approx(threshold * structure.norm(Z), abs=1e-8)


@every
def test_tangent_projections_are_orthogonal(structure, shape):
    X = structure.prox(draw(shape), 1.2)
    project, retract = structure.tangent(X)
    D, E = draw(shape, 1), draw(shape, 2)
    np.testing.assert_allclose(project(project(D)), project(D), atol=1e-10)
    assert np.vdot(project(D), E) == pytest.approx(np.vdot(D, project(E)))
    np.testing.assert_allclose(project(X), X, atol=1e-10)
    np.testing.assert_allclose(retract(X), X, atol=1e-10)
    step = 1e-5 * project(D)
    assert np.linalg.norm(retract(X + step) - X - step) < 1e-7  # second order


@every
def test_mirror_map_grows_from_the_start(structure, shape):
    Xi = draw(shape)
    assert structure.norm(structure.mirror(np.zeros(shape), 1e-3)) == 0
    small = structure.mirror(1e-4 * Xi, 1e-3)
    np.testing.assert_allclose(small, 1e-6 * 2e-4 * Xi, rtol=1e-4, atol=1e-14)
    top = structure.dual_norm(Xi)
    largest = structure.dual_norm(structure.mirror(Xi, 1e-3))
    assert largest == pytest.approx(1e-6 * np.sinh(2 * top))


@every
def test_noise_level_is_just_above_the_dual_norm_of_noise(structure, shape):
    measured = np.mean([structure.dual_norm(draw(shape, k)) for k in range(20)])
    assert 0.55 < measured / structure.noise_dual_norm(shape) < 1.1


@every
def test_one_value_per_block(structure, shape):
    sizes = structure.spectra(draw(shape)).max(axis=1)
    assert set(np.unique(structure.block_values(sizes, shape))) <= set(sizes)


def test_offsets_are_distinct_tilings_of_one_part():
    shifts = {part._shift for part in Tiles(8, 6, offsets=4).parts()}
    assert shifts == {(0, 0), (0, 3), (4, 0), (4, 3)}
    assert len({part._shift for part in Tiles(9, 9, offsets=3).parts()}) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Whole(weight=0), "weight must be a positive number"),
        (lambda: Tiles(0, 4), "height must be a whole number"),
        (lambda: Tiles(4, 4, offsets=1.5), "offsets must be a whole number"),
        (lambda: Unfolding(-1), "mode must be a whole number"),
        (lambda: Tiles(20, 4).check_shape(SHAPE), "do not fit"),
        (lambda: Rows().check_shape(TENSOR), r"needs a matrix.*Unfolding"),
        (lambda: Whole().check_shape((5,)), "needs a matrix"),
        (lambda: Unfolding(2).check_shape(SHAPE), "more than 2 axes"),
        (lambda: Groups(LABELS).check_shape((9, 13)), "one label for each entry"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_structure_prints_its_settings():
    assert repr(Tiles(4, 5)) == (
        "Tiles(through=None, weight=1.0, height=4, width=5, offsets=1)"
    )
