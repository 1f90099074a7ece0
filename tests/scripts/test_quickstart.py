"""Which commands the quickstart runs; CI runs them, on less than they take, and `make quickstart` as they are."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from support.prepared_folders import write_task

from trl_mle import cli
from trl_mle.scripts import quickstart as module
from trl_mle.scripts.quickstart import as_begun, idle_cores
from trl_mle.scripts.sizes import Sizes


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    """Two cores are idle, which nothing measures."""
    monkeypatch.setattr(module, "idle_cores", lambda: 2)


@pytest.fixture
def commands(monkeypatch):
    """Records the commands instead of running them for ten minutes; each has the exit code 0."""
    ran = []
    monkeypatch.setattr(module, "run_until_we_end", lambda command, **options: ran.append(command) or 0)
    return ran


def names(commands):
    """What each command is, without `doctor`."""
    return [command[3] if command[2] == "trl_mle.cli" else command[2] for command in commands[1:]]


STARTER, TRAIN, EVALUATE = "trl_mle.starter", "train", "evaluate"


def test_the_next_command_can_be_pasted(commands, tmp_path, capsys):
    assert module.quickstart("./houses", 1, tmp_path / "my run") == 0
    assert f"next             trl-mle report '{tmp_path}/my run/policy'" in capsys.readouterr().out


def test_three_commands(commands, tmp_path, capsys):
    assert module.quickstart("./houses", 1, tmp_path) == 0
    assert f"next             trl-mle report {tmp_path}/policy" in capsys.readouterr().out
    assert names(commands) == [STARTER, TRAIN, EVALUATE]
    for command in commands[1:]:
        assert command[command.index("--competitions") + 1] == "./houses"
    assert "--resume_from_checkpoint" not in commands[2]


@pytest.mark.parametrize(("own", "threads"), [(None, "2"), ("5", "5")])
def test_as_many_threads_as_cores_are_idle(monkeypatch, tmp_path, own, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if own:
        monkeypatch.setenv("OMP_NUM_THREADS", own)
    asked = []
    monkeypatch.setattr(module, "run_until_we_end", lambda command, **options: asked.append(options) or 0)
    module.quickstart("wine", 0, tmp_path / "a")
    commands = asked[1:]  # after doctor
    assert [options["env"]["OMP_NUM_THREADS"] for options in commands] == [threads] * 3


def test_idle_cores(monkeypatch):
    monkeypatch.setattr(module.psutil, "cpu_percent", lambda interval: 36.0)
    monkeypatch.setattr(module.psutil, "cpu_count", lambda: 4)
    for own, idle in (([0, 1, 2, 3], 3), ([0], 1), ([6, 7], 1), ([1, 2, 3], 2)):
        monkeypatch.setattr(module.psutil.Process, "cpu_affinity", lambda process, own=own: own)
        assert idle_cores() == idle


@pytest.mark.parametrize(("code", "sandbox"), [(0, "auto"), (1, "none"), (2, None), (70, None), (-9, None)])
def test_programs_are_isolated_unless_it_is_known_that_they_cannot_be(monkeypatch, tmp_path, code, sandbox):
    """Doctor does not know (2) where its checks take too long, and says nothing if it fails itself (70) or is killed."""
    ran = []

    def run(command, **options):
        ran.append(command)
        return code if "doctor" in command else 0

    monkeypatch.setattr(module, "run_until_we_end", run)
    assert module.quickstart("digits", 0, tmp_path) == (0 if sandbox else code)
    assert [command[command.index("--sandbox") + 1] for command in ran if "--sandbox" in command] == [sandbox] * (
        2 if sandbox else 0
    )


def test_an_earlier_run_is_not_overwritten(commands, tmp_path):
    (tmp_path / "policy").mkdir()
    with pytest.raises(FileExistsError, match=r"holds an earlier quickstart: add --resume \(make resume\)"):
        module.quickstart("digits", 0, tmp_path)
    assert not commands


@pytest.mark.parametrize("name", ["starter", "evaluation"])
def test_nothing_that_it_did_not_write_is_deleted(commands, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "results.json").touch()
    with pytest.raises(FileExistsError, match=f"{name} holds something else than a run of the quickstart"):
        module.quickstart("digits", 0, tmp_path)
    assert (tmp_path / name / "results.json").exists()
    assert not commands


def test_a_seed_that_training_would_not_take(commands, tmp_path):
    with pytest.raises(ValueError, match="--seed must be from 0 to 4294967295, got -1"):
        module.quickstart("digits", -1, tmp_path)
    assert not commands


def test_goes_on_where_it_was_interrupted(commands, tmp_path):
    starter, policy = tmp_path / "starter", tmp_path / "policy"
    starter.mkdir()
    (starter / "config.json").touch()  # while the starter was built
    module.quickstart("digits", 0, tmp_path, resume=True)
    assert names(commands) == [STARTER, TRAIN, EVALUATE]

    (starter / "README.md").touch()  # before the first checkpoint
    policy.mkdir()
    (policy / "limits.json").write_text("{}\n")
    (policy / "checkpoint-4").mkdir()  # killed while it was written
    (tmp_path / "evaluation").mkdir()  # of another policy
    commands.clear()
    module.quickstart("digits", 0, tmp_path, resume=True)
    assert names(commands) == [TRAIN, EVALUATE]
    assert "--resume_from_checkpoint" not in commands[1]
    assert not policy.exists()
    assert not (tmp_path / "evaluation").exists()

    (policy / "checkpoint-4").mkdir(parents=True)
    (policy / "checkpoint-4" / "trainer_state.json").touch()
    commands.clear()
    module.quickstart("digits", 0, tmp_path, resume=True)
    assert names(commands) == [TRAIN, EVALUATE]
    assert commands[1][-2:] == ["--resume_from_checkpoint", "true"]


def test_it_goes_on_with_its_competition_and_seed(commands, tmp_path, monkeypatch, capsys):
    def run(*more):
        monkeypatch.setattr(sys, "argv", ["trl-mle", "quickstart", "--output_dir", str(tmp_path / "wine"), *more])
        commands.clear()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    assert run("--competition", "wine", "--seed", "3") == 0
    (tmp_path / "wine" / "starter").mkdir()
    for same in ([], ["--competition", "wine"], ["--seed", "3"]):
        assert run("--resume", *same) == 0
        assert [of(command, "--competitions") for command in commands[1:]] == ["wine"] * 3
        assert of(commands[2], "--seed") == "3"
    for other in (["--competition", "digits"], ["--seed", "0"]):
        assert run("--resume", *other) == 2
        assert not commands
        error = capsys.readouterr().err
        assert "wine holds a quickstart of wine with seed 3: leave out --competition and --seed (COMPETITION" in error


def test_a_folder_is_the_same_competition_under_another_name(commands, tmp_path, monkeypatch):
    monkeypatch.chdir(write_task(tmp_path / "houses", "houses").parent)
    assert module.quickstart("./houses", 0, tmp_path / "out") == 0
    assert as_begun(tmp_path / "out", str(tmp_path / "houses"), None) == (str(tmp_path / "houses"), 0)
    assert as_begun(tmp_path / "older", None, None) == (None, None)
    (tmp_path / "out" / "quickstart.json").write_text("{}")
    with pytest.raises(ValueError, match=r"quickstart\.json is truncated, or of another version: delete it"):
        as_begun(tmp_path / "out", None, None)


def test_a_trained_policy_without_checkpoints_is_only_evaluated(commands, tmp_path):
    for file in ("starter/README.md", "policy/model.safetensors"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    module.quickstart("digits", 0, tmp_path, resume=True)
    assert names(commands) == [EVALUATE]


def test_nothing_else_is_deleted(commands, tmp_path):
    thesis = tmp_path / "policy" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.touch()
    with pytest.raises(FileNotFoundError, match="holds no quickstart: leave out --resume to begin one"):
        module.quickstart("digits", 0, tmp_path, resume=True)
    (tmp_path / "starter").mkdir()
    with pytest.raises(FileExistsError, match="holds something else than a run of the quickstart"):
        module.quickstart("digits", 0, tmp_path, resume=True)
    assert thesis.exists()
    assert not commands


SIZES = Sizes(
    model="models/small",
    on_gpu=False,
    dtype="float32",
    num_samples=2,
    max_steps=1,
    num_generations=2,
    max_completion_length=8,
    micro_batch=2,
    prompt_tokens=400,
    prefill_s=1.0,
    token_s=0.1,
    train_s=0.001,
)
MEASURE = "trl_mle.scripts.measure"


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Records the commands with a pretrained model; measures `SIZES`, and evaluates nothing."""
    ran = []

    def run(command, **options):
        ran.append(command)
        if MEASURE in command:
            SIZES.write(tmp_path / "sizes.json")
        return 0

    monkeypatch.setattr(module, "run_until_we_end", run)
    return ran


def of(command, option):
    return command[command.index(option) + 1]


def test_a_pretrained_model_is_measured_and_evaluated_first(measured, tmp_path, capsys):
    assert module.quickstart("wine", 1, tmp_path, model="models/small") == 0
    measure, doctor, before, train, after = measured
    assert measure[2:] == [MEASURE, "models/small", "wine", str(tmp_path / "sizes.json")]
    assert doctor[3] == "doctor"
    assert capsys.readouterr().out.startswith(f"{SIZES.estimate()}\nnext  ")
    assert before[: before.index("--policies")] == after[: after.index("--policies")]  # its programs are kept
    assert before[before.index("--policies") :] == ["--policies", "models/small", "--names", "before RL"]
    assert after[after.index("--policies") + 1 : after.index("--names")] == ["models/small", str(tmp_path / "policy")]
    assert of(train, "--model_name_or_path") == "models/small"
    assert of(train, "--max_completion_length") == of(before, "--max_completion_length") == "8"
    assert of(train, "--num_generations") == of(before, "--batch_size")
    assert int(of(train, "--gradient_accumulation_steps")) == 1  # one micro-batch
    assert "--begin_program" not in before


def test_a_quickstart_with_a_pretrained_model_goes_on(measured, tmp_path):
    SIZES.write(tmp_path / "sizes.json")
    with pytest.raises(FileExistsError, match="holds an earlier quickstart: add --resume"):
        module.quickstart("digits", 0, tmp_path, model="models/small")
    with pytest.raises(ValueError, match="holds a quickstart with models/small: leave out --model to resume it"):
        module.quickstart("digits", 0, tmp_path, resume=True, model="models/other")

    (tmp_path / "policy").mkdir()  # before the first checkpoint
    (tmp_path / "policy" / "limits.json").touch()
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "before-RL.jsonl").touch()
    module.quickstart("digits", 0, tmp_path, resume=True)
    assert names(measured) == [EVALUATE, TRAIN, EVALUATE]
    assert (tmp_path / "evaluation" / "before-RL.jsonl").is_file()
    assert not (tmp_path / "policy").exists()

    (tmp_path / "policy" / "checkpoint-1").mkdir(parents=True)
    (tmp_path / "policy" / "checkpoint-1" / "trainer_state.json").touch()
    measured.clear()
    module.quickstart("digits", 0, tmp_path, resume=True, model="models/small")
    assert names(measured) == [TRAIN, EVALUATE]
    assert of(measured[1], "--resume_from_checkpoint") == "true"

    (tmp_path / "policy" / "checkpoint-1" / "trainer_state.json").unlink()
    (tmp_path / "policy" / "adapter_model.safetensors").touch()
    measured.clear()
    module.quickstart("digits", 0, tmp_path, resume=True)
    assert names(measured) == [EVALUATE]


def test_the_tiny_policy_is_not_resumed_with_a_model(commands, tmp_path):
    (tmp_path / "starter").mkdir()
    with pytest.raises(ValueError, match="holds a quickstart with the tiny policy: leave out --model"):
        module.quickstart("digits", 0, tmp_path, resume=True, model="models/small")
    assert not commands


def test_a_model_that_cannot_be_measured(monkeypatch, tmp_path):
    """It has printed why, unless it was killed."""
    codes = [2, -signal.SIGKILL]
    monkeypatch.setattr(module, "run_until_we_end", lambda command, **options: codes.pop(0))
    assert module.quickstart("digits", 0, tmp_path / "out", model="models/small") == 2
    with pytest.raises(ValueError, match="measuring models/small was killed, probably for its memory"):
        module.quickstart("digits", 0, tmp_path / "out", model="models/small")
    assert not (tmp_path / "out").exists()


def test_two_at_once_would_spoil_each_other(commands, tmp_path, monkeypatch, capsys):
    """The lock goes with the process that has it, however that ends."""
    monkeypatch.setattr(sys, "argv", ["trl-mle", "quickstart", "--output_dir", str(tmp_path)])
    hold = "import sys, time; from pathlib import Path; from trl_mle.files import alone_in\nwith alone_in(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main()
        assert "another process is writing to" in capsys.readouterr().err
        assert not commands
        other.kill()
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main()


@pytest.mark.slow
def test_a_model_is_trained_and_compared(solution_model, tmp_path, capfd):
    """One step in sizes that take seconds."""
    replace(SIZES, model=solution_model.path).write(tmp_path / "sizes.json")
    assert module.quickstart("wine", 0, tmp_path, resume=True) == 0
    shown = capfd.readouterr().out
    assert "step 1/1" in shown
    assert "│ before RL │" in shown
    assert "│ after RL  │" in shown
    assert f"policy before RL {solution_model.path}" in shown
    assert (tmp_path / "policy" / "adapter_model.safetensors").is_file()
    rows = json.loads((tmp_path / "evaluation" / "results.json").read_text())["rows"]
    assert [row["policy"] for row in rows] == ["before RL", "after RL"]
