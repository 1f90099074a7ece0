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
    Returns the limits that a run's prompts state, and stores them in its output folder: the executor's, with the
    packages that the first prompts listed, those of the folder in which a resumed run began. So no prompt changes when
    the run resumes on another machine or after an upgrade.
    """
    if begun_in is not None and (known := begun_in / LIMITS_FILE).is_file():
        packages = tuple(json.loads(known.read_text(encoding="utf-8"))["packages"])
        if missing := [name for name in packages if name not in limits.packages]:
            logger.warning("prompts still list packages that programs can no longer import: %s", ", ".join(missing))
        limits = replace(limits, packages=packages)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / LIMITS_FILE, (json.dumps(asdict(limits), indent=2) + "\n").encode())
    return limits
