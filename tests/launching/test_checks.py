import json
from types import SimpleNamespace

import pytest
from support.prepared_folders import write_task
from transformers import TrainerState

from trl_mle.competitions import TaskSet
from trl_mle.launching import check_no_other_run, check_same_run, one_line_errors


@pytest.mark.parametrize(("rank", "once", "said"), [("0", True, True), ("1", True, False), ("1", False, True)])
def test_a_problem_that_only_one_process_has_is_printed_by_it(rank, once, said, monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(SystemExit) as ended, one_line_errors("training has stopped", once=once):
        raise ValueError("the answers of 'houses'\ncannot be graded")
    assert ended.value.code == 2
    line = "error: training has stopped: the answers of 'houses' cannot be graded\n"
    assert capsys.readouterr().err.endswith(line) is said


def test_an_error_of_ours_keeps_its_traceback():
    for error in (KeyError("x"), RuntimeError("no upload")):
        with pytest.raises(type(error)), one_line_errors():
            raise error


def test_a_run_does_not_begin_in_the_folder_of_another(tmp_path):
    check_no_other_run(tmp_path / "absent", None)
    check_no_other_run(tmp_path, None)
    (tmp_path / "executions").mkdir()  # it was killed in its first step
    check_no_other_run(tmp_path, None)
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "ended": false}\n')
    check_no_other_run(tmp_path, None)
    (tmp_path / "metrics.jsonl").write_text(
        '{"ended": false}\n{"step": 1, "reward": -10}\n{"step": 2, "reward": -9}\n'
    )
    with pytest.raises(FileExistsError, match="holds a run without a complete checkpoint: delete it, or name another"):
        check_no_other_run(tmp_path, None)
    for name in ("checkpoint-8", "checkpoint-12", "checkpoint-16", "checkpoint-best-1"):
        (tmp_path / name).mkdir()
        if name != "checkpoint-16":  # it was not written to its end
            state = TrainerState(global_step=int(name.rpartition("-")[2]))
            state.save_to_json(str(tmp_path / name / "trainer_state.json"))
            (tmp_path / name / "rng_state.pth").touch()
    with pytest.raises(FileExistsError, match="holds a run with checkpoint-12: resume it with resume_from_checkpoint"):
        check_no_other_run(tmp_path, None)
    check_no_other_run(tmp_path, str(tmp_path / "executions" / ".." / "checkpoint-12"))
    for earlier in "checkpoint-8", "checkpoint-best-1":
        with pytest.raises(
            FileExistsError, match=r"later checkpoints \(checkpoint-12.*\): delete or move them, or name"
        ):
            check_no_other_run(tmp_path, str(tmp_path / earlier))
    with pytest.raises(FileExistsError, match="holds a run"):
        check_no_other_run(tmp_path, str(tmp_path.parent / "other" / "checkpoint-8"))


@pytest.mark.parametrize("name", ["config.json", "adapter_config.json", "README.md"])
def test_a_run_overwrites_no_model(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(
        FileExistsError, match=f"holds {name}, which training would overwrite: name another output_dir"
    ):
        check_no_other_run(tmp_path, None)


def test_a_run_is_resumed_with_its_own_tasks(tmp_path, monkeypatch):
    for name in ("barns", "houses"):
        write_task(tmp_path / "tasks" / name, name)
    monkeypatch.chdir(tmp_path)
    before = {"competitions": ["tasks"], "data_dir": None, "holdout": 0.5, "begin_program": True}
    (tmp_path / "run" / "checkpoint-4").mkdir(parents=True)
    TrainerState(global_step=4).save_to_json("run/checkpoint-4/trainer_state.json")

    def resume(competitions, holdout=0.5, begin_program=True, max_steps=4, objective="reward", max_at_k=None):
        args = SimpleNamespace(competitions=competitions, holdout=holdout, fail_reward=-10.0, milestone_reward=0.1)
        checkpoint, asked = "run/checkpoint-4", SimpleNamespace(begin_program=begin_program, max_steps=max_steps)
        asked.objective, asked.max_at_k, asked.ideas = objective, max_at_k, "none"
        check_same_run(checkpoint, args, asked, TaskSet(competitions))

    resume(["wine"])  # it does not say what it had
    resume(["wine"], max_steps=-1)
    with pytest.raises(ValueError, match="checkpoint-4 is beyond max_steps=3, and nothing would be trained: raise"):
        resume(["wine"], max_steps=3)
    (tmp_path / "run" / "arguments.json").write_text(json.dumps(before))
    resume(["tasks"])
    resume([str(tmp_path / "tasks")])
    resume(["./tasks/houses", "tasks/barns"])
    resume(["tasks", "without:barns"])  # which may be broken
    with pytest.raises(
        ValueError, match=r"run of run/checkpoint-4 has competitions=\['tasks'\], not \['wine'\]: resume"
    ):
        resume(["wine"])
    with pytest.raises(ValueError, match=r"has holdout=0\.5, not 0\.0, begin_program=True, not False: resume"):
        resume([str(tmp_path / "tasks")], 0.0, False)
    check_same_run(None, None, None, TaskSet([]))
    (tmp_path / "run" / "arguments.json").write_text(
        json.dumps(before | {"objective": "max_at_k", "max_at_k": 8, "fail_reward": -10.0, "milestone_reward": 0.1})
    )
    resume(["tasks"], objective="max_at_k", max_at_k=8)
    with pytest.raises(ValueError, match=r"has objective=max_at_k, not mean_rank"):
        resume(["tasks"], objective="mean_rank")
    with pytest.raises(ValueError, match=r"has max_at_k=8, not 4: resume it with the same"):
        resume(["tasks"], objective="max_at_k", max_at_k=4)
    config = tmp_path / "tasks" / "houses" / "competition.yaml"
    config.write_text(f"id: houses\n{config.read_text()}")
    (tmp_path / "run" / "arguments.json").write_text(json.dumps(before | {"competitions": ["./elsewhere/houses"]}))
    resume(["tasks/houses"])
    for text in "", "[]":
        (tmp_path / "run" / "arguments.json").write_text(text)
        with pytest.raises(ValueError, match=r"^run/arguments\.json cannot be read: "):
            resume(["tasks"])
