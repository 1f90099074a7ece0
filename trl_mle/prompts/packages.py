"""The packages that the prompts of a run name, from its beginning to its end."""

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

from trl_mle.execution.program import REQUIRED, Limits


logger = logging.getLogger(__name__)

LIMITS_FILE = "limits.json"  # in the output folder of a training run or an evaluation


def keep_packages(limits: Limits, folder: Path, begun_in: Path | None = None) -> Limits:
    """
    The limits that the prompts of a run state: the executor's, with the packages that its first prompts named. So no prompt
    changes when it goes on, on another machine or after an upgrade. They are kept in the output folder, as `limits.json`.

    Args:
        limits ([`~trl_mle.execution.Limits`]):
            What programs may use here and now.
        folder (`Path`):
            The run's output folder.
        begun_in (`Path`, *optional*):
            The output folder in which it was begun, if it goes on. Without the file there, its prompts named the usual packages:
            it is a run of 0.1.0.

    Returns:
        [`~trl_mle.execution.Limits`]: What the prompts state.
    """
    if begun_in is not None:
        packages = REQUIRED
        if (known := begun_in / LIMITS_FILE).is_file():
            packages = tuple(json.loads(known.read_text(encoding="utf-8"))["packages"])
        if missing := [name for name in packages if name not in limits.packages]:
            logger.warning("prompts go on naming what programs can no longer import: %s", ", ".join(missing))
        limits = replace(limits, packages=packages)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{LIMITS_FILE}.tmp"
    partial.write_text(json.dumps(asdict(limits), indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / LIMITS_FILE)
    return limits
