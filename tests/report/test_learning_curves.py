import json

import pytest
from support.training_runs import make_run

from trl_mle.report import plot_learning_curves
from trl_mle.report.learning_curves import draw_learning_curves
from trl_mle.report.training_run import read_run


def test_learning_curves_are_drawn_from_the_trainers_log(tmp_path):
    history = [
        {"step": step, "reward": -9.0 + step, "mle/valid_rate": step / 10, "mle/duration_s/p50": 0.1}
        | ({"mle/score/mean": 0.5, "mle/score/best": 0.4} if step else {})  # no valid program in the first step
        for step in range(3)
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    plot_learning_curves(tmp_path, tmp_path / "curves.png", "digits")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_steps_are_whole_and_the_score_has_its_metric(tmp_path, steps):
    figure = draw_learning_curves(read_run(make_run(tmp_path / "run", steps=steps), "x"))
    figure.draw_without_rendering()
    for axis in figure.axes:
        assert all(step == int(step) for step in axis.get_xticks())
    assert figure.axes[2].get_ylabel() == "accuracy\nhigher is better"


def test_a_run_without_a_valid_program(tmp_path):
    history = [{"step": step, "reward": -10.0, "mle/valid_rate": 0.0} for step in (1, 2)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    figure = draw_learning_curves(read_run(tmp_path, "x"))
    drawn = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert drawn == [[], [], ["not logged"], ["not logged"]]
    assert list(figure.axes[2].get_yticks()) == []
