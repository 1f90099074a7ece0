import json
from dataclasses import replace

import pytest
from support.scripted_policy import ScriptedModel

from trl_mle.instrumentation import MILESTONES, AstInstrumenter, LmInstrumenter, lm_instrumenter, verify
from trl_mle.instrumentation.lm_instrumenter import MAX_STRING, QUOTE_TOKENS, REASONS, REWRITE_TOKENS, visible
from trl_mle.models.transformers_model import TransformersModel


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
    assert program == replace(expected, is_final=answer is not None)  # next time the model may answer
    assert program.milestones == BY_RULE
    metrics = instrumenter.metrics()
    assert (metrics["lm_rate"], metrics["ast_rate"], metrics["none_rate"]) == (0, 1, 0)
    assert sum(metrics[f"rejected/{reason}"] for reason in REASONS) >= 1


@pytest.mark.parametrize("mode", ["quote", "rewrite"])
@pytest.mark.parametrize("source", ["x = (\n", "", "import os\0\n", "x = " + "(" * 5000, "x = '\ud800'\n"])
def test_where_the_rules_find_nothing_either_no_milestone_is_marked(mode, source):
    instrumenter = LmInstrumenter(ScriptedModel("nonsense"), mode)
    program = instrumenter.instrument(source)
    assert program.source == program.original == source
    assert program.milestones == ()
    assert instrumenter.metrics()["none_rate"] == 1


def test_only_what_can_have_been_reached_is_kept():
    answer = (
        rewritten().replace('print("milestone: imports")', "").replace("as pd", 'as pd\nprint("milestone: imports")')
    )
    answer = answer.replace("fit\n", 'fit\nprint("milestone: submission")\n')
    instrumenter = LmInstrumenter(ScriptedModel(answer), "rewrite")
    assert instrumenter.instrument(SOURCE).milestones == MILESTONES[1:]
    metrics = instrumenter.metrics()
    assert metrics["lm_rate"] == 1
    assert metrics["rejected/impossible"] == 1


# The cache


def test_each_program_is_asked_about_once():
    model = ScriptedModel(quoted())
    instrumenter = LmInstrumenter(model)
    first, second, third = instrumenter.instrument_many([SOURCE, SOURCE, SOURCE + "\n"])
    assert [len(prompts) for prompts, _ in model.batches] == [2]
    fourth = instrumenter.instrument(SOURCE)
    assert [len(prompts) for prompts, _ in model.batches] == [2]
    assert len({program.nonce for program in (first, second, third, fourth)}) == 4
    assert first.milestones == second.milestones == third.milestones == fourth.milestones == MILESTONES


def test_a_missing_answer_is_asked_for_again_and_a_useless_one_is_not():
    model = ScriptedModel(None, "nonsense", quoted())
    instrumenter = LmInstrumenter(model)
    assert [instrumenter.instrument(SOURCE).milestones for _ in range(3)] == [BY_RULE] * 3
    assert [len(prompts) for prompts, _ in model.batches] == [1, 1]


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(lm_instrumenter, "MAX_ANSWERS", 2)
    model = ScriptedModel(quoted())
    instrumenter = LmInstrumenter(model)
    instrumenter.instrument_many([SOURCE + "\n" * i for i in range(5)])
    instrumenter.instrument_many([SOURCE + "\n" * i for i in range(5)])
    assert [len(prompts) for prompts, _ in model.batches] == [5, 3]


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


@pytest.mark.pretrained
@pytest.mark.timeout(900)  # a rewrite of some hundred tokens, beside other work
@pytest.mark.parametrize("mode", ["quote", "rewrite"])
def test_a_pretrained_model_changes_nothing_else(smollm2, mode):
    """Whatever a small model answers, the program stays what it was, with prints."""
    instrumenter = LmInstrumenter(TransformersModel(str(smollm2)), mode)
    (program,) = instrumenter.instrument_many([SOURCE])
    assert program.original == SOURCE
    verify(SOURCE, program.source, program.nonce)
    metrics = instrumenter.metrics()
    assert metrics["lm_rate"] + metrics["ast_rate"] == 1
    assert program.milestones == BY_RULE or metrics["lm_rate"] == 1
    assert metrics["tokens_per_program"] > 0
