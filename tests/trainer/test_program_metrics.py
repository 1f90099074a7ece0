import pytest

from trl_mle.trainer.program_metrics import program_metrics


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
    assert metrics["valid_rate"] == pytest.approx(2 / 5)  # our failure was not judged
    assert metrics["score/mean"] == pytest.approx(0.7)
    assert metrics["score/best"] == 0.8
    assert metrics["milestone/imports_rate"] == pytest.approx(4 / 5)
    assert metrics["milestone/model_built_rate"] == 0  # never reached, yet there
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
