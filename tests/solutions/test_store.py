import multiprocessing
import os
import pickle
import signal
import sqlite3
from pathlib import Path

import pytest

from trl_mle.solutions import ResultStore, open_results, result_key
from trl_mle.solutions.store import CHECKED


def test_the_first_value_of_a_key_stays(tmp_path):
    store = ResultStore(tmp_path / "new" / "results.sqlite")
    assert store.find("a") == (None, False)
    assert list(tmp_path.iterdir()) == []  # nothing is created before the first result
    store.add("a", {"reward": 0.1, "output": "\udc80 é"})
    store.add("a", {"reward": 0.2})
    others = [ResultStore(store.path), pickle.loads(pickle.dumps(store))]
    assert all(one.find("a")[0] == {"reward": 0.1, "output": "\udc80 é"} for one in (store, *others))
    assert store.find("b") == (None, False)


def test_a_fixed_share_of_repeats_is_checked(tmp_path):
    store = ResultStore(tmp_path / "results.sqlite")
    keys = [f"key {i}" for i in range(10)]
    for key in keys:
        store.add(key, {})
    asked = [[store.find(key)[1] for _ in range(40)] for key in keys]
    assert 400 / CHECKED / 2 < sum(map(sum, asked)) < 400 / CHECKED * 2
    again = ResultStore(store.path)
    assert [[again.find(key)[1] for _ in range(40)] for key in keys] == asked


def test_what_cannot_be_a_store_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("no database at all " * 100)
    (tmp_path / "empty").touch()
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE results (x)")
    connection.close()
    for path, problem in (
        (tmp_path, "it is a folder"),
        (tmp_path / "notes.txt", "file is not a database"),
        (tmp_path / "other.sqlite", "it is a database of something else"),
        (tmp_path / "notes.txt" / "results.sqlite", "Not a directory"),
        (Path("/proc/results.sqlite"), "No such file or directory"),
    ):
        with pytest.raises(OSError, match=f"^{path} cannot be a store of results: {problem}$"):
            ResultStore(path)
    ResultStore(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"reuse_results must be `run` or the path of a file, got True"):
        open_results(True, tmp_path)


def test_the_option_names_a_file_or_the_run(tmp_path):
    assert open_results(None, tmp_path) is None
    assert open_results("run", tmp_path).path == tmp_path / "results.sqlite"
    assert open_results(str(tmp_path / "shared"), Path("policy")).path == tmp_path / "shared"


def test_a_store_that_breaks_later_only_warns(tmp_path, caplog):
    store = ResultStore(tmp_path / "results.sqlite")
    store.path.mkdir()
    store.add("a", {})
    assert store.find("a") == (None, False)
    assert "could not be stored" in caplog.text
    assert "could not be read" in caplog.text


def write(path, name, count, told):
    store = ResultStore(path)
    for number in range(count):
        store.add(f"{name} {number}", {"by": name, "text": "x" * 2000})
        store.add(f"shared {number}", {"by": name})
        os.write(told, b".")


def test_several_processes_write_and_one_is_killed(tmp_path):
    path, context = tmp_path / "results.sqlite", multiprocessing.get_context("fork")
    done, told = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    killed = context.Process(target=write, args=(path, "killed", 10**6, told))
    others = [context.Process(target=write, args=(path, name, 30, null)) for name in "ab"]
    for process in (killed, *others):
        process.start()
    for _ in range(10):
        assert os.read(done, 1)  # most likely in the middle of a write
    os.kill(killed.pid, signal.SIGKILL)
    for process in (killed, *others):
        process.join()
    assert [process.exitcode for process in others] == [0, 0]
    store = ResultStore(path)
    for name, count in (("a", 30), ("b", 30), ("killed", 10)):
        assert all(store.find(f"{name} {i}")[0] == {"by": name, "text": "x" * 2000} for i in range(count))
    assert all(store.find(f"shared {i}")[0]["by"] in ("a", "b", "killed") for i in range(30))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    for fd in (done, told, null):
        os.close(fd)


def test_a_key_says_all_that_it_depends_on():
    assert result_key(a=1, b=[2]) == result_key(b=[2], a=1) != result_key(a=1, b=[3])
