"""`trl-mle quickstart`: runs a newcomer's commands one after the other."""

import shutil
import sys
from pathlib import Path

from trl_mle.scripts.signals import run_until_we_end


def quickstart(competition: str, seed: int, folder: Path, resume: bool = False) -> int:
    """
    Builds a tiny policy, trains it, and compares it before and after.

    Args:
        competition (`str`):
            Competition to train on.
        seed (`int`):
            Seed of all three steps.
        folder (`Path`):
            Folder for `starter`, `policy` and `evaluation`.
        resume (`bool`, *optional*, defaults to `False`):
            Whether to go on where an earlier quickstart in this folder was interrupted.

    Returns:
        `int`: Exit code of the first command that failed, or 0.

    Raises:
        `FileExistsError`: The folder holds an earlier quickstart, which should not be resumed, or something else.
        `FileNotFoundError`: It holds nothing to resume.
    """
    ours = [sys.executable, "-m", "trl_mle.cli"]
    starter, policy, evaluation = (folder / name for name in ("starter", "policy", "evaluation"))
    if policy.is_dir() and not resume:
        raise FileExistsError(
            f"{folder} holds an earlier quickstart: add --resume (make resume) to go on with it; to begin anew, delete the folder or "
            "name another with --output_dir (make quickstart OUTPUT=…)"
        )
    if resume and not starter.is_dir():
        raise FileNotFoundError(f"{folder} holds no quickstart: leave out --resume to begin one")
    is_trained = (policy / "model.safetensors").is_file()
    can_resume = any(policy.glob("checkpoint-*/trainer_state.json"))  # which is written last
    has_begun = (policy / "limits.json").is_file()
    if policy.is_dir() and any(policy.iterdir()) and not (is_trained or can_resume or has_begun):
        raise FileExistsError(f"{policy} holds something else than a run of the quickstart: name another folder")
    # Programs run without isolation only if doctor has found out, and printed why, that no sandbox works
    code = run_until_we_end([*ours, "doctor"], stdout=sys.stderr)
    if code not in (0, 1):
        return code
    sandbox = "none" if code else "auto"
    commands = [
        [sys.executable, "-m", "trl_mle.starter", "--output_dir", starter, "--competitions", competition, "--seed", seed],
        [
            *ours, "train", "--config", "quickstart", "--accelerate_config", "cpu", "--model_name_or_path", starter,
            "--output_dir", policy, "--competitions", competition, "--seed", seed, "--sandbox", sandbox,
        ],
        [
            *ours, "evaluate", "--policies", starter, policy, "--names", "before RL", "after RL", "--competitions", competition,
            "--output_dir", evaluation, "--num_samples", 32, "--begin_program", "false", "--holdout", 0.5, "--program_timeout_s", 5, "--sandbox", sandbox,
        ],
    ]  # fmt: skip
    if can_resume:
        commands[1] += ["--resume_from_checkpoint", "true"]
    elif is_trained:  # and its checkpoints were deleted
        del commands[1]
    else:
        for older in (policy, evaluation):  # interrupted before there was anything to resume from; of another policy
            if older.is_dir():
                shutil.rmtree(older)
    if resume and (starter / "README.md").is_file():  # written last
        del commands[0]
    try:
        for command in commands:
            code = run_until_we_end([str(part) for part in command])
            if code:
                return code
    except KeyboardInterrupt:
        print("\ntrl-mle: interrupted; the same command with --resume (make resume) goes on", file=sys.stderr)
        raise
    return 0
