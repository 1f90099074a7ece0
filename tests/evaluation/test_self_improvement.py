import json
from dataclasses import replace

import pytest
from support.scripted_policy import ScriptedPolicy, fenced

from trl_mle.competitions import Score, load_competition
from trl_mle.competitions.metrics import METRICS
from trl_mle.evaluation import (
    Harness,
    Improvement,
    SampleLog,
    improve_each,
    summarize_improvements,
    validation_score,
)
from trl_mle.evaluation.harness import sample_seeds
from trl_mle.execution import Limits
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward


FAILED = Evaluation(-10.0, 0.1, None, "error", output="ValueError", source="x = 1")


def valid(score: float, source: str = "x = 1", *reports: str) -> Evaluation:
    """A valid program, and the reports of the instrumenter's prints, such as `auc = 0.9`."""
    pairs = tuple(tuple(report.split(" = ")) for report in reports)
    return Evaluation(score, 1.0, Score(score, True), "ok", source=source, reports=pairs)


# The competition's metric decides: digits log loss, breast-cancer ROC AUC, wine accuracy, diabetes RMSE.
@pytest.mark.parametrize(
    ("competition", "source", "reports", "expected"),
    [
        ("breast-cancer", "auc = f()", ["auc = 0.9"], 0.9),
        ("breast-cancer", "auc = f()\nauc = f()", ["auc = 0.9", "auc = 0.8"], 0.8),  # the last one counts
        ("breast-cancer", "auc = f()\nacc = g()", ["auc = 0.9", "acc = 0.8"], 0.9),  # the one in the metric counts
        ("breast-cancer", "auc_train = f()", ["auc_train = 1.0"], None),
        ("breast-cancer", "score = roc_auc_score(y, p)", ["score = 0.9"], 0.9),
        ("breast-cancer", "score = m.roc_auc_score(y, p)", ["score = 0.9"], 0.9),
        ("breast-cancer", "score = cross_val_score(m, X, y, scoring='roc_auc').mean()", ["score = 0.9"], 0.9),
        ("breast-cancer", "score = model.score(X, y)", ["score = 0.9"], None),  # of an unknown metric
        ("breast-cancer", "train = f()", ["train.shape = (3, 4)"], None),
        ("breast-cancer", "auc = f()", ["auc = [0.9 0.8]"], None),
        ("breast-cancer", "auc = f()", ["auc = nan"], None),
        ("digits", "loss = log_loss(y, p)", ["loss = 0.3"], 0.3),
        ("digits", "loss = hinge_loss(y, p)", ["loss = 0.3"], None),
        ("digits", "s = cross_val_score(m, X, y, scoring='neg_log_loss').mean()", ["s = -0.3"], None),
        ("digits", "log_loss = f()", ["log_loss = -0.3"], None),
        ("wine", "acc = f()", ["acc = 0.9"], 0.9),
        ("wine", "acc = f() * 100", ["acc = 87.5"], None),  # in per cent
        ("wine", "acc = f()\nacc = g()", ["acc = 0.875", "acc = 87.5"], 0.875),
        ("wine", "acc = f()", ["acc = 1.0"], 1.0),
        ("wine", "s = accuracy_score(y, p)", ["s = 0.9"], 0.9),
        ("wine", "s = balanced_accuracy_score(y, p)", ["s = 0.9"], None),
        ("diabetes", "rmse = np.sqrt(mean_squared_error(y, p))", ["rmse = 0.6"], 0.6),
        ("diabetes", "s = mean_squared_error(y, p)", ["s = 0.36"], None),
        ("diabetes", "s = root_mean_squared_error(y, p)", ["s = 0.6"], 0.6),
    ],
)
def test_a_validation_score_counts_if_it_is_in_the_competitions_metric(competition, source, reports, expected):
    assert validation_score(valid(0.5, source, *reports), load_competition(competition)) == expected


def test_a_metric_of_ones_own_is_known_by_its_functions_name():
    comp = replace(
        load_competition("wine"), metric="my.package.f2", custom_metric=METRICS["accuracy"]._replace(names="f2")
    )
    assert validation_score(valid(0.5, "f2 = f()", "f2 = 0.7"), comp) == 0.7
    assert validation_score(valid(0.5, "f1 = f()", "f1 = 0.7"), comp) is None


def test_a_program_that_failed_has_no_validation_score():
    comp = load_competition("wine")
    assert validation_score(replace(FAILED, reports=(("acc", "0.9"),), source="acc = f()"), comp) is None


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_two_scores_may_choose_differently(higher_is_better):
    low, high = valid(0.5), valid(0.7)
    better = high if higher_is_better else low
    for pair in ((low, high), (high, low)):
        by_test = Improvement(*pair, higher_is_better=higher_is_better)
        assert by_test.chosen_by == "test"
        assert by_test.kept("test") is by_test.kept("validation") is better  # no other scores to choose by
        for scores in ((0.5, 0.7), (0.7, 0.5)):
            both = Improvement(*pair, scores, higher_is_better)
            assert both.chosen_by == "validation"
            assert both.kept("test") is better
            assert both.kept("validation") is pair[(scores[0] < scores[1]) == higher_is_better]
        for one in ((None, 0.7), (0.7, None)):
            assert Improvement(*pair, one, higher_is_better).chosen_by == "test"


def test_where_one_is_valid_there_is_no_choice():
    first = valid(0.5)
    for improvement in (Improvement(first, FAILED), Improvement(FAILED), Improvement(first, Evaluation(None))):
        assert improvement.chosen_by is None
        assert improvement.kept("test") is improvement.kept("validation") is improvement.scratch


def test_of_equal_ones_the_first_is_kept():
    first, second = valid(0.5), valid(0.5)
    assert Improvement(first, second, (0.6, 0.6)).kept("test") is first
    assert Improvement(first, second, (0.6, 0.6)).kept("validation") is first


def test_both_selections_are_in_the_result_by_name():
    misled = Improvement(valid(0.9), valid(0.5), (0.6, 0.7))  # validation prefers the worse one
    found = Improvement(valid(0.3), valid(0.4))
    improvements = [
        misled,
        found,
        Improvement(valid(0.2), FAILED),
        Improvement(FAILED),
        Improvement(Evaluation(-10.0)),
    ]
    result = json.loads(json.dumps(summarize_improvements(improvements)))
    assert result["num_executed"] == 4 + 3  # one completion had no program
    assert (result["num_improve_prompts"], result["num_valid"], result["num_better_by_test"]) == (3, 2, 1)
    by = {row["chosen_by"]: row for row in result["kept"]}
    assert list(by) == ["validation", "test"]
    assert (by["validation"]["num_choices"], by["test"]["num_choices"]) == (1, 2)
    assert by["validation"]["mean_score"] == pytest.approx((0.5 + 0.4 + 0.2) / 3)
    assert by["test"]["mean_score"] == pytest.approx((0.9 + 0.4 + 0.2) / 3)
    assert by["test"]["valid_rate"] == by["validation"]["valid_rate"] == 3 / 5


def test_both_selections_where_rows_are_held_out():
    """By validation, no reported row takes part in the choice; by test, all rows choose and are reported."""

    def graded(*scores):
        return replace(valid(scores[0]), score=Score(scores[0], True, None, *scores[1:]))

    first, second = graded(0.8, 0.1, 0.5), graded(0.7, 0.9, 0.8)
    unreported, reported = Improvement(first, second), Improvement(first, second, (0.6, 0.7))
    assert unreported.kept("validation") is first  # by the validation rows
    assert reported.kept("validation") is second  # by their self-reported scores
    assert unreported.kept("test") is reported.kept("test") is second
    by = {row["chosen_by"]: row["best_score"] for row in summarize_improvements([unreported])["kept"]}
    assert by == {"validation": 0.1, "test": 0.8}


PROGRAM = """\
import pandas as pd
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

train = pd.read_csv("input/train.csv")
held_out, train = train[:40], train[40:]
model = DecisionTreeClassifier(max_depth={depth}, random_state=0)
model.fit(train.drop(columns=["id", "cultivar"]), train["cultivar"])
{validate}
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
sub["cultivar"] = model.predict(test.drop(columns=["id"]))
sub.to_csv("submission.csv", index=False)
"""
VALIDATE = 'accuracy = accuracy_score(held_out["cultivar"], model.predict(held_out.drop(columns=["id", "cultivar"])))'


def deeper_tree(prompt, seed):
    return fenced(PROGRAM.format(depth=4, validate=VALIDATE))


LIMITS = {"max_new_tokens": 256, "max_prompt_tokens": 1024, "limits": Limits(), "seed": 0}


def test_each_valid_program_is_improved_once(executor, tmp_path):
    """Programs really run, and the instrumenter reports their validation scores."""
    wine = load_competition("wine")
    forged = PROGRAM.format(depth=1, validate='print("report: accuracy = 1.0")')
    texts = [PROGRAM.format(depth=1, validate=VALIDATE), "raise ValueError", forged]
    policy = ScriptedPolicy(deeper_tree)
    log = SampleLog(tmp_path / "x.jsonl", {})
    reward = MLEReward([wine], executor, AstInstrumenter())
    scratch = reward.evaluate_many([(fenced(text), wine) for text in texts])
    improvements = improve_each(Harness(policy, wine, reward, log, **LIMITS), scratch)
    assert policy.seeds == sample_seeds(0, wine, [3, 5])  # after the seeds of the previous round
    again = SampleLog(tmp_path / "x.jsonl", {})
    resumed = Harness(ScriptedPolicy(None), wine, MLEReward([wine], None), again, **LIMITS)
    assert improve_each(resumed, scratch) == improvements

    assert [item.scratch for item in improvements] == scratch
    assert [item.chosen_by for item in improvements] == ["validation", None, "test"]
    first, failed, forger = improvements
    assert failed.improved is None
    before, after = first.validation_scores
    assert 0.5 < before < after <= 1  # a tree of depth 1 predicts two of the three cultivars
    assert first.kept("validation") is first.improved
    assert "report: accuracy = 1.0" in forger.scratch.output
    assert forger.validation_scores[0] is None
    assert forger.kept("validation") is forger.kept("test") is forger.improved

    shown, _ = (prompt[0]["content"] for prompt in policy.prompts)
    assert texts[0].strip() in shown
    assert f"report: accuracy = {before}" in shown
    assert "test set" not in shown  # the graded score is not shown


def test_no_valid_program_no_prompt(tmp_path):
    wine = load_competition("wine")
    policy = ScriptedPolicy(deeper_tree)
    log = SampleLog(tmp_path / "x.jsonl", {})
    harness = Harness(policy, wine, MLEReward([wine], None), log, **LIMITS)
    assert improve_each(harness, [FAILED]) == [Improvement(FAILED)]
    assert policy.prompts == []
