"""`trl-mle quickstart`: runs a newcomer's commands one after the other."""

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from trl_mle.competitions.loading import id_of
from trl_mle.files import write_whole
from trl_mle.scripts.process_ends import run_until_we_end
from trl_mle.scripts.sizes import Sizes
from trl_mle.showing import for_terminal


# No bars for what takes a moment, and no warning of DeepSpeed's that it has found no GPU
QUIET = dict.fromkeys(("HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS"), "1") | {
    "DS_ACCELERATOR": "cpu"
}

BEGUN_FILE = "quickstart.json"  # in the folder: the competition and the seed


def as_begun(folder: Path, competition: str | None, seed: int | None) -> tuple[str | None, int | None]:
    """
    The competition and the seed of a quickstart to resume, as far as its folder says. Raises `ValueError` if others are given.
    """
    path = folder / BEGUN_FILE
    if not path.is_file():
        return competition, seed
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        known_competition, known_seed = known["competition"], known["seed"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is truncated, or of another version: delete it ({error})") from error
    is_another = competition is not None and id_of(competition) != id_of(known_competition)
    if is_another or seed not in (None, known_seed):
        raise ValueError(
            f"{folder} holds a quickstart of {known_competition} with seed {known_seed}: leave out --competition and --seed (COMPETITION "
            "and SEED) to resume it, or name another folder with --output_dir (OUTPUT)"
        )
    return competition or known_competition, known_seed


def idle_cores() -> int:
    """Cores of those that this process may use, less those that are busy at the moment: at least one."""
    busy = psutil.cpu_percent(interval=0.5) / 100 * (psutil.cpu_count() or 1)
    return max(1, round(len(psutil.Process().cpu_affinity()) - busy))


def quickstart(competition: str, seed: int, folder: Path, resume: bool = False, model: str | None = None) -> int:
    """
    Builds a tiny policy, or takes a pretrained model, trains it, and compares it before and after.

    Raises:
        `FileExistsError`: The folder holds an earlier quickstart, which should not be resumed, or something else.
        `FileNotFoundError`: It holds nothing to resume.
        `ValueError`: It holds a quickstart of another model, the model is too large, or NumPy does not take the seed.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed must be from 0 to {2**32 - 1}, got {seed}")
    ours = [sys.executable, "-m", "trl_mle.cli"]
    starter, policy, evaluation = (folder / name for name in ("starter", "policy", "evaluation"))
    measured = folder / "sizes.json"
    sizes = Sizes.read(measured) if measured.is_file() else None
    if (policy.is_dir() or sizes) and not resume:
        raise FileExistsError(
            f"{folder} holds an earlier quickstart: add --resume (make resume) to go on with it; to begin anew, delete the folder or "
            "name another with --output_dir (make quickstart OUTPUT=…)"
        )
    if not resume and not (folder / BEGUN_FILE).is_file():
        for part in starter, evaluation:
            if part.is_dir() and any(part.iterdir()):
                raise FileExistsError(f"{part} holds something else than a run of the quickstart: name another folder")
    if resume and not (starter.is_dir() or sizes):
        raise FileNotFoundError(f"{folder} holds no quickstart: leave out --resume to begin one")
    if resume and model is not None and (sizes is None or sizes.model != model):
        raise ValueError(
            f"{folder} holds a quickstart with {sizes.model if sizes else 'the tiny policy'}: leave out --model to resume it, or name "
            "another folder"
        )
    is_trained = any((policy / file).is_file() for file in ("model.safetensors", "adapter_model.safetensors"))
    can_resume = any(policy.glob("checkpoint-*/trainer_state.json"))  # which is written last
    has_begun = (policy / "limits.json").is_file()
    if policy.is_dir() and any(policy.iterdir()) and not (is_trained or can_resume or has_begun):
        raise FileExistsError(f"{policy} holds something else than a run of the quickstart: name another folder")
    # Threads on busy cores wait for each other at every layer
    environment = {"OMP_NUM_THREADS": str(idle_cores())} | os.environ
    if model is not None and sizes is None:
        command = [sys.executable, "-m", "trl_mle.scripts.measure", model, competition, str(measured)]
        if code := run_until_we_end(command, env=environment):
            if code == -signal.SIGKILL:
                raise ValueError(
                    f"--model: measuring {model} was killed, probably for its memory: name a smaller model"
                )
            return code
        sizes = Sizes.read(measured)
    if not resume:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / BEGUN_FILE, (json.dumps({"competition": competition, "seed": seed}) + "\n").encode())
    # Programs run without isolation only if doctor has found out, and printed why, that no sandbox works
    code = run_until_we_end([*ours, "doctor"], stdout=sys.stderr)
    if code not in (0, 1):
        return code
    common = ["--competitions", competition, "--sandbox", "none" if code else "auto"]
    train: list[Any] = [*ours, "train", "--output_dir", policy, "--seed", seed, *common]
    evaluate: list[Any] = [*ours, "evaluate", "--output_dir", evaluation, "--holdout", 0.5, *common]
    before: str | Path
    if sizes is None:
        before = starter
        train += ["--config", "quickstart", "--accelerate_config", "cpu"]
        evaluate += ["--num_samples", 128, "--program_timeout_s", 5]
    else:
        before = sizes.model
        train += ["--config", "quickstart-pretrained", *sizes.training_options()]
        evaluate += ["--program_timeout_s", 30, *sizes.evaluation_options()]
    train += ["--model_name_or_path", before]
    if can_resume:
        train += ["--resume_from_checkpoint", "true"]
    elif not is_trained:  # interrupted before there was anything to resume from
        of_another_policy = (
            [policy] if sizes and not (evaluation / "after-RL.jsonl").is_file() else [policy, evaluation]
        )
        for older in of_another_policy:
            if older.is_dir():
                shutil.rmtree(older)

    def commands() -> Iterator[list[Any]]:
        if sizes is None:
            if not (resume and (starter / "README.md").is_file()):  # written last
                yield [sys.executable, "-m", "trl_mle.starter", "--output_dir", starter, "--competitions", competition, "--seed", seed]  # fmt: skip
        elif not (can_resume or is_trained):
            print(for_terminal(sizes.estimate()), flush=True)
            yield [*evaluate, "--policies", before, "--names", "before RL"]
        if can_resume or not is_trained:  # or its checkpoints were deleted
            yield train
        yield [*evaluate, "--policies", before, policy, "--names", "before RL", "after RL"]

    try:
        for command in commands():
            code = run_until_we_end([str(part) for part in command], env=environment | ({} if sizes else QUIET))
            if code:
                return code
    except KeyboardInterrupt:
        print("\ntrl-mle: interrupted; the same command with --resume (make resume) goes on", file=sys.stderr)
        raise
    print(
        for_terminal(
            f"next             trl-mle report {shlex.quote(str(policy))}\n"
            "                 trl-mle new TABLE.csv --target COLUMN --metric METRIC"
        )
    )
    return 0
