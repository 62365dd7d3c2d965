"""When a descent stops, and what it tells on the way."""

from functools import partial

import numpy as np
import pytest

from discrepant import InputError
from discrepant import recover as recover_by_any
from discrepant.paper.stopping import Residual, Seconds, Steps
from support.matrices import paper_problem

recover = partial(recover_by_any, solver="descent")
SQUARE = np.ones((4, 4))


class TestStopping:
    def test_rules(self):
        y = paper_problem().observed
        steps = recover(y, stop=Steps(25), random_state=0)
        assert steps.n_steps == 25
        assert not steps.status.converged
        assert "25 steps" in str(steps.status)
        loose = recover(y, stop=Residual(0.5), random_state=0)
        assert loose.status.converged
        endless = recover(SQUARE, stop=Residual(0.0), random_state=0)
        assert endless.n_steps == 20_000
        with pytest.raises(InputError, match="stop"):
            recover(y, stop=5)
        quick = recover(y, stop=Seconds(0.0), random_state=0)
        assert quick.n_steps == 0
        with pytest.raises(InputError, match="At least one step"):
            Steps(0)
        with pytest.raises(InputError, match="tol must be zero or more"):
            Residual(-1.0)

    def test_history_records_what_the_callback_returns(self):
        y = paper_problem().observed
        found = recover(
            y, stop=Steps(30), callback=lambda *_: {"one": 1.0}, random_state=0
        )
        assert list(found.history["one"]) == [1.0] * 4
        assert set(found.history) == {"step", "residual", "seconds", "one"}

    def test_whoever_watches_may_stop_it(self):
        told = []

        def watching(share, note):
            told.append((share, note))
            return share < 0.5

        found = recover(
            paper_problem().observed,
            stop=Steps(100),
            random_state=0,
            progress=watching,
        )
        assert found.n_steps == 50
        assert not found.status.converged
        assert "stopped on request" in str(found.status)
        assert [share for share, _ in told] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
        assert all("residual" in note for _, note in told)

    def test_stopped_is_not_begun_again(self):
        # A large row that is clipped at first asks for a second descent.
        y = np.ones((20, 20))
        y[:8] *= 300
        y[15, 15] = 1e9
        answers = iter([True, False])
        found = recover(
            y, random_state=0, progress=lambda share, note: next(answers, True)
        )
        assert found.n_steps == 10

    def test_progress_is_silent_unless_asked(self, capsys):
        recover(SQUARE, stop=Steps(10), random_state=0)
        assert capsys.readouterr() == ("", "")
        recover(SQUARE, stop=Steps(10), random_state=0, progress=True)
        assert "descent" in capsys.readouterr().err
