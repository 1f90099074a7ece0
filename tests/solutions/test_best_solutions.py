import hashlib
import json
import multiprocessing
import os
import random
import time

import pytest
from support.fake_executor import FakeExecutor

from trl_mle.competitions import load_competition
from trl_mle.execution import ExecutionResult, Outcome, ProgramFuture
from trl_mle.rewards import BestSolutions, MLEReward


FILES = ["score.json", "solution.py", "submission.csv"]


def content(folder):
    """Checks that the files belong together; returns the score."""
    assert sorted(path.name for path in folder.iterdir()) == FILES
    record = json.loads((folder / "score.json").read_text())
    for name in ("solution.py", "submission.csv"):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert record[f"{name.split('.')[0]}_sha256"] == digest
    assert (folder / "solution.py").read_text() == f"x = {record['score']:g}"
    return record["score"]


@pytest.mark.parametrize(("name", "direction"), [("wine", 1), ("diabetes", -1)])
def test_the_best_is_kept(tmp_path, name, direction):
    best, competition = BestSolutions(tmp_path / "best"), load_competition(name)
    assert not (tmp_path / "best").exists()  # nothing is valid yet
    known = None
    for number, kept in [(3, True), (2, False), (3, False), (5, True), (4, False), (6, True)]:
        score = direction * number
        assert best.offer(competition, f"x = {score}", b"submission", score) is kept
        known = score if kept else known
        assert content(tmp_path / "best" / name) == known
    again = BestSolutions(tmp_path / "best")  # as after a resume
    assert not again.offer(competition, "x = 0", b"submission", direction * 5.0)
    assert again.offer(competition, f"x = {direction * 7}", b"submission", direction * 7.0)


def test_competitions_have_folders_of_their_own_named_by_their_slug(tmp_path):
    best = BestSolutions(tmp_path)
    mirror = load_competition("mirror:spooky-author-identification")
    for competition in (mirror, load_competition("wine")):
        best.offer(competition, "x = 1", b"submission", 1.0)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {mirror.slug, "wine"}
    assert ":" not in mirror.slug


def offer_many(folder, seed):
    rng, best, wine = random.Random(seed), BestSolutions(folder), load_competition("wine")
    for _ in range(100):
        number = rng.randrange(10_000)
        best.offer(wine, f"x = {number}", str(number).encode(), float(number))


def test_several_processes_offer_at_the_same_time(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=offer_many, args=(tmp_path, seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    rngs = [random.Random(seed) for seed in range(4)]
    assert content(tmp_path / "wine") == max(rng.randrange(10_000) for rng in rngs for _ in range(100))


def offer_better_and_better(folder, number, said):
    """Offers solutions so large that a kill can interrupt a write; reports the numbers of those offered."""
    best, wine = BestSolutions(folder), load_competition("wine")
    while True:
        best.offer(wine, f"x = {number}", f"{number},".encode() * 20_000, float(number))
        os.write(said, f"{number}\n".encode())
        number += 1


def test_a_kill_leaves_files_that_belong_together_and_loses_nothing(tmp_path):
    rng, wine, number = random.Random(0), load_competition("wine"), 0
    for _ in range(40):
        read, said = os.pipe()
        process = multiprocessing.get_context("fork").Process(
            target=offer_better_and_better, args=(tmp_path, number, said)
        )
        process.start()
        os.close(said)
        with os.fdopen(read) as reader:
            lines = [reader.readline()]
            time.sleep(rng.uniform(0.0, 0.02))
            process.kill()
            lines += reader.read().splitlines()
        process.join()
        assert not BestSolutions(tmp_path).offer(wine, "x = -1", b"", -1.0)  # finishes an interrupted write
        score = content(tmp_path / "wine")
        assert score >= int(lines[-1])
        number = int(score) + 1
    assert number > 80  # it was busy all the time


def test_killed_between_the_renames(tmp_path):
    """A kill rarely hits so short a moment, so its folders are made by hand."""
    best, wine = BestSolutions(tmp_path), load_competition("wine")
    best.offer(wine, "x = 1", b"submission", 1.0)
    (tmp_path / "wine").rename(tmp_path / "wine.old")
    BestSolutions(tmp_path / "other").offer(wine, "x = 2", b"submission", 2.0)
    (tmp_path / "other" / "wine").rename(tmp_path / "wine.new")
    assert not best.offer(wine, "x = 1.5", b"submission", 1.5)
    assert content(tmp_path / "wine") == 2.0
    assert best.offer(wine, "x = 3", b"submission", 3.0)
    assert not (tmp_path / "wine.old").exists()
    assert not (tmp_path / "wine.new").exists()


class Grading(FakeExecutor):
    """An executor whose programs write the submission that their first line names."""

    def __init__(self, submissions):
        self.submissions = submissions

    def submit(self, program, competition):
        future = ProgramFuture()
        submission = self.submissions[program.splitlines()[0]]
        future.set_result(ExecutionResult(Outcome.OK, duration_s=1.0, exit_code=0, submission=submission))
        return future


def test_an_empty_record_counts_as_none(tmp_path):
    best, wine = BestSolutions(tmp_path), load_competition("wine")
    best.offer(wine, "x = 5", b"submission", 5)
    (tmp_path / "wine" / "score.json").write_text("")
    assert best.offer(wine, "x = 1", b"submission", 1)
    assert content(tmp_path / "wine") == 1


def test_a_score_without_its_program_counts_as_none(tmp_path):
    best, wine = BestSolutions(tmp_path), load_competition("wine")
    best.offer(wine, "x = 1", b"submission", 1.0)
    assert best.read(wine) == (1.0, 1.0, "x = 1")
    (tmp_path / "wine" / "solution.py").unlink()
    assert best.read(wine) is None


def test_a_score_on_other_rows_counts_as_none(tmp_path):
    best, wine = BestSolutions(tmp_path), load_competition("wine")
    half = load_competition("wine", holdout=0.5)
    best.offer(wine, "x = 5", b"submission", 5)
    assert best.wants(half, 1)
    assert best.offer(half, "x = 1", b"submission", 1, held_out=0.9, full=0.95)
    assert not best.wants(half, 1)
    assert best.wants(wine, 1)


def test_the_reward_offers_valid_solutions(tmp_path):
    wine = load_competition("wine")
    submissions = {
        "good = 1": wine.answers.read_bytes(),
        "poor = 1": wine.sample_submission.read_bytes(),
        "bad = 1": b"a,b",
    }
    reward = MLEReward([wine], Grading(submissions), best_solutions_dir=tmp_path / "best_solutions")
    folder = tmp_path / "best_solutions" / "wine"
    reward.evaluate("```python\nbad = 1\n```", wine)
    assert not folder.exists()
    for program in ("poor = 1", "good = 1", "poor = 1"):
        evaluation = reward.evaluate(f"```python\n{program}\n```", wine)
        assert evaluation.valid
    assert (folder / "solution.py").read_text() == "good = 1"
    assert wine.grade((folder / "submission.csv").read_bytes()).value == 1.0
    assert json.loads((folder / "score.json").read_text())["score"] == 1.0


def test_the_scores_on_held_out_rows_are_kept_and_choose_nothing(tmp_path):
    best, wine = BestSolutions(tmp_path), load_competition("wine", holdout=0.5)
    assert best.offer(wine, "x = 5", b"submission", 5.0, held_out=1.0, full=3.0)
    assert not best.offer(wine, "x = 4", b"submission", 4.0, held_out=9.0, full=7.0)
    record = json.loads((tmp_path / "wine" / "score.json").read_text())
    assert (record["score"], record["held_out"], record["full"]) == (content(tmp_path / "wine"), 1.0, 3.0)
