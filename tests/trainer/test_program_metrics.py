from dataclasses import replace

import pytest

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation
from trl_mle.solutions import syntax_tree_id
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.gradient.weighting import weight_metrics
from trl_mle.trainer.program_metrics import batch_metrics, program_metrics


def judged(evaluation=None, weight=None, kind="scratch", parent=None):
    return Completion(None, kind, parent, None, evaluation or Evaluation(None, outcome=None), weight)


TRAINED = ("imports", "model_trained")
BATCH = [
    judged(Evaluation(0.8, 1.0, Score(0.8, True), "ok", TRAINED, cpu_s=1.0, queue_wait_s=0.0), 0.5),
    judged(Evaluation(0.6, 2.0, Score(0.6, True), "ok", ("imports",), cpu_s=2.0, queue_wait_s=1.0), 1.0),
    judged(Evaluation(-9.9, 3.0, Score(None, False), "ok", ("imports",), queue_wait_s=2.0), 1.5),
    judged(Evaluation(None, outcome="infrastructure"), 1.0),
    judged(Evaluation(-10.0), 1.0),
    judged(Evaluation(-9.8, 9.0, None, "timeout", TRAINED, queue_wait_s=1.0), 1.0),
]


def test_metrics_of_a_batch():
    metrics = program_metrics(BATCH, higher_is_better=True, instrumented=True)
    assert metrics["valid_rate"] == pytest.approx(2 / 5)  # the failure of ours is not counted
    assert metrics["score/mean"] == pytest.approx(0.7)
    assert metrics["score/best"] == 0.8
    assert metrics["milestone/imports_rate"] == pytest.approx(4 / 5)
    assert metrics["milestone/model_built_rate"] == 0  # there although never reached
    assert metrics["outcome/infrastructure_rate"] == pytest.approx(1 / 6)
    expected = {"duration_s/p50": 2.5, "duration_s/mean": 3.75, "duration_weight/min": 0.5, "duration_weight/max": 1.5}
    expected |= {"cpu_s/mean": 1.5, "queue_wait_s/mean": 1.0, "queue_wait_s/max": 2.0}
    expected |= {"outcome/ok_rate": 0.5, "outcome/killed_rate": 0, "untrained_valid_rate": 0.5}
    assert metrics | expected == metrics
    assert program_metrics(BATCH, higher_is_better=False, instrumented=True)["score/best"] == 0.6
    assert "score/best" not in program_metrics(BATCH, higher_is_better=None, instrumented=True)


def test_unknown_is_left_out():
    assert program_metrics([judged()], None, True) == {}
    uninstrumented = program_metrics(BATCH, None, instrumented=False, scores=False)
    assert not [key for key in uninstrumented if key.startswith(("milestone", "untrained", "score", "reuse"))]
    failed = program_metrics([judged(Evaluation(None, outcome="infrastructure"))], None, True)
    assert "valid_rate" not in failed


def test_programs_that_come_again():
    first = syntax_tree_id("x = 1")
    programs = ("x = 1", None), ("x  =  1", first), ("y = 1", first)
    batch = [judged(Evaluation(None, source=source, outcome=None), parent=parent) for source, parent in programs]
    metrics = batch_metrics([*batch, judged()], {}, by_kind=False, instrumented=True)
    assert metrics == {"unique_rate": pytest.approx(2 / 3), "copy_rate": 0.5}  # one of two that were to improve it


def test_kinds_of_prompts_and_how_often_a_parent_is_beaten(wine):

    def program(kind, score, parent_score=None):
        parent = None if parent_score is None else "parent"
        score = None if score is None else Score(score, True)
        return Completion("wine", kind, parent, parent_score, Evaluation(None, 1.0, score, "ok" if score else "error"))

    batch = [program("scratch", score) for score in (0.2, 0.6, 0.9, None)]
    batch += [program("improve", 0.7, 0.5), program("improve", None, 0.5), program("improve", 0.8, 0.8)]
    metrics = batch_metrics(batch, {"wine": wine}, by_kind=True, instrumented=True)
    assert metrics["scratch/valid_rate"] == 0.75
    assert metrics["improve/score/best"] == 0.8
    assert metrics["improve/beats_parent_rate"] == pytest.approx(1 / 3)  # an equal score does not beat it


def test_what_weights_pay():
    seconds = [4.0, 1.0, None, 2.0, 3.0]
    weights, advantages = [2.0, 0.5, 1.0, 1.0, 1.5], [1.0, -1.0, 2.0, 0.0, -2.0]
    metrics = weight_metrics(advantages, [2.0, -0.5, 2.0, 0.0, -3.0], weights, seconds)
    assert metrics["weighted_advantage/sum"] == pytest.approx(0.5)
    assert metrics["duration_weight/effective_sample_size"] == pytest.approx(36 / 8.5)
    assert [metrics[f"weight_pays/q{i}"] for i in range(1, 5)] == [0.5, 0, -1, 1]


def test_what_was_reused():
    batch = [judged(replace(item.evaluation, reused=i in (0, 2))) for i, item in enumerate(BATCH)]
    metrics = program_metrics(batch, None, True)
    assert metrics["reuse/rate"] == pytest.approx(2 / 5)  # of five programs
    assert metrics["reuse/saved_s"] == 1.0 + 3.0
