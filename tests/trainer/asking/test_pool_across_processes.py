import pytest
from support import pool_runs


STEPS = 3
OPTIONS = {"steps": STEPS, "cls": pool_runs.ReplayTrainer, "optim": "sgd", "learning_rate": 0.1}


@pytest.fixture(scope="module")
def runs(program_model, tmp_path_factory):
    """The record of a run in one process, and those of a run in two."""
    folder = tmp_path_factory.mktemp("runs")
    both = pool_runs.start(folder, {"two": OPTIONS | {"model": program_model}}, processes=2)
    alone = pool_runs.run(program_model, folder / "one", **OPTIONS)
    return alone, pool_runs.finish(both, folder, "two")


def joined(records, turn, name):
    return [value for record in records for value in record["turns"][turn][name]]


def test_pools_are_identical_on_all_processes(runs):
    alone, (first, second) = runs
    assert first["pool"] == second["pool"] == alone["pool"]
    assert all(first["pool"][name] for name in pool_runs.COMPETITIONS)
    assert any(solution["parent_id"] for known in first["pool"].values() for solution in known)


def test_two_processes_train_like_one(runs):
    alone, two = runs
    for turn, expected in enumerate(alone["turns"]):
        for name in ("prompts", "kinds", "parents", "completion_ids"):
            assert joined(two, turn, name) == expected[name]
        for name in ("weights", "advantages"):
            assert joined(two, turn, name) == pytest.approx(expected[name], abs=1e-5)
        for record in two:
            assert record["turns"][turn]["rewards"] == pytest.approx(expected["rewards"])
    assert "improve" in {turn["kinds"][-1] for turn in two[0]["turns"]}  # also in the group that spans both
    for record in two:
        assert len(record["turns"]) == len(alone["turns"])
        assert record["generation"] == alone["generation"] == STEPS
        for name, weights in alone["weights"].items():
            assert (record["weights"][name] - weights).abs().max() <= 1e-5
