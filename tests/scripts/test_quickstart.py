"""Which commands the quickstart runs; CI runs them, on less than they take, and `make quickstart` as they are."""

import pytest

from trl_mle.scripts import quickstart as module


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


def test_three_commands(commands, tmp_path):
    assert module.quickstart("./houses", 1, tmp_path) == 0
    assert names(commands) == [STARTER, TRAIN, EVALUATE]
    for command in commands[1:]:
        assert command[command.index("--competitions") + 1] == "./houses"
    assert "--resume_from_checkpoint" not in commands[2]


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
