"""Which cores programs run on, and which they leave to training."""

import os

import pytest
from support.cores import SEVERAL_CORES

from trl_mle.execution import LocalExecutor, Outcome
from trl_mle.execution.slots import split_cores, started_on


CORES = sorted(os.sched_getaffinity(0))
# Long enough that two of them run at a time
PROGRAM = "import os, time\ntime.sleep(0.5)\nprint(*sorted(os.sched_getaffinity(0)))\n"


def test_training_has_the_first_cores_and_programs_have_the_others(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {9, 4, 5, 12})
    assert split_cores(0) == ([], [4, 5, 9, 12])
    assert split_cores(3) == ([4, 5, 9], [12])
    for count in (4, -1):
        with pytest.raises(ValueError, match="training_cores"):
            LocalExecutor(training_cores=count)


@SEVERAL_CORES
@pytest.mark.parametrize("surplus", [0, 1], ids=["a core each", "more slots than cores"])
def test_no_program_runs_on_the_cores_of_training(competition, surplus):
    others = CORES[1:]
    slots = len(others) + surplus
    # As training keeps itself, but this thread alone; the threads of the slots come from it
    with LocalExecutor(slots, packages=(), training_cores=1) as executor, started_on(CORES[:1]):
        assert f"{slots} at a time on {len(others)} of {os.cpu_count()} cores" in executor.description
        results = executor.run_many([(PROGRAM, competition)] * slots)
        assert os.sched_getaffinity(0) == {CORES[0]}  # it starts processes on other cores, but stays on its own
        [warm_parent] = executor._runner.warm_parents._running.values()
        assert os.sched_getaffinity(warm_parent.process.pid) == set(others)
    assert {result.outcome for result in results} == {Outcome.OK}, results
    where = sorted(result.stdout.split() for result in results)
    assert where == ([list(map(str, others))] * slots if surplus else sorted([str(core)] for core in others))
    assert sorted(os.sched_getaffinity(0)) == CORES
