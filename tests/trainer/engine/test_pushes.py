"""What a model card says about scores."""

from transformers import TrainerState

from trl_mle.competitions import Score, TaskSet, load_competition
from trl_mle.rewards import BestSolutions
from trl_mle.trainer.engine.pushes import results_table


def table(folder, competition, **scores):
    BestSolutions(folder / "best_solutions").offer(competition, "x = 1", b"id\n", Score(0.9, True, **scores))
    state = TrainerState(global_step=1, log_history=[{"step": 1, "reward": 0.5, "mle/score/best": 0.95}])
    return results_table(TaskSet([competition]), state, folder)


def test_the_best_program_is_reported_on_the_held_out_rows(tmp_path):
    text = table(tmp_path, load_competition("wine", holdout=0.5), held_out=0.7, full=0.8)
    assert text.splitlines()[-1] == "| `wine` (accuracy ↑) | after, step 1 | 0 | – | – | 0.9500 | 0.7000 |"
    assert table(tmp_path / "all", load_competition("wine")).endswith("| 0.9500 | 0.9000 |")


def test_each_competition_has_its_first_and_its_last_batch(tmp_path):
    """Not every batch has all competitions."""
    tasks = TaskSet([load_competition(name) for name in ("wine", "diabetes")])
    assert results_table(tasks, TrainerState(), tmp_path) == "No step has been logged yet."
    history = [{"step": step, "reward": 0.5} for step in (1, 2, 3)]
    for step, name, rate in ((1, "wine", 0.25), (2, "wine", 0.5), (2, "diabetes", 0.0), (3, "diabetes", 0.75)):
        history[step - 1] |= {f"mle/{name}/programs": 8, f"mle/{name}/valid_rate": rate}
    text = results_table(tasks, TrainerState(log_history=history), tmp_path)
    for expected in ("before, step 1 | 8 | 25%", "after, step 2 | 8 | 50%", "after, step 3 | 8 | 75%"):
        assert f"| {expected} |" in text
