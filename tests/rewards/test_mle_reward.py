import json
from dataclasses import asdict

import pytest
from support.fake_executor import SOLUTION, ScriptedExecutor

from trl_mle.competitions import load_competition
from trl_mle.execution import ExecutionResult, Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.rewards.evaluation import cut_middle


@pytest.fixture(scope="module")
def reward(wine):
    return MLEReward([wine, "digits"])


def test_the_executor_that_it_makes_closes_with_it(wine):
    reward = MLEReward([wine])
    folder = reward.executor._run_dir
    assert folder.is_dir()
    del reward
    assert not folder.exists()


def test_a_valid_solution_earns_its_score_and_reaches_every_milestone(reward):
    evaluation = reward.evaluate(SOLUTION, "wine")
    assert evaluation.reward == evaluation.score.value > 0.9
    assert (evaluation.outcome, evaluation.milestones) == ("ok", MILESTONES)
    assert evaluation.duration_s > 0.01
    assert "Plan" not in evaluation.source


@pytest.mark.parametrize(
    ("old", "new", "milestones"),
    [
        ("import pandas as pd\n", "import pandaz as pd\n", 0),
        ("n_estimators=20", "n_trees=20", 3),
        ('"submission.csv"', '"output.csv"', 6),
        ('"cultivar": predictions', '"wine": predictions', 7),  # written, but invalid
        ("import pandas as pd\n", "import pandas as pd(\n", 0),  # does not parse
    ],
)
def test_partial_credit_grows_with_every_milestone(reward, old, new, milestones):
    completion = SOLUTION.replace(old, new, 1)
    assert completion != SOLUTION
    evaluation = reward.evaluate(completion, "wine")
    assert not evaluation.valid
    assert evaluation.milestones == MILESTONES[:milestones]
    assert evaluation.reward == pytest.approx(-10 + 0.1 * milestones)
    assert evaluation.detail


def test_a_program_that_prints_the_milestones_itself_gets_nothing(reward):
    seen = reward.instrumenter.instrument("import os\n")
    texts = [line for line in seen.source.splitlines() if "print" in line]
    prints = "\n".join([*texts, *(f"print({name!r}, flush=True)" for name in MILESTONES)])
    evaluation = reward.evaluate(
        f"```python\n{prints}\nprint(open('solution.py').read())\nraise SystemExit(1)\n```", "wine"
    )
    assert (evaluation.reward, evaluation.milestones) == (-10.0, ())


def test_the_frames_that_call_a_program_do_not_show_it_the_markers(reward, wine):
    program = """
import sys
def train(X):
    model.fit(X)
frame, seen = sys._getframe(), []
while frame := frame.f_back:
    seen.append(repr(frame.f_locals))
marker = [text.split("milestone")[0] for text in "".join(seen).split('"') if "milestone: " in text]
print(marker)
for name in ("train_data", "test_data", "model_built", "model_trained", "predictions", "submission"):
    for nonce in marker:
        print(nonce + "milestone: " + name)
raise SystemExit(1)
"""
    evaluation = reward.evaluate(f"```python\n{program}\n```", wine)
    assert evaluation.output.splitlines()[-1] == "[]"
    assert evaluation.milestones == ("imports",)  # the only one that it reached


def test_training_sees_nothing_of_the_held_out_rows(wine, tmp_path):
    """Their scores are only in the records."""
    half = load_competition("wine", holdout=0.5)
    submission = wine.sample_submission.read_bytes()
    score = half.grade(submission)
    executor = ScriptedExecutor(ExecutionResult(Outcome.OK, submission=submission, duration_s=1.0))
    reward = MLEReward([half], executor, log_dir=tmp_path / "log", best_solutions_dir=tmp_path / "best")
    columns = {}
    assert reward([None], [SOLUTION], log_extra=columns.__setitem__) == [score.value]
    assert columns["score"] == [score.value]
    assert str(score.held_out) not in str(columns)
    assert str(score.full) not in str(columns)
    record = json.loads((tmp_path / "best" / "wine" / "score.json").read_text())
    assert (record["score"], record["held_out"], record["full"]) == (score.value, score.held_out, score.full)
    assert json.loads((tmp_path / "log" / "rank-0.jsonl").read_text())["score"] == asdict(score)


def test_lower_is_better_flips_the_sign_and_the_floor_holds(reward):
    confident = """```python
import pandas as pd
sample = pd.read_csv("input/sample_submission.csv")
sample.iloc[:, 1:] = {values}
sample.to_csv("submission.csv", index=False)
```"""
    uniform = reward.evaluate(confident.format(values="0.1"), "digits")
    assert uniform.reward == pytest.approx(-2.302, abs=1e-2) == -uniform.score.value
    wrong = reward.evaluate(confident.format(values="[1.0] + [0.0] * 9"), "digits")
    assert wrong.score.value > 20  # a log loss far below the reward of any failure
    assert wrong.reward == pytest.approx(-9.0)
    assert wrong.quality == -wrong.score.value  # without the floor
    with pytest.raises(ValueError, match="fail_reward=0 lifts the floor"):  # above all scores
        MLEReward(["wine"], reward.executor, fail_reward=0.0)


def test_what_the_floor_cuts_off_is_counted(reward):
    evaluations = [Evaluation(max(-9.0, value), quality=value) for value in (-20000.0, -9.0, 0.9)]
    metrics = []
    evaluations.append(Evaluation(-10.0))
    rewards = reward([""] * 4, [""] * 4, evaluation=evaluations, log_metric=lambda *item: metrics.append(item))
    assert rewards == [-9.0, -9.0, 0.9, -10.0]  # evaluations from before are taken as they are
    assert metrics[:3] == [("mle/floored_rate", value) for value in (1.0, 0.0, 0.0)]


def test_it_is_a_trl_reward_function(reward):
    columns = {}
    conversation = [{"role": "assistant", "content": SOLUTION}]
    rewards = reward(
        prompts=["", "", ""],
        completions=[conversation, conversation, [{"role": "assistant", "content": "prose"}]],
        competition=["wine", "digits", "wine"],
        completion_ids=[[1], [1], [1]],
        log_extra=columns.__setitem__,
        trainer_state=None,
    )
    assert rewards[0] > 0.9
    assert rewards[1:] == [pytest.approx(-9.6), -10.0]  # digits has no column `cultivar`, so the fit fails
    assert columns["duration_s"][0] > 0
    assert columns["duration_s"][2] is None
    expected = {
        "outcome": ["ok", "error", "no_code"],
        "valid": [True, False, False],
        "score": [rewards[0], None, None],
    }
    assert columns | expected == columns
    assert columns["program"][0].strip() in SOLUTION
    assert columns["milestones"][1].startswith("imports,train_data")
    with pytest.raises(ValueError, match="a column `competition`"):
        reward(prompts=[""], completions=["x"])


BROKEN = ExecutionResult(Outcome.INFRASTRUCTURE, "the disk is full")
FINE = ExecutionResult(Outcome.ERROR, "exit code 1", duration_s=1.0, exit_code=1)


@pytest.mark.parametrize("again", [FINE, BROKEN])
def test_our_own_failure_is_retried_once_and_never_a_reward(wine, again):
    executor = ScriptedExecutor(BROKEN, again)
    evaluation = MLEReward([wine], executor).evaluate("```python\nx = 1\n```", "wine")
    assert executor.submitted == 2
    assert (evaluation.outcome, evaluation.detail) == (again.outcome, again.detail)
    assert (evaluation.reward, evaluation.duration_s) == ((-10.0, 1.0) if again is FINE else (None, None))


def test_a_long_output_loses_whole_lines_from_its_middle():
    lines = [f"epoch {i}: loss {1 / (i + 1):.3f}" for i in range(1000)]
    shown = cut_middle("\n".join(lines), max_chars=400)
    head, tail = (part.split("\n") for part in shown.split("\n…\n"))
    assert head == lines[: len(head)]
    assert tail == lines[-len(tail) :]
    assert 300 < len(shown) <= 400
    assert cut_middle(shown, max_chars=400) == shown
    # The start of a last line that is too long is the kind of an error
    shown = cut_middle("epoch 1\n" * 1000 + f"KeyError: {'x' * 5000} is missing")
    assert len(shown) <= 4000
    assert shown.startswith("epoch 1")
    assert shown.split("\n")[-1].startswith("KeyError: xxx")
    assert shown.endswith("xxx is missing")
