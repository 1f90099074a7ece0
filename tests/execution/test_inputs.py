import hashlib
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor, SandboxError
from trl_mle.execution.sandbox import inputs
from trl_mle.execution.sandbox.bubblewrap import Bubblewrap
from trl_mle.execution.sandbox.inputs import Inputs
from trl_mle.execution.sandbox.interpreter import find_interpreter
from trl_mle.execution.sandbox.tier import INPUT


def make(tmp_path: Path) -> Inputs:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    return Inputs(run_dir, Bubblewrap(), find_interpreter())


def public(tmp_path: Path, name: str, text: str = "x\n") -> Path:
    folder = tmp_path / name
    (folder / "images").mkdir(parents=True)
    (folder / "train.csv").write_text(text)
    (folder / "images" / "1.txt").write_text(name)
    return folder


def test_programs_of_many_competitions_have_one_warm_parent_and_each_its_own_data():
    tasks = [load_competition(name) for name in ("wine", "digits", "diabetes", "breast-cancer")]
    program = "import hashlib; print(hashlib.sha256(open('input/train.csv', 'rb').read()).hexdigest())"
    with LocalExecutor(max_parallel=2, timeout_s=60, packages=()) as executor:
        results = executor.run_many([(program, task) for task in tasks])
        assert len(executor._runner.warm_parents._running) == 1
        assert not os.listdir(executor._runner.inputs._copies)
    expected = [hashlib.sha256((task.public_dir / "train.csv").read_bytes()).hexdigest() for task in tasks]
    assert [result.stdout.strip() for result in results] == expected


def test_a_copy_is_readable_for_the_sandbox_and_out_of_reach_for_others(tmp_path):
    made, folder = make(tmp_path), public(tmp_path, "a")
    for path in (folder / "train.csv", folder / "images", folder):
        path.chmod(0o700)
    os.utime(folder / "train.csv", (1, 1))
    with made.use(folder) as input_:
        copy = input_.folder
        assert input_.job["input"] == f"{INPUT}/{copy.name}"
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (copy, *copy.rglob("*"))}
        assert modes == {copy.name: 0o755, "images": 0o755, "train.csv": 0o644, "1.txt": 0o644}
        assert ((copy / "train.csv").read_text(), (copy / "train.csv").stat().st_mtime) == ("x\n", 1)
        assert (copy / "images" / "1.txt").read_text() == "a"
        assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o711
        assert stat.S_IMODE(copy.parents[1].stat().st_mode) == 0o700
        (folder / "train.csv").unlink()  # has no effect on this program
        assert (copy / "train.csv").read_text() == "x\n"
    with pytest.raises(SandboxError, match=f"^the files of {folder}"), made.use(folder):
        pass


@pytest.mark.parametrize("large", ["size", "entries", "link", "disk"])
def test_a_folder_that_is_large_or_has_links_is_bound_itself(tmp_path, monkeypatch, large):
    made, folder = make(tmp_path), public(tmp_path, "a")
    if large == "size":
        monkeypatch.setattr(inputs, "MAX_COPIED_MB", 1)
        (folder / "train.csv").write_bytes(bytes((1 << 20) + 1))
    elif large == "entries":
        monkeypatch.setattr(inputs, "MAX_COPIED_ENTRIES", 2)
    elif large == "link":
        (folder / "images" / "2.txt").symlink_to("1.txt")
    else:
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4))
    with made.use(folder) as input_:
        assert (input_.folder, input_.bound, input_.job["input"]) == (folder, folder, INPUT)
    assert not os.listdir(made._copies)
