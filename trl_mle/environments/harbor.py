"""Competitions as Harbor tasks (https://www.harborframework.com/docs/tasks), for `HarborSpec` and Harbor's agents."""

import importlib
import json
import re
import shutil
import sys
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import trl_mle
from trl_mle.competitions import Competition, CompetitionError, TaskSet
from trl_mle.competitions.competition import path_slug
from trl_mle.competitions.families import PREFIX, reference_solution, score_range
from trl_mle.competitions.metrics import Metric
from trl_mle.competitions.prepared import copy_file, new_folder
from trl_mle.data_files import read_data
from trl_mle.environments.harbor_grader import HOME, Reward
from trl_mle.execution import Limits
from trl_mle.prompts import plain_text, submission_rules
from trl_mle.rewards.mle_reward import lowest_valid_reward
from trl_mle.showing import metric_in_words


USER = HOME.name  # of the image, who is not root
AGENT = Limits(timeout_s=1800.0)
PACKAGES = ("numpy", "pandas", "scipy", "scikit-learn", "pillow")  # of the image
MODULES = {"numpy", "pandas", "scipy", "sklearn", "PIL"}  # of these packages
# What `tests/` holds of this package: the grader and what it imports
GRADER = (
    *("spelling.py", "user_code.py", "execution/inside/submission.py", "environments/harbor_grader.py"),
    *("competitions/split.py", "competitions/metrics.py", "competitions/competition.py"),
)
# Fields of a competition that `competition.json` leaves out: files, which lie elsewhere, and what follows from others
LEFT_OUT = ("public_dir", "sample_submission", "answers", "custom_metric", "holdout")
TEMPLATES = read_data(Path(__file__).with_name("harbor.yaml"))


def export_harbor(tasks: TaskSet, folder: Path, limits: Limits = AGENT) -> list[Path]:
    """
    Writes competitions as Harbor tasks, and returns their folders. Raises `FileExistsError` or [`CompetitionError`].

    The image holds the public files; the answers and the grader are in `tests/`. The reward is the score on all rows,
    its sign flipped where lower is better, at least -9; an invalid submission has -10. At generated tasks it is the
    normalised score, at least 0; an invalid submission has -1.

    Args:
        tasks ([`~trl_mle.competitions.TaskSet`]), folder (`Path`):
            The competitions; a folder to write, which must not exist yet.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Time, cores and memory of an agent. Defaults to half an hour, one core and 4,096 MB.
    """
    names = {re.sub(r"\.+", ".", path_slug(competition_id)).lstrip("._-"): competition_id for competition_id in tasks}
    if "" in names or len(names) < len(tasks):
        raise CompetitionError("two ids differ in dots alone, or one has no letters from a to z: rename them")
    with new_folder(folder, FileExistsError(f"{folder} exists: name another folder with --harbor")) as staged:
        for name, competition_id in names.items():
            _write_task(tasks[competition_id], staged / "tasks" / name, limits)
    return [folder / "tasks" / name for name in names]


def _write_task(competition: Competition, folder: Path, limits: Limits) -> None:
    is_generated = competition.id.startswith(PREFIX)
    if is_generated:
        reward = Reward(*score_range(competition), lowest=0.0, invalid=-1.0)
    else:
        reward = Reward(0.0, competition.scoring.gain(1.0), lowest_valid_reward(), invalid=-10.0)
    _copy_grader(competition, reward, folder / "tests")
    public = folder / "environment/input"
    for path in competition.public_dir.rglob("*"):
        if path.is_file():  # also a link, which becomes a file; the image's user may read it, whatever the umask
            copy_file(path, public / path.relative_to(competition.public_dir))
    files = {
        "environment/Dockerfile": _dockerfile(public),
        "instruction.md": _instruction(competition, limits),
        "task.toml": _config(competition, reward, folder.name, limits),
        "tests/test.sh": TEMPLATES["test"],
    }
    if is_generated:
        files["solution/solve.sh"] = TEMPLATES["solve"].format(home=HOME)
        files["solution/solution.py"] = reference_solution(competition.id)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)


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


def _own_metric(competition: Competition, tests: Path) -> dict[str, Any]:
    """Copies the module of a user's own metric; returns the arguments with which the grader finds the metric."""
    scoring = competition.scoring
    if competition.grader:
        raise CompetitionError(f"{competition.id!r} is graded by {competition.grader}, which is not exported")
    name, _, attribute = competition.metric.rpartition(".")
    module = importlib.import_module(name)
    if name.partition(".")[0] not in MODULES:
        if "." in name or not str(module.__file__).endswith(f"{name}.py"):
            raise CompetitionError(f"{competition.id!r}: put its metric {competition.metric} into one file")
        shutil.copyfile(str(module.__file__), tests / f"{name}.py")
    if isinstance(getattr(module, attribute), Metric):
        return {}
    return {"higher_is_better": scoring.higher_is_better, "takes": str(scoring.takes)}


def _dockerfile(public: Path) -> str:
    """Copies the files by name: TRL's `HarborEnv` uploads those to sandboxes whose build leaves them out."""
    paths = sorted(public.iterdir())
    copies = [f"COPY input/ {HOME}/input/"]
    if all(re.fullmatch(r"[\w.-]+", path.name, flags=re.ASCII) for path in paths):
        files = " ".join(f"input/{path.name}" for path in paths if path.is_file())
        folders = [f"COPY input/{path.name}/ {HOME}/input/{path.name}/" for path in paths if path.is_dir()]
        copies = [f"COPY {files} {HOME}/input/", *folders]
    return TEMPLATES["dockerfile"].format(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        # The versions that have graded here: equal submissions have equal scores
        packages=" ".join(f"{name}=={version(name)}" for name in PACKAGES),
        home=HOME,
        user=USER,
        copies="\n".join(copies),
    )


def _instruction(competition: Competition, limits: Limits) -> str:
    rules = submission_rules(competition)
    text = TEMPLATES["instruction"].format(
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
    facts: dict[str, Any] = {"name": f"trl-mle/{name}", "id": competition.id, "metric": competition.metric}
    facts |= {"higher_is_better": competition.higher_is_better, **reward._asdict()}
    facts |= {name: getattr(limits, name) for name in ("timeout_s", "threads", "memory_mb")}
    # TOML writes strings, numbers and truth values as JSON does, but for one sign
    values = {key: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for key, value in facts.items()}
    return TEMPLATES["config"].format(home=HOME, user=USER, **values)
