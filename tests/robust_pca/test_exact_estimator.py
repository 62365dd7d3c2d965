"""The integrator as an estimator: new rows, warm starts, pipelines, labels."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discrepant import InputError, RobustPCA
from discrepant.core.recorder import Recorder
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.exact.integrator import integrate
from support.matrices import draw, exact_program, noisy


class TestEstimator:
    problem = corrupted_matrix((120, 60), 3, 0.1, random_state=9)

    def test_new_rows(self):
        Y, X = self.problem.observed.copy(), self.problem.low_rank
        Y[100:, ::7] = np.nan
        model = RobustPCA(random_state=0).fit(Y[:100])
        cleaned = model.inverse_transform(model.transform(Y[100:]))
        assert relative_error(cleaned, X[100:]) < 1e-6
        assert model.score(X[100:]) > 0.999 > model.score(Y[100:])
        with pytest.raises(InputError, match="Coordinates"):
            model.inverse_transform(np.ones((2, 7)))

    def test_warm_start(self):
        Y = noisy((150, 120))
        model = RobustPCA(noise=0, warm_start=True, random_state=0).fit(Y)
        cold = model.n_iter_
        again = model.fit(Y + 1e-6 * draw(*Y.shape, seed=5))
        assert again.n_iter_ < cold / 2
        assert again.certificate_.gap < 1e-5
        model.fit(1e200 * Y)  # another scale: starts afresh
        assert model.certificate_.gap < 1e-5
        model.fit(Y[:50])  # another shape: likewise
        assert model.low_rank_.shape == (50, 120)

    def test_pipeline_grid_search_clone_pickle_and_joblib(self):
        Y = np.nan_to_num(self.problem.observed)
        pipeline = make_pipeline(StandardScaler(), RobustPCA(random_state=0))
        assert pipeline.fit_transform(Y).shape[0] == len(Y)
        grid = {"alpha": ["auto", 8.0]}
        search = GridSearchCV(RobustPCA(random_state=0), grid, cv=2, n_jobs=1).fit(Y)
        assert search.best_params_["alpha"] in grid["alpha"]
        model = search.best_estimator_
        assert clone(model).get_params() == model.get_params()
        for back in (
            pickle.loads(pickle.dumps(model)),
            joblib.Parallel(n_jobs=2)([joblib.delayed(clone(model).fit)(Y)])[0],
        ):
            np.testing.assert_allclose(back.low_rank_, model.low_rank_, atol=1e-8)

    def test_pandas_in_pandas_out(self):
        frame = pd.DataFrame(self.problem.observed).add_prefix("x")
        model = RobustPCA(random_state=0).set_output(transform="pandas").fit(frame)
        assert list(model.transform(frame).columns) == list(
            model.get_feature_names_out()
        )
        assert model.low_rank_.columns.equals(frame.columns)

    def test_history_records_the_phases(self):
        history = RobustPCA(random_state=0).fit(self.problem.observed).history_
        assert list(history)[:3] == ["step", "residual", "seconds"]
        assert history["phase"][0] == "fast"
        assert history["phase"][-1] == "polish"
        assert (np.diff(history["seconds"]) >= 0).all()

    def test_integrate_can_be_stopped(self):
        reports = []

        def report(fraction, note):
            reports.append((fraction, note))
            return len(reports) < 3

        program = exact_program(self.problem.observed, alpha=10.0)
        result = integrate(program, log=Recorder(report, 1e-7, 200))
        assert result.n_steps == 3
        assert all(
            0 <= fraction <= 1 and "residual" in note for fraction, note in reports
        )
        assert "stopped" in str(result.status)
