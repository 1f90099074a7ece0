"""Keeps the packages listed in a run's prompts constant."""

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

from trl_mle.execution.program import Limits
from trl_mle.files import write_whole


logger = logging.getLogger(__name__)

LIMITS_FILE = "limits.json"  # in the output folder of a training run or an evaluation


def keep_packages(limits: Limits, folder: Path, begun_in: Path | None = None) -> Limits:
    """
    The executor's limits with the packages that a run's first prompts listed, those of the folder in which it
    began: no prompt changes when it resumes on another machine. Stores them in the output folder.
    """
    if begun_in is not None and (known := begun_in / LIMITS_FILE).is_file():
        packages = tuple(json.loads(known.read_text(encoding="utf-8"))["packages"])
        if missing := [name for name in packages if name not in limits.packages]:
            logger.warning("prompts still list packages that programs can no longer import: %s", ", ".join(missing))
        limits = replace(limits, packages=packages)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / LIMITS_FILE, (json.dumps(asdict(limits), indent=2) + "\n").encode())
    return limits
