from transformers import TrainerControl, TrainerState, TrainingArguments

from trl_mle.trainer import MLEProgressCallback


LOGS = {
    "reward": -7.214,
    "mle/valid_rate": 0.3125,
    "mle/score/mean": 1.3,
    "mle/score/best": 0.212,
    "mle/duration_s/mean": 0.29,
    "step_time": 12.4,
    "loss": 0.1,
}


def printed(logs, capsys, **state) -> str:
    everything = {"global_step": 3, "max_steps": 24, "is_world_process_zero": True} | state
    MLEProgressCallback().on_log(TrainingArguments("x"), TrainerState(**everything), TrainerControl(), logs)
    return capsys.readouterr().out


def test_a_step_is_one_line_that_fits_a_terminal(capsys):
    line = printed(LOGS, capsys)
    assert line == "step  3/24  reward  -7.21  valid  31%  score 1.300 (best 0.212)  Δt 0.29 s  12 s/step\n"
    assert len(line) < 90


def test_what_is_unknown_is_left_out(capsys):
    assert printed({"reward": -10.0}, capsys) == "step  3/24  reward -10.00\n"
    assert printed({"train_loss": 0.1}, capsys) == ""
    assert printed(LOGS, capsys, is_world_process_zero=False) == ""
