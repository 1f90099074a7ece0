"""`trl-mle report`: reports on a training run in one self-contained HTML file."""

import base64
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl

from trl_mle.report.charts import STYLE, Chart, charts
from trl_mle.report.training_run import TrainingRun, percent, read_run
from trl_mle.rewards.evaluation import kind_of_failure
from trl_mle.showing import for_terminal, in_words, metric_name, shorten


MOST_ERRORS = 12
PNG_DPI = 150
TEMPLATE = "page.html.jinja"


def write_report(folder: Path, report_dir: Path) -> Path:
    """Writes `report.html` about the run in a folder, finished or not, and its plots as PNG files. Raises `OSError` if
    the folder holds no run."""
    run = read_run(folder)
    report_dir.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        pictures = [(chart, _save(chart, report_dir)) for chart in charts(run)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: for_terminal(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template(TEMPLATE).render(
        title=f"Training report: {folder}",
        time=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        skipped=run.skipped,
        competitions=list(_rows(run)),
        charts=pictures,
        best=[(f"{best['competition']}: {_metric(best)} {best['reported']:g}", best["source"]) for best in run.best],
        errors=list(_errors(run)),
    )
    path = report_dir / "report.html"
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def _save(chart: Chart, folder: Path) -> str:
    """Writes a picture as PNG; returns it as SVG in base64, so that ids of different plots do not clash."""
    chart.figure.savefig(folder / f"{chart.name}.png", dpi=PNG_DPI)
    svg = io.BytesIO()
    chart.figure.savefig(svg, format="svg", metadata={"Date": None})
    return base64.b64encode(svg.getvalue()).decode()


def _rows(run: TrainingRun) -> Iterator[dict[str, str]]:
    """A row for the run, and for each of several competitions."""
    several = run.competitions if len(run.competitions) > 1 else []
    for competition in [None, *several]:
        table = run.programs(competition)
        written = run.executions if competition is None else run.executions.query("competition == @competition")
        quarter = max(1, len(table) // 4)
        best = [one for one in run.best if competition in (None, one["competition"])]
        scores = [f"{one['reported']:g} ({one['competition']}, {_metric(one)})" for one in best]
        row = {"programs": str(len(table))}
        if not table.empty:
            row |= {
                "valid, first quarter": percent(table["valid"].iloc[:quarter].mean()),
                "valid, last quarter": percent(table["valid"].iloc[-quarter:].mean()),
                "mean Δt (s)": f"{table['duration_s'].mean():.2f}",
                "valid, never trained a model": f"{table['untrained'].sum()} of {table['valid'].sum()}",
            }
        yield {
            "competition": competition or "all",
            "steps": str(max((entry["step"] for entry in run.history), default=0)),
            "training time": "-" if run.training_s is None else in_words(run.training_s),
            **row,
            "failures of ours": str(len(written) - len(table)),
            "best score": ", ".join(scores) or "-",
        }


def _metric(best: dict[str, Any]) -> str:
    return metric_name(best["metric"], best["higher_is_better"])


def _errors(run: TrainingRun) -> Iterator[dict[str, str]]:
    """The most frequent errors; those that differ only in names and numbers count as one."""
    programs = run.programs()
    if programs.empty:
        return
    failed = programs[~programs["valid"]]
    kinds = map(kind_of_failure, failed["outcome"], failed["detail"])
    most = failed.assign(kind=list(kinds)).groupby("kind", sort=False)["detail"].agg(["size", "last"])
    for kind, (count, example) in most.nlargest(MOST_ERRORS, "size").iterrows():
        yield {
            "error": str(kind),
            "programs": f"{count} ({percent(count / len(programs))})",
            "an example": shorten(example, 160),
        }
