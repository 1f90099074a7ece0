"""`trl-mle quickstart`: the commands of a newcomer, one after the other."""

import shutil
import sys
from pathlib import Path

from trl_mle.scripts.signals import run_until_we_end


def quickstart(competition: str, seed: int, folder: Path, resume: bool = False) -> int:
    """
    Makes a tiny policy, trains it, and compares it with itself before.

    Args:
        competition (`str`):
            What it learns.
        seed (`int`):
            Of all three.
        folder (`Path`):
            Gets `starter`, `policy` and `evaluation`.
        resume (`bool`, *optional*, defaults to `False`):
            Whether to go on from the last checkpoint of a training that was interrupted.

    Returns:
        `int`: Exit code of the first command that failed, or 0.
    """
    ours = [sys.executable, "-m", "trl_mle.cli"]
    starter, policy, evaluation = (folder / name for name in ("starter", "policy", "evaluation"))
    # Programs run without isolation only where the sandbox does not work; what stands in its way is then printed
    sandbox = "auto" if run_until_we_end([*ours, "doctor"], stdout=sys.stderr) == 0 else "none"
    commands = [
        [sys.executable, "-m", "trl_mle.starter", "--output_dir", starter, "--competitions", competition, "--seed", seed],
        [
            *ours, "train", "--config", "quickstart", "--accelerate_config", "cpu", "--model_name_or_path", starter,
            "--output_dir", policy, "--competitions", competition, "--seed", seed, "--sandbox", sandbox,
        ],
        [
            *ours, "evaluate", "--policies", starter, policy, "--names", "before RL", "after RL", "--competitions", competition,
            "--output_dir", evaluation, "--num_samples", 32, "--holdout", 0.5, "--program_timeout_s", 5, "--sandbox", sandbox,
        ],
    ]  # fmt: skip
    if resume:
        commands[1] += ["--resume_from_checkpoint", "true"]
        del commands[0]
    elif evaluation.is_dir():  # of other policies
        shutil.rmtree(evaluation)
    for command in commands:
        code = run_until_we_end([str(part) for part in command])
        if code:
            return code
    return 0
