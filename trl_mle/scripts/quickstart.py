"""`trl-mle quickstart`: runs a newcomer's commands one after the other."""

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from trl_mle.competitions import load_competition
from trl_mle.competitions.own import final_competition
from trl_mle.files import alone_in, write_whole
from trl_mle.scripts.process_ends import run_until_we_end
from trl_mle.showing import for_terminal
from trl_mle.starter.grammar import find_tasks


# No bars for what takes a moment, and no warning of DeepSpeed's that it has found no GPU
QUIET = {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "DS_ACCELERATOR": "cpu"}
DEFAULTS = {"competition": "digits", "seed": 0, "model": None}  # the tiny policy
SETTINGS_FILE = "quickstart.json"  # in the output folder
STARTER = Path(__file__).parents[1] / "starter" / "digits"  # what is built with the defaults
OURS = (sys.executable, "-m", "trl_mle.cli")


def run(args: argparse.Namespace) -> int:
    """Checks the arguments before anything is written, and runs the quickstart."""
    folder = Path(args.output_dir)
    options = {name: value for name in DEFAULTS if (value := getattr(args, name)) is not None}
    settings = find_settings(folder, args.resume, options)
    load_competition(settings["competition"], holdout=0.5)  # names first, before steps that take a minute
    if settings["model"] is None:
        find_tasks(settings["competition"])  # or a ValueError
    with alone_in(folder):
        return quickstart(settings, folder)


def find_settings(folder: Path, resume: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a quickstart, from its options, or from its folder if it is resumed. Raises `OSError` or
    `ValueError` if they do not fit."""
    path = folder / SETTINGS_FILE
    if not resume:
        if folder.is_dir() and any(file.name != ".lock" for file in folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty: add --resume (make resume), or name another --output_dir")
        if not 0 <= options.get("seed", 0) < 2**32:
            raise ValueError(f"--seed must be from 0 to {2**32 - 1}, got {options['seed']}")
        return DEFAULTS | options
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no quickstart: leave out --resume to begin one")
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings | options != settings:
        were = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise ValueError(f"{folder} holds a quickstart with {were}: leave out --{' and --'.join(options)}")
    return settings


def quickstart(settings: dict[str, Any], folder: Path) -> int:
    """Builds a tiny policy, or takes a pretrained model, trains it, and compares it before and after."""
    write_whole(folder / SETTINGS_FILE, (json.dumps(settings) + "\n").encode())
    # Programs run without isolation only if doctor has found out, and printed why, that no sandbox works
    code = run_until_we_end([*OURS, "doctor"], stdout=sys.stderr)
    if code not in (0, 1):
        return code
    # Threads on busy cores wait for each other at every layer
    environment = {"OMP_NUM_THREADS": str(idle_cores())} | os.environ | ({} if settings["model"] else QUIET)
    sandbox = "none" if code else "auto"
    try:
        for command in commands(settings, folder, sandbox):
            if code := run_until_we_end([str(part) for part in command], env=environment):
                return code
    except KeyboardInterrupt:
        print("\ntrl-mle: interrupted; the same command with --resume (make resume) goes on", file=sys.stderr)
        raise
    print(for_terminal(what_next(settings, folder / "policy", sandbox)))
    return 0


def what_next(settings: dict[str, Any], policy: Path, sandbox: str) -> str:
    """The commands that use what was trained, as they can be typed here."""
    name = settings["competition"]
    ours = "trl-mle" if shutil.which("trl-mle") else os.path.relpath(Path(sys.executable).with_name("trl-mle"))
    solve = [ours, "solve", name, "--policy", str(policy), "--budget", "10m" if settings["model"] else "2m"]
    solve += ["--sandbox", "none"] if sandbox == "none" else []
    rows = "hidden rows" if final_competition(load_competition(name)) is None else "rows without labels"
    lines = [shlex.join(solve), f"(predicts the {rows}: submission.csv)", shlex.join([ours, "report", str(policy)])]
    return f"{'next':<17}" + f"\n{'':<17}".join(lines)


def commands(settings: dict[str, Any], folder: Path, sandbox: str) -> Iterator[list[Any]]:
    starter, policy = folder / "starter", folder / "policy"
    before = settings["model"] or starter
    common = ["--competitions", settings["competition"], "--sandbox", sandbox]
    evaluate: list[Any] = [*OURS, "evaluate", "--output_dir", folder / "evaluation", "--holdout", 0.5, *common]
    train: list[Any] = [*OURS, "train", "--output_dir", policy, "--seed", settings["seed"], *common]
    train += ["--model_name_or_path", before]
    if settings["model"] is None:
        train += ["--config", "quickstart", "--accelerate_config", "cpu"]
        evaluate += ["--num_samples", 128, "--program_timeout_s", 5]
    else:
        train += ["--config", "quickstart-pretrained", *device_options()]
        evaluate += ["--num_samples", 32, "--batch_size", 16, "--max_completion_length", 256]
        evaluate += ["--program_timeout_s", 30, "--ideas", "default"]
    is_trained = any((policy / file).is_file() for file in ("model.safetensors", "adapter_model.safetensors"))
    can_resume = any(policy.glob("checkpoint-*/trainer_state.json"))  # which is written last
    if can_resume:
        train += ["--resume_from_checkpoint", "true"]
    elif not is_trained:  # interrupted before there was anything to resume from
        shutil.rmtree(policy, ignore_errors=True)
        if settings["model"] is not None:
            yield [*evaluate, "--policies", before, "--names", "before RL"]
        elif not (starter / "README.md").is_file():  # written last
            if settings == DEFAULTS:
                starter.mkdir(parents=True, exist_ok=True)
                for file in sorted(STARTER.iterdir(), key=lambda file: file.name == "README.md"):
                    shutil.copyfile(file, starter / file.name)
            else:
                build = [sys.executable, "-m", "trl_mle.starter", "--output_dir", starter]
                yield [*build, "--competitions", settings["competition"], "--seed", settings["seed"]]
    if can_resume or not is_trained:  # or its checkpoints were deleted
        yield train
    yield [*evaluate, "--policies", before, policy, "--names", "before RL", "after RL"]


def device_options() -> list[Any]:
    """Options of `trl-mle train` for a pretrained model."""
    import torch

    from trl_mle.models.transformers_model import is_bfloat16_faster

    if torch.cuda.is_available():
        return ["--num_processes", 1, "--use_cpu", "false", "--bf16", "true"]
    return ["--accelerate_config", "cpu", "--dtype", "bfloat16" if is_bfloat16_faster() else "float32"]


def idle_cores() -> int:
    """Cores that this process may use, less those that are busy at the moment: at least one."""
    busy = psutil.cpu_percent(interval=0.5) / 100 * (psutil.cpu_count() or 1)
    return max(1, round(len(psutil.Process().cpu_affinity()) - busy))
