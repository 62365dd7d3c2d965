"""Operators: adjoints, storage formats, and validation of arguments."""

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
    """Matrices in blocks of three, as in docs/operators.md."""

    def __init__(self, matrices):
        self.blocks = lambda: (matrices[k : k + 3] for k in range(0, len(matrices), 3))
        self.data_shape, self.signal_shape = matrices.shape[:1], matrices.shape[1:]

    def forward(self, X):
        return np.concatenate([np.tensordot(A, X, 2) for A in self.blocks()])

    def adjoint(self, z):
        X = np.zeros(self.signal_shape)
        for A in self.blocks():
            X, z = X + np.tensordot(z[: len(A)], A, 1), z[len(A) :]
        return X


def complex_normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


# name → function that returns the operator for a random generator
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
    "sensing in blocks": lambda rng: Blocks(rng.standard_normal((7, 5, 4))),
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


# Operators on complex matrices
COMPLEX = {
    "entries": lambda rng: Entries([0, 4, 4], [1, 3, 3], (5, 4)),
    "sensing": lambda rng: Sensing(complex_normal(rng, 7, 5, 4)),
    "sensing by a sparse matrix": lambda rng: Sensing(
        sparse.csr_array(complex_normal(rng, 7, 20)), (5, 4)
    ),
    "rank one": lambda rng: Outer(complex_normal(rng, 7, 5), complex_normal(rng, 7, 4)),
    "fourier": lambda rng: Wrapped(
        pylops.signalprocessing.FFT2D((5, 4), dtype=np.complex128), (5, 4)
    ),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("real", [False, True])
def test_adjoint_on_complex_matrices(name, real, rng):
    """With complex measurements X may be complex, or real by the real part."""
    A = COMPLEX[name](rng)
    assert dot_test(A, np.complex128, real) is not real
    if not real and hasattr(A, "forward_factors"):
        U, V = complex_normal(rng, 5, 2), complex_normal(rng, 4, 2)
        expected = A.forward(U @ V.conj().T)
        np.testing.assert_allclose(A.forward_factors(U, V), expected)


def test_sensing_does_not_depend_on_the_storage_format(rng):
    dense = complex_normal(rng, 7, 5, 4)
    X, z = complex_normal(rng, 5, 4), complex_normal(rng, 7)
    stores = [
        dense,
        list(dense),
        [sparse.coo_array(matrix) for matrix in dense],
    ]
    for matrices in stores:
        A = Sensing(matrices)
        expected = np.einsum("mij,ij->m", dense.conj(), X)
        np.testing.assert_allclose(A.forward(X), expected)
        np.testing.assert_allclose(A.adjoint(z), np.einsum("m,mij->ij", z, dense))


def test_single_precision_matrices_are_applied_in_double_precision(rng):
    matrices = rng.standard_normal((7, 5, 4)).astype(np.float32)
    X = rng.standard_normal((5, 4))
    expected = np.einsum("mij,ij->m", matrices.astype(float), X)
    np.testing.assert_allclose(Sensing(matrices).forward(X), expected, rtol=1e-12)


@pytest.mark.parametrize("name", OPERATORS)
def test_adjoint_law(name, rng):
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
        (lambda: Sensing(lambda: [np.ones((2, 3, 3))]), "3-D array"),
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
def test_invalid_arguments_are_refused(make, word):
    with pytest.raises(InputError, match=word):
        make()


def test_linear_operators_on_square_matrices_need_no_wrapping(rng):
    entries = rng.standard_normal((60, 25))
    y = entries @ np.ones(25)
    result = recover(y, aslinearoperator(entries), random_state=0)
    np.testing.assert_allclose(result.signal, np.ones((5, 5)))


def test_linear_operators_on_rectangular_matrices_need_their_shape(rng):
    entries = rng.standard_normal((60, 20))
    y = entries @ np.ones(20)
    with pytest.raises(InputError, match=r"Wrapped\(operator, \(rows, columns\)\)"):
        recover(y, aslinearoperator(entries))
    wrapped = Wrapped(aslinearoperator(entries), (5, 4))
    np.testing.assert_allclose(
        recover(y, wrapped, random_state=0).signal, np.ones((5, 4))
    )


class Mean:
    """A user's operator: means of rows, with an adjoint that may be wrong."""

    signal_shape, data_shape = (4, 6), (4,)

    def __init__(self, factor=1 / 6, give=np.asarray):
        self.factor, self.give = factor, give

    def forward(self, X):
        return self.give(X.mean(axis=1))

    def adjoint(self, z):
        return self.give(np.repeat(z[:, None], 6, axis=1) * self.factor)


class Forward(LinearOperator):
    """A SciPy operator without an adjoint."""

    def __init__(self, entries):
        super().__init__(float, entries.shape)
        self.entries = entries

    def _matvec(self, x):
        return self.entries @ x


class TestDotTest:
    """A wrong adjoint is refused at once, not after 20,000 steps."""

    @pytest.mark.parametrize("solver", ["implicit", "descent"])
    @pytest.mark.filterwarnings("ignore:The 4 measurements that fit are too few")
    def test_right_adjoint(self, solver):
        result = recover(np.ones(4), Mean(), solver=solver, random_state=0)
        assert result.signal.shape == (4, 6)

    @pytest.mark.parametrize("factor", [1.0, 0.0, -1 / 6, np.nan, 1 / 6 + 1e-5])
    def test_wrong_adjoint(self, factor):
        with pytest.raises(InputError, match="adjoint does not belong"):
            recover(np.ones(4), Mean(factor))

    def test_wrong_adjoint_of_a_scipy_operator(self, rng):
        entries = rng.standard_normal((40, 25))
        wrong = LinearOperator(
            entries.shape,
            matvec=lambda x: entries @ x,
            rmatvec=lambda z: entries[::-1].T @ z,
        )
        with pytest.raises(InputError, match="adjoint does not belong"):
            recover(entries.sum(axis=1), wrong)

    def test_single_precision_has_a_larger_tolerance(self):
        single = Mean(give=lambda z: z.astype(np.float32))
        settings = {"solver": "descent", "random_state": 0}
        assert recover(np.ones(4), single, **settings).signal.shape == (4, 6)
        # In double precision what float32 rounds away would be a mistake.
        rounded = Mean(give=lambda z: z.astype(np.float32).astype(float))
        y = np.ones(4, np.float32)
        assert recover(y, rounded, **settings).signal.dtype == np.float32

    def test_missing_adjoint(self, rng):
        entries = rng.standard_normal((9, 4))
        with pytest.raises(InputError, match="has no adjoint"):
            recover(entries.sum(axis=1), Forward(entries))

    def test_wrong_shape(self):
        with pytest.raises(InputError, match="its forward map gives"):
            recover(np.ones(4), Mean(give=lambda z: z[:3]))

    def test_complex_numbers(self):
        with pytest.raises(InputError, match="no real numbers"):
            recover(np.ones(4), Mean(give=lambda z: z + 0j), solver="descent")

    @pytest.mark.filterwarnings("ignore:The 4 measurements that fit are too few")
    def test_check_can_be_turned_off(self):
        wrong = Mean(factor=1 / 6 + 1e-5)
        result = recover(np.ones(4), wrong, check=False, random_state=0)
        assert result.signal.shape == (4, 6)
