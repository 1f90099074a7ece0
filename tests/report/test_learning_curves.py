import json

from trl_mle.report import plot_learning_curves


def test_learning_curves_are_drawn_from_the_trainers_log(tmp_path):
    history = [
        {"step": step, "reward": -9.0 + step, "mle/valid_rate": step / 10, "mle/duration_s/p50": 0.1}
        | ({"mle/score/mean": 0.5, "mle/score/best": 0.4} if step else {})  # no valid program in the first step
        for step in range(3)
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    plot_learning_curves(tmp_path / "trainer_state.json", tmp_path / "curves.png", "digits")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
