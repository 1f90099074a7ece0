import json
from types import SimpleNamespace

import pytest
from support.prepared_folders import write_task
from transformers import TrainerState

from trl_mle.competitions import TaskSet
from trl_mle.launching.checks import check_no_other_run, check_same_run, one_line_errors


@pytest.mark.parametrize(("rank", "once", "said"), [("0", True, True), ("1", True, False), ("1", False, True)])
def test_a_problem_that_only_one_process_has_is_printed_by_it(rank, once, said, monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(SystemExit) as ended, one_line_errors("training has stopped", once=once):
        raise ValueError("the answers of 'houses'\ncannot be graded")
    assert ended.value.code == 2
    line = "error: training has stopped: the answers of 'houses' cannot be graded\n"
    assert capsys.readouterr().err.endswith(line) is said
    with pytest.raises(RuntimeError), one_line_errors():  # an error of ours keeps its traceback
        raise RuntimeError("no upload")


def checkpoint(folder, step, whole=True):
    folder.mkdir(parents=True)
    if whole:  # or it was not written to its end
        TrainerState(global_step=step).save_to_json(str(folder / "trainer_state.json"))
        (folder / "rng_state.pth").touch()


def test_a_run_does_not_begin_in_the_folder_of_another(tmp_path):
    check_no_other_run(tmp_path / "absent", None)
    (tmp_path / "executions").mkdir()  # it was killed in its first step
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "ended": false}\n')
    check_no_other_run(tmp_path, None)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward": -10}\n')
    with pytest.raises(FileExistsError, match=r"holds metrics.jsonl: delete it"):
        check_no_other_run(tmp_path, None)
    for name in ("checkpoint-8", "checkpoint-12", "checkpoint-16", "checkpoint-best-1"):
        checkpoint(tmp_path / name, int(name.rpartition("-")[2]), whole=name != "checkpoint-16")
    with pytest.raises(FileExistsError, match=r"holds checkpoint-12: resume it with resume_from_checkpoint: true"):
        check_no_other_run(tmp_path, None)
    check_no_other_run(tmp_path, str(tmp_path / "executions" / ".." / "checkpoint-12"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    with pytest.raises(FileExistsError, match=r"holds config.json: .* name another output_dir"):
        check_no_other_run(tmp_path / "model", None)
    for earlier in "checkpoint-8", "checkpoint-best-1":
        with pytest.raises(FileExistsError, match=r"later checkpoints \(checkpoint-12.*\): delete them"):
            check_no_other_run(tmp_path, str(tmp_path / earlier))
    with pytest.raises(FileExistsError, match=r"output_dir .* holds"):
        check_no_other_run(tmp_path, str(tmp_path.parent / "other" / "checkpoint-8"))


def test_a_run_is_resumed_with_its_own_tasks_and_objective(tmp_path, monkeypatch):
    for name in ("barns", "houses"):
        write_task(tmp_path / "tasks" / name, name)
    monkeypatch.chdir(tmp_path)
    checkpoint(tmp_path / "run" / "checkpoint-4", 4)
    now = {"holdout": 0.5, "fail_reward": -10.0, "milestone_reward": 0.1, "begin_program": True, "max_steps": 4}
    now |= {"objective": "max_at_k", "max_at_k": 8, "ideas": "none"}

    def resume(competitions, **changes):
        args = SimpleNamespace(competitions=competitions, **now | changes)
        check_same_run("run/checkpoint-4", args, args, TaskSet(competitions))

    resume(["wine"])  # it does not say what it had
    with pytest.raises(ValueError, match="checkpoint-4 is beyond max_steps=3: raise"):
        resume(["wine"], max_steps=3)
    (tmp_path / "run" / "arguments.json").write_text(json.dumps(now | {"competitions": ["tasks"], "data_dir": None}))
    resume(["tasks"], max_steps=-1)
    resume(["tasks", "without:barns"])  # which may be broken
    with pytest.raises(ValueError, match=r"has competitions=\['tasks'\], not \['wine'\]: resume"):
        resume(["wine"])
    with pytest.raises(ValueError, match=r"has holdout=0\.5, not 0\.0, max_at_k=8, not 4: resume"):
        resume(["tasks"], holdout=0.0, max_at_k=4)
    check_same_run(None, None, None, TaskSet([]))
