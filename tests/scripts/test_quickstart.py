"""Which commands the quickstart runs; CI runs them, on less than they take, and `make quickstart` as they are."""

import filecmp

import pytest

from trl_mle.scripts import quickstart as module
from trl_mle.shipped import find_recipe


STARTER, TRAIN, EVALUATE = "trl_mle.starter", "train", "evaluate"


@pytest.fixture
def commands(monkeypatch):
    """Records the commands and their environments instead of running them for ten minutes. Two cores are idle."""
    ran = []
    monkeypatch.setattr(module, "run_until_we_end", lambda command, **options: ran.append((command, options)) or 0)
    monkeypatch.setattr(module.psutil, "cpu_percent", lambda interval: 36.0)
    monkeypatch.setattr(module.psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(module.psutil.Process, "cpu_affinity", lambda process: [0, 1, 2])
    return ran


@pytest.fixture
def quickstart(command, commands, tmp_path):
    """Runs the command, which writes to `out`; returns its exit code and what its commands are, without `doctor`."""

    def run(*options):
        commands.clear()
        code = command("quickstart", "--output_dir", tmp_path / "out", *options)
        return code, [words[3] if words[2] == "trl_mle.cli" else words[2] for words, _ in commands[1:]]

    return run


def of(command, option):
    return command[command.index(option) + 1]


def test_three_commands(quickstart, commands, tmp_path, monkeypatch, capsys):
    """With as many threads as cores are idle."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert quickstart("--competition", "wine", "--seed", "3") == (0, [STARTER, TRAIN, EVALUATE])
    assert f" solve wine --policy {tmp_path}/out/policy --budget 2m\n" in capsys.readouterr().out
    for command, options in commands[1:]:
        assert of(command, "--competitions") == "wine"
        assert options["env"]["OMP_NUM_THREADS"] == "2"
    assert of(commands[2][0], "--seed") == "3"
    assert "--resume_from_checkpoint" not in commands[2][0]


@pytest.mark.parametrize(("code", "sandbox"), [(0, "auto"), (1, "none"), (2, None)])
def test_programs_are_isolated_unless_it_is_known_that_they_cannot_be(
    quickstart, commands, monkeypatch, code, sandbox
):
    """Doctor does not know (2) where its checks take too long."""
    run = module.run_until_we_end
    monkeypatch.setattr(
        module, "run_until_we_end", lambda *args, **options: run(*args, **options) or code * ("doctor" in args[0])
    )
    assert quickstart()[0] == (0 if sandbox else code)
    assert {of(command, "--sandbox") for command, _ in commands if "--sandbox" in command} == {sandbox} - {None}


def test_nothing_that_it_did_not_write_is_touched(quickstart, commands, tmp_path, capsys):
    thesis = tmp_path / "out" / "policy" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.touch()
    assert quickstart()[0] == quickstart("--resume")[0] == 2
    assert thesis.exists()
    assert not commands
    assert "holds no quickstart: leave out --resume" in capsys.readouterr().err
    thesis.unlink()
    thesis.parent.rmdir()
    assert quickstart()[0] == 0
    assert quickstart()[0] == 2
    assert "is not empty: add --resume" in capsys.readouterr().err


def test_goes_on_where_it_was_interrupted(quickstart, commands, tmp_path):
    starter, policy = tmp_path / "out" / "starter", tmp_path / "out" / "policy"
    quickstart("--seed", "3")
    starter.mkdir()
    (starter / "config.json").touch()  # while the starter was built
    assert quickstart("--resume") == (0, [STARTER, TRAIN, EVALUATE])

    (starter / "README.md").touch()
    (policy / "checkpoint-4").mkdir(parents=True)  # killed while the first checkpoint was written
    assert quickstart("--resume") == (0, [TRAIN, EVALUATE])
    assert "--resume_from_checkpoint" not in commands[1][0]
    assert not policy.exists()

    (policy / "checkpoint-4").mkdir(parents=True)
    (policy / "checkpoint-4" / "trainer_state.json").touch()
    assert quickstart("--resume") == (0, [TRAIN, EVALUATE])
    assert of(commands[1][0], "--resume_from_checkpoint") == "true"

    (policy / "checkpoint-4" / "trainer_state.json").unlink()  # the checkpoints of a trained policy were deleted
    (policy / "model.safetensors").touch()
    assert quickstart("--resume") == (0, [EVALUATE])


def test_the_starter_of_digits_is_at_hand(quickstart, tmp_path):
    assert quickstart() == (0, [TRAIN, EVALUATE])
    copy = tmp_path / "out" / "starter"
    (copy / "README.md").unlink()  # killed while it was copied
    (copy / "model.safetensors").write_bytes(b"")
    assert quickstart("--resume") == (0, [TRAIN, EVALUATE])
    files = filecmp.dircmp(module.STARTER, copy)
    assert len(files.same_files) == 8
    assert files.left_list == files.right_list == sorted(files.same_files)


def test_it_goes_on_with_its_competition_and_seed(quickstart, commands, capsys):
    quickstart("--competition", "wine", "--seed", "3")
    for same in ([], ["--competition", "wine", "--seed", "3"]):
        assert quickstart("--resume", *same)[0] == 0
        assert {of(command, "--competitions") for command, _ in commands[1:]} == {"wine"}
        assert of(commands[2][0], "--seed") == "3"
    for other in (["--competition", "digits"], ["--model", "models/small"]):
        assert quickstart("--resume", *other) == (2, [])
        assert f"leave out {other[0]}" in capsys.readouterr().err


def test_a_pretrained_model_is_evaluated_first(quickstart, commands, tmp_path):
    assert quickstart("--model", "my/model", "--competition", "wine") == (0, [EVALUATE, TRAIN, EVALUATE])
    before, train, after = (command for command, _ in commands[1:])
    assert before[: before.index("--policies")] == after[: after.index("--policies")]  # its programs are kept
    assert before[before.index("--policies") :] == ["--policies", "my/model", "--names", "before RL"]
    assert after[after.index("--policies") + 1 : after.index("--names")] == ["my/model", str(tmp_path / "out/policy")]
    assert of(train, "--model_name_or_path") == "my/model"
    recipe = find_recipe(of(train, "--config")).read_text()
    assert f"\nmax_completion_length: {of(before, '--max_completion_length')}\n" in recipe
    assert f"\nideas: {of(before, '--ideas')}\n" in recipe
