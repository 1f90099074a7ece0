"""MLE-bench's other competitions, graded by its own code in a process of its own."""

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
from support.bench import SITE, write_prepared
from support.fake_executor import FakeExecutor
from support.packages import as_csv

from trl_mle.competitions import CompetitionError, TaskSet, load_competition
from trl_mle.competitions import bench as module
from trl_mle.competitions.medals import medal_thresholds
from trl_mle.environments.harbor import export_harbor
from trl_mle.evaluation.choosing import like_sample
from trl_mle.execution import ExecutionResult, Outcome, ProgramFuture
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards import MLEReward


RANKS = "rank-the-kinds"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of the stand-in for MLE-bench, which is installed meanwhile."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SITE)
        yield folder, write_prepared(folder)


@pytest.fixture
def ranks(data):
    return load_competition(RANKS, data[0])


def test_it_is_loaded_by_its_id(data, ranks):
    folder, _ = data
    assert (ranks.id, ranks.metric, ranks.higher_is_better) == (RANKS, "map-at-2", True)
    assert (ranks.id_column, ranks.target_columns) == ("id", ("kinds",))
    assert ranks.public_dir == folder / RANKS / "prepared" / "public"
    thresholds = medal_thresholds(ranks)
    assert (thresholds.gold, thresholds.bronze, thresholds.median) == (0.9, 0.9, 0.75)
    prompt = scratch_prompt(ranks)[0]["content"]
    for part in ("Name the two likeliest kinds", "Metric: map-at-2 (higher is better)", "train.csv", "id,kinds"):
        assert part in prompt
    assert "mlebench" not in sys.modules
    assert pickle.loads(pickle.dumps(ranks)) == ranks


def test_it_is_neither_exported_nor_changed(data, ranks, tmp_path):
    with pytest.raises(CompetitionError, match=f"^'{RANKS}' is graded by MLE-bench's own code, which is not exported"):
        export_harbor(TaskSet([ranks]), tmp_path / "tasks")
    assert not list(tmp_path.iterdir())
    assert like_sample(as_csv(data[1]), ranks) == as_csv(data[1])


def test_its_own_code_grades(data, ranks):
    _, answers = data
    for number in range(2):  # the grader changes the tables that it is given
        assert ranks.grade(as_csv(answers)).value == 1.0, number
        assert ranks.grade(as_csv(answers.assign(kinds="nothing " + answers["kinds"]))).value == 0.5
    known = (answers["kinds"] == "low").mean() + (answers["kinds"] == "high").mean() / 2
    score = ranks.grade(ranks.sample_submission)
    assert (score.valid, score.value, score.full) == (True, round(known, 5), round(known, 5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="kinds"), "KeyError: 'kinds'"),
        (lambda table: table.assign(id=0), "AssertionError: ids differ"),
        (lambda table: table.assign(kinds="NAN"), "the score is nan"),
    ],
)
def test_invalid_submissions(data, ranks, change, message):
    score = ranks.grade(as_csv(change(data[1])))
    assert (score.valid, score.value) == (False, None)
    assert message in score.error
    assert "\n" not in score.error


def test_what_is_no_table(ranks, tmp_path):
    for content in b"", b"\xff\xfe\x00", b"x," * 3000:
        assert not ranks.grade(content).valid
    assert ranks.grade(tmp_path / "none.csv").error == "the submission cannot be read: No such file or directory"


def test_a_grader_that_was_killed_starts_again(data, ranks):
    assert ranks.grade(as_csv(data[1])).value == 1.0
    process = ranks._grader._process
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ranks.grade(as_csv(data[1])).value == 1.0


class Runs(FakeExecutor):
    """Each program writes the submission of its competition."""

    def __init__(self, submissions):
        self.submissions, self.ran = submissions, 0

    def submit(self, program, competition):
        self.ran += 1
        future = ProgramFuture()
        future.set_running_or_notify_cancel()
        submission = self.submissions[competition]
        future.set_result(ExecutionResult(Outcome.OK, duration_s=0.5, exit_code=0, submission=submission))
        return future


def test_what_the_reward_makes_of_it(data, tmp_path):
    """A submission that breaks the grader earns -10. If the grader breaks on any, the reward is `None`, and the program runs again."""
    answers = write_prepared(tmp_path)
    comp = load_competition(RANKS, tmp_path)
    found = {}
    for kinds in ("CRASH", "low", "any"):
        runs = Runs({comp: as_csv(answers.assign(kinds=kinds))})
        reward = MLEReward([comp], runs, show_progress=False)
        if kinds == "any":
            comp.sample_submission.write_bytes(as_csv(answers.assign(kinds="CRASH")))
            comp._grader._process.kill()
            comp._grader._process.wait()
        evaluation = reward.evaluate("```python\nx = 1\n```", comp)
        found[kinds] = evaluation.reward, evaluation.outcome, runs.ran
    assert found["CRASH"] == (-10.0, Outcome.OK, 1)
    assert found["low"] == (pytest.approx((answers["kinds"] == "low").mean()), Outcome.OK, 1)
    assert found["any"] == (None, Outcome.INFRASTRUCTURE, 2)
    assert evaluation.detail == "the grader failed: mlebench ended with 3"
    with pytest.raises(CompetitionError, match=f"'{RANKS}' cannot be graded: mlebench ended with 3"):
        comp.check_answers()


def test_nothing_waits_for_a_submission_that_takes_long_to_grade(data, ranks, monkeypatch, wine):
    """It is graded in a thread: other programs are judged meanwhile, and its Δt does not grow."""
    monkeypatch.setattr(module, "LEAST_S", 3.0)
    ranks.grade(ranks.sample_submission)  # starts the process
    submissions = {ranks: as_csv(data[1].assign(kinds="HANG")), wine: wine.sample_submission.read_bytes()}

    reward = MLEReward([ranks, wine], Runs(submissions), show_progress=False)
    hangs, other = reward.submit([("```python\nx = 1\n```", comp) for comp in (ranks, wine)])
    began = time.monotonic()
    assert not hangs.poll()
    assert other.poll()
    assert other.result().valid
    assert time.monotonic() - began < 2
    assert not hangs.awaited.done()  # so that nobody polls in a hurry
    assert hangs.running_s() == 0.5
    [evaluation] = reward.wait_for([hangs])
    assert (evaluation.reward, evaluation.outcome, evaluation.duration_s) == (-10.0, Outcome.OK, 0.5)
    assert reward.longest_s(3) == 2 * 3 * ranks.grading_s
    assert MLEReward([wine], Runs({})).longest_s(3) == 0


def test_answers_that_do_not_fit_are_found_at_the_start(data, tmp_path):
    write_prepared(tmp_path)
    comp = load_competition(RANKS, tmp_path)
    comp.answers.write_text("id\n1\n")
    with pytest.raises(CompetitionError, match="prepare it again"):
        comp.check_answers()


def test_a_hidden_sample(data):
    comp = load_competition("hidden-sample", data[0])
    assert (comp.metric, comp.higher_is_better, comp.target_columns) == ("mean-error", False, ("value",))
    assert comp.grade(comp.sample_submission).value == 1.45
    prompt = scratch_prompt(comp)[0]["content"]
    assert "id,value" in prompt
    assert "sample_submission.csv" not in prompt


def test_what_cannot_work(data, tmp_path):
    with pytest.raises(CompetitionError, match="is graded by MLE-bench's own code, on all rows: set holdout: 0"):
        load_competition(RANKS, data[0], holdout=0.5)
    with pytest.raises(CompetitionError, match=f"not prepared in .*; prepare it with: mlebench prepare -c {RANKS}"):
        load_competition(RANKS, tmp_path)


def test_an_mlebench_that_does_not_start(tmp_path, monkeypatch):
    package = tmp_path / "mlebench"
    (package / "competitions" / RANKS).mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('no py7zr')")
    monkeypatch.syspath_prepend(tmp_path)
    write_prepared(tmp_path / "data")
    with pytest.raises(CompetitionError, match="cannot be loaded by mlebench: ImportError: no py7zr"):
        load_competition(RANKS, tmp_path / "data")


ENDS = f"""
import os, signal, sys
sys.path.insert(0, {str(SITE)!r})
from trl_mle.competitions import load_competition
comp = load_competition({RANKS!r}, sys.argv[1])
print(comp._grader._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_its_process_ends_with_ours(data):
    ended = subprocess.run([sys.executable, "-c", ENDS, str(data[0])], capture_output=True, text=True, check=False)
    pid = int(ended.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("it is still there")
