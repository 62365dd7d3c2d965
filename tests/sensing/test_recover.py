"""Any operator: exact in few applications, noise, complex numbers, and its words."""

import numpy as np
import pylops
import pytest
from sklearn.exceptions import ConvergenceWarning

from discrepant import (
    Entries,
    InputError,
    Mask,
    Outer,
    Result,
    RobustPCA,
    Sensing,
    Wrapped,
    recover,
)
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, degrees_of_freedom
from discrepant.paper.synthetic import corrupted_matrix, relative_error


def normal(rng, *shape, real=True):
    drawn = rng.standard_normal(shape)
    return drawn if real else drawn + 1j * rng.standard_normal(shape)


def low_rank(rng, n, rank, kind="general", real=True):
    U = normal(rng, n, rank, real=real)
    if kind == "general":
        return U @ normal(rng, n, rank, real=real).conj().T
    signs = np.ones(rank) if kind == "psd" else (-1.0) ** np.arange(rank)
    return (U * signs) @ U.conj().T


def corrupted(rng, clean, fraction, noise=0.0):
    """Return the data and where they are wrong, by ten times their size."""
    real, size = not np.iscomplexobj(clean), np.std(clean)
    y = clean + noise * size * normal(rng, clean.size, real=real)
    wrong = np.zeros(clean.size, bool)
    wrong[rng.choice(clean.size, round(fraction * clean.size), replace=False)] = True
    y[wrong] += 10 * size * normal(rng, int(wrong.sum()), real=real)
    return y, wrong


def sensed(seed, kind="general", n=20, rank=2, m=400, fraction=0.1, noise=0.0):
    rng = np.random.default_rng(seed)
    X, A = low_rank(rng, n, rank, kind), Sensing(normal(rng, m, n, n))
    return X, A, *corrupted(rng, A.forward(X), fraction, noise)


class Counted:
    """An operator that counts by itself."""

    def __init__(self, inner):
        self.inner, self.count = inner, 0
        self.signal_shape, self.data_shape = inner.signal_shape, inner.data_shape

    def forward(self, X):
        self.count += 1
        return self.inner.forward(X)

    def adjoint(self, z):
        self.count += 1
        return self.inner.adjoint(z)


class TestTangentSpaces:
    @pytest.mark.parametrize("real", [True, False])
    @pytest.mark.parametrize("kind", ["general", "symmetric", "psd"])
    def test_coordinates_are_orthonormal_and_moves_are_tangent(self, kind, real):
        rng = np.random.default_rng(0)
        at = FixedRankMatrix.of(low_rank(rng, 6, 2, kind, real), kind, 2)
        G = normal(rng, 6, 6, real=real)
        G = G if kind == "general" else G + G.conj().T
        x = at.project(G)
        L, R = at.expand(x)
        T = L @ R.conj().T
        np.testing.assert_allclose(np.linalg.norm(x), np.linalg.norm(T))
        np.testing.assert_allclose(at.project(T), x, atol=1e-12)  # a projection
        for step in (1e-3, 1e-4):
            off = np.linalg.norm(at.retract(step * x).value() - at.value() - step * T)
            assert off < 10 * np.linalg.norm(T) ** 2 * step**2

    def test_freedom_counts_real_numbers(self):
        assert degrees_of_freedom((5, 4), 2, "general", True) == 2 * (5 + 4 - 2)
        assert degrees_of_freedom((5, 5), 5, "psd", True) == 15
        assert degrees_of_freedom((5, 5), 5, "symmetric", False) == 25


class TestExact:
    @pytest.mark.parametrize("kind", ["general", "symmetric", "psd"])
    def test_few_applications_to_rounding_with_a_certificate(self, kind):
        X, A, y, wrong = sensed(1, kind)
        counted = Counted(A)
        result = recover(
            y,
            counted,
            psd=kind == "psd",
            symmetric=kind == "symmetric",
            random_state=0,
        )
        assert relative_error(result.low_rank, X) < 1e-9
        assert result.rank == 2
        assert (result.outliers == wrong).all()
        assert result.certificate.gap < 1e-4
        assert result.n_applications == counted.count <= 300
        assert result.status.converged
        assert result.noise == [0]

    def test_the_result_is_one(self):
        X, A, y, wrong = sensed(2)
        result: Result = recover(y, A, random_state=0)
        U, V = result.factors
        np.testing.assert_allclose(U @ V.T, X, atol=1e-8)
        np.testing.assert_allclose(result.block(slice(3), slice(2)), X[:3, :2])
        np.testing.assert_allclose(A.forward(X) + result.sparse, y, atol=1e-7)
        np.testing.assert_allclose(result.residual, 0, atol=1e-7)
        C = result.coordinates(X[:4])
        np.testing.assert_allclose(C @ result.components, X[:4], atol=1e-6)
        assert (result.probability == wrong).all()
        assert list(result.history)[:3] == ["step", "residual", "seconds"]
        assert result.history["applications"][-1] <= result.n_applications
        assert result.n_steps == result.history["step"][-1]

    def test_same_seed_same_bytes(self):
        _, A, y, _ = sensed(3)
        one, two = (recover(y, A, random_state=5).low_rank for _ in "ab")
        assert one.tobytes() == two.tobytes()

    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_units_do_not_matter(self, scale):
        X, A, y, _ = sensed(4)
        result = recover(scale * y, A, random_state=0)
        assert relative_error(result.low_rank, scale * X) < 1e-9

    def test_huge_errors_do_not_hide_the_gap(self):
        X, A, y, wrong = sensed(5)
        y[np.flatnonzero(wrong)[0]] = 1e12
        result = recover(y, A, random_state=0)
        assert relative_error(result.low_rank, X) < 1e-9
        assert result.certificate.gap < 1e-4

    def test_nothing_wrong(self):
        X, A, y, _ = sensed(6, fraction=0.0)
        result = recover(y, A, random_state=0)
        assert not result.outliers.any()
        np.testing.assert_allclose(result.low_rank, X, atol=1e-9)

    def test_zeros(self):
        result = recover(np.zeros(5), Sensing(np.ones((5, 3, 3))), random_state=0)
        assert not result.low_rank.any()
        assert result.certificate.gap == 0

    def test_some_entries(self):
        rng = np.random.default_rng(7)
        X = low_rank(rng, 60, 3)
        rows, columns = np.nonzero(rng.random(X.shape) < 0.5)
        y, _ = corrupted(rng, X[rows, columns], 0.1)
        result = recover(y, Entries(rows, columns, X.shape), random_state=0)
        assert relative_error(result.low_rank, X) < 1e-9

    def test_a_symmetric_matrix_with_gaps(self):
        rng = np.random.default_rng(8)
        X = low_rank(rng, 50, 2, "symmetric")
        seen = rng.random(X.shape) < 0.6
        y, _ = corrupted(rng, X.reshape(-1), 0.1)
        Y = np.where(seen, y.reshape(X.shape), np.nan)
        result = recover(Y, symmetric=True, random_state=0)
        assert relative_error(result.low_rank, X) < 1e-9
        assert result.sparse.shape == X.shape
        assert np.isnan(result.residual[~seen]).all()
        masked = recover(np.where(seen, Y, 0), Mask(seen), random_state=0)
        assert relative_error(masked.low_rank, X) < 1e-9

    def test_rank_one_measurements(self):
        rng = np.random.default_rng(9)
        X = low_rank(rng, 40, 2)
        A = Outer(normal(rng, 1500, 40), normal(rng, 1500, 40))
        y, _ = corrupted(rng, A.forward(X), 0.1)
        assert relative_error(recover(y, A, random_state=0).low_rank, X) < 1e-9

    def test_beyond_the_reach_of_the_convex_program(self):
        X, A, y, _ = sensed(10, "psd", n=30, m=150, fraction=0.1)
        result = recover(y, A, psd=True, random_state=0)
        assert relative_error(result.low_rank, X) < 1e-9
        assert result.certificate.gap > 1e-3  # another X is the optimum there


class TestComplex:
    @pytest.mark.parametrize("real", [None, True])
    def test_fourier(self, real):
        rng = np.random.default_rng(11)
        X = low_rank(rng, 48, 2, real=bool(real))
        fourier = pylops.signalprocessing.FFT2D(X.shape, norm="ortho", dtype=complex)
        some = np.sort(rng.choice(X.size, X.size // 2, replace=False))
        A = pylops.Restriction(X.size, some, dtype=complex) * fourier
        y, wrong = corrupted(rng, A.matvec(X.reshape(-1)), 0.05)
        result = recover(y, Wrapped(A, X.shape), real=real, random_state=0)
        assert relative_error(result.low_rank, X) < 1e-9
        assert np.iscomplexobj(result.low_rank) is not bool(real)
        assert (result.outliers == wrong).all()
        assert result.certificate.gap < 1e-4

    def test_hermitian_states_from_real_numbers(self):
        rng = np.random.default_rng(12)
        X = low_rank(rng, 16, 1, "psd", real=False)
        matrices = normal(rng, 200, 16, 16, real=False)
        A = Sensing(matrices + matrices.conj().transpose(0, 2, 1))
        y, _ = corrupted(rng, A.forward(X).real, 0.1)
        result = recover(y, A, psd=True, random_state=0)
        assert relative_error(result.low_rank, X) < 1e-9
        np.testing.assert_allclose(result.low_rank, result.low_rank.conj().T)
        (U,) = result.factors
        np.testing.assert_allclose(U @ U.conj().T, result.low_rank, atol=1e-9)


def told_everything(X, A, y, wrong, kind="general"):
    """Return the error of least squares that knows the rank and what is wrong."""
    rows = A.matrices.reshape(len(y), -1)[~wrong]
    at = FixedRankMatrix.of(X, kind, int(np.linalg.matrix_rank(X)))
    for _ in range(5):
        unit = np.eye(at.project(X).size)
        J = np.array([(L @ R.T).reshape(-1) for L, R in map(at.expand, unit)]) @ rows.T
        e = y[~wrong] - rows @ at.value().reshape(-1)
        at = at.retract(np.linalg.lstsq(J.T, e, rcond=1e-10)[0])
    return relative_error(at.value(), X)


class TestNoise:
    @pytest.mark.parametrize("noise", [0.01, 0.1])
    def test_as_good_as_knowing_rank_and_support(self, noise):
        X, A, y, wrong = sensed(13, noise=noise)
        result = recover(y, A, random_state=0)
        assert result.rank == 2
        best = told_everything(X, A, y, wrong)
        assert relative_error(result.low_rank, X) < 1.2 * best
        np.testing.assert_allclose(
            result.noise, noise * np.std(A.forward(X)), rtol=0.15
        )
        assert result.outliers[~wrong].mean() < 0.01
        assert result.outliers[wrong].mean() > 0.9
        assert result.probability[result.outliers].min() > 0.5

    def test_its_certificate_is_that_of_the_penalised_program(self):
        _, A, y, _ = sensed(14, noise=0.01)
        assert recover(y, A, random_state=0).certificate.gap < 1e-4

    def test_a_known_size_is_taken(self):
        X, A, y, _ = sensed(15, noise=0.01)
        sigma = 0.01 * np.std(A.forward(X))
        result = recover(y, A, noise=sigma, random_state=0)
        assert result.noise == [sigma]
        assert relative_error(result.low_rank, X) < 0.02

    def test_data_in_single_precision_are_exact_to_it(self):
        X, A, y, _ = sensed(16)
        result = recover(y.astype(np.float32), A, random_state=0)
        assert result.low_rank.dtype == result.sparse.dtype == np.float32
        assert relative_error(result.low_rank, X) < 1e-5


class TestTheConvexProgram:
    def test_an_alpha_of_ones_own_asks_for_its_optimum(self):
        cvxpy = pytest.importorskip("cvxpy")
        _, A, y, _ = sensed(17, n=8, rank=2, m=40, fraction=0.1)
        lam = 0.1
        with pytest.warns(UserWarning, match="too few"):
            result = recover(y, A, alpha=1 / lam, random_state=0)
        X = cvxpy.Variable((8, 8))
        rows = A.matrices.reshape(len(y), -1)
        left = y - rows @ cvxpy.vec(X, order="C")
        objective = cvxpy.normNuc(X) + lam * cvxpy.norm1(left)
        best = cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver="CLARABEL")
        assert result.certificate.primal == pytest.approx(best, rel=1e-4)
        assert result.certificate.gap < 1e-4


class TestWhatItSays:
    def test_too_few_measurements(self):
        _, A, y, _ = sensed(18, m=30)
        with pytest.warns(UserWarning, match="too few|need not be the truth"):
            recover(y, A, random_state=0)

    def test_measurements_that_do_not_see_all_of_x(self):
        rng = np.random.default_rng(19)
        X = low_rank(rng, 30, 2)
        rows, columns = np.nonzero(rng.random(X.shape) < 0.6)
        seen = rows != 4
        A = Entries(rows[seen], columns[seen], X.shape)
        with pytest.warns(UserWarning, match="do not determine X"):
            recover(A.forward(X), A, random_state=0)

    def test_pure_noise(self):
        rng = np.random.default_rng(20)
        A = Sensing(normal(rng, 300, 15, 15))
        with pytest.warns(UserWarning, match="need not be the truth|too few"):
            recover(normal(rng, 300), A, random_state=0)

    def test_not_converged(self):
        _, A, y, _ = sensed(21, noise=0.1)
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            result = recover(y, A, noise=0, max_iter=30, random_state=0)
        assert not result.status.converged

    @pytest.mark.parametrize(
        ("settings", "word"),
        [
            ({"noise": -1}, "noise"),
            ({"noise": "loud"}, "noise"),
            ({"fdr": 0}, "fdr"),
            ({"tol": 0}, "tol"),
            ({"max_iter": 0}, "max_iter"),
            ({"start": np.ones((3, 4))}, "start"),
            ({"step": 1e-4}, 'solver="descent"'),
            ({"symmetric": True, "solver": "descent"}, "implicit"),
            ({"real": True, "solver": "descent"}, "implicit"),
        ],
    )
    def test_one_sentence(self, settings, word):
        _, A, y, _ = sensed(22, n=5, m=20)
        with pytest.raises(InputError, match=word):
            recover(y, A, **settings)


class TestOnTheWay:
    def test_a_warm_start_is_quicker(self):
        X, A, y, _ = sensed(23)
        first = recover(y, A, random_state=0)
        again = recover(y, A, start=first, random_state=0)
        assert again.n_applications < first.n_applications / 2
        assert relative_error(again.low_rank, X) < 1e-9

    def test_progress_is_reported_after_each_round(self):
        _, A, y, _ = sensed(24)
        fractions = []
        result = recover(
            y,
            A,
            progress=lambda fraction, note: fractions.append(fraction),
            random_state=0,
        )
        assert len(fractions) == result.n_steps
        assert all(0 <= fraction <= 1 for fraction in fractions)

    def test_stopped_on_request(self):
        _, A, y, _ = sensed(25)
        with pytest.warns(ConvergenceWarning, match="stopped early"):
            result = recover(
                y, A, progress=lambda fraction, note: False, random_state=0
            )
        assert not result.status.converged
        assert "stopped on request" in str(result.status)


class TestOneMeaningPerParameter:
    Y = corrupted_matrix((40, 30), 2, 0.1, missing=0.05, random_state=0).observed

    @pytest.mark.parametrize("noise", [0.0, 0.2])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_matrix_is_decomposed_as_by_the_estimator(self, noise, dtype):
        rng = np.random.default_rng(1)
        Y = (self.Y + noise * rng.standard_normal(self.Y.shape)).astype(dtype)
        result, pca = recover(Y, random_state=0), RobustPCA(random_state=0).fit(Y)
        for name in ("low_rank", "sparse", "outliers", "probability", "components"):
            assert np.array_equal(getattr(result, name), getattr(pca, f"{name}_"))
        assert result.status == pca.status_

    def test_the_descent_is_the_same_in_both(self):
        result = recover(self.Y, solver="descent", random_state=0)
        pca = RobustPCA("descent", random_state=0).fit(self.Y)
        assert np.array_equal(result.low_rank, pca.low_rank_)

    def test_a_matrix_starts_from_an_earlier_result(self):
        Y = self.Y + 0.1 * np.random.default_rng(2).standard_normal(self.Y.shape)
        first = recover(Y, random_state=0)
        again = recover(Y, start=first, random_state=0)
        assert again.n_steps < first.n_steps
        assert relative_error(again.low_rank, first.low_rank) < 1e-2

    @pytest.mark.parametrize(
        ("settings", "word"),
        [
            ({"callback": print}, "callback belongs"),
            ({"real": True}, "real is not used"),
            ({"start": np.ones((40, 30))}, "start must be the result"),
            ({"step": 0.1}, "step belongs"),
            ({"solver": "descent", "noise": 0}, "noise belongs"),
            ({"solver": "descent", "real": True}, "real belongs"),
            ({"solver": "descent", "fdr": 0.1}, "fdr belongs"),
            ({"solver": "descent", "start": np.ones((40, 30))}, "start belongs"),
        ],
    )
    def test_what_a_solver_does_not_use_is_refused(self, settings, word):
        with pytest.raises(InputError, match=word):
            recover(self.Y, **settings)

    @pytest.mark.parametrize(
        ("settings", "word"),
        [
            ({"solver": "descent", "noise": np.ones(30)}, "noise belongs"),
            ({"solver": "descent", "polish": False}, "polish belongs"),
            ({"solver": "descent", "warm_start": True}, "warm_start belongs"),
            ({"width": 3}, "width belongs"),
            ({"missing": "unstored", "alpha": 3.0}, "alpha is not used"),
        ],
    )
    def test_the_estimator_refuses_it_too(self, settings, word):
        with pytest.raises(InputError, match=word):
            RobustPCA(**settings).fit(self.Y)
