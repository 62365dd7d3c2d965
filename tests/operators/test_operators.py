"""Operators: the adjoint law, and refusals at the door."""

import numpy as np
import pylops
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from discrepant import (
    Diagonal,
    Entries,
    Identity,
    InputError,
    Mask,
    Outer,
    Sensing,
    Wrapped,
    recover,
)
from discrepant.operators.operator import check_adjoint, dot_test


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class Blocks:
    """Matrices that come three at a time, anew each time."""

    def __init__(self, matrices):
        self.matrices = matrices

    def __call__(self):
        for start in range(0, len(self.matrices), 3):
            yield self.matrices[start : start + 3]


def complex_normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


# name → how to make it; each test draws its own
OPERATORS = {
    "identity": lambda rng: Identity((5, 4)),
    "mask": lambda rng: Mask(rng.random((5, 4)) < 0.7),
    "sensing": lambda rng: Sensing(rng.standard_normal((7, 5, 4))),
    "entries, one of them twice": lambda rng: Entries([0, 4, 4], [1, 3, 3], (5, 4)),
    "sensing by a sparse matrix": lambda rng: Sensing(
        sparse.random_array((9, 20), density=0.2, rng=rng), (5, 4)
    ),
    "sensing by a list": lambda rng: Sensing(list(rng.standard_normal((7, 5, 4)))),
    "sensing by sparse matrices": lambda rng: Sensing(
        [sparse.random_array((5, 4), density=0.3, rng=rng) for _ in range(6)]
    ),
    "sensing in blocks": lambda rng: Sensing(Blocks(rng.standard_normal((7, 5, 4)))),
    "rank one": lambda rng: Outer(
        rng.standard_normal((7, 5)), rng.standard_normal((7, 4))
    ),
    "rank two": lambda rng: Outer(
        rng.standard_normal((7, 5, 2)), rng.standard_normal((7, 4, 2))
    ),
    "diagonal": lambda rng: Diagonal(
        rng.standard_normal((6, 5)), np.linalg.qr(rng.standard_normal((5, 5)))[0]
    ),
    "diagonal in the standard basis": lambda rng: Diagonal(rng.standard_normal((6, 5))),
    "scipy": lambda rng: Wrapped(
        aslinearoperator(rng.standard_normal((9, 20))), (5, 4)
    ),
    "pylops matrix": lambda rng: Wrapped(
        pylops.MatrixMult(rng.standard_normal((9, 20))), (5, 4)
    ),
    "pylops derivative": lambda rng: Wrapped(
        pylops.FirstDerivative((5, 4), axis=0), (5, 4)
    ),
}


# The same on complex matrices
COMPLEX = {
    "entries": lambda rng: Entries([0, 4, 4], [1, 3, 3], (5, 4)),
    "sensing": lambda rng: Sensing(complex_normal(rng, 7, 5, 4)),
    "sensing by a sparse matrix": lambda rng: Sensing(
        sparse.csr_array(complex_normal(rng, 7, 20)), (5, 4)
    ),
    "sensing in blocks": lambda rng: Sensing(Blocks(complex_normal(rng, 7, 5, 4))),
    "rank one": lambda rng: Outer(complex_normal(rng, 7, 5), complex_normal(rng, 7, 4)),
    "fourier": lambda rng: Wrapped(
        pylops.signalprocessing.FFT2D((5, 4), dtype=np.complex128), (5, 4)
    ),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("real", [False, True])
def test_adjoint_on_complex_matrices(name, real, rng):
    """Behind complex measurements X may be complex or, by the real part, real."""
    A = COMPLEX[name](rng)
    assert dot_test(A, np.complex128, real) is not real
    if not real and hasattr(A, "forward_factors"):
        U, V = complex_normal(rng, 5, 2), complex_normal(rng, 4, 2)
        seen = A.forward(U @ V.conj().T)
        np.testing.assert_allclose(A.forward_factors(U, V), seen)


def test_sensing_is_the_same_however_it_is_stored(rng):
    dense = complex_normal(rng, 7, 5, 4)
    X, z = complex_normal(rng, 5, 4), complex_normal(rng, 7)
    stores = [
        dense,
        list(dense),
        Blocks(dense),
        [sparse.coo_array(one) for one in dense],
    ]
    for matrices in stores:
        A = Sensing(matrices)
        expected = np.einsum("mij,ij->m", dense.conj(), X)
        np.testing.assert_allclose(A.forward(X), expected)
        np.testing.assert_allclose(A.adjoint(z), np.einsum("m,mij->ij", z, dense))


def test_sensing_by_a_dask_array(rng):
    array = pytest.importorskip("dask.array")
    dense = rng.standard_normal((20, 6, 6))
    A = Sensing(array.from_array(dense, chunks=(7, 6, 6)))
    assert (A.signal_shape, A.data_shape) == ((6, 6), (20,))
    X, z = rng.standard_normal((6, 6)), rng.standard_normal(20)
    np.testing.assert_allclose(A.forward(X), Sensing(dense).forward(X))
    np.testing.assert_allclose(A.adjoint(z), Sensing(dense).adjoint(z))


def test_single_precision_is_widened_a_few_rows_at_a_time(rng):
    matrices = rng.standard_normal((7, 5, 4)).astype(np.float32)
    X = rng.standard_normal((5, 4))
    expected = np.einsum("mij,ij->m", matrices.astype(float), X)
    np.testing.assert_allclose(Sensing(matrices).forward(X), expected, rtol=1e-12)


@pytest.mark.parametrize("name", OPERATORS)
def test_adjoint(name, rng):
    A = OPERATORS[name](rng)
    check_adjoint(A)
    X = rng.standard_normal(A.signal_shape)
    z = rng.standard_normal(A.data_shape)
    assert A.forward(X).shape == A.data_shape
    assert A.adjoint(z).shape == A.signal_shape
    np.testing.assert_allclose(
        np.vdot(A.forward(X), z), np.vdot(X, A.adjoint(z)), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Mask(np.ones(3, bool)), "2-D"),
        (lambda: Mask(np.ones((3, 3))), "booleans"),
        (lambda: Sensing(np.ones((3, 3))), "3-D"),
        (lambda: Sensing(np.full((3, 3, 3), "a")), "numbers"),
        (lambda: Sensing(iter(np.ones((2, 3, 3, 3)))), "without calling it"),
        (lambda: Sensing(lambda: [np.ones((2, 3, 3)), np.ones((2, 4, 3))]), "differen"),
        (lambda: Sensing([np.ones((3, 3)), np.ones((3, 4))]), "different shapes"),
        (lambda: Sensing(sparse.eye_array(9)), "needs the shape"),
        (lambda: Sensing(sparse.eye_array(9), (3, 4)), "n1·n2 = 9"),
        (lambda: Entries([0.5], [1], (2, 2)), "whole numbers"),
        (lambda: Entries([2], [1], (2, 2)), "row 2"),
        (lambda: Outer(np.ones((3, 2)), np.ones((4, 2))), "as many"),
        (lambda: Outer(np.ones(3)), "as rows"),
        (lambda: Diagonal(np.ones(3)), "shape"),
        (lambda: Diagonal(np.ones((2, 3)), np.ones((3, 3))), "orthonormal"),
        (lambda: Wrapped(object(), (2, 2)), "LinearOperator"),
        (lambda: Wrapped(aslinearoperator(np.eye(4)), (3, 2)), "6"),
    ],
)
def test_refusals(make, word):
    with pytest.raises(InputError, match=word):
        make()


def test_wrapped_operator_of_a_square_matrix_needs_no_wrapping(rng):
    entries = rng.standard_normal((60, 25))
    y = entries @ np.ones(25)
    found = recover(y, aslinearoperator(entries), random_state=0)
    np.testing.assert_allclose(found.signal, np.ones((5, 5)))


def test_wrapped_operator_of_a_rectangular_matrix_has_to_say_so(rng):
    entries = rng.standard_normal((60, 20))
    y = entries @ np.ones(20)
    with pytest.raises(InputError, match=r"Wrapped\(operator, \(rows, columns\)\)"):
        recover(y, aslinearoperator(entries))
    wrapped = Wrapped(aslinearoperator(entries), (5, 4))
    np.testing.assert_allclose(
        recover(y, wrapped, random_state=0).signal, np.ones((5, 4))
    )


class Mean:
    """One's own operator: the means of the rows, with an adjoint to be judged."""

    signal_shape, data_shape = (4, 6), (4,)

    def __init__(self, share=1 / 6, give=np.asarray):
        self.share, self.give = share, give

    def forward(self, X):
        return self.give(X.mean(axis=1))

    def adjoint(self, z):
        return self.give(np.repeat(z[:, None], 6, axis=1) * self.share)


class Forward(LinearOperator):
    """A SciPy operator without an adjoint."""

    def __init__(self, entries):
        super().__init__(float, entries.shape)
        self.entries = entries

    def _matvec(self, x):
        return self.entries @ x


class TestAdjointAtTheDoor:
    """A wrong adjoint is told at once, not after 20,000 steps."""

    @pytest.mark.parametrize("solver", ["implicit", "descent"])
    @pytest.mark.filterwarnings("ignore:4 measurements are too few")
    def test_right(self, solver):
        found = recover(np.ones(4), Mean(), solver=solver, random_state=0)
        assert found.signal.shape == (4, 6)

    @pytest.mark.parametrize("share", [1.0, 0.0, -1 / 6, np.nan, 1 / 6 + 1e-5])
    def test_wrong(self, share):
        with pytest.raises(InputError, match="adjoint does not belong"):
            recover(np.ones(4), Mean(share))

    def test_wrong_in_scipy(self, rng):
        entries = rng.standard_normal((40, 25))
        wrong = LinearOperator(
            entries.shape,
            matvec=lambda x: entries @ x,
            rmatvec=lambda z: entries[::-1].T @ z,
        )
        with pytest.raises(InputError, match="adjoint does not belong"):
            recover(entries.sum(axis=1), wrong)

    def test_single_precision_rounds_more(self):
        single = Mean(give=lambda z: z.astype(np.float32))
        settings = {"solver": "descent", "random_state": 0}
        assert recover(np.ones(4), single, **settings).signal.shape == (4, 6)
        # In double precision what float32 rounds away would be a mistake.
        rounded = Mean(give=lambda z: z.astype(np.float32).astype(float))
        y = np.ones(4, np.float32)
        assert recover(y, rounded, **settings).signal.dtype == np.float32

    def test_none(self, rng):
        entries = rng.standard_normal((9, 4))
        with pytest.raises(InputError, match="has no adjoint"):
            recover(entries.sum(axis=1), Forward(entries))

    def test_of_another_shape(self):
        with pytest.raises(InputError, match="its forward map gives"):
            recover(np.ones(4), Mean(give=lambda z: z[:3]))

    def test_of_complex_numbers(self):
        with pytest.raises(InputError, match="no real numbers"):
            recover(np.ones(4), Mean(give=lambda z: z + 0j), solver="descent")

    @pytest.mark.filterwarnings("ignore:4 measurements are too few")
    def test_may_be_left_out(self):
        recover(np.ones(4), Mean(share=1 / 6 + 1e-5), check=False, random_state=0)
