"""Operators: the adjoint law, and refusals at the door."""

import numpy as np
import pylops
import pytest
from scipy.sparse.linalg import aslinearoperator

from discrepant import Diagonal, Identity, InputError, Mask, Sensing, Wrapped, recover

rng = np.random.default_rng(0)
OPERATORS = {
    "identity": Identity((5, 4)),
    "mask": Mask(rng.random((5, 4)) < 0.7),
    "sensing": Sensing(rng.standard_normal((7, 5, 4))),
    "diagonal": Diagonal(
        rng.standard_normal((6, 5)), np.linalg.qr(rng.standard_normal((5, 5)))[0]
    ),
    "diagonal in the standard basis": Diagonal(rng.standard_normal((6, 5))),
    "scipy": Wrapped(aslinearoperator(rng.standard_normal((9, 20))), (5, 4)),
    "pylops matrix": Wrapped(pylops.MatrixMult(rng.standard_normal((9, 20))), (5, 4)),
    "pylops derivative": Wrapped(pylops.FirstDerivative((5, 4), axis=0), (5, 4)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_adjoint(name):
    A = OPERATORS[name]
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


def test_wrapped_operator_of_a_square_matrix_needs_no_wrapping():
    entries = rng.standard_normal((40, 25))
    y = entries @ np.eye(5).reshape(-1)
    found = recover(y, aslinearoperator(entries), random_state=0)
    assert found.signal.shape == (5, 5)
