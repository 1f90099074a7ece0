"""`trl-mle report`: reports on training runs in one self-contained HTML file."""

import base64
import io
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import jinja2
import matplotlib as mpl
import pandas as pd

from trl_mle.report.charts import STYLE, Chart, Groups, charts
from trl_mle.report.training_run import TrainingRun, percent, read_run
from trl_mle.rewards.evaluation import kind_of_failure
from trl_mle.showing import for_terminal, in_words, metric_name, shorten, terminal_line


MOST_ERRORS = 12
PNG_DPI = 150
TEMPLATE = "page.html.jinja"


def write_report(folders: Sequence[Path], names: Sequence[str], report_dir: Path) -> Path:
    """
    Writes `report.html`, which makes no request of any kind, and its plots as PNG files.

    Args:
        folders (`Sequence[Path]`):
            Output folders of runs, finished or not.
        names (`Sequence[str]`):
            A name for each; runs with the same name are shown as mean and band.
        report_dir (`Path`):
            Folder to write to.

    Raises:
        `OSError`: A folder holds no run.
        `ValueError`: A folder is named twice, or the names do not match the folders.
    """
    if len(names) != len(folders):
        raise ValueError(f"--names: give one name for each run (names: {len(names)}, runs: {len(folders)})")
    for i, folder in enumerate(folders):
        if folder.resolve() in [other.resolve() for other in folders[:i]]:
            raise ValueError(f"{folder} is given twice: name every run once")
    runs = [read_run(folder, name) for folder, name in zip(folders, names, strict=True)]
    skipped = [note for run in runs for note in run.skipped]
    for run in runs:
        if not run.executions.empty and (count := run.executions["competition"].nunique()) > len(run.competitions):
            skipped.append(f"{run.name}: {len(run.competitions)} of {count:,} competitions are shown one by one")
    for note in skipped:
        print(f"trl-mle: {terminal_line(note)}", file=sys.stderr)
    groups: dict[str, list[TrainingRun]] = defaultdict(list)
    for run in runs:
        groups[run.name].append(run)
    report_dir.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        pictures = [(chart, _save(chart, report_dir)) for chart in charts(groups)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: for_terminal(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template(TEMPLATE).render(
        title=f"Training report: {' · '.join(groups)}",
        time=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        skipped=skipped,
        runs=list(_rows(groups)),
        charts=pictures,
        best=list(_best_programs(groups)),
        errors=list(_errors(groups)),
        folders=[{"run": name, "folder": str(folder)} for name, folder in zip(names, folders, strict=True)],
    )
    path = report_dir / "report.html"
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def _save(chart: Chart, folder: Path) -> str:
    """Writes a picture as PNG; returns it as SVG in base64: as a separate image, so that ids in different plots do not clash."""
    chart.figure.savefig(folder / f"{chart.name}.png", dpi=PNG_DPI)
    svg = io.BytesIO()
    chart.figure.savefig(svg, format="svg", metadata={"Date": None})
    return base64.b64encode(svg.getvalue()).decode()


def _rows(groups: Groups) -> Iterator[dict[str, str]]:
    """A row for each name, and for each of several competitions; figures are means over runs."""
    for name, runs in groups.items():
        competitions = list(dict.fromkeys(competition for run in runs for competition in run.competitions))
        for competition in [None, *(competitions if len(competitions) > 1 else [])]:
            tables = [table for run in runs if not (table := run.programs(competition)).empty]
            quarters = [(table["valid"], max(1, len(table) // 4)) for table in tables]
            seconds = [run.training_s for run in runs if run.training_s is not None]
            best = [one for run in runs for one in run.best if competition in (None, one["competition"])]
            untrained, valid = (sum(int(table[column].sum()) for table in tables) for column in ("untrained", "valid"))
            title = name if len(runs) == 1 else f"{name} ({len(runs)} runs)"
            yield {
                "run": title if competition is None else f"{title}, {competition}",
                "steps": f"{fmean(max((entry['step'] for entry in run.history), default=0) for run in runs):.0f}",
                "training time": in_words(fmean(seconds)) if seconds else "-",
                "programs": _mean([len(table) for table in tables], "{:.0f}"),
                "valid, first quarter": percent(fmean(values[:n].mean() for values, n in quarters)) if tables else "-",
                "valid, last quarter": percent(fmean(values[-n:].mean() for values, n in quarters)) if tables else "-",
                "mean Δt (s)": _mean([table["duration_s"].mean() for table in tables], "{:.2f}"),
                "valid, never trained a model": f"{untrained} of {valid}",
                "failures of ours": str(sum(len(run.executions) - len(run.programs()) for run in runs)),
                "best score": ", ".join(_best_scores(best)) or "-",
            }


def _mean(values: Sequence[float], form: str) -> str:
    """The mean, with the standard deviation if values differ."""
    if not values:
        return "-"
    deviation = f" ± {form.format(stdev(values))}" if len(set(values)) > 1 else ""
    return form.format(fmean(values)) + deviation


def _best_scores(best: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The mean of the best scores over runs for each competition."""
    for competition, of_runs in _by_competition(best).items():
        form = "{:g}" if len(of_runs) == 1 else "{:.4f}"
        score = _mean([one["reported"] for one in of_runs], form)
        yield f"{score} ({competition}, {metric_name(of_runs[0]['metric'], of_runs[0]['higher_is_better'])})"


def _by_competition(best: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in best:
        groups[one["competition"]].append(one)
    return groups


def _best_programs(groups: Groups) -> Iterator[tuple[str, str]]:
    """A title and the best program of each competition, over all runs with a name."""
    for name, runs in groups.items():
        for of_runs in _by_competition([best for run in runs for best in run.best]).values():
            best = (max if of_runs[0]["higher_is_better"] else min)(of_runs, key=itemgetter("score"))
            metric = metric_name(best["metric"], best["higher_is_better"])
            title = f"{best['competition']}: {metric} {best['reported']:g}"
            yield (f"{name}, {title}" if len(groups) > 1 else title), best["source"]


def _errors(groups: Groups) -> Iterator[dict[str, str]]:
    """The most frequent errors of each name; those that differ only in names and numbers count as one."""
    for name, runs in groups.items():
        tables = [table for run in runs if not (table := run.programs()).empty]
        if not tables:
            continue
        programs = pd.concat(tables)
        failed = programs[~programs["valid"]]
        kinds = map(kind_of_failure, failed["outcome"], failed["detail"])
        most = failed.assign(kind=list(kinds)).groupby("kind", sort=False)["detail"].agg(["size", "last"])
        for kind, (count, example) in most.nlargest(MOST_ERRORS, "size").iterrows():
            yield {
                "error": str(kind),
                **({"run": name} if len(groups) > 1 else {}),
                "programs": f"{count} ({percent(count / len(programs))})",
                "an example": shorten(example, 160),
            }
