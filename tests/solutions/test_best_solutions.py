import json
import multiprocessing
import os
import random
import time

import pytest
from support.fake_executor import ScriptedExecutor

from trl_mle.competitions import Score, load_competition
from trl_mle.execution import ExecutionResult, Outcome
from trl_mle.rewards import BestSolutions, MLEReward


FORK = multiprocessing.get_context("fork")


def content(folder):
    """Checks that the files belong together; returns the score."""
    assert sorted(path.name for path in folder.iterdir()) == ["score.json", "solution.py", "submission.csv"]
    record = json.loads((folder / "score.json").read_text())
    assert (folder / "solution.py").read_text() == f"x = {record['score']:g}"
    assert (folder / "submission.csv").read_text().startswith(f"{record['score']:g},")
    return record["score"]


def offer(folder, competition, score, **more):
    submission = f"{score:g},".encode() * 20_000
    return BestSolutions(folder).offer(competition, f"x = {score:g}", submission, Score(score, True, **more))


@pytest.mark.parametrize(("name", "direction"), [("wine", 1), ("diabetes", -1)])
def test_the_best_is_kept(tmp_path, name, direction):
    competition = load_competition(name)
    for number, best in [(3, 3), (2, 3), (3, 3), (5, 5), (4, 5), (6, 6)]:
        offer(tmp_path, competition, float(direction * number))
        assert content(tmp_path / name) == direction * best


def offer_many(folder, seed):
    rng, wine = random.Random(seed), load_competition("wine")
    for _ in range(100):
        offer(folder, wine, float(rng.randrange(10_000)))


def test_several_processes_offer_at_the_same_time(tmp_path):
    processes = [FORK.Process(target=offer_many, args=(tmp_path, seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    rngs = [random.Random(seed) for seed in range(4)]
    assert content(tmp_path / "wine") == max(rng.randrange(10_000) for rng in rngs for _ in range(100))


def offer_better_and_better(folder, number, pipe):
    """Offers solutions so large that a kill can interrupt a write; reports the numbers of those offered."""
    wine = load_competition("wine")
    while True:
        offer(folder, wine, float(number))
        os.write(pipe, f"{number}\n".encode())
        number += 1


def test_a_kill_leaves_files_that_belong_together_and_loses_nothing(tmp_path):
    rng, wine, number = random.Random(0), load_competition("wine"), 0
    for _ in range(8):
        read, pipe = os.pipe()
        process = FORK.Process(target=offer_better_and_better, args=(tmp_path, number, pipe))
        process.start()
        os.close(pipe)
        with os.fdopen(read) as reader:
            lines = [reader.readline()]
            time.sleep(rng.uniform(0.0, 0.02))
            process.kill()
            lines += reader.read().splitlines()
        process.join()
        assert not offer(tmp_path, wine, -1.0)  # finishes an interrupted write
        score = content(tmp_path / "wine")
        assert score >= int(lines[-1])
        number = int(score) + 1


def test_killed_between_the_renames(tmp_path, wine):
    """A kill rarely hits so short a moment, so its folders are made by hand."""
    offer(tmp_path, wine, 1.0)
    (tmp_path / "wine").rename(tmp_path / "wine.old")
    offer(tmp_path / "other", wine, 2.0)
    (tmp_path / "other" / "wine").rename(tmp_path / "wine.new")
    assert not offer(tmp_path, wine, 1.5)
    assert content(tmp_path / "wine") == 2.0
    assert offer(tmp_path, wine, 3.0)
    assert not (tmp_path / "wine.old").exists()


def test_what_counts_as_none(tmp_path):
    """An empty record, a score without its program, and a score on other rows."""
    best, wine, half = BestSolutions(tmp_path), load_competition("wine"), load_competition("wine", holdout=0.5)
    offer(tmp_path, wine, 5.0)
    assert best.read(wine) == (5.0, 5.0, "x = 5")
    (tmp_path / "wine" / "score.json").write_text("")
    assert best.read(wine) is None
    assert offer(tmp_path, wine, 1.0)
    assert best.read(half) is None
    assert offer(tmp_path, half, 0.5, held_out=0.9, full=0.95)
    assert not offer(tmp_path, half, 0.4, held_out=1.0, full=1.0)  # these choose nothing
    assert best.read(half) == (0.5, 0.9, "x = 0.5")
    (tmp_path / "wine" / "solution.py").unlink()
    assert best.read(half) is None


def test_the_reward_offers_valid_solutions(tmp_path, wine):
    texts = {"good": wine.answers.read_bytes(), "poor": wine.sample_submission.read_bytes(), "bad": b"a,b"}
    for name in ("bad", "poor", "good", "poor"):
        executor = ScriptedExecutor(ExecutionResult(Outcome.OK, duration_s=1.0, exit_code=0, submission=texts[name]))
        MLEReward([wine], executor, best_solutions_dir=tmp_path).evaluate(f"```python\n{name} = 1\n```", wine)
        assert (tmp_path / "wine").exists() is (name != "bad")
    assert BestSolutions(tmp_path).read(wine) == (1.0, 1.0, "good = 1")
    assert wine.grade((tmp_path / "wine" / "submission.csv").read_bytes()).value == 1.0
