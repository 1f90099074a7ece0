"""`trl-mle import`: makes competitions of the task packages of other projects."""

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trl_mle.competitions import Competition, CompetitionError
from trl_mle.competitions.importing import Imported, find_packages, import_package
from trl_mle.competitions.prepared import copy_file, write_file
from trl_mle.execution import LocalExecutor, Outcome
from trl_mle.showing import metric_name, terminal_line


TIMEOUT_S = 120.0  # of a metric, for all trial submissions
PROGRAM = Path(__file__).with_name("score_trials.py")
PARTS = ("package", "trials")


def import_packages(
    folder: Path,
    to: Path,
    metric: str | None = None,
    higher_is_better: bool | None = None,
    sandbox: str = "auto",
    python: str | None = None,
) -> int:
    """
    Makes a competition of each package in a folder, and prints a line for each.

    Args:
        folder (`Path`):
            A package, or a folder of packages.
        to (`Path`):
            Folder to write to, with a folder for each competition.
        metric (`str`, *optional*), higher_is_better (`bool`, *optional*):
            See [`~trl_mle.competitions.importing.import_package`].
        sandbox (`str`, *optional*, defaults to `"auto"`), python (`str`, *optional*):
            See [`~trl_mle.execution.LocalExecutor`], which runs the packages' metrics.

    Returns:
        `int`: Exit code: 1 if a package cannot become a competition.
    """
    packages = find_packages(folder)
    made = []
    with (
        tempfile.TemporaryDirectory(prefix="trl_mle-import-") as place,
        LocalExecutor(max_parallel=1, timeout_s=TIMEOUT_S, sandbox=sandbox, python=python) as executor,
    ):
        run_metric = MetricRunner(executor, Path(place))
        for package in packages:
            target = to / package.name
            try:
                imported = import_package(package, target, run_metric, metric, higher_is_better)
            except (ValueError, OSError, OverflowError) as error:  # a CompetitionError; a number too large for a float
                print(f"failed    {terminal_line(f'{package.name}: {error}')}", flush=True)
                continue
            made.append(target)
            print(f"imported  {terminal_line(f'{package.name}: {_described(imported)}')}", flush=True)
    print(f"{len(made)} of {len(packages)} in {to}/")
    if made:
        first = str(made[0]) if "/" in str(made[0]) else f"./{made[0]}"
        print(f"then      trl-mle prompt {terminal_line(shlex.quote(first))}")
    return 0 if len(made) == len(packages) else 1


class MetricRunner:
    """
    Runs the metrics of packages in a sandbox, as training runs the programs of a model.

    Args:
        executor ([`~trl_mle.execution.LocalExecutor`]):
            Runs them.
        place (`Path`):
            Folder for their files.
    """

    def __init__(self, executor: LocalExecutor, place: Path):
        self._executor = executor
        self._place = place

    def __call__(self, files: Mapping[str, Path | bytes]) -> bytes:
        """
        Runs `score_trials.py` with these files.

        Raises:
            [`~trl_mle.competitions.CompetitionError`]: It failed, or wrote nothing.
        """
        with tempfile.TemporaryDirectory(dir=self._place) as closed:  # others may not enter
            folder = Path(closed, "input")
            for name in PARTS:
                (folder / name).mkdir(parents=True)
            for name, content in files.items():
                if isinstance(content, bytes):
                    write_file(folder / name, content)
                else:
                    copy_file(content, folder / name)
            asked = Competition("import", "accuracy", folder, folder, folder, ())
            [result] = self._executor.run_many([(PROGRAM.read_text(encoding="utf-8"), asked)])
        if result.outcome is Outcome.INFRASTRUCTURE:
            raise CompetitionError(f"its metric could not be run: {result.detail}; import it again")
        if result.outcome is not Outcome.OK:
            raise CompetitionError(f"its metric fails ({result.outcome}: {result.detail}): name another with --metric")
        if result.submission is None:
            raise CompetitionError("its metric ended the process before it had scored: name another with --metric")
        return result.submission


def _described(imported: Imported) -> str:
    competition, match = imported.competition, imported.recognized
    name = metric_name(competition.metric, competition.higher_is_better)
    if match is None:
        return f"{name}, as given"
    difference = round(match.difference, 12)
    return f"{name}, the same as its metric on {match.trials} trials (largest difference {difference:.2g})"
