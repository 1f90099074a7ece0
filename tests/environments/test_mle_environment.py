"""An agent's view of a competition."""

import pickle
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest

from trl_mle.competitions import TaskSet, load_competition
from trl_mle.environments import MLEEnvironment, MLESpec
from trl_mle.execution import LocalExecutor
from trl_mle.rewards import MLEReward


SUBMIT = "import pandas as pd\npd.read_csv('input/sample_submission.csv').to_csv('submission.csv', index=False)\n"


@pytest.fixture(scope="module")
def executor():
    with LocalExecutor(max_parallel=2, timeout_s=20, packages=["pandas"]) as executor:
        yield executor


@pytest.fixture
def environment(executor):
    environment = MLEEnvironment(MLEReward(["wine", "diabetes"], executor), max_programs=2)
    environment.reset(competition="wine", prompt="of the row")
    return environment


def test_files(environment, tmp_path):
    public = load_competition("wine").public_dir
    lines = (public / "train.csv").read_text().splitlines()
    for path in ("train.csv", "input/train.csv", "/input/train.csv", "./input//train.csv"):
        assert environment.read_file(path, lines=3) == "\n".join(lines[:3])
    assert environment.read_file("train.csv", first_line=4, lines=1) == lines[3]
    assert len(environment.read_file("train.csv", lines=10_000)) <= 2000

    public = tmp_path / "public"
    public.mkdir()
    (public / "dangling").symlink_to(tmp_path / "nowhere")
    (public / "outside").symlink_to("/etc/passwd")
    (public / "inputs.csv").write_text("id\n1\n")
    (public / "long.txt").write_text("x" * 5_000_000)
    (public / "image.jpg").write_bytes(b"\xff\0" * 100)
    environment._competition = replace(environment._competition, public_dir=public)
    for folder in (".", "input"):
        names = [line.split()[0] for line in environment.read_file(folder).splitlines()]
        assert names == ["image.jpg", "inputs.csv", "long.txt"]
    assert environment.read_file("inputs.csv") == "id\n1"
    assert environment.read_file("long.txt") == "x" * 400 + "…"
    with pytest.raises(ValueError, match="has 1 lines, as far as it is read"):
        environment.read_file("long.txt", first_line="2", lines="3")
    with pytest.raises(ValueError, match="no text file"):
        environment.read_file("image.jpg")
    for path in ("/etc/passwd", "input/../../private/test.csv", "no.csv", "dangling", "outside", "x" * 300):
        with pytest.raises(ValueError, match=r"^input/ holds no "):
            environment.read_file(path)


def test_our_failure_is_not_the_agents(environment, monkeypatch):
    def fail(program, competition):
        raise OSError("/a/path of ours")

    with monkeypatch.context() as patch:
        patch.setattr(environment._reward.executor, "submit", fail)
        assert "the machine failed" in environment.start_program(SUBMIT)
        assert environment._episode().reward is None
    program = f'text = """\n```python\nprint(1)\n```\n<think> </think>"""\n{SUBMIT}'
    assert environment.start_program(program) == "program 1 of 2 runs"
    assert environment._episode().valid
    assert environment._episode().source == program  # as it is


def test_the_last_program_counts_and_all_their_seconds_do(environment, wine):
    assert environment.start_program("import time; time.sleep(0.3); 1 / 0") == "program 1 of 2 runs"
    answer = environment.wait_for_program()
    assert re.match(r"no valid submission after [\d.]+ s: (.|\n)*ZeroDivisionError", answer)
    assert environment.start_program(f"Here:\n```python\n{SUBMIT}```") == "program 2 of 2 runs"
    answer = environment.wait_for_program()
    assert re.match(r"valid submission after [\d.]+ s", answer)
    score = wine.grade(wine.sample_submission).value
    assert str(score) not in answer  # nothing about the hidden labels is shown
    with pytest.raises(ValueError, match="all 2 programs of this task"):
        environment.start_program(SUBMIT)
    episode = environment._episode()
    assert (episode.valid, episode.score.value) == (True, score)
    assert episode.duration_s >= 0.3

    environment.reset(competition="diabetes")
    with pytest.raises(ValueError, match="no program has been started"):
        environment.wait_for_program()
    assert (environment._episode().reward, environment._episode().duration_s) == (-10, None)
    with pytest.raises(ValueError, match="does not know the competition 'whine'"):
        environment.reset(competition="whine")


def test_programs_run_side_by_side_and_are_waited_for_in_the_end(executor):
    spec = MLESpec(["wine"], executor, max_programs=1)
    environments = [spec.environment_factory() for _ in range(4)]
    executor.check(load_competition("wine"))  # starts what programs share
    started = time.monotonic()
    for environment in environments:
        environment.reset(competition="wine")
        environment.start_program(f"import time; time.sleep(1)\n{SUBMIT}")
    (reward,) = spec.reward_funcs
    logged = {}
    rewards = reward([], [], environments=environments, competition=["wine"] * 4, log_extra=logged.__setitem__)
    assert len(set(rewards)) == 1
    assert rewards[0] > -1
    assert min(logged["duration_s"]) >= 1
    assert time.monotonic() - started < sum(logged["duration_s"])
    assert logged["valid"] == [True] * 4
    with pytest.raises(ValueError, match="passes no environments"):
        reward([], [], competition=[])


def test_a_dataset_is_made_as_its_rows_are_read(executor, monkeypatch):
    spec = MLESpec(["task:train/0-4999"], executor, max_programs=3)
    names = []
    monkeypatch.setattr(TaskSet, "__getitem__", lambda tasks, name: names.append(name) or load_competition(name))
    dataset = pickle.loads(pickle.dumps(spec.train_dataset))
    assert (len(dataset), dataset[7]["competition"]) == (5000, "task:train/7")
    [message] = dataset[7]["prompt"]
    for part in ("Kaggle competition: task:train/7\n", "start_program, 3 at most", "20 seconds"):
        assert part in message["content"]
    assert names == ["task:train/7"]


def in_another_process(factory):
    environment = factory()
    environment.reset(competition="wine")
    environment.start_program(SUBMIT)
    return environment.get_reward(), environment._episode().duration_s


def test_an_environment_that_owns_its_reward_works_where_it_lands(executor, tmp_path):
    """As in AsyncGRPOTrainer, which pickles the factory for a spawned worker."""
    options = {"log_dir": tmp_path / "executions", "reuse_results": True}
    spec = MLESpec(["wine"], executor, owns_reward=True, **options)
    assert spec.reward_funcs == []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        reward, duration_s = pool.submit(in_another_process, spec.environment_factory).result()
    assert reward > -1
    assert duration_s > 0
    assert len((tmp_path / "executions" / "rank-0.jsonl").read_text().splitlines()) == 1
