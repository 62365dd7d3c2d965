"""Limits, history and progress reports of the descent."""

from functools import partial

import numpy as np
import pytest

from discrepant import InputError
from discrepant import recover as recover_by_any
from support.matrices import paper_problem

recover = partial(recover_by_any, solver="descent")
SQUARE = np.ones((4, 4))


class TestStopping:
    def test_residual_and_number_of_steps(self):
        y = paper_problem().observed
        steps = recover(y, max_iter=25, random_state=0)
        assert steps.n_steps == 25
        assert not steps.status.converged
        assert "25 steps" in str(steps.status)
        loose = recover(y, tol=0.5, random_state=0)
        assert loose.status.converged
        endless = recover(SQUARE, tol=0.0, random_state=0)
        assert endless.n_steps == 20_000
        with pytest.raises(InputError, match="max_iter must be a whole number from 1"):
            recover(y, max_iter=0)
        with pytest.raises(InputError, match="tol must be zero or more"):
            recover(y, tol=-1.0)

    def test_history_records_what_the_callback_returns(self):
        y = paper_problem().observed
        result = recover(
            y, max_iter=30, callback=lambda *_: {"one": 1.0}, random_state=0
        )
        assert list(result.history["one"]) == [1.0] * 4
        assert set(result.history) == {"step", "residual", "seconds", "one"}

    def test_progress_callback_can_stop_the_run(self):
        reports = []

        def stop_at_half(fraction, note):
            reports.append((fraction, note))
            return fraction < 0.5

        result = recover(
            paper_problem().observed,
            max_iter=100,
            random_state=0,
            progress=stop_at_half,
        )
        assert result.n_steps == 50
        assert not result.status.converged
        assert "stopped on request" in str(result.status)
        assert [fraction for fraction, _ in reports] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
        assert all("residual" in note for _, note in reports)

    def test_a_stopped_run_is_not_repeated(self):
        # A large row that is clipped at first requires a second descent.
        y = np.ones((20, 20))
        y[:8] *= 300
        y[15, 15] = 1e9
        answers = iter([True, False])
        result = recover(
            y, random_state=0, progress=lambda fraction, note: next(answers, True)
        )
        assert result.n_steps == 10

    def test_progress_is_silent_by_default(self, capsys):
        recover(SQUARE, max_iter=10, random_state=0)
        assert capsys.readouterr() == ("", "")
        recover(SQUARE, max_iter=10, random_state=0, progress=True)
        assert "descent" in capsys.readouterr().err
