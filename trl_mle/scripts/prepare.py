"""`trl-mle prepare`: downloads a competition with MLE-bench's own tool."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.competitions.bench import bench_folder
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.spelling import did_you_mean


INSTALL = (
    "mlebench, which downloads competitions from Kaggle and splits them, is not installed: pip install "
    "git+https://github.com/openai/mle-bench (it needs git lfs), put a token of https://www.kaggle.com/settings into "
    "~/.kaggle/kaggle.json, accept the rules at https://www.kaggle.com/c/{competition}/rules, and try again"
)


def prepare(competition_id: str, data_dir: str | None) -> Path:
    """Downloads a competition unless it is already prepared. Raises [`CompetitionError`] if it could not be
    prepared."""
    install = INSTALL.format(competition=competition_id)
    if competition_id not in MLEBENCH_COMPETITIONS and bench_folder(competition_id) is None:
        hint = did_you_mean(competition_id, MLEBENCH_COMPETITIONS)
        if find_spec("mlebench") is None:  # which knows its others
            raise CompetitionError(f"{hint} {install}".lstrip())
        names = hint or "mlebench prepare --help lists its names"
        raise CompetitionError(f"MLE-bench has no competition {competition_id!r}; {names}")
    with suppress(CompetitionError):
        return load_competition(competition_id, data_dir).public_dir
    # Beside Python, too: an environment that was not activated is not on `PATH`
    mlebench = shutil.which("mlebench") or shutil.which("mlebench", path=Path(sys.executable).parent)
    if mlebench is None:
        raise CompetitionError(install)
    data_dir = data_dir or os.environ.get("MLEBENCH_DATA_DIR")  # our variable: mlebench does not read it
    command = [mlebench, "prepare", "-c", competition_id]
    if data_dir:
        command += ["--data-dir", os.path.expanduser(data_dir)]
    done = subprocess.run(command, stdout=2, check=False)  # to stderr: its progress, and what prevents it
    if done.returncode:
        raise CompetitionError(f"mlebench prepare failed with exit code {done.returncode}; its last lines say why")
    return load_competition(competition_id, data_dir).public_dir
