"""The reward as TRL's command finds it, by name."""

import pytest

from trl_mle.rewards import program_reward


def test_it_is_found_by_its_name_and_scores():
    assert program_reward.__name__ == "program_reward"  # for its metrics
    copy = 'import shutil\nshutil.copy("input/sample_submission.csv", "submission.csv")'
    columns = {}
    rewards = program_reward(
        prompts=["?"] * 3,
        completions=[f"```python\n{text}\n```" for text in (copy, "1 / 0", copy)],
        competition=["wine", "wine", "diabetes"],
        log_extra=columns.__setitem__,
    )
    assert rewards[0] == pytest.approx(0.4, abs=0.1)
    assert rewards[1] == -10
    assert rewards[2] == pytest.approx(-0.71, abs=0.1)
    assert all(seconds > 0 for seconds in columns["duration_s"])
    assert program_reward(["?"] * 2, ["no code"] * 2, competition=["breast-cancer", "wine"]) == [-10.0] * 2
