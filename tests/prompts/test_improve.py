import random

import pytest

from trl_mle.competitions import load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import estimate_tokens, improve_prompt
from trl_mle.prompts.improve import LEFT_OUT, LONG_LINE


COMPETITIONS = ["mirror:plant-pathology-2020-fgvc7", "mirror:random-acts-of-pizza", "digits", "diabetes"]
BEFORE, BETWEEN = "\n\nHere is a previous solution:\n\n```python\n", "\n```\n\nIt printed:\n\n```\n"
AFTER = "\n```\n\nImprove it: "
ASK = "in a ```python block. It reads its data from input/ and writes submission.csv to the working directory."


def count_tokens(prompt):
    return estimate_tokens(prompt[0]["content"])


def make_prompt(comp, program, output, max_tokens, **kwargs):
    (message,) = improve_prompt(comp, program, output, Limits(), max_tokens, count_tokens, **kwargs)
    assert message["role"] == "user"
    return message["content"]


def parts(content):
    """The beginning of a prompt, and the program and output that it shows; checks the text around these."""
    head, _, rest = content.partition(BEFORE)
    program, _, rest = rest.partition(BETWEEN)
    output, _, rest = rest.rpartition(AFTER)
    assert rest.endswith(ASK)
    return head, program, output


def random_text(rng):
    """Lines of very different lengths: code, prose, empty ones, non-ASCII text, braces and fences."""
    words = ["model", "=", "train", "(", "{", "{count}", "{0}", "%s", "Δt", "模型", "🙂", "0.123456", "\\n", "#"]
    lines = []
    for _ in range(rng.choice([0, 1, 3, 30, 120])):
        length = rng.choice([0, 1, 5, 10, 10, 20]) if rng.random() < 0.99 else 300
        lines.append(" " * rng.randrange(9) + " ".join(rng.choice(words) for _ in range(length)))
    return "\n".join(lines)


def check_kept(shown, text):
    """
    Checks that whole lines of a text are shown, from its beginning and its end, and a line that says how many are left
    out. Such a line may also replace a very long one.
    """
    lines, whole = shown.split("\n"), text.strip("\n").split("\n")
    short = [line if len(line) <= LONG_LINE else LEFT_OUT.format(count=1) for line in whole]
    if lines in (whole, short):
        return
    middle = len(lines) // 2
    assert lines[middle] == LEFT_OUT.format(count=len(whole) - len(lines) + 1)
    tail = len(lines) - middle - 1
    assert lines[:middle] + lines[middle + 1 :] == short[:middle] + short[len(short) - tail :]


@pytest.mark.parametrize("name", COMPETITIONS)
def test_prompts_keep_to_their_limit_and_cut_no_line(name):
    comp, rng = load_competition(name), random.Random(name)
    for _ in range(3):
        program, output, limit = random_text(rng), random_text(rng), rng.choice([1024, 1500])
        content = make_prompt(comp, program, output, limit)
        assert count_tokens([{"role": "user", "content": content}]) <= limit
        head, shown_program, shown_output = parts(content)
        assert head.split("\n")[0] == f"Kaggle competition: {name}"
        direction = "higher" if comp.higher_is_better else "lower"
        assert f"\nMetric: {comp.metric.replace('_', ' ')} ({direction} is better)." in head
        check_kept(shown_program, program)
        check_kept(shown_output, output)


def test_what_fits_is_whole_and_what_does_not_fills_the_limit(wine):
    short = make_prompt(wine, "x = 1\ny = 2\n", "done\n", 1024)
    assert parts(short)[1:] == ("x = 1\ny = 2", "done")
    scored, failed = (
        make_prompt(wine, "x = 1", "", 1024, **how) for how in ({"test_score": 0.8765}, {"failed": True})
    )
    assert "\nIts score on the test set: 0.8765.\n" in scored
    assert "Here is a program that failed:\n" in failed
    assert "\n```\n\nRepair it: " in failed
    program = "\n".join(f"x{i} = {i}" for i in range(2000))
    long = make_prompt(wine, program, program, 2000)
    assert 1950 < count_tokens([{"role": "user", "content": long}]) <= 2000
    _, shown_program, shown_output = parts(long)
    assert 2 < len(shown_program) / len(shown_output) < 4  # the program's share is three quarters
    # each can use what the other does not need
    assert len(parts(make_prompt(wine, program, "", 2000))[1]) > 1.2 * len(shown_program)
    assert len(parts(make_prompt(wine, "x = 1", program, 2000))[2]) > 2 * len(shown_output)
