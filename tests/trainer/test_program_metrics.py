import pytest

from trl_mle.trainer.gradient.weighting import weight_metrics
from trl_mle.trainer.program_metrics import batch_metrics, program_metrics


COLUMNS = {
    "duration_s": [1.0, 2.0, 3.0, None, None, 9.0],
    "duration_weight": [0.5, 1.0, 1.5, 1.0, 1.0, 1.0],
    "cpu_s": [1.0, 2.0, None, None, None, None],
    "queue_wait_s": [0.0, 1.0, 2.0, None, None, 1.0],
    "outcome": ["ok", "ok", "ok", "infrastructure", "no_code", "timeout"],
    "valid": [True, True, False, False, False, False],
    "score": [0.8, 0.6, None, None, None, None],
    "milestones": ["imports,model_trained", "imports", "imports", "", "", "imports,model_trained"],
}


def test_metrics_of_a_batch():
    metrics = program_metrics(COLUMNS, higher_is_better=True)
    assert metrics["valid_rate"] == pytest.approx(2 / 5)  # the failure of ours is not counted
    assert metrics["score/mean"] == pytest.approx(0.7)
    assert metrics["score/best"] == 0.8
    assert metrics["milestone/imports_rate"] == pytest.approx(4 / 5)
    assert metrics["milestone/model_built_rate"] == 0  # there although never reached
    assert metrics["untrained_valid_rate"] == 0.5
    assert metrics["outcome/ok_rate"] == 0.5
    assert metrics["outcome/infrastructure_rate"] == pytest.approx(1 / 6)
    assert metrics["outcome/killed_rate"] == 0
    assert metrics["duration_s/p50"] == 2.5
    assert metrics["duration_s/mean"] == 3.75
    assert metrics["duration_weight/min"] == 0.5
    assert metrics["duration_weight/max"] == 1.5
    assert metrics["cpu_s/mean"] == 1.5
    assert metrics["queue_wait_s/mean"] == 1
    assert metrics["queue_wait_s/max"] == 2


def test_best_score_has_a_direction():
    assert program_metrics(COLUMNS, higher_is_better=False)["score/best"] == 0.6
    assert "score/best" not in program_metrics(COLUMNS, higher_is_better=None)


def test_unknown_is_left_out():
    assert program_metrics({}, None) == {}
    assert program_metrics({"duration_s": [None]}, None) == {}
    uninstrumented = program_metrics(COLUMNS | {"milestones": [""] * 6}, None)
    assert not [key for key in uninstrumented if key.startswith(("milestone", "untrained"))]
    failed = program_metrics({"outcome": ["infrastructure"], "valid": [False]}, None)
    assert "valid_rate" not in failed


def test_programs_that_come_again():
    row = {"competition": None, "prompt_kind": "scratch", "parent_id": None, "parent_score": None}
    rows = [row | {"program_id": name, "parent_id": parent} for name, parent in (("a", None), ("a", "a"), ("b", "a"))]
    metrics = batch_metrics([*rows, row], {}, by_kind=False)
    assert metrics["unique_rate"] == pytest.approx(2 / 3)
    assert metrics["copy_rate"] == 0.5  # one of two that were to improve a
    assert not {"unique_rate", "copy_rate"} & set(batch_metrics([row], {}, by_kind=False))


def test_what_weights_pay():
    seconds = [4.0, 1.0, None, 2.0, 3.0]
    metrics = weight_metrics(
        [1.0, -1.0, 2.0, 0.0, -2.0], [2.0, -0.5, 2.0, 0.0, -3.0], [2.0, 0.5, 1.0, 1.0, 1.5], seconds
    )
    assert metrics["weighted_advantage/sum"] == pytest.approx(0.5)
    assert metrics["duration_weight/effective_sample_size"] == pytest.approx(36 / 8.5)
    assert [metrics[f"weight_pays/q{i}"] for i in range(1, 5)] == [0.5, 0, -1, 1]
    assert weight_metrics([1.0], [0.0], [0.0], [None]) == {
        "weighted_advantage/sum": 0.0,
        "duration_weight/effective_sample_size": 0.0,
    }


def test_what_was_reused():
    reused, matches = [True, False, True, False, False, False], [None, True, None, None, None, False]
    metrics = program_metrics(COLUMNS | {"reused": reused, "matches": matches}, None)
    assert metrics["reuse/rate"] == pytest.approx(2 / 5)  # of five programs
    assert metrics["reuse/saved_s"] == 1.0 + 3.0
    assert metrics["reuse/mismatch_rate"] == 1 / 2
    assert "reuse/mismatch_rate" not in program_metrics(COLUMNS | {"reused": reused, "matches": [None] * 6}, None)
    assert not [name for name in program_metrics(COLUMNS, None) if name.startswith("reuse")]
