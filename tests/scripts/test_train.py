import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from support import forked
from support.cores import SEVERAL_CORES
from support.packages import read_files
from support.prepared_folders import write_task
from support.subprocess_executor import SubprocessExecutor

from trl_mle.competitions import TaskSet


ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "recipes" / "train_mle.py")
QUICKSTART = str(ROOT / "recipes" / "quickstart.yaml")
CPU = str(ROOT / "accelerate_configs/cpu.yaml")
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", CPU]

# With more threads, runs would wait for each other
ENVIRONMENT = os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}

# Differences from the quickstart, so that a random policy takes seconds
SMALL = ["--max_prompt_length", "4000", "--max_completion_length", "8", "--per_device_train_batch_size", "4"]
SMALL += ["--num_generations", "2", "--max_parallel_programs", "1", "--save_steps", "2"]


def arguments(model, output_dir, *more):
    return ["--config", QUICKSTART, "--model_name_or_path", model, "--output_dir", str(output_dir), *SMALL, *more]


@pytest.fixture
def run_script(monkeypatch):
    """Runs the script in this process, because importing torch and TRL takes longer than the tests."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for name in ("LOCAL_RANK", "ACCELERATE_MIXED_PRECISION"):  # otherwise this process would be tied to its parent
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")  # DeepSpeed would log that it finds no GPU

    def run(*args):
        monkeypatch.setattr(sys, "argv", [SCRIPT, *args])
        runpy.run_path(SCRIPT, run_name="__main__")

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--competitions", "no-such-competition"], "unknown competition 'no-such-competition'"),
        (["--config", "unknown_key.yaml"], "unknown option, learning_rat: did you mean 'learning_rate'"),
        (["--resume_from_checkpoint", "policy/checkpoint-9"], "is left out: it was not written to its end"),
        (["--reward_funcs", "math.no_such"], "reward_funcs: math.no_such cannot be imported: module 'math' has no"),
        (["--training_cores", "9999"], "training_cores must be from 0 to "),
        (["--push_to_hub", "true"], "push_to_hub: offline"),
        (["--max_prompt_length", "10"], "more than max_prompt_length=10"),
    ],
)
def test_bad_input_ends_in_one_line(tiny_model, tmp_path, run_script, monkeypatch, capsys, more, message):
    monkeypatch.chdir(tmp_path)
    # another test covers this check, and its packages take two seconds to import
    monkeypatch.setattr("trl_mle.execution.LocalExecutor.check", lambda executor, competition: None)
    monkeypatch.setattr("huggingface_hub.HfApi.whoami", offline)
    content = f"competitions: digits\nuse_cpu: true\nbf16: false\nmax_prompt_length: 4000\nmodel_name_or_path: {tiny_model}\n"
    Path("unknown_key.yaml").write_text(f"{content}learning_rat: 1.0\n")
    args = more if "--config" in more else arguments(tiny_model, "policy", *more)
    with pytest.raises(SystemExit) as ended:
        run_script(*args)
    assert ended.value.code == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line and "Loading weights" not in line]
    assert len(errors) == 1, errors
    assert errors[0].startswith("train_mle.py: error: ")
    assert message in errors[0]
    assert not Path("policy").exists()


def offline(*args, **kwargs):
    """Raises the client's error for HF_HUB_OFFLINE set before its import."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    raise OfflineModeIsEnabled("offline")


@pytest.mark.slow
def test_run_and_resume(tiny_model, tmp_path, run_script, capsys):
    run_script(*arguments(tiny_model, tmp_path / "policy", "--max_steps", "2"))
    out = capsys.readouterr().out
    assert "step 2/2  reward -10.00  valid   0%" in out
    assert "grad_norm" not in out  # one line a step
    saved = {path.name for path in (tmp_path / "policy").iterdir()}
    assert {"model.safetensors", "chat_template.jinja", "README.md", "trainer_state.json", "checkpoint-2"} <= saved
    asked_for = json.loads((tmp_path / "policy" / "arguments.json").read_text())
    assert (asked_for["holdout"], asked_for["max_completion_length"], asked_for["begin_program"]) == (0.5, 8, False)
    run_script(*arguments(tiny_model, tmp_path / "policy", "--max_steps", "4", "--resume_from_checkpoint", "true"))
    assert (tmp_path / "policy" / "checkpoint-4").is_dir()


def test_a_checkpoint_that_does_not_fit_ends_the_run_in_one_line(tiny_model, tmp_path, run_script, capsys):
    """And changes nothing in its folder."""
    folder = tmp_path / "policy"
    args = [*arguments(tiny_model, folder, "--save_steps", "1"), "--async_rollouts", "true", "--use_peft", "true"]
    run_script(*args, "--max_steps", "1")
    capsys.readouterr()
    before = read_files(folder)
    for changes, message in {
        ("--async_rollouts", "false"): "the checkpoint has rollouts that were not trained on yet: resume with async",
        ("--objective", "mean_rank"): "has objective=max_at_k, not mean_rank",
        ("--use_peft", "false"): "checkpoint-1 was trained with r=16, not None",
    }.items():
        with pytest.raises(SystemExit) as ended:
            run_script(*args, "--max_steps", "2", "--resume_from_checkpoint", "true", *changes)
        line = capsys.readouterr().err.splitlines()[-1]
        assert (ended.value.code, line.startswith("train_mle.py: error: "), message in line) == (2, True, True), line
        assert read_files(folder) == before, changes


def test_a_task_that_breaks_a_run_is_named_in_one_line(tiny_model, tmp_path, run_script, capsys):
    for number in range(40):
        write_task(tmp_path / "tasks" / f"{number:02}")
    few = TaskSet([str(tmp_path / "tasks")]).few()
    for folder in (tmp_path / "tasks").iterdir():
        if str(folder) not in few:
            (folder / "public" / "description.md").unlink()
    args = arguments(tiny_model, tmp_path / "policy", "--max_steps", "40", "--competitions", str(tmp_path / "tasks"))
    with pytest.raises(SystemExit) as ended:
        run_script(*args)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("train_mle.py: error: training has stopped; resume_from_checkpoint: true resumes from")
    assert "/public/description.md, the text that presents it to the model; to go on without it, add without:" in last


@pytest.fixture
def write(monkeypatch):
    """Gives the policy completions, because a random one writes no programs; returns the prompts of its batches."""
    from trl_mle.trainer import MLEGRPOTrainer

    def write(program):
        prompts = []

        def programs(trainer, prompt_ids, *args, **kwargs):
            prompts.append(trainer.processing_class.batch_decode(prompt_ids))
            texts = [f"```python\n{program}\nprint('program', {i})\n```" for i in range(4)]
            return [trainer.processing_class(text)["input_ids"] for text in texts], None

        monkeypatch.setattr(MLEGRPOTrainer, "_generate_single_turn", programs)
        return prompts

    return write


def test_run_with_a_model_as_instrumenter(tiny_model, tmp_path, run_script, write):
    write("import pandas\ntrain = open('input/train.csv').read()")
    more = ["--max_steps", "2", "--max_completion_length", "128", "--learning_rate", "0.01"]
    more += ["--instrumenter", "lm", "--instrumenter_model", tiny_model, "--use_peft", "true"]
    run_script(*arguments(tiny_model, tmp_path / "policy", *more))
    assert (tmp_path / "policy" / "adapter_model.safetensors").exists()
    history = json.loads((tmp_path / "policy" / "trainer_state.json").read_text())["log_history"]
    for entry in history[:2]:  # a random model's answers are refused
        assert entry["mle/instrumenter/ast_rate"] == entry["mle/instrumenter/rejected/empty"] == 1.0
        assert entry["mle/instrumenter/tokens_per_program"] > 0


def test_run_that_improves_what_it_found(tiny_model, tmp_path, run_script, write, monkeypatch):
    """
    If all programs are valid, the second generation is shown one of the first, and the best one is kept. A reward
    function of the user's own counts beside the programs, which an executor of the user's own runs.
    """
    prompts = write("import shutil\nshutil.copy('input/sample_submission.csv', 'submission.csv')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("own_rewards.py").write_text("def halves(completions, **kwargs):\n    return [0.5] * len(completions)\n")
    Path("own_executor.py").write_text("from support.subprocess_executor import SubprocessExecutor as MyExecutor\n")
    monkeypatch.setattr(SubprocessExecutor, "made", [])
    policy = tmp_path / "policy"
    more = ["--max_steps", "2", "--max_completion_length", "128", "--improve_probability", "1.0"]
    more += ["--executor", "own_executor.MyExecutor", "--program_memory_mb", "512"]
    more += ["--reward_funcs", "own_rewards.halves", "--reward_weights", "1", "2"]
    run_script(*arguments(tiny_model, policy, *more))
    [executor] = SubprocessExecutor.made
    assert (executor.options, executor.checked, executor.closed) == ((5.0, 512, 1, 1), ["digits"], True)
    assert executor.count >= 2
    first, second = prompts
    assert not any("Here is a previous solution:" in prompt for prompt in first)
    assert all("Here is a previous solution:\n\n```python\nimport shutil\n" in prompt for prompt in second)
    assert all(re.search(r"\nprogram \d\n", prompt) for prompt in second)  # its output
    history = json.loads((policy / "trainer_state.json").read_text())["log_history"]
    assert history[0]["rewards/halves/mean"] == 0.5
    assert history[0]["reward"] == pytest.approx(history[0]["rewards/mle_reward/mean"] + 2 * 0.5)
    assert history[1]["mle/improve/valid_rate"] == 1.0
    assert history[1]["mle/improve/beats_parent_rate"] == 0.0  # all write the same submission
    best = policy / "best_solutions" / "digits"
    assert sorted(path.name for path in best.iterdir()) == ["score.json", "solution.py", "submission.csv"]
    assert (best / "solution.py").read_text().startswith("import shutil\n")
    assert json.loads((best / "score.json").read_text())["score"] == pytest.approx(history[0]["mle/score/best"])


def script_on_some_cores(file, *args):
    """The script, whose programs fail unless they run on the last core; writes where this process runs then."""
    import torch

    from trl_mle.trainer import MLEGRPOTrainer

    cores = sorted(os.sched_getaffinity(0))[-2:]
    os.sched_setaffinity(0, cores)  # as `taskset` or a container
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()  # older than what keeps threads to cores
    torch.set_num_threads(2)  # forked tests have one
    program = f"```python\nimport os\nassert os.sched_getaffinity(0) == {{{cores[1]}}}\n```"

    def programs(trainer, prompt_ids, *args, **kwargs):
        return [trainer.processing_class(program)["input_ids"]] * len(prompt_ids), None

    MLEGRPOTrainer._generate_single_turn = programs
    script(*args)
    threads = {int(thread): os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")}
    elsewhere = {thread: list(own) for thread, own in threads.items() if own != {cores[0]}}
    file.write_text(json.dumps({"elsewhere": elsewhere, "threads": len(threads), "torch": torch.get_num_threads()}))


@pytest.mark.slow
@SEVERAL_CORES
def test_training_and_programs_have_cores_of_their_own(tiny_model, tmp_path):
    more = ["--training_cores", "1", "--max_steps", "1", "--max_completion_length", "128", "--save_strategy", "no"]
    args = tmp_path / "where.json", *arguments(tiny_model, tmp_path / "policy", *more)
    forked.finish(forked.start(script_on_some_cores, args, tmp_path / "log", processes=1), tmp_path)
    where = json.loads((tmp_path / "where.json").read_text())
    assert where["elsewhere"] == {}
    assert where["threads"] > 1
    assert where["torch"] == 1
    ran = (tmp_path / "policy" / "executions" / "rank-0.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in ran] == ["ok"] * 4
    assert f"1 at a time on 1 of {os.cpu_count()} cores" in (tmp_path / "log-0.log").read_text()


def script(*args):
    """Runs the script in a process of its own."""
    sys.argv = [SCRIPT, *args]
    runpy.run_path(SCRIPT, run_name="__main__")


def end(pid, is_alive, log, signum):
    """Ends a run by a signal after its first step; its children must end, too. Returns these."""
    deadline = time.monotonic() + 180
    while "step      1/100000" not in log.read_text():
        assert is_alive(), log.read_text()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    children = psutil.Process(pid).children(recursive=True)
    os.kill(pid, signum)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    return children


@pytest.mark.slow
def test_however_a_run_ends_no_process_is_left(tiny_model, tmp_path):
    """Ctrl-C and SIGTERM, two runs at a time."""
    runs = []
    for signum in (signal.SIGINT, signal.SIGTERM):
        log = tmp_path / f"{signum.name}-0.log"
        log.touch()
        args = arguments(tiny_model, tmp_path / f"{signum.name}-policy", "--max_steps", "100000")
        [process] = forked.start(script, args, tmp_path / signum.name, processes=1)
        runs.append((process, log, signum))
    for process, log, signum in runs:
        end(process.pid, process.is_alive, log, signum)
        process.join(60)
        assert process.exitcode == 128 + signum
        assert f"train_mle.py: stopped by {signum.name}" in log.read_text()
        assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process(tiny_model, tmp_path):
    """It cannot end its workers before it dies."""
    args = arguments(tiny_model, tmp_path / "policy", "--max_steps", "100000")
    with (tmp_path / "log").open("w") as log:
        launcher = subprocess.Popen(
            [*LAUNCH, SCRIPT, *args], stdout=log, stderr=log, start_new_session=True, env=ENVIRONMENT
        )
    assert end(launcher.pid, lambda: launcher.poll() is None, tmp_path / "log", signal.SIGKILL)
    assert launcher.wait(timeout=60) == -signal.SIGKILL
