"""Operators: the adjoint law, and refusals at the door."""

import numpy as np
import pylops
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from discrepant import Diagonal, Identity, InputError, Mask, Sensing, Wrapped, recover
from discrepant.paper.observation import check_adjoint


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# name → how to make it; each test draws its own
OPERATORS = {
    "identity": lambda rng: Identity((5, 4)),
    "mask": lambda rng: Mask(rng.random((5, 4)) < 0.7),
    "sensing": lambda rng: Sensing(rng.standard_normal((7, 5, 4))),
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
        (lambda: Sensing(np.ones((3, 3, 3), complex)), "real"),
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
    entries = rng.standard_normal((40, 25))
    y = entries @ np.eye(5).reshape(-1)
    found = recover(y, aslinearoperator(entries), random_state=0)
    assert found.signal.shape == (5, 5)


def test_wrapped_operator_of_a_rectangular_matrix_has_to_say_so(rng):
    entries = rng.standard_normal((40, 20))
    y = entries @ np.ones(20)
    with pytest.raises(InputError, match=r"Wrapped\(operator, \(rows, columns\)\)"):
        recover(y, aslinearoperator(entries))
    wrapped = Wrapped(aslinearoperator(entries), (5, 4))
    assert recover(y, wrapped, random_state=0).signal.shape == (5, 4)


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

    def test_right(self):
        assert recover(np.ones(4), Mean(), random_state=0).signal.shape == (4, 6)

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
        assert recover(np.ones(4), single, random_state=0).signal.shape == (4, 6)
        # In double precision what float32 rounds away would be a mistake.
        rounded = Mean(give=lambda z: z.astype(np.float32).astype(float))
        y = np.ones(4, np.float32)
        assert recover(y, rounded, random_state=0).signal.dtype == np.float32

    def test_none(self, rng):
        entries = rng.standard_normal((9, 4))
        with pytest.raises(InputError, match="has no adjoint"):
            recover(entries.sum(axis=1), Forward(entries))

    def test_of_another_shape(self):
        with pytest.raises(InputError, match="its forward map gives"):
            recover(np.ones(4), Mean(give=lambda z: z[:3]))

    def test_of_complex_numbers(self):
        with pytest.raises(InputError, match="no real numbers"):
            recover(np.ones(4), Mean(give=lambda z: z + 0j))
