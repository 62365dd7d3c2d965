"""`decompose`: optima, exact recovery, certificates, and what it refuses."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator
from sklearn.exceptions import ConvergenceWarning

from discrepant import InputError, decompose, recover
from discrepant.operators.entrywise import Entries as EntriesOperator
from discrepant.operators.entrywise import Identity, Mask
from discrepant.operators.linear_operator import Wrapped
from discrepant.operators.measurements import Outer, Sensing
from discrepant.structures import (
    Columns,
    Entries,
    Groups,
    Rows,
    Structure,
    Tiles,
    Unfolding,
    Whole,
    solver,
)

SHAPE = (12, 10)
NOISE = "ignore:The parts have .* free parameters"
LABELS = np.arange(120).reshape(SHAPE) // 7


def low_rank(m, n, rank, rng):
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))


def salted(shape, fraction, rng, size=5.0):
    return size * rng.standard_normal(shape) * (rng.random(shape) < fraction)


def relative(X, truth):
    return np.linalg.norm(X - truth) / np.linalg.norm(truth)


MIXTURES = {
    "whole+entries": lambda: [Whole(), Entries()],
    "whole+rows": lambda: [Whole(), Rows()],
    "whole+columns": lambda: [Whole(), Columns()],
    "rows+columns": lambda: [Rows(), Columns()],
    "groups+entries": lambda: [Groups(LABELS), Entries()],
    "whole+tiles": lambda: [Whole(), Tiles(4, 5)],
    "tiles+tiles": lambda: [Tiles(4, 4), Tiles(6, 5)],
    "whole+rows+entries": lambda: [Whole(), Rows(), Entries()],
    "whole+tiles+entries": lambda: [Whole(), Tiles(5, 5), Entries()],
    "all": lambda: [Whole(), Rows(), Columns(), Tiles(3, 5), Entries()],
}


def optimum(cvxpy, data, result):
    """Return the optimum of the same program by a general solver."""
    cost, total = 0, 0
    for part, _ in (term for group in result._terms.values() for term in group):
        X = cvxpy.Variable(data.shape)
        index = part.structure.split(np.arange(1.0, data.size + 1).reshape(data.shape))
        for block in index.astype(int):
            rows = [[X[divmod(i - 1, data.shape[1])] for i in r if i] for r in block]
            rows = [row for row in rows if row]
            vector = 1 in block.shape
            cost += part.lam * (
                cvxpy.norm(cvxpy.hstack([x for row in rows for x in row]), 2)
                if vector
                else cvxpy.normNuc(cvxpy.bmat(rows))
            )
        total = total + X
    problem = cvxpy.Problem(cvxpy.Minimize(cost), [total == data])
    return problem.solve(solver="CLARABEL")


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # 1e-7 is asserted
@pytest.mark.parametrize("name", MIXTURES)
def test_objective_agrees_with_a_general_solver(name):
    """The data are recovered by no mixture: optimal parts overlap."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng([3, sorted(MIXTURES).index(name)])
    data = low_rank(*SHAPE, 2, rng) + salted(SHAPE, 0.1, rng)
    data[3] += 5 * rng.standard_normal(10)
    result = decompose(data, MIXTURES[name](), tol=1e-8, max_iter=5000)
    unit = result.certificate.primal / sum(
        part.lam * part.structure.norm(X)
        for group in result._terms.values()
        for part, X in group
    )
    best = unit * optimum(cvxpy, data, result)
    assert result.certificate.primal == pytest.approx(best, rel=1e-7)
    assert abs(result.certificate.gap) < 1e-5
    assert result.certificate.feasibility < 1e-7


@pytest.mark.filterwarnings(NOISE)
def test_extrapolation_reaches_the_optimum_in_fewer_passes(monkeypatch):
    rng = np.random.default_rng(19)
    Y = low_rank(*SHAPE, 2, rng) + salted(SHAPE, 0.1, rng)
    one = decompose(Y, [Whole(), Entries()])
    # An extrapolation that fails is undone, and large problems take none.
    for name in ("GREATER", "LARGEST"):
        with monkeypatch.context() as patch:
            patch.setattr(solver, name, 0)
            other = decompose(Y, [Whole(), Entries()], max_iter=5000)
        assert one.n_steps < 0.5 * other.n_steps
        assert one.certificate.primal == pytest.approx(
            other.certificate.primal, rel=1e-6
        )


def random_mixture(seed):
    """Return data of 2 to 5 structures, and these."""
    rng = np.random.default_rng([30, seed])
    m, n = rng.integers(20, 50, 2)
    a, b = rng.integers(4, 9, 2)
    candidates = [
        Whole(),
        Rows(),
        Columns(),
        Tiles(a, b),
        Tiles(2 * a, b),
        Entries(),
        Groups(rng.integers(0, 30, (m, n))),
    ]
    count = 2 + seed % 4
    chosen = rng.choice(len(candidates), count, replace=False)
    data = sum(
        candidates[i].prox(
            rng.standard_normal((m, n)) * 3, 3.0 * (i > 0) + 20 * (not i)
        )
        for i in chosen
    )
    data = data + low_rank(m, n, 2, rng)
    return data, [candidates[i] for i in chosen]


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.parametrize(
    "seed",
    [pytest.param(k, marks=[pytest.mark.slow] * (k > 5)) for k in range(60)],
)
def test_no_mixture_diverges(seed, recwarn):
    data, structures = random_mixture(seed)
    result = decompose(data, structures, max_iter=3000)
    said = [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]
    assert bool(said) != result.status.converged
    assert result.certificate.feasibility < (1e-6 if not said else 1e-3)
    assert abs(result.certificate.gap) < 1e-2


class Diagonals(Structure):
    """Blocks are the diagonals of a square matrix."""

    def split(self, X):
        n = len(X)
        rows = np.arange(n)[:, None] + np.zeros(n, int)
        sheared = np.zeros((n, 2 * n - 1))
        sheared[rows, rows.T - rows + n - 1] = X
        return sheared.T[:, None, :]

    def join(self, blocks, shape):
        n = shape[0]
        rows = np.arange(n)[:, None] + np.zeros(n, int)
        return blocks[:, 0, :].T[rows, rows.T - rows + n - 1]


def test_a_structure_of_ones_own():
    rng = np.random.default_rng(1)
    X, D = low_rank(60, 60, 2, rng), np.diag(rng.standard_normal(50) * 5, 10)
    result = decompose(X + D, [Whole(), Diagonals()])
    assert np.flatnonzero(result.active("diagonals")) == [59 + 10]
    assert relative(result["whole"], X) < 1e-9


def test_tiles_entries_and_low_rank_are_separated():
    rng = np.random.default_rng(2)
    X, B = low_rank(96, 96, 3, rng), np.zeros((96, 96))
    for i, j in ((0, 1), (2, 4), (5, 5)):
        B[16 * i : 16 * i + 16, 16 * j : 16 * j + 16] = 6 * low_rank(16, 16, 1, rng)
    S = salted(X.shape, 0.05, rng)
    result = decompose(X + B + S, [Whole(), Tiles(16, 16), Entries()])
    assert relative(result["whole"], X) < 1e-9
    assert relative(result["tiles"], B) < 1e-9
    assert relative(result["entries"], S) < 1e-9
    assert result.status.converged
    assert (result.active("tiles") == (B != 0)).all()
    assert (result.active("entries") == (S != 0)).all()
    # Entries alone do not recover X.
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        alone = decompose(X + B + S, [Whole(), Entries()], max_iter=300)
    assert relative(alone["whole"], X) > 0.05


def test_score_is_one_for_blocks_in_use_and_below_for_others():
    rng = np.random.default_rng(3)
    Y = low_rank(80, 50, 2, rng)
    Y[[4, 11, 30]] = 3 * rng.standard_normal((3, 50))
    result = decompose(Y, [Whole(), Rows()])
    score, used = result.score("rows"), result.active("rows")
    assert list(np.flatnonzero(used)) == [4, 11, 30]
    np.testing.assert_allclose(score[used], 1, atol=1e-5)
    assert (score[~used] < 0.99).all()
    assert result.certificate.dual_norms["rows"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("shape", [(20, 20, 20), (10, 30, 24)])
def test_the_mode_of_a_tensor_is_identified(shape):
    rng = np.random.default_rng(4)
    T = low_rank(shape[1], shape[0] * shape[2], 2, rng)
    T = np.moveaxis(T.reshape(shape[1], shape[0], shape[2]), 0, 1)
    wrong = salted(shape, 0.05, rng)
    result = decompose(T + wrong, [*map(Unfolding, range(3)), Entries()])
    assert list(result) == ["mode 0", "mode 1", "mode 2", "entries"]
    assert relative(result["mode 1"], T) < 1e-6
    assert not result["mode 0"].any()
    result.plot()


def test_missing_entries_are_filled_in():
    rng = np.random.default_rng(5)
    X = low_rank(60, 40, 2, rng)
    Y = X + salted(X.shape, 0.05, rng)
    Y[rng.random(X.shape) < 0.2] = np.nan
    result = decompose(Y, [Whole(), Entries()])
    assert relative(result["whole"], X) < 1e-9
    assert not result["entries"][np.isnan(Y)].any()
    assert (np.isnan(result.residual) == np.isnan(Y)).all()


@pytest.mark.parametrize("kind", [Sensing, Outer])
def test_the_papers_problem_is_a_special_case(kind):
    rng = np.random.default_rng(6)
    n, count = 12, 130
    X = low_rank(n, n, 1, rng)
    if kind is Sensing:
        A = Sensing(rng.standard_normal((count, n, n)))
    else:
        A = Outer(rng.standard_normal((count, n)), rng.standard_normal((count, n)))
    y = A.forward(X)
    wrong = rng.choice(count, 8, replace=False)
    y[wrong] += 20 * rng.standard_normal(8)
    result = decompose(y, [Whole(through=A), Entries()], random_state=0)
    other = recover(y, A)
    assert relative(result["whole"], X) < 1e-8
    assert relative(result["whole"], other.low_rank) < 1e-6
    assert set(np.flatnonzero(result.active("entries"))) == set(wrong)


def moving_sums(shape):
    """Return sums of neighbouring rows as an operator of SciPy, wrapped."""
    K, size = np.eye(shape[0]) + 0.5 * np.eye(shape[0], k=1), shape[0] * shape[1]
    forward, adjoint = (
        lambda v, K=K: (K @ v.reshape(shape)).ravel(),
        lambda v, K=K: (K.T @ v.reshape(shape)).ravel(),
    )
    linear = LinearOperator((size, size), forward, rmatvec=adjoint, dtype=float)
    return Wrapped(linear, shape)


OBSERVED = np.random.default_rng(16).random((40, 30)) < 0.8
OPERATORS = {
    "identity": Identity(OBSERVED.shape),
    "mask": Mask(OBSERVED),
    "entries": EntriesOperator(*np.nonzero(OBSERVED), OBSERVED.shape),
    "wrapped": moving_sums(OBSERVED.shape),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_low_rank_behind_an_operator_and_wrong_data(name):
    rng, A = np.random.default_rng(17), OPERATORS[name]
    X = low_rank(*A.signal_shape, 1, rng)
    y = A.forward(X) + salted(A.data_shape, 0.05, rng)
    if name == "mask":
        y *= OBSERVED
    result = decompose(y, [Whole(through=A), Entries()], random_state=0)
    assert relative(result["whole"], X) < 1e-9


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e300])
def test_the_unit_of_the_data_does_not_matter(scale):
    rng = np.random.default_rng(7)
    X = low_rank(40, 30, 2, rng)
    Y = X + salted(X.shape, 0.05, rng)
    one, other = (decompose(c * Y, [Whole(), Entries()]) for c in (1.0, scale))
    np.testing.assert_allclose(other["whole"] / scale, one["whole"], atol=1e-9)
    assert other.weights == one.weights


@pytest.mark.parametrize("dtype", [np.int32, np.float32, bool])
def test_any_real_type(dtype):
    rng = np.random.default_rng(8)
    Y = np.outer(rng.integers(1, 5, 40), rng.integers(1, 5, 30))
    Y = np.where(rng.random(Y.shape) < 0.05, Y + 20, Y).astype(dtype)
    if dtype is bool:
        Y = np.outer(rng.random(40) < 0.5, rng.random(30) < 0.5)
    result = decompose(Y, [Whole(), Entries()])
    assert result["whole"].dtype == np.float64
    np.testing.assert_allclose(result["whole"] + result["entries"], Y, atol=1e-6)
    assert "rank 1" in result._repr_html_()


def test_rows_of_zeros_and_zero_data():
    result = decompose(np.zeros((6, 5)), [Whole(), Rows(), Entries()])
    assert not any(X.any() for X in result.parts.values())
    assert result.certificate.gap == 0
    assert result.status.converged


def test_weights_follow_from_the_shapes_and_can_be_changed():
    Y = np.outer(np.arange(1.0, 31), np.ones(50))
    result = decompose(Y, [Whole(), Rows(weight=0.7), Entries()])
    unit = np.sqrt(30) + np.sqrt(50)
    assert result.weights["whole"] == 1
    assert result.weights["entries"] == pytest.approx(2.1 / unit)
    rows = decompose(Y, [Whole(), Rows(), Entries()]).weights["rows"]
    assert result.weights["rows"] == pytest.approx(0.7 * rows)
    assert rows <= 0.97 * 2.1 / unit * np.sqrt(50)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_gap_is_not_clamped():
    rng = np.random.default_rng(9)
    Y = low_rank(40, 30, 2, rng) + salted((40, 30), 0.1, rng)
    early = [decompose(Y, [Whole(), Entries()], max_iter=k) for k in (1, 5, 10)]
    assert min(result.certificate.gap for result in early) < 0
    assert all(result.certificate.feasibility > 1e-3 for result in early)


def test_a_result_at_the_limit_of_passes_says_so():
    rng = np.random.default_rng(9)
    Y = low_rank(40, 30, 2, rng) + salted((40, 30), 0.1, rng)
    with pytest.warns(ConvergenceWarning, match=r"did not converge.*max_iter"):
        result = decompose(Y, [Whole(), Entries()], max_iter=20)
    assert not result.status.converged
    assert "all of 20 steps" in str(result)


def test_progress_reports_and_stops():
    rng = np.random.default_rng(10)
    Y = low_rank(40, 30, 2, rng) + salted((40, 30), 0.1, rng)
    fractions, notes = [], []

    def stop(fraction, note):
        notes.append(note)
        return len(notes) < 7

    result = decompose(Y, [Whole(), Entries()], progress=stop)
    assert result.status.stopped
    assert result.n_steps == len(notes) == 7
    result = decompose(
        Y,
        [Whole(), Entries()],
        progress=lambda fraction, note: fractions.append(fraction),
    )
    assert result.status.converged
    assert 0 <= min(fractions) <= max(fractions) <= 1


def test_an_interruption_passes_through():
    def interrupt(fraction, note):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decompose(np.eye(5), [Whole(), Entries()], progress=interrupt)


@pytest.mark.filterwarnings(NOISE)
def test_the_fallback_reaches_the_same_optimum(monkeypatch):
    rng = np.random.default_rng(11)
    Y = low_rank(30, 20, 2, rng) + salted((30, 20), 0.1, rng)
    mixture = [Whole(), Rows(), Columns(), Entries()]
    one = decompose(Y, mixture)
    start = solver.start

    def start_by_jacobi(y, parts):
        state = start(y, parts)
        state.jacobi = True
        return state

    monkeypatch.setattr(solver, "start", start_by_jacobi)
    other = decompose(Y, mixture)
    assert other.n_steps > one.n_steps
    assert other.certificate.primal == pytest.approx(one.certificate.primal, rel=1e-6)


class Overdetermined:
    """Sums of rows and columns, and each entry twice: no exact fit of random data."""

    signal_shape, data_shape = (4, 3), (24,)

    def forward(self, X):
        return np.concatenate([X.ravel(), X.ravel()])

    def adjoint(self, z):
        return (z[:12] + z[12:]).reshape(4, 3)


class Complex(Overdetermined):
    def forward(self, X):
        return 1j * super().forward(X)

    def adjoint(self, z):
        return -1j * super().adjoint(z)


def test_inexact_data_without_entries_are_reported():
    y = np.random.default_rng(12).standard_normal(24)
    with pytest.warns(ConvergenceWarning, match=r"do not reproduce .*Entries\(\)"):
        decompose(y, [Whole(through=Overdetermined())], max_iter=200)
    Y = np.random.default_rng(13).standard_normal((12, 10))
    with pytest.warns(UserWarning, match=r"free parameters for 120 .*Entries\(\)"):
        decompose(Y, [Whole(), Rows()])


Y = np.random.default_rng(14).standard_normal((12, 10))


@pytest.mark.parametrize(
    ("data", "structures", "message"),
    [
        (Y, [], "list of structures"),
        (Y, [Whole], "list of structures"),
        (Y, "whole", "list of structures"),
        (Y * 1j, [Whole()], "Complex data are not supported"),
        (Y * np.nan, [Whole()], "All values are missing"),
        (Y[:0], [Whole()], "an array of values is needed"),
        (3.0, [Entries()], "an array of values is needed"),
        (np.where(Y > 1, np.inf, Y), [Whole()], "infinite"),
        ([["a", "b"]], [Whole()], "not all numbers|of type"),
        (Y, [Whole(), Tiles(13, 2)], "do not fit into an array"),
        (Y, [Whole(), Unfolding(2)], "more than 2 axes"),
        (Y[0], [Whole(), Entries()], "needs a matrix"),
        (Y, [Whole(), Entries(), Entries(weight=2)], "Two structures are equal"),
        (Y, [Unfolding(0), Unfolding(1)], "Two structures are equal"),
        (Y, [Whole(), Tiles(12, 10)], "Two structures are equal"),
        (Y, [Whole(), Tiles(1, 1, offsets=4)], "Two structures are equal"),
        (Y, [Whole(through="A")], "through= of Whole must be an operator"),
        (Y, [Whole(through=Overdetermined())], "gives data of shape"),
        (Y.ravel()[:24], [Whole(through=Complex())], "must give real numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(data, structures, message):
    with pytest.raises(InputError, match=message):
        decompose(data, structures)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"random_state": "x"}, "random_state must be"),
        ({"progress": "yes"}, "progress must be"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        decompose(Y, [Whole(), Entries()], **options)


def test_a_name_that_does_not_exist_lists_those_that_do():
    result = decompose(np.ones((4, 3)), [Whole(), Entries()])
    with pytest.raises(InputError, match="the parts are 'whole', 'entries'"):
        result["rows"]
    with pytest.raises(InputError, match="There is no part 'rows'"):
        result.score("rows")
