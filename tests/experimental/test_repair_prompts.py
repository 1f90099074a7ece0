import json
from collections import Counter

import pytest
from support import pool_runs
from support.pool_runs import GROUP_SIZE, ReplayTrainer

from trl_mle.experimental.repair_prompts import RepairPrompts
from trl_mle.rewards import Evaluation
from trl_mle.trainer.judged import SCRATCH, Judged


class Repairing(ReplayTrainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.repairs = RepairPrompts(self.solution_prompts, probability=0.5)
        self.parts += (self.repairs,)


@pytest.fixture(scope="module")
def trained(program_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repairs")
    trainer = pool_runs.make_trainer(
        program_model, folder, Repairing, improve_probability=0.3, max_steps=4, save_strategy="steps", save_steps=4
    )
    trainer.train()
    return trainer, folder


def test_groups_repair_programs_that_failed(trained):
    trainer, _ = trained
    kinds = [kind for turn in trainer.turns for kind in turn["kinds"]]
    assert set(kinds) == {"scratch", "improve", "repair"}
    assert set(trainer.turns[0]["kinds"]) == {"scratch"}  # nothing has failed yet
    for turn in trainer.turns:
        for start in range(0, len(turn["kinds"]), GROUP_SIZE):
            members = slice(start, start + GROUP_SIZE)
            assert len(set(zip(turn["kinds"][members], turn["prompts"][members], strict=True))) == 1
            if turn["kinds"][start] == "repair":
                assert "Here is a program that failed" in turn["prompts"][start]
                assert turn["parents"][start] in {id for known in trainer.repairs.failed.values() for id in known}


def test_the_state_is_in_the_checkpoint(trained):
    trainer, folder = trained
    state = json.loads((folder / "checkpoint-4" / "failed_programs.json").read_text())
    assert state == trainer.repairs.state_dict()
    fresh = RepairPrompts(trainer.solution_prompts, 0.5)
    fresh.load_state_dict(state)
    assert fresh.failed == trainer.repairs.failed
    assert sum(map(len, fresh.failed.values())) > 0


def failed(number, outcome="error"):
    evaluation = Evaluation(-10.0, 1.0, outcome=outcome, source=f"x = {number}", output="ValueError")
    return Judged("wine", "", "scratch", None, None, evaluation)


def test_how_often_and_which(trained):
    trainer, _ = trained
    repairs = RepairPrompts(trainer.solution_prompts, probability=0.2, size=4)
    repairs.observe([failed(i) for i in range(6)] + [failed(5), failed(9, "infrastructure")], step=1)
    assert [program.source for program in repairs.failed["wine"].values()] == [f"x = {i}" for i in (2, 3, 4, 5)]
    rows = [{"prompt": "?", "competition": "wine"} | SCRATCH for _ in range(4000 * GROUP_SIZE)]
    chosen = repairs.choose(rows, first=0)[::GROUP_SIZE]
    shown = Counter(row["parent_id"] for row in chosen if row["prompt_kind"] == "repair")
    assert abs(sum(shown.values()) / 4000 - 0.2) < 4 * (0.16 / 4000) ** 0.5
    assert len(shown) == 4
    assert min(shown.values()) > 120  # of 200 expected
    improving = [row | {"prompt_kind": "improve"} for row in rows[:GROUP_SIZE]]
    assert repairs.choose(improving, first=0) == improving


def test_a_probability_that_is_none(trained):
    with pytest.raises(ValueError, match=r"^probability must be between 0 and 1, got 2$"):
        RepairPrompts(trained[0].solution_prompts, 2)
