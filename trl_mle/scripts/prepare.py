"""`trl-mle prepare`: downloads a competition with MLE-bench's own tool, and reports what prevents that."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.competitions.bench import bench_folder
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.spelling import did_you_mean


INSTALL = """\
mlebench, which downloads competitions from Kaggle and splits them, is not installed. To install it:
  git lfs install
  pip install git+https://github.com/openai/mle-bench
  click "Create New Token" at https://www.kaggle.com/settings, and put kaggle.json into ~/.kaggle
  accept the rules at https://www.kaggle.com/c/{competition}/rules
then run the same command again."""

LAST_LINES = 20  # of mlebench's output: progress and warnings come before them

# Errors at the end of the output of mlebench, or of Kaggle's client, and their remedies
PROBLEMS = (
    (r"No space left on device", "the disk is full: name a folder on another disk with --data_dir"),
    (
        r"Could not find kaggle\.json|\(401\)|401 Client Error|Unauthorized",
        'Kaggle needs a token: click "Create New Token" at https://www.kaggle.com/settings, and put kaggle.json into ~/.kaggle',
    ),
    (
        r"\(403\)|403 Client Error|[Aa]ccept.{0,40}rules",
        "accept the rules at https://www.kaggle.com/c/{competition}/rules",
    ),
    (
        r"BadZipFile|not a zip file|[Cc]hecksum|IncompleteRead|EOFError: Compressed",
        "the download is incomplete: remove {folder} and run the same command again",
    ),
    (
        r"[Nn]ame or service not known|getaddrinfo|ConnectionError|Max retries exceeded",
        "Kaggle cannot be reached from here",
    ),
)


def prepare(competition_id: str, data_dir: str | None) -> Path:
    """
    Downloads a competition unless it is already prepared.

    Raises:
        [`CompetitionError`]: The competition does not exist, or could not be prepared; the message says why and what
        to do.
    """
    if competition_id not in MLEBENCH_COMPETITIONS and bench_folder(competition_id) is None:
        hint = did_you_mean(competition_id, MLEBENCH_COMPETITIONS) or f"known are {', '.join(MLEBENCH_COMPETITIONS)}"
        raise CompetitionError(f"{competition_id!r} is not one of MLE-bench's twelve competitions; {hint}")
    try:
        return load_competition(competition_id, data_dir).public_dir
    except CompetitionError as error:
        folder = re.search(r"prepared in (\S+);", str(error))
    # Beside Python, too: an environment that was not activated is not on `PATH`
    mlebench = shutil.which("mlebench") or shutil.which("mlebench", path=Path(sys.executable).parent)
    if mlebench is None:
        raise CompetitionError(INSTALL.format(competition=competition_id))
    data_dir = data_dir or os.environ.get("MLEBENCH_DATA_DIR")  # our variable: mlebench does not read it
    command = [mlebench, "prepare", "-c", competition_id]
    if data_dir:
        command += ["--data-dir", os.path.expanduser(data_dir)]
    said = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:  # it shows its progress
            said = (said + line)[-20_000:]
            print(line, end="", file=sys.stderr)
    if process.returncode:
        where = Path(folder[1]).parent if folder is not None else competition_id
        last_lines = "\n".join(said.splitlines()[-LAST_LINES:])
        for pattern, remedy in PROBLEMS:
            if re.search(pattern, last_lines):
                raise CompetitionError(remedy.format(competition=competition_id, folder=where))
        last = " ".join((said.strip().splitlines() or ["no output"])[-1].split())
        raise CompetitionError(f"mlebench prepare failed with exit code {process.returncode}: {last}")
    return load_competition(competition_id, data_dir).public_dir
