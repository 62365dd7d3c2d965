"""Progress protocol: False stops, any other answer continues."""

import pytest

from discrepant.core.progress import reporting


@pytest.mark.parametrize("answer", [None, True, 0, ""])
def test_any_answer_but_false_continues(answer):
    with reporting(lambda fraction, note: answer, "work") as report:
        assert report(0.5, "half")
        assert not report.stopped


def test_false_stops_permanently():
    answers = iter([True, False, True])
    with reporting(lambda fraction, note: next(answers), "work") as report:
        assert [report(fraction, "") for fraction in (0.1, 0.2, 0.3)] == [
            True,
            False,
            False,
        ]
        assert report.stopped


@pytest.mark.parametrize("progress", [None, False])
def test_silent_by_default(progress, capsys):
    with reporting(progress, "work") as report:
        assert report(1.0, "done")
    assert capsys.readouterr() == ("", "")


def test_a_bar_goes_to_standard_error(capsys):
    with reporting(True, "work") as report:
        assert report(1.0, "done")
    out, err = capsys.readouterr()
    assert out == ""
    assert "work" in err
    assert "100%" in err
