from trl_mle.rewards import Evaluation
from trl_mle.trainer.judged import SCRATCH, judge


def names(*rows):
    return [item.prompt_name for item in judge([row | SCRATCH for row in rows], [Evaluation(None)] * len(rows), {})]


def test_rollouts_of_the_same_prompt_have_the_same_name():
    asked = [{"role": "user", "content": "Write a program."}]
    first, again, other = names({"prompt": asked}, {"prompt": asked, "seed": 1}, {"prompt": "Write a program."})
    assert first == again != other


def test_a_row_for_an_environment_may_have_no_prompt():
    first, again, other = names({"environment": "a"}, {"environment": "a"}, {"environment": "b"})
    assert first == again != other
