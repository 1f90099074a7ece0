"""Many competitions as one lazy collection."""

import json
import os
import pickle
import subprocess
import sys

import pandas as pd
import pytest
from support.hub_server import TOKEN, HubServer
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


def test_one_name_or_path(tmp_path):
    assert list(TaskSet("digits")) == ["digits"]
    assert list(TaskSet([write_task(tmp_path / "houses", "houses"), "digits"])) == ["houses", "digits"]


@pytest.mark.parametrize("name", ["task:train/5-4", "task:test/0-99999999999"])
def test_a_range_that_cannot_be_meant_is_refused(name):
    with pytest.raises(CompetitionError, match="must count up"):
        TaskSet([name])


def test_a_folder_of_folders(tmp_path):
    for name in ("b", "a"):
        write_task(tmp_path / name)
    write_task(tmp_path / "c", name="sea")
    (tmp_path / "notes").mkdir()
    tasks = TaskSet([str(tmp_path)])
    assert list(tasks) == [str(tmp_path / "a"), str(tmp_path / "b"), "sea"]
    assert [tasks[name].id for name in tasks] == list(tasks)


def test_a_folder_called_like_one_of_ours(tmp_path, monkeypatch):
    write_task(tmp_path / "wine")
    monkeypatch.chdir(tmp_path)
    assert "./wine" in TaskSet(["."])


def test_two_of_one_name_are_refused_and_one_named_twice_counts_once(tmp_path):
    for name in ("a", "b"):
        write_task(tmp_path / name, name="same")
    with pytest.raises(CompetitionError, match="are both called 'same': rename one"):
        TaskSet([str(tmp_path)])
    assert list(TaskSet(["digits", "wine", "digits"])) == ["digits", "wine"]


def test_some_can_be_left_out(tmp_path):
    for name in ("a", "b"):
        write_task(tmp_path / name)
    write_task(tmp_path / "c", name="sea")
    names = [
        "task:train/0-3",
        "without:task:train/1-2",
        str(tmp_path),
        "without:sea",
        f"without:{tmp_path}/a",
        "without:./b",
    ]
    with pytest.raises(CompetitionError, match=r"^without:\./b leaves out '\./b', which is not among the others$"):
        TaskSet(names)
    assert list(TaskSet(names[:-1])) == ["task:train/0", "task:train/3", f"{tmp_path}/b"]
    assert TaskSet(["without:wine", "wine", "digits"]).few() == ["digits"]
    tasks = TaskSet(["task:train/0-9", "without:task:train/3"])
    message = r"to go on without it, add without:task:train/9 to the competitions$"
    with pytest.raises(CompetitionError, match=message), tasks.blaming("task:train/9"):
        raise ValueError("broken")


def test_two_that_would_share_their_files_are_refused(tmp_path):
    for name in ("a b", "a-b"):
        write_task(tmp_path / name, name=name)
    with pytest.raises(CompetitionError, match=r"^'a b' and 'a-b' would share the file name 'a-b': rename one$"):
        TaskSet([str(tmp_path)])


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
    with pytest.raises(CompetitionError, match=r"the answers of '.*bad' .* cannot be graded: ") as error:
        tasks[str(bad)]
    assert str(error.value).endswith(f"; to go on without it, add without:{bad} to the competitions")
    with pytest.raises(CompetitionError, match=f"^'{bad}': no room; to go on"), tasks.blaming(str(bad)):
        raise OSError("no room")
    with pytest.raises(
        CompetitionError, match=r"did you mean 'digits' or 'diabetes'\?$"
    ):  # alone, it is easily taken out
        TaskSet(["digts"])["digts"]


def test_a_task_set_pickles_without_what_it_has_loaded():
    tasks = TaskSet(["task:train/0-4999"])
    before = len(pickle.dumps(tasks))
    assert tasks["task:train/1"] == pickle.loads(pickle.dumps(tasks))["task:train/1"]
    assert len(pickle.dumps(tasks)) == before


def test_few_are_all_or_evenly_spread():
    assert TaskSet(["digits", "wine"]).few() == ["digits", "wine"]
    few = TaskSet(["task:train/0-6399"]).few()
    assert few == [f"task:train/{200 * i}" for i in range(32)]
    listed = TaskSet([f"task:train/{i}" for i in range(64)]).few()
    assert listed == [f"task:train/{2 * i}" for i in range(32)]


def test_few_begin_with_those_that_were_named_one_by_one():
    """A name that is wrong is reported at the start, also behind a range."""
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

asked, run_for = json.loads(sys.argv[1])
print(json.dumps([*(ask(*names) for names in asked), run(run_for)]))
"""
TASKS = "hf://datasets/org/tasks"
MADE = "hf://datasets/org/made"
ONE = "hf://datasets/org/one"
CODE = "hf://datasets/org/code"


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
    for name in ("tasks", "made"):
        root = folder / name
        server.branches[f"datasets/org/{name}", "main"] = {
            str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }
    server.branches["datasets/org/empty", "main"] = {"README.md": b""}
    task = folder / "tasks" / "two"
    server.branches["datasets/org/one", "main"] = {
        str(path.relative_to(task)): path.read_bytes() for path in task.rglob("*") if path.is_file()
    }
    write_task(folder / "code" / "one", metric="shutil.rmtree")
    code = folder / "code"
    server.branches["datasets/org/code", "main"] = {
        str(path.relative_to(code)): path.read_bytes() for path in code.rglob("*") if path.is_file()
    }
    environment = os.environ | {
        "HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": TOKEN,
        "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "0",
    }  # fmt: skip
    asked = [
        [TASKS, f"{TASKS}/two"], [MADE, f"{MADE}/own"], ["hf://datasets/org/empty"], ["hf://datasets/org/nothing"],
        ["hf://datasets/org"], [ONE, ONE], [CODE, f"{CODE}/one"], [f"{TASKS}/two"],
    ]  # fmt: skip
    command = [sys.executable, "-c", ASK, json.dumps([asked, f"{TASKS}/one"])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    server.close()
    assert done.returncode == 0, done.stderr
    seen = dict(zip([names[0] for names in asked[:-1]] + ["one", "run"], json.loads(done.stdout), strict=True))
    return server, seen | {"score": made.grade(made.sample_submission).value}


def test_tasks_of_a_dataset_on_the_hub_are_downloaded_one_by_one(hub):
    server, seen = hub
    ids, loaded = seen[TASKS]
    assert ids == [f"{TASKS}/{name}" for name in ("one", "three", "two")]
    assert loaded == [[f"{TASKS}/two", 0.5]]
    assert not any(path.startswith("three/") for path in server.downloads)
    assert seen["one"] == [[f"{TASKS}/two"], []]


def test_a_repository_can_be_one_task(hub):
    assert hub[1][ONE] == [[ONE], [[ONE, 0.5]]]


def test_programs_can_read_what_was_downloaded(hub):
    """The Hub's cache holds links, whose targets programs do not see."""
    assert hub[1]["run"] == ["id,y\n1,a\n2,b\n\n", ""]


def test_a_dataset_does_not_choose_what_is_imported(hub):
    assert "/one' has a metric of its author's own, which is code: if you trust it, download" in hub[1][CODE]


def test_a_folder_that_new_has_made_is_a_task_on_the_hub(hub):
    _, seen = hub
    ids, [[name, score]] = seen[MADE]
    assert ids == [name] == [f"{MADE}/own"]
    assert score == seen["score"]


def test_what_the_hub_lacks_is_refused_in_one_line(hub):
    _, seen = hub
    assert seen["hf://datasets/org/empty"].endswith(
        "has no folder with a competition.yaml, next to public/ and private/"
    )
    assert seen["hf://datasets/org"].endswith("write hf://datasets/<owner>/<name>")
    assert seen["hf://datasets/org/nothing"].startswith("'hf://datasets/org/nothing' cannot be read from the Hub: 404")
    assert "\n" not in seen["hf://datasets/org/nothing"]


def test_a_sample_submission_with_other_rows(tmp_path):
    """Every submission that follows it would be invalid."""
    folder = write_task(tmp_path / "own", name="own")
    for sample, why in (
        ("id,y\n3,a\n", "it has 1 rows, and the answers have 2"),
        ("id,y\n3,a\n5,a\n", "1 of 2 ids are not in the test set: 5"),
    ):
        (folder / "public/sample_submission.csv").write_text(sample)
        with pytest.raises(CompetitionError, match=f"of 'own', .* does not fit the answers: {why}"):
            TaskSet([str(folder)])["own"]
