"""Many competitions as one lazy collection."""

import json
import os
import pickle
import subprocess
import sys

import pandas as pd
import pytest
from support.hub_server import TOKEN, HubServer
from support.packages import read_files
from support.prepared_folders import write_task

from trl_mle.competitions import CompetitionError, TaskSet, load_competition, task_set
from trl_mle.competitions.own import new_competition


# --- Names of many


def test_a_range_of_generated_tasks_is_loaded_one_by_one(monkeypatch):
    loaded = []
    monkeypatch.setattr(
        task_set, "load_competition", lambda name, *rest: loaded.append(name) or load_competition(name, *rest)
    )
    tasks = TaskSet(["digits", "task:train/0-4999"])
    assert len(tasks) == 5001
    assert list(tasks)[:3] == ["digits", "task:train/0", "task:train/1"]
    assert "task:train/4999" in tasks
    assert "task:train/5000" not in tasks
    assert not loaded
    assert tasks["task:train/4999"].id == "task:train/4999"
    assert tasks["task:train/4999"] is tasks["task:train/4999"]
    assert loaded == ["task:train/4999"]


def test_names(tmp_path, monkeypatch):
    assert list(TaskSet("digits")) == ["digits"]
    assert list(TaskSet(["digits", "wine", "digits"])) == ["digits", "wine"]
    for name in ("b", "a", "wine"):
        write_task(tmp_path / name)
    sea = write_task(tmp_path / "c", name="sea")
    (tmp_path / "notes").mkdir()
    assert list(TaskSet([sea, "digits"])) == ["sea", "digits"]
    tasks = TaskSet([str(tmp_path)])
    assert list(tasks) == [f"{tmp_path}/a", f"{tmp_path}/b", "sea", f"{tmp_path}/wine"]
    assert [tasks[name].id for name in tasks] == list(tasks)
    monkeypatch.chdir(tmp_path)
    assert "./wine" in TaskSet(["."])  # not ours


def test_names_that_cannot_be_meant_are_refused(tmp_path):
    for name in ("task:train/5-4", "task:test/0-99999999999"):
        with pytest.raises(CompetitionError, match="must count up"):
            TaskSet([name])
    for name in ("a b", "a-b"):  # their files would have one name
        write_task(tmp_path / name, name=name)
    with pytest.raises(CompetitionError, match="would share the file name 'a-b'"):
        TaskSet([str(tmp_path)])
    write_task(tmp_path / "c", name="a b")
    with pytest.raises(CompetitionError, match="are both called 'a b'"):
        TaskSet([str(tmp_path)])


def test_some_can_be_left_out(tmp_path):
    for name in ("a", "b"):
        write_task(tmp_path / name)
    write_task(tmp_path / "c", name="sea")
    names = ["task:train/0-3", "without:task:train/1-2", str(tmp_path), "without:sea", f"without:{tmp_path}/a"]
    with pytest.raises(CompetitionError, match=r"leaves out '\./b', which is not among the others$"):
        TaskSet([*names, "without:./b"])
    assert list(TaskSet(names)) == ["task:train/0", "task:train/3", f"{tmp_path}/b"]
    assert TaskSet(["without:wine", "wine", "digits"]).few() == ["digits"]


# --- What is kept


def test_loaded_competitions_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(task_set, "KEPT", 2)
    tasks = TaskSet(["task:train/0-9"])
    first = tasks["task:train/0"]
    assert tasks["task:train/1"] is not None
    assert tasks["task:train/0"] is first
    assert tasks["task:train/2"] is not None
    assert tasks["task:train/3"] is not None
    again = tasks["task:train/0"]
    assert again is not first
    assert again == first


def test_the_holdout_holds_for_all_and_is_known_before_they_are_loaded():
    tasks = TaskSet(["task:train/0-99", load_competition("wine")], holdout=0.5)
    assert tasks.holdout("task:train/7") == 0.5
    assert tasks.holdout("wine") == 0.0
    assert tasks["task:train/7"].holdout == 0.5


def test_what_is_wrong_with_one_of_many_names_it_and_a_way_on(tmp_path):
    write_task(tmp_path / "good")
    bad = write_task(tmp_path / "bad")
    (bad / "private" / "test.csv").write_text("id\n3\n")
    tasks = TaskSet([str(tmp_path)])
    assert tasks[str(tmp_path / "good")].metric == "accuracy"
    way_on = f"; to go on without it, add without:{bad} to the competitions$"
    with pytest.raises(CompetitionError, match=f"'{bad}' .* cannot be graded: .*{way_on}"):
        tasks[str(bad)]
    with pytest.raises(CompetitionError, match=f"^'{bad}': no room{way_on}"), tasks.blaming(str(bad)):
        raise OSError("no room")
    with pytest.raises(CompetitionError, match=r"did you mean 'digits' or 'diabetes'\?$"):  # alone: easily taken out
        TaskSet(["digts"])["digts"]
    for sample in ("id,y\n3,a\n", "id,y\n3,a\n5,a\n"):  # every submission that follows it would be invalid
        (tmp_path / "good/public/sample_submission.csv").write_text(sample)
        with pytest.raises(CompetitionError, match="does not fit the answers"):
            TaskSet([str(tmp_path / "good")])[str(tmp_path / "good")]


def test_a_task_set_pickles_without_what_it_has_loaded():
    tasks = TaskSet(["task:train/0-4999"])
    before = len(pickle.dumps(tasks))
    assert tasks["task:train/1"] == pickle.loads(pickle.dumps(tasks))["task:train/1"]
    assert len(pickle.dumps(tasks)) == before


def test_few_are_all_or_evenly_spread_after_those_named_one_by_one():
    """A name that is wrong is reported at the start, also behind a range."""
    assert TaskSet(["digits", "wine"]).few() == ["digits", "wine"]
    assert TaskSet([f"task:train/{i}" for i in range(64)]).few() == [f"task:train/{2 * i}" for i in range(32)]
    few = TaskSet(["task:train/0-2999", "./no-such-folder", load_competition("wine")]).few()
    assert few == ["./no-such-folder", "wine", *(f"task:train/{100 * i}" for i in range(30))]


# --- The Hub

ASK = """
import json, sys
from trl_mle.competitions import CompetitionError, TaskSet, load_competition
from trl_mle.execution import LocalExecutor

def ask(name, *ids):
    try:
        tasks = TaskSet([name])
        loaded = [tasks[one] for one in ids]
        return [list(tasks), [[one.id, one.grade(one.sample_submission).value] for one in loaded]]
    except CompetitionError as error:
        return str(error)

def run(name):
    with LocalExecutor(max_parallel=1) as executor:
        [result] = executor.run_many([("print(open('input/train.csv').read())", load_competition(name))])
    return result.stdout, result.stderr

requests, run_for = json.loads(sys.argv[1])
print(json.dumps([*(ask(*names) for names in requests), run(run_for)]))
"""
HUB = "hf://datasets/org/"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Repositories with tasks, and what a process that reads them sees: `huggingface_hub` has the address from its import."""
    folder, server = tmp_path_factory.mktemp("hub"), HubServer()
    for name in ("one", "two", "three"):
        write_task(folder / "tasks" / name, name="any")
    table = pd.DataFrame({"id": range(60), "x": range(60), "y": [i % 2 for i in range(60)]})
    table.to_csv(folder / "table.csv", index=False)
    (folder / "made").mkdir()
    made = new_competition(folder / "table.csv", ["y"], "accuracy", folder / "made" / "own")
    write_task(folder / "code" / "one", metric="shutil.rmtree")
    for name, root in {"tasks": "tasks", "made": "made", "one": "tasks/two", "code": "code"}.items():
        server.branches[f"datasets/org/{name}", "main"] = read_files(folder / root)
    server.branches["datasets/org/empty", "main"] = {"README.md": b""}
    environment = os.environ | {
        "HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": TOKEN,
        "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "0",
    }  # fmt: skip
    loaded = {"tasks": ["tasks/two"], "made": ["made/own"], "one": ["one"], "code": ["code/one"]}
    loaded |= {name: [] for name in ("empty", "nothing", "tasks/two")}
    requests = [[HUB + name, *(HUB + task for task in tasks)] for name, tasks in loaded.items()]
    command = [sys.executable, "-c", ASK, json.dumps([[*requests, [HUB.rstrip("/")]], f"{HUB}tasks/one"])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    server.close()
    assert done.returncode == 0, done.stderr
    seen = dict(zip([*loaded, "owner", "run"], json.loads(done.stdout), strict=True))
    return server, seen, made.grade(made.sample_submission).value


def test_tasks_of_a_dataset_on_the_hub_are_downloaded_one_by_one(hub):
    server, seen, score = hub
    ids, loaded = seen["tasks"]
    assert ids == [f"{HUB}tasks/{name}" for name in ("one", "three", "two")]
    assert loaded == [[f"{HUB}tasks/two", 0.5]]
    assert not any(path.startswith("three/") for path in server.downloads)
    assert seen["tasks/two"] == [[f"{HUB}tasks/two"], []]
    assert seen["one"] == [[f"{HUB}one"], [[f"{HUB}one", 0.5]]]  # a repository can be one task
    assert seen["made"] == [[f"{HUB}made/own"], [[f"{HUB}made/own", score]]]
    # Programs can read it: the Hub's cache holds links, whose targets they do not see
    assert seen["run"] == ["id,y\n1,a\n2,b\n\n", ""]


def test_a_dataset_does_not_choose_what_is_imported(hub):
    assert "/one' has a metric of its author's own, which is code: if you trust it, download" in hub[1]["code"]


def test_what_the_hub_lacks_is_refused_in_one_line(hub):
    _, seen, _ = hub
    assert "has no folder with a competition.yaml" in seen["empty"]
    assert seen["owner"].endswith("write hf://datasets/<owner>/<name>")
    assert seen["nothing"].startswith("'hf://datasets/org/nothing' cannot be read from the Hub: 404")
    assert "\n" not in seen["nothing"]
