"""`trl-mle prepare`: MLE-bench's own tool downloads a competition; what stands in its way is said in one line."""

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS


INSTALL = """\
mlebench, which downloads competitions from Kaggle and splits them, is not installed. Once:
  git lfs install
  pip install git+https://github.com/openai/mle-bench
  at https://www.kaggle.com/settings, "Create New Token", and put kaggle.json into ~/.kaggle
  accept the rules at https://www.kaggle.com/c/{competition}/rules
and then the same command again."""

LAST_LINES = 20  # of what mlebench says: above them stand progress and warnings

# What mlebench, or Kaggle's client below it, says at its end, and what to do about it
PROBLEMS = (
    (r"No space left on device", "the disk is full: name another one with --data_dir"),
    (
        r"Could not find kaggle\.json|\(401\)|401 Client Error|Unauthorized",
        'Kaggle does not know you: at https://www.kaggle.com/settings, "Create New Token", and put kaggle.json into ~/.kaggle',
    ),
    (
        r"\(403\)|403 Client Error|[Aa]ccept.{0,40}rules",
        "accept the rules at https://www.kaggle.com/c/{competition}/rules",
    ),
    (
        r"BadZipFile|not a zip file|[Cc]hecksum|IncompleteRead|EOFError: Compressed",
        "half a download: remove {folder} and run the same command again",
    ),
    (
        r"[Nn]ame or service not known|getaddrinfo|ConnectionError|Max retries exceeded",
        "Kaggle cannot be reached from here",
    ),
)


def prepare(competition_id: str, data_dir: str | None) -> Path:
    """
    Downloads a competition, unless it is there.

    Args:
        competition_id (`str`):
            One of MLE-bench's.
        data_dir (`str`, *optional*):
            Where to; defaults to where [`load_competition`] looks.

    Returns:
        `Path`: Its public files.

    Raises:
        [`CompetitionError`]: There is no such competition, or it could not be prepared: why, and what to do.
    """
    if competition_id not in MLEBENCH_COMPETITIONS:
        near = difflib.get_close_matches(competition_id, MLEBENCH_COMPETITIONS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(MLEBENCH_COMPETITIONS)}"
        raise CompetitionError(f"{competition_id!r} is none of MLE-bench's twelve; {hint}")
    try:
        return load_competition(competition_id, data_dir).public_dir
    except CompetitionError as error:
        folder = re.search(r"prepared in (\S+);", str(error))
    if shutil.which("mlebench") is None:
        raise CompetitionError(INSTALL.format(competition=competition_id))
    data_dir = data_dir or os.environ.get("MLEBENCH_DATA_DIR")  # ours: mlebench knows no such variable
    command = ["mlebench", "prepare", "-c", competition_id, *(["--data-dir", data_dir] if data_dir else [])]
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
        last = " ".join((said.strip().splitlines() or ["nothing was said"])[-1].split())
        raise CompetitionError(f"mlebench prepare failed with exit code {process.returncode}: {last}")
    return load_competition(competition_id, data_dir).public_dir
