"""Competitions as Harbor tasks (https://www.harborframework.com/docs/tasks), for TRL's `HarborSpec` and for Harbor's agents."""

import importlib
import json
import math
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import trl_mle
from trl_mle.competitions import Competition, CompetitionError, TaskSet
from trl_mle.competitions.competition import path_slug
from trl_mle.competitions.families import PREFIX, reference_solution, score_range
from trl_mle.competitions.metrics import Metric
from trl_mle.competitions.prepared import copy_files, new_folder
from trl_mle.environments.harbor_grader import HOME, Reward
from trl_mle.execution import Limits
from trl_mle.prompts import plain_text, submission_rules
from trl_mle.rewards.mle_reward import lowest_valid_reward
from trl_mle.showing import metric_in_words
from trl_mle.user_code import import_named


SCHEMA = "1.4"  # of task.toml, as of Harbor 0.26
USER = HOME.name  # of the image, who is not root
AGENT = Limits(timeout_s=1800.0)
PACKAGES = ("numpy", "pandas", "scipy", "scikit-learn", "pillow")  # of the image
MODULES = {"numpy", "pandas", "scipy", "sklearn", "PIL"}  # of these packages
# What `tests/` holds of this package: the grader and what it imports
GRADER = (
    "spelling.py",
    "user_code.py",
    "competitions/split.py",
    "competitions/metrics.py",
    "competitions/competition.py",
    "execution/inside/submission.py",
    "environments/harbor_grader.py",
)
# Fields of a competition that `competition.json` leaves out: files, which lie elsewhere there, and what is made from the rest
LEFT_OUT = ("public_dir", "sample_submission", "answers", "custom_metric", "holdout")

_INSTRUCTION = """\
{description}

## Your task

Your working directory is {home}. The files described above are in {home}/input. Predict the test set, and write the predictions to \
{home}/submission.csv, in the format of {home}/input/{sample}. Only that file is graded, once, when you have finished, even if \
you are asked to write an answer elsewhere.{rules}

Metric: {metric} ({direction} is better). You have {minutes:g} minutes, {threads} CPU core(s) and {memory_mb} MB of memory. \
Python is installed with {packages}.
"""

# scikit-learn's own data holds the hidden labels of the local competitions. The user may change neither the packages, which the
# grader imports, nor /tests. TRL's `HarborBashEnv` makes /workdir
_DOCKERFILE = """\
FROM python:{python}-slim
RUN pip install --no-cache-dir {packages} \\
    && rm -r /usr/local/lib/python{python}/site-packages/sklearn/datasets/data
RUN useradd --create-home --home-dir {home} {user} && mkdir /workdir && chown {user} /workdir
WORKDIR {home}
{copies}
USER {user}
"""

# In the folder of the tests, and without the user's packages and variables: nothing that the agent left is imported
_TEST = """\
#!/bin/bash
cd "$(dirname "$0")" && exec python3 -E -s -m trl_mle.environments.harbor_grader
"""

_SOLVE = f"""\
#!/bin/bash
cd {HOME} && exec python3 /solution/solution.py
"""


def export_harbor(tasks: TaskSet, folder: Path, limits: Limits = AGENT, organization: str = "trl-mle") -> list[Path]:
    """
    Writes competitions as Harbor tasks, with schema 1.4 of `task.toml`.

    The image holds the public files. The answers and the grader are in `tests/`: Harbor uploads them to a container of their own, to which
    it brings the submission. The reward is the score on all rows, its sign flipped where lower is better, at least -9; an
    invalid submission has -10. At generated tasks, whose range is known, it is the normalised score, at least 0; an invalid
    submission has -1.

    Args:
        tasks ([`~trl_mle.competitions.TaskSet`]):
            The competitions.
        folder (`Path`):
            Folder to write, which must not exist yet: `tasks/` in it has a folder for each task.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Time, cores and memory of an agent. Defaults to half an hour, one core and 4,096 MB.
        organization (`str`, *optional*, defaults to `"trl-mle"`):
            The part of the tasks' names before the slash.

    Returns:
        `list[Path]`: The folders of the tasks.

    Raises:
        `FileExistsError`: The folder exists.
        [`CompetitionError`]: A competition cannot be loaded or named, or its metric is part of a package.
        `ValueError`: Harbor would not take the limits.
    """
    exists = FileExistsError(f"{folder} exists: name another folder with --harbor")
    if folder.exists():
        raise exists
    if not all(0 < limit < math.inf for limit in (limits.timeout_s, limits.memory_mb, limits.threads)):
        raise ValueError("--agent_timeout_s, --memory_mb and --cpus must be finite and above 0")
    names = _names(tasks)
    with new_folder(folder, exists) as staged:
        for name, competition_id in names.items():
            _write_task(tasks[competition_id], staged / "tasks" / name, f"{organization}/{name}", limits)
    return [folder / "tasks" / name for name in names]


def _names(tasks: TaskSet) -> dict[str, str]:
    """The competitions' ids, by the names of their tasks, of letters, digits, dots, underscores and hyphens."""
    names: dict[str, str] = {}
    for competition_id in tasks:
        name = re.sub(r"\.+", ".", path_slug(competition_id)).lstrip("._-")
        if not name or name in names:
            raise CompetitionError(
                f"{competition_id!r} needs an id of its own with letters from a to z, to name a task"
            )
        names[name] = competition_id
    return names


def _write_task(competition: Competition, folder: Path, name: str, limits: Limits) -> None:
    reward, environment = _reward(competition), folder / "environment"
    _copy_grader(competition, reward, folder / "tests")
    copy_files(competition.public_dir, environment / "input")  # which the image's user may read, whatever the umask
    (environment / "Dockerfile").write_text(_dockerfile(environment), encoding="utf-8")
    (folder / "instruction.md").write_text(_instruction(competition, limits), encoding="utf-8")
    (folder / "task.toml").write_text(_config(competition, reward, name, limits), encoding="utf-8")
    if competition.id.startswith(PREFIX):
        _write_script(folder / "solution" / "solve.sh", _SOLVE)
        (folder / "solution" / "solution.py").write_text(reference_solution(competition.id), encoding="utf-8")


def _reward(competition: Competition) -> Reward:
    if competition.id.startswith(PREFIX):
        return Reward(*score_range(competition), lowest=0.0, invalid=-1.0)
    return Reward(0.0, competition.scoring.gain(1.0), lowest_valid_reward(), invalid=-10.0)


def _copy_grader(competition: Competition, reward: Reward, tests: Path) -> None:
    package = Path(trl_mle.__file__).parent
    for name in GRADER:
        copy = tests / "trl_mle" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package / name, copy)
        for folder in copy.relative_to(tests).parents[:-1]:
            (tests / folder / "__init__.py").touch()
    answers = "".join(["answers", *competition.answers.suffixes])  # pandas finds the compression by the name
    shutil.copyfile(competition.answers, tests / answers)
    facts = {item.name: getattr(competition, item.name) for item in fields(Competition) if item.name not in LEFT_OUT}
    task = {
        "competition": facts,
        "answers": answers,
        "sample_submission": competition.sample_submission.relative_to(competition.public_dir).as_posix(),
        "metric_options": _own_metric(competition, tests) if competition.custom_metric is not None else {},
        "reward": reward._asdict(),
    }
    text = json.dumps(task, indent=2, ensure_ascii=False) + "\n"
    (tests / "competition.json").write_text(text, encoding="utf-8")
    _write_script(tests / "test.sh", _TEST)


def _own_metric(competition: Competition, tests: Path) -> dict[str, Any]:
    """Copies the module of a user's own metric; returns the arguments with which the grader finds the metric."""
    if competition.grader:
        raise CompetitionError(
            f"{competition.id!r} is graded by {competition.grader}, which is not exported: leave it out"
        )
    metric, scoring = competition.metric, competition.scoring
    try:
        loaded = import_named("metric", metric)
    except ValueError as error:
        raise CompetitionError(f"{competition.id!r}: {error}") from error
    module = metric.rpartition(".")[0]
    if module.partition(".")[0] not in MODULES:
        source = Path(importlib.import_module(module).__file__ or "")
        if "." in module or source.suffix != ".py":
            raise CompetitionError(
                f"the metric {metric} of {competition.id!r} must be in a file of its own, such as my_module.py, to be graded elsewhere"
            )
        shutil.copyfile(source, tests / source.name)
    if isinstance(loaded, Metric):
        return {}
    return {"higher_is_better": scoring.higher_is_better, "takes": str(scoring.takes)}


def _dockerfile(environment: Path) -> str:
    """Copies the files by name: TRL's `HarborEnv` uploads those to sandboxes whose build leaves them out."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    paths = sorted((environment / "input").iterdir())
    copies = [f"COPY input/ {HOME}/input/"]
    if all(re.fullmatch(r"[\w.-]+", path.name, flags=re.ASCII) for path in paths):
        files = " ".join(f"input/{path.name}" for path in paths if path.is_file())
        folders = [f"COPY input/{path.name}/ {HOME}/input/{path.name}/" for path in paths if path.is_dir()]
        copies = [f"COPY {files} {HOME}/input/", *folders]
    # Those that have graded here: equal submissions have equal scores
    packages = " ".join(f"{name}=={version(name)}" for name in PACKAGES)
    return _DOCKERFILE.format(python=python, packages=packages, home=HOME, user=USER, copies="\n".join(copies))


def _instruction(competition: Competition, limits: Limits) -> str:
    rules = submission_rules(competition)
    text = _INSTRUCTION.format(
        description=competition.description.strip(),
        home=HOME,
        sample=competition.sample_submission.relative_to(competition.public_dir).as_posix(),
        rules=f" {rules}" if rules else "",
        metric=metric_in_words(competition.metric),
        direction="higher" if competition.higher_is_better else "lower",
        minutes=limits.timeout_s / 60,
        threads=limits.threads,
        memory_mb=limits.memory_mb,
        packages=", ".join(PACKAGES),
    )
    return plain_text(text)


def _config(competition: Competition, reward: Reward, name: str, limits: Limits) -> str:
    return _toml(
        {
            "": {"schema_version": SCHEMA, "artifacts": [f"{HOME}/submission.csv"]},
            "task": {
                "name": name,
                "description": competition.id,
                "keywords": ["machine-learning", competition.metric],
            },
            "metadata": {
                "competition": competition.id,
                "metric": competition.metric,
                "higher_is_better": competition.higher_is_better,
                **{f"reward_{key}": value for key, value in reward._asdict().items()},
            },
            "verifier": {"environment_mode": "separate", "user": "root", "timeout_sec": 600.0},
            "agent": {"user": USER, "timeout_sec": limits.timeout_s},
            "environment": {"build_timeout_sec": 1800.0, "cpus": limits.threads, "memory_mb": limits.memory_mb},
        }
    )


def _toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """TOML of strings, numbers, truth values and lists of strings, which it writes as JSON does, but for one sign."""
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]"] if section else []
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
        lines.append("")
    return "\n".join(lines).replace("\x7f", "\\u007f")


def _write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
