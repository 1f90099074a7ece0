"""In which order several competitions are asked for."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support import pool_runs

from trl_mle.competitions import TaskSet, load_competition, task_set
from trl_mle.trainer import MLEGRPOTrainer
from trl_mle.trainer.asking.dataset import rotation


@given(st.integers(1, 14), st.integers(0, 60), st.integers(1, 14), st.integers(0, 99))
def test_each_once_before_any_twice(competitions, count, groups, seed):
    order = rotation(competitions, count, groups, seed)
    assert len(order) == count
    for start in range(0, count, competitions):
        of_round = order[start : start + competitions]
        assert len(set(of_round)) == len(of_round)
    for start in range(0, count, groups):  # nor does a batch ask for one twice while it lacks another
        batch = Counter(order[start : start + groups])
        if len(order[start : start + groups]) == groups:
            assert max(batch.values()) - min(batch[i] for i in range(competitions)) <= 1
    assert rotation(competitions, count + 20, groups, seed)[:count] == order


def test_rounds_are_shuffled_by_the_seed():
    order = rotation(12, 48, 4, 0)
    assert len({tuple(order[i : i + 12]) for i in range(0, 48, 12)}) == 4
    assert order != rotation(12, 48, 4, 1)
    assert rotation(3, 7, 2, None) == [0, 1, 2, 0, 1, 2, 0]


class Asking(MLEGRPOTrainer):
    """Notes which competition each group of a batch asks for."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked = []

    def _training_batch(self, inputs):
        self.asked.append([row["competition"] for row in inputs[:: self.args.group_size]])
        return super()._training_batch(inputs)


def test_training_asks_in_rounds_and_goes_on_after_a_resume(program_model, tmp_path):
    """Batches of three groups, and four competitions; the resume is in the second epoch."""
    names = ["wine", "diabetes", "digits", "breast-cancer"]
    options = {"max_steps": -1, "num_train_epochs": 2, "save_strategy": "steps", "save_steps": 6}
    options |= {"max_completion_length": 1, "competitions": names}
    whole, resumed = (pool_runs.make_trainer(program_model, tmp_path, Asking, **options) for _ in range(2))
    whole.train()
    assert len(whole.asked) == 8
    asked = [name for batch in whole.asked for name in batch]
    assert all(sorted(asked[i : i + 4]) == sorted(names) for i in range(0, len(asked), 4))
    assert all(len(set(batch)) == 3 for batch in whole.asked)
    resumed.train(str(tmp_path / "checkpoint-6"))
    assert resumed.asked == whole.asked[6:]


def test_competitions_are_loaded_when_a_batch_asks_for_them(program_model, tmp_path, monkeypatch):
    """Two steps of three groups, of 5,000 tasks: 32 are looked at at the start, and six are asked for."""
    loaded = set()
    monkeypatch.setattr(
        task_set, "load_competition", lambda name, *rest: loaded.add(name) or load_competition(name, *rest)
    )
    tasks = TaskSet(["task:train/0-4999"])
    trainer = pool_runs.make_trainer(program_model, tmp_path, Asking, competitions=tasks, max_steps=2)
    assert loaded == set(tasks.few())
    trainer.train()
    asked = [name for batch in trainer.asked for name in batch]
    assert len(set(asked)) == len(asked) == 6
    assert loaded == set(tasks.few()) | set(asked)
    assert {"mle/valid_rate", "mle/programs"} <= set(trainer.state.log_history[0])
    assert not any("train-" in key for key in trainer.state.log_history[0])  # no metrics for each of 5,000
