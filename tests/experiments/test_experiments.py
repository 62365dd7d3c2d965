"""The experiments reproduce the findings of the paper, and can be resumed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from discrepant import InputError
from discrepant.core.output_files import atomic_output_folder
from discrepant.core.progress import StoppedError
from discrepant.experiments import (
    appendix_a_regression as regression,
)
from discrepant.experiments import (
    catalogue,
    structures,
    theorem1,
)
from discrepant.experiments import (
    fig1a_learning_curves as learning_curves,
)
from discrepant.experiments import (
    fig2a_rate_ratio as ratio,
)
from discrepant.experiments import (
    fig2bc_success_area as success_area,
)
from discrepant.experiments import (
    runner as running,
)
from discrepant.experiments import (
    table1_comparison as comparison,
)
from discrepant.experiments.runner import Runner

SERIAL = Runner(seed=1, jobs=1)


def test_catalogue_loads():
    for name in catalogue.CATALOGUE:
        module, settings = catalogue.load(name)
        assert module.Config.quick(**settings) != module.Config(**settings)
        assert callable(module.run)
        assert callable(module.plot)


def test_learning_curves():
    outcome = learning_curves.run(learning_curves.Config.quick(), SERIAL)
    errors = outcome.points.groupby("method")["error"]
    last, best = errors.last(), errors.min()
    assert set(last.index) == set(learning_curves.METHODS)
    assert last["l1-exact"] < 0.01
    assert last["l1-over"] > 3 * best["l1-over"]
    assert last["double"] < 1.05 * best["double"] < 0.2
    learning_curves.plot(outcome)


def test_ratio_is_best_at_the_root_of_n():
    config = ratio.Config(trials=1, ratios=(0.5, 1.0, 2.0))
    outcome = ratio.run(config, SERIAL)
    errors = outcome.points.set_index("alpha")["error"]
    assert errors.idxmin() == pytest.approx(np.sqrt(50))
    ratio.plot(outcome)


@pytest.mark.parametrize("figure", ["fig2b", "fig2c"])
def test_success_area(figure):
    config = success_area.Config(
        figure=figure, ranks=(1, 25), fractions=(0.05, 0.55), trials=1
    )
    outcome = success_area.run(config, SERIAL)
    method = success_area.METHODS[figure][0]
    rates = success_area.success_rates(outcome, 50, method)
    assert rates[0, 0] == 1
    assert rates[1, 1] == 0
    assert "area" in outcome.finding
    success_area.plot(outcome)


def test_theorem1_approaches_the_convex_optimum():
    outcome = theorem1.run(theorem1.Config.quick(), SERIAL)
    mean = outcome.points.groupby("gamma").mean()
    large, small = mean.loc[1e-2], mean.loc[1e-8]
    for key in ("distance", "gap", "overlap"):
        assert small[key] < large[key] / 2
    theorem1.plot(outcome)


def test_only_the_mirror_flow_of_mixtures_approaches_the_convex_optimum():
    config = structures.Config.quick()
    outcome = structures.run(config, SERIAL)
    for second in config.second:
        factor, mirror = structures.mean_distances(outcome.points).loc[second].values
        assert mirror[-1] < 0.6 * mirror[0]
        assert factor[-1] > 1.5 * mirror[-1]
    assert "| whole + columns | mirror |" in outcome.table
    structures.plot(outcome)


@pytest.mark.parametrize("seed", [0, 1])
def test_regression_ends_in_the_weighted_minimum_norm(seed):
    config = regression.Config.quick()
    outcome = regression.run(config, Runner(seed=seed, jobs=1))
    for ratio_of_rates in config.ratios:
        points = outcome.points[outcome.points["ratio"] == ratio_of_rates]
        first, last = points.iloc[0], points.iloc[-1]
        assert first["distance_to_weighted"] == pytest.approx(1)  # from zero
        assert last["distance_to_weighted"] < 1e-10
        distance = last["end_distance_to_unweighted"]
        assert distance < 1e-10 if ratio_of_rates == 1 else distance > 0.1
    regression.plot(outcome)


def test_weighted_minimum_norm_is_optimal():
    rng = np.random.default_rng(0)
    B, b = rng.standard_normal((3, 7)), rng.standard_normal(3)
    d = rng.uniform(0.1, 10, 7)
    x = regression.weighted_minimum_norm(B, b, d)
    np.testing.assert_allclose(B @ x, b)
    # The gradient of Σ xᵢ²/dᵢ lies in the range of Bᵀ: nothing on Bx = b is smaller.
    free = np.linalg.svd(B)[2][3:]
    np.testing.assert_allclose(free @ (x / d), 0, atol=1e-12)


def test_the_default_recovers_more_than_the_convex_program():
    config = success_area.Config(
        figure="beyond-fig2c",
        sizes=(50, 60),
        trials=1,
        ranks=(9, 13),
        fractions=(0.05, 0.15),
    )
    outcome = success_area.run(config, SERIAL)
    default, convex = (
        success_area.success_rates(outcome, 50, method).mean()
        for method in ("default", "convex")
    )
    assert default == 1 > convex
    assert "| 60 |" in outcome.table
    success_area.plot(outcome)


def test_comparison():
    outcome = comparison.run(comparison.Config(sizes=(20, 30)), SERIAL)
    errors = outcome.points.query("n == 30").set_index("method")["error"]
    assert set(errors.index) == set(comparison.METHODS)
    assert errors["implicit"] < 1e-12
    assert errors["descent"] < 0.05
    assert all(method.title in outcome.table for method in comparison.METHODS.values())
    comparison.plot(outcome)


@dataclass(frozen=True)
class Settings:
    size: int = 3


def fails_at_two(number, log, config, seed):
    path = Path(log)
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}{number}\n")
    if number == 2 and "2" not in before:
        raise KeyboardInterrupt
    return {"square": number**2}


def test_interrupted_runs_are_resumed(tmp_path):
    runner = Runner(jobs=1, folder=tmp_path)
    log = tmp_path / "log"
    tasks = [{"number": n, "log": str(log)} for n in range(4)]

    def run():
        return runner.map(fails_at_two, tasks, Settings())

    with pytest.raises(KeyboardInterrupt):
        run()
    assert [row["square"] for row in run()] == [0, 1, 4, 9]
    assert log.read_text().split() == ["0", "1", "2", "2", "3"]
    (tmp_path / ".other-123").mkdir()
    (tmp_path / ".other-123" / "a.json").touch()
    (runner.store(fails_at_two, Settings()) / "0.checkpoint").touch()
    runner.discard_stored()
    assert {path.name for path in tmp_path.iterdir()} == {"log", ".other-123"}
    assert (tmp_path / ".other-123" / "a.json").exists()


def square(number, config, seed):
    return {"square": number**2}


def test_results_of_other_tasks_are_not_used(tmp_path):
    runner = Runner(jobs=1, folder=tmp_path)
    for numbers in (range(3), range(1, 4)):
        tasks = [{"number": n} for n in numbers]
        rows = runner.map(square, tasks, Settings())
        assert [row["square"] for row in rows] == [n**2 for n in numbers]


def test_results_of_other_code_are_not_used(tmp_path, monkeypatch):
    """An edit of a solver may change results without a new version."""
    runner = Runner(jobs=1, folder=tmp_path)
    (tmp_path / "package").mkdir()
    solver = tmp_path / "package" / "solver.py"
    hashes = []
    for code in ("x = 1", "x = 2", "x = 1"):
        solver.write_text(code)
        running.source_hash.cache_clear()
        hashes.append(running.source_hash(tmp_path / "package"))
    assert hashes[0] == hashes[2] != hashes[1]
    monkeypatch.setattr(running, "source_hash", lambda: "one state")
    one = runner.store(square, Settings())
    monkeypatch.setattr(running, "source_hash", lambda: "another")
    assert runner.store(square, Settings()) != one


@pytest.mark.parametrize("stored", ["5", "[1]", "null", "{", ""])
def test_stored_results_of_a_wrong_format_are_ignored(tmp_path, stored):
    runner = Runner(jobs=1, folder=tmp_path)
    runner.map(square, [{"number": 3}], Settings())
    (path,) = runner.store(square, Settings()).iterdir()
    assert path.read_text() == '{"square": 9}'
    path.write_text(stored)
    rows = runner.map(square, [{"number": 3}], Settings())
    assert rows == [{"number": 3, "square": 9}]


def test_a_progress_callback_can_stop_the_tasks(tmp_path):
    fractions = []

    def stop_at_half(fraction, note):
        fractions.append(fraction)
        return fraction < 0.5

    tasks = [{"number": n} for n in range(4)]
    runner = Runner(jobs=1, folder=tmp_path, progress=stop_at_half)
    with pytest.raises(StoppedError, match="can be resumed"):
        runner.map(square, tasks, Settings())
    assert fractions == [0, 0.25, 0.5]
    rows = Runner(jobs=1, folder=tmp_path).map(square, tasks, Settings())
    assert [row["square"] for row in rows] == [0, 1, 4, 9]


def test_only_write_errors_are_described_as_such(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="missing"),
        atomic_output_folder(tmp_path / "out", ["a"]),
    ):
        (tmp_path / "missing").read_text()
    with (
        pytest.raises(InputError, match=r"cannot be written|Writing"),
        atomic_output_folder(tmp_path / "out", ["a"]) as scratch,
    ):
        (scratch / "no" / "a").write_text("")
