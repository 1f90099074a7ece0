import json

import pytest
from support.scripted_policy import ScriptedModel

from trl_mle.instrumentation import MILESTONES, AstInstrumenter, LmInstrumenter, verify
from trl_mle.instrumentation.lm_instrumenter import MAX_STRING, QUOTE_TOKENS, REASONS, REWRITE_TOKENS, visible


SOURCE = """\
import pandas as pd
from helpers import fit
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
answer = fit(train)
out = answer(test)
out.to_csv("submission.csv")
"""
LINES = dict(zip(MILESTONES, [2, 3, 4, 5, 5, 6, 7], strict=True))
# But not model_built and model_trained: `fit` could be anything
BY_RULE = ("imports", "train_data", "test_data", "predictions", "submission")


def quoted():
    return "\n".join(f"{milestone}: {SOURCE.splitlines()[line - 1]}" for milestone, line in LINES.items())


def rewritten(source=SOURCE):
    lines = source.splitlines()
    for milestone, line in reversed(LINES.items()):
        lines.insert(line, f'print("milestone: {milestone}")')
    return "Here it is:\n```python\n" + "\n".join(lines) + "\n```\nAnything else?"


@pytest.mark.parametrize(("mode", "answer"), [("quote", quoted()), ("rewrite", rewritten())])
def test_prints_stand_where_the_model_says(mode, answer):
    model = ScriptedModel(answer)
    program = LmInstrumenter(model, mode).instrument(SOURCE)
    assert program.milestones == MILESTONES
    verify(SOURCE, program.source, program.nonce)
    lines = program.source.splitlines()
    for milestone, line in LINES.items():
        mark = next(i for i, text in enumerate(lines) if f"{program.nonce} milestone: {milestone}" in text)
        before = [text for text in lines[:mark] if program.nonce not in text]
        assert len(before) == line
    [(prompts, max_tokens)] = model.batches
    assert len(prompts) == 1
    assert max_tokens == {"quote": QUOTE_TOKENS, "rewrite": REWRITE_TOKENS}[mode]


@pytest.mark.parametrize("mode", ["quote", "rewrite"])
@pytest.mark.parametrize(
    "answer",
    [
        None,
        "",
        "```python\nprint('milestone: imports')\nexit()\n```",
        "imports: 99999999999999999999999999",
        json.dumps(dict.fromkeys(MILESTONES, 3)),
    ],
)
def test_without_an_answer_to_the_point_the_rules_decide(mode, answer):
    instrumenter = LmInstrumenter(ScriptedModel(answer), mode)
    program = instrumenter.instrument(SOURCE, nonce="5e1f0c9a7b3d2468")
    expected = AstInstrumenter().instrument(SOURCE, nonce="5e1f0c9a7b3d2468")
    assert program == expected
    assert program.milestones == BY_RULE
    metrics = instrumenter.metrics()
    assert (metrics["lm_rate"], metrics["ast_rate"], metrics["none_rate"]) == (0, 1, 0)
    assert sum(metrics[f"rejected/{reason}"] for reason in REASONS) >= 1


def test_equal_programs_of_a_batch_are_asked_about_once():
    model = ScriptedModel(quoted())
    programs = LmInstrumenter(model).instrument_many([SOURCE, SOURCE, SOURCE + "\n"])
    assert [len(prompts) for prompts, _ in model.batches] == [2]
    assert len({program.nonce for program in programs}) == 3
    assert [program.milestones for program in programs] == [MILESTONES] * 3


# Metrics


def test_metrics():
    answers = [quoted(), None, "no", "imports: import pandas as pd", "unused"]
    instrumenter = LmInstrumenter(ScriptedModel(*answers))
    sources = [*(SOURCE + "\n" * i for i in range(4)), "x = ("]
    instrumenter.instrument_many(sources)
    metrics = instrumenter.metrics()
    assert metrics.pop("latency_s") > 0
    tokens = len(answers[0].split()) + 1 + len(answers[3].split())
    rejected = {f"rejected/{reason}": 0.0 for reason in REASONS}
    assert metrics == {
        "lm_rate": 0.2,
        "ast_rate": 0.6,
        "none_rate": 0.2,
        "tokens_per_program": tokens / 5,
        **rejected,
        "rejected/no_answer": 0.25,
        "rejected/empty": 0.25,
        "rejected/impossible": 0.25,
    }
    assert instrumenter.metrics() == {}  # they start again after each call


# Prompts


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("x = 1  # one\n# two\ny = '# three'\n", "x = 1\n\ny = '# three'"),
        ("x = 1 + \\\n    2  # two\n", "x = 1 + \\\n    2"),
        ("x = 1\n\x0cy = 2\n", "x = 1\n\x0cy = 2"),
    ],
)
def test_comments_are_not_shown(source, shown):
    assert visible(source, cut_strings=True) == visible(source, cut_strings=False) == shown


LONG = "abcdefgh" * 20


@pytest.mark.parametrize(
    "source",
    [
        f"x = 1\ny = '''{LONG}\n{LONG}\n'''; y = 3\nz = 2\n",
        f"x = 1\ny = f'{LONG}{{x}}{LONG}'\nz = 2\n",
        f'x = 1\ndef f():\n    """{LONG}\n\n    {LONG}\n    """\nz = 2\n',
    ],
)
def test_of_long_strings_the_beginning_is_shown_and_lines_keep_their_numbers(source):
    """Also in Python 3.11, where an f-string is one token, and in later versions, where it is several."""
    shown = visible(source, cut_strings=True)
    assert LONG not in shown
    assert LONG[:40] in shown
    assert max(map(len, shown.split("\n"))) <= 2 * MAX_STRING + 30
    lines, expected = shown.split("\n"), source.rstrip("\n").split("\n")
    assert len(lines) == len(expected)
    assert (lines[0], lines[-1]) == (expected[0], expected[-1]) == ("x = 1", "z = 2")
    assert visible(source, cut_strings=False) == source.rstrip("\n")
