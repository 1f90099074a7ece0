"""What prompts say about a program's limits, and that this stays the same during a run."""

import json

import pytest

from trl_mle.competitions import load_competition
from trl_mle.execution import Limits
from trl_mle.execution.program import REQUIRED
from trl_mle.prompts import improve_prompt, keep_packages, scratch_prompt


MORE = Limits(5, 512, 1, (*REQUIRED, "lightgbm", "torch"))


@pytest.fixture
def wine():
    return load_competition("wine")


def line(prompt):
    """The line of a prompt about limits."""
    [found] = [line for line in prompt[0]["content"].splitlines() if line.startswith("Limits: ")]
    return found


def test_prompts_state_the_limits(wine):
    usual = "Limits: 60 seconds, 4096 MB of memory, no network (no pip install, no pretrained weights). Installed are only numpy, pandas, scipy, scikit-learn, pillow."
    more = "Limits: 5 seconds, 512 MB of memory, no network (no pip install, no pretrained weights). Installed are only numpy, pandas, scipy, scikit-learn, pillow, lightgbm, torch."
    assert line(scratch_prompt(wine)) == line(scratch_prompt(wine, Limits())) == usual
    assert line(scratch_prompt(wine, MORE)) == more
    assert line(improve_prompt(wine, "x = 1", "1", MORE, 1000, lambda prompt: 0)) == more


def test_a_run_goes_on_with_the_packages_that_it_began_with(tmp_path, caplog):
    first, second = tmp_path / "first", tmp_path / "second"
    assert keep_packages(MORE, first) == MORE
    assert json.loads((first / "limits.json").read_text())["packages"] == list(MORE.packages)
    # Resumed on a machine without lightgbm and torch, with a longer time limit
    assert keep_packages(Limits(9), second, begun_in=first) == Limits(9, packages=MORE.packages)
    assert "can no longer import: lightgbm, torch" in caplog.text
    assert keep_packages(Limits(9), second, begun_in=second).packages == MORE.packages
    assert keep_packages(Limits(9), second) == Limits(9)  # another run
