"""Competitions as Harbor tasks: what lies where, and that the grader in them is ours. Harbor itself is not needed."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support import labels
from support.packages import read_files, write_files
from trl.experimental.harbor import HarborBashEnv, HarborSpec

import trl_mle
from trl_mle.competitions import Competition, CompetitionError, Score, TaskSet, load_competition
from trl_mle.competitions.families import score_range
from trl_mle.competitions.metrics import METRICS
from trl_mle.environments import export_harbor, harbor_grader
from trl_mle.environments.harbor import GRADER
from trl_mle.environments.harbor_grader import Reward
from trl_mle.execution import Limits


ROWS = 30


def make(folder, competition_id="", metric="mae", answers=None, **facts):
    """A competition whose sample submission is the answers' last row throughout."""
    answers = right_answers(metric) if answers is None else answers
    for part in ("public", "private"):
        (folder / part).mkdir(parents=True)
    sample = answers.assign(**{name: answers[name].iloc[-1] for name in answers.columns[1:]})
    sample.to_csv(folder / "public/sample_submission.csv", index=False)
    answers.to_csv(folder / "private/test.csv", index=False)
    (folder / "public/description.md").write_text("# Overview\n\nPredict.\n")
    paths = [folder / name for name in ("public", "public/sample_submission.csv", "private/test.csv")]
    return Competition(competition_id, metric, *paths, tuple(answers.columns[1:]), **facts)


def right_answers(metric):
    values, _ = labels.draw(METRICS[metric].takes, np.random.RandomState(0), ROWS)
    values.columns = [f"y{i}" for i in range(values.shape[1])]
    values.insert(0, "id", [f"id{i * 7 % ROWS}" for i in range(ROWS)])
    return values


def submissions(answers, rng):
    """The answers with some rows changed for others, in part shuffled, and each kind of mistake."""
    targets = list(answers.columns[1:])
    for number in range(6):
        others = answers[targets].sample(frac=1, random_state=number)
        values = np.where(rng.random((ROWS, 1)) < number / 6, others, answers[targets])
        table = answers[["id"]].join(pd.DataFrame(values, columns=targets))
        yield table.sample(frac=1, random_state=number) if number % 2 else table
    damaged = table.astype(object)
    for cell in (None, np.inf, "much", -3.7, 1e300):
        damaged.iloc[2, 1] = cell
        yield damaged
    yield from (table.iloc[1:], pd.concat([table.iloc[1:], table.iloc[1:2]]), table.assign(more=1), answers)
    yield table.rename(columns={targets[0]: "other"})
    yield from (b"", b"\xff\xfe\x00", b'id,"y0\n1,2', b"id\n" * 20_000)


# Grades files in each task by the task's own modules, which the first task's must then be
OTHER_SIDE = """
import json, os, sys
from pathlib import Path
os.chdir(sys.argv[1])
sys.path[0] = ""
from trl_mle.environments import harbor_grader
results = []
for tests, *files in json.load(sys.stdin):
    competition, reward = harbor_grader.load(Path(tests))
    for file in files:
        score = harbor_grader.grade(competition, Path(file))
        results.append([score.value, score.valid, score.error, reward.of(score)])
modules = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "trl_mle"]
print(json.dumps([results, modules]))
"""


def grade_elsewhere(requests):
    """Scores and rewards of files, by the graders in folders of tests; and the modules of ours that graded."""
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-c", OTHER_SIDE, str(requests[0][0])],
        input=json.dumps([list(map(str, words)) for words in requests]),
        capture_output=True,
        text=True,
        check=True,
    )
    results, modules = json.loads(done.stdout)
    return [(Score(*score), reward) for *score, reward in results], modules


def test_the_grader_in_a_task_is_ours_for_every_metric(tmp_path):
    rng = np.random.default_rng(0)
    competitions = [make(tmp_path / name, name, name) for name in METRICS]
    strict = {"exact_columns": True, "id_first": True, "row_sum_decimals": 3}
    competitions.append(make(tmp_path / "strict", "strict", "log_loss", **strict))
    other = {"in_file_order": True, "text_columns": ("y0",)}
    competitions.append(make(tmp_path / "other", "other", "accuracy", **other))
    tasks = export_harbor(TaskSet(competitions), tmp_path / "harbor")
    expected, requests = [], []
    for competition, task in zip(competitions, tasks, strict=True):
        requests.append([task / "tests"])
        for number, table in enumerate(submissions(pd.read_csv(competition.answers), rng)):
            content = table if isinstance(table, bytes) else table.to_csv(index=False).encode()
            file = tmp_path / f"{task.name}-{number}.csv"
            file.write_bytes(content)
            requests[-1].append(file)
            score = competition.grade(content)
            gain = competition.scoring.gain(score.value) if score.valid else None
            expected.append((score, -10.0 if gain is None else max(gain, -9.0)))
    results, modules = grade_elsewhere(requests)
    assert len(expected) > 500
    assert 1 / 3 < sum(score.valid for score, _ in expected) / len(expected) < 3 / 4
    assert [score for score, _ in results] == [score for score, _ in expected]
    assert [reward for _, reward in results] == pytest.approx([reward for _, reward in expected], abs=1e-12)
    package = Path(trl_mle.__file__).parent
    assert all(Path(module).is_relative_to(tasks[0] / "tests/trl_mle") for module in modules)
    for name in GRADER:
        assert {(task / "tests/trl_mle" / name).read_bytes() for task in tasks} == {(package / name).read_bytes()}


def test_the_grader_needs_only_what_the_image_has():
    package = Path(trl_mle.__file__).parent
    sources = [(package / name).read_text(encoding="utf-8") for name in GRADER]
    imported = {name for source in sources for name in re.findall(r"(?m)^ *(?:from|import) ([\w.]+)", source)}
    ours = {name for name in imported if name.startswith("trl_mle.")}
    assert {f"{name.removeprefix('trl_mle.').replace('.', '/')}.py" for name in ours} <= set(GRADER)
    assert {name.split(".")[0] for name in imported - ours} - sys.stdlib_module_names == {"numpy", "pandas", "sklearn"}


# --- The whole test, as Harbor runs it: files at their places, with nothing else of this machine's writable


def run_test(task, folder, submission):
    """Runs `tests/test.sh` under bubblewrap; returns the reward, and what `score.json` holds."""
    home, logs = folder / "home/user", folder / "logs/verifier"
    home.mkdir(parents=True)
    logs.mkdir(parents=True)
    (home / "json.py").write_text("raise SystemExit(1)")  # what an agent may have left
    (home / "submission.csv").write_bytes(submission)
    python = Path(sys.executable).parent
    places = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix)} - {Path("/usr")}
    command = ["bwrap", "--unshare-all", "--clearenv", "--setenv", "PATH", f"{python}:/usr/bin:/bin"]
    command += shlex.split("--setenv PYTHONPATH /home/user --ro-bind /usr /usr --proc /proc --dev /dev")
    for name in ("/bin", "/lib", "/lib64"):
        command += ["--symlink", os.readlink(name), name] if os.path.islink(name) else ["--ro-bind-try", name, name]
    for place in sorted(places):
        command += ["--ro-bind", str(place), str(place)]
    command += ["--ro-bind", str(task / "tests"), "/tests", "--bind", str(folder / "home"), "/home"]
    command += ["--bind", str(folder / "logs"), "/logs", "--chdir", "/home/user"]
    subprocess.run([*command, "/tests/test.sh"], check=True, capture_output=True, env=os.environ)
    return float((logs / "reward.txt").read_text()), json.loads((logs / "score.json").read_text())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A task of each kind."""
    folder = tmp_path_factory.mktemp("harbor") / "tasks-of-each-kind"
    own = make(folder.parent / "own", "houses", "rmse")
    tasks = TaskSet(["digits", "task:train/0", "mirror:plant-pathology-2020-fgvc7?rows=60", own])
    return dict(zip(tasks, export_harbor(tasks, folder, Limits(900.0, 2048, 2)), strict=True)), folder


@pytest.mark.parametrize("name", ["task:train/0", "digits"])
def test_a_task_pays_by_the_score_between_floor_and_ceiling_or_with_its_sign(exported, tmp_path, name):
    task, competition = exported[0][name], load_competition(name)
    floor, ceiling = score_range(competition) if name.startswith("task:") else (0.0, competition.scoring.gain(1.0))
    ceiling_file = competition.answers.with_name("ceiling.csv")
    best = pd.read_csv(ceiling_file if ceiling_file.exists() else competition.answers)
    sample = pd.read_csv(competition.sample_submission)
    between = sample.assign(**(best + sample)[list(competition.target_columns)] / 2)
    rewards = []
    for number, table in enumerate((sample, between, best)):
        content = table.to_csv(index=False).encode()
        reward, shown = run_test(task, tmp_path / str(number), content)
        score = competition.grade(content).full
        assert shown == {"reward": reward, "valid": True, "score": score, "error": None}
        assert reward == pytest.approx((score - floor) / (ceiling - floor))
        rewards.append(reward)
    assert rewards[0] < rewards[1] < rewards[2]
    assert name == "digits" or (rewards[0], rewards[2]) == (0.0, 1.0)


LEFT = {
    "nothing": lambda path: None,
    "link to the answers": lambda path: path.symlink_to(path.with_name("answers.csv")),
    "folder": lambda path: path.mkdir(),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "hard link": lambda path: os.link(path.with_name("answers.csv"), path),
    "pipe": os.mkfifo,
    "huge": lambda path: (path.touch(), os.truncate(path, 1 << 33)),
    "no parent": lambda path: (path.parent.rename(f"{path.parent}2"), path.parent.write_text("no folder")),
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_whatever_an_agent_leaves_is_its_own_failure(exported, tmp_path, leave):
    """Without a reward file Harbor would take it for a failure of the infrastructure, which a policy could choose."""
    tests, logs = exported[0]["houses"] / "tests", tmp_path / "logs"
    submission = tmp_path / "home" / "submission.csv"
    submission.parent.mkdir()
    shutil.copy(tests / "answers.csv", submission.parent)
    leave(submission)
    harbor_grader.main(tests, submission, logs)
    assert (logs / "reward.txt").read_text() == "-10.0\n"
    assert json.loads((logs / "score.json").read_text())["error"]


def test_rewards_are_bounded_below():
    smaller, bounded = Reward(0.0, -1.0, lowest=-9.0, invalid=-10.0), Reward(0.6, 0.8, lowest=0.0, invalid=-1.0)
    values = (2.5, 40_000.0, None, 0.0)
    rewards = [smaller.of(Score(value, valid=value is not None)) for value in values]
    assert list(map(str, rewards)) == ["-2.5", "-9.0", "-10.0", "0.0"]
    rewards = [bounded.of(Score(value, valid=True)) for value in (0.5, 0.6, 0.7, 0.8, 0.82)]
    assert rewards == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.1])


# --- What lies where


def test_answers_lie_in_tests_alone(exported):
    for name, task in exported[0].items():
        answers = (task / "tests/answers.csv").read_bytes()
        elsewhere = {path: content for path, content in read_files(task).items() if not path.startswith("tests/")}
        assert not [path for path, content in elsewhere.items() if answers in content]
        if name != "houses":
            competition = load_competition(name)
            assert answers == competition.answers.read_bytes()
            assert read_files(task / "environment/input") == read_files(competition.public_dir)
        others = {path for path in elsewhere if not path.startswith("environment/input/")}
        solution = {"solution/solve.sh", "solution/solution.py"} if name.startswith("task:") else set()
        assert others == {"task.toml", "instruction.md", "environment/Dockerfile"} | solution


def test_the_configuration_and_the_instruction(exported):
    tasks, _ = exported
    config = tomllib.loads((tasks["task:train/0"] / "task.toml").read_text())
    floor, ceiling = score_range(load_competition("task:train/0"))
    assert config["artifacts"] == ["/home/user/submission.csv"]
    assert (config["task"]["name"], config["task"]["description"]) == ("trl-mle/task-train-0", "task:train/0")
    names = ("metric", "reward_zero", "reward_one", "reward_lowest", "reward_invalid")
    assert [config["metadata"][name] for name in names] == ["log_loss", floor, ceiling, 0.0, -1.0]
    assert config["verifier"] == {"environment_mode": "separate", "user": "root", "timeout_sec": 600.0}
    assert config["agent"] == {"user": "user", "timeout_sec": 900.0}
    assert (config["environment"]["cpus"], config["environment"]["memory_mb"]) == (2, 2048)
    assert tomllib.loads((tasks["houses"] / "task.toml").read_text())["metadata"]["reward_one"] == -1.0
    text = (tasks["digits"] / "instruction.md").read_text()
    assert text.startswith(load_competition("digits").description.strip())
    for part in ("/home/user/submission.csv", "Predictions lie in [0, 1] and sum to 1", "15 minutes, 2 CPU core(s)"):
        assert part in text


def test_trl_loads_the_tasks_and_uploads_every_table_of_the_image(exported):
    """To a sandbox whose image lacks the copied files."""
    tasks, folder = exported
    rows = HarborSpec(str(folder)).train_dataset
    assert sorted(rows["task_dir"]) == sorted(map(str, tasks.values()))
    assert rows["prompt"][0] == [{"role": "user", "content": ""}]  # `reset` adds the instruction
    task = tasks["mirror:plant-pathology-2020-fgvc7?rows=60"]
    staged, uploaded = {}, {}

    async def upload_file(source, target):
        staged[target] = source.read_bytes()

    async def execute(command, user=None):
        source, target = command.split()[-2:]
        uploaded[target] = staged[source]

    environment = HarborBashEnv()
    environment._task = SimpleNamespace(paths=SimpleNamespace(environment_dir=task / "environment"))
    environment._env = SimpleNamespace(upload_file=upload_file, exec=execute)
    asyncio.run(environment._upload_build_files())
    environment._env = None
    tables = [path for path in (task / "environment/input").iterdir() if path.is_file()]
    assert uploaded == {f"/home/user/input/{path.name}": path.read_bytes() for path in tables}
    assert "COPY input/images/ /home/user/input/images/\n" in (task / "environment/Dockerfile").read_text()


def test_any_name_of_a_file_is_copied_and_what_was_private_here_can_be_read(tmp_path):
    competition = make(tmp_path / "own", "own")
    (competition.public_dir / "more data.csv").write_text("a\n1\n")
    (competition.public_dir / "more data.csv").chmod(0o600)
    (task,) = export_harbor(TaskSet([competition]), tmp_path / "harbor")
    assert {path.stat().st_mode & 0o777 for path in (task / "environment/input").iterdir()} == {0o644}
    copied = [line for line in (task / "environment/Dockerfile").read_text().splitlines() if line.startswith("COPY")]
    assert copied == ["COPY input/ /home/user/input/"]


# --- Metrics of a user's own


def test_a_metric_of_ones_own_travels_with_its_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_travelling_metrics.py").write_text(
        "from trl_mle.competitions.metrics import Metric\n"
        "def worst(y_true, y_pred):\n    return float((y_true - y_pred).abs().to_numpy().max())\n"
        "my_worst = Metric(worst, higher_is_better=False)\n"
    )
    names = ["my_travelling_metrics.worst", "my_travelling_metrics.my_worst", "sklearn.metrics.max_error"]
    competitions = []
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        make(folder, answers=right_answers("mae").assign(y0=lambda rows: 100 * rows["y0"]))
        direction = "" if "my_worst" in name else "higher_is_better: false\n"
        (folder / "competition.yaml").write_text(f"id: own-{number}\nmetric: {name}\nid_column: id\n{direction}")
        competitions.append(load_competition(str(folder)))
    tasks = export_harbor(TaskSet(competitions), tmp_path / "harbor")
    assert [(task / "tests/my_travelling_metrics.py").exists() for task in tasks] == [True, True, False]
    pairs = zip(tasks, competitions, strict=True)
    results, _ = grade_elsewhere([[task / "tests", item.sample_submission] for task, item in pairs])
    expected = [item.grade(item.sample_submission) for item in competitions]
    assert results == [(score, -9.0) for score in expected]
    assert all(score.value > 9 for score in expected)


# --- What is refused


def test_a_metric_of_another_package_is_refused(tmp_path, monkeypatch):
    make(tmp_path / "own")
    config = "metric: my_package.metrics.error\nid_column: id\nhigher_is_better: false\n"
    module = "def error(y_true, y_pred):\n    return 0.5\n"
    write_files(tmp_path, {"own/competition.yaml": config, "my_package/metrics.py": module})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CompetitionError, match="into one file"):
        export_harbor(TaskSet([str(tmp_path / "own")]), tmp_path / "harbor")
    assert not (tmp_path / "harbor").exists()  # nor half of it
    assert not list(tmp_path.glob(".harbor*"))


def test_ids_that_make_no_names_are_refused_and_odd_ones_make_some(tmp_path):
    same = [make(tmp_path / name, name) for name in ("a..b", "a.b")]
    with pytest.raises(CompetitionError, match="differ in dots alone"):
        export_harbor(TaskSet(same), tmp_path / "harbor")
    odd = make(tmp_path / "odd", '_the "first"..one\x7f/ü')
    (task,) = export_harbor(TaskSet([odd]), tmp_path / "harbor")
    config = tomllib.loads((task / "task.toml").read_text(encoding="utf-8"))
    assert config["task"]["name"] == "trl-mle/the-first-.one"
    assert config["metadata"]["competition"] == config["task"]["description"] == odd.id


def test_a_folder_that_exists_is_refused(tmp_path):
    with pytest.raises(FileExistsError, match=f"{tmp_path} exists"):
        export_harbor(TaskSet(["wine"]), tmp_path)
    assert not list(tmp_path.iterdir())
