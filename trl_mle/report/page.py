"""`trl-mle report`: reports on training runs in one self-contained HTML file."""

import base64
import io
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib as mpl
import pandas as pd

from trl_mle.report.charts import Chart, charts, duration
from trl_mle.report.drawing import STYLE, Groups
from trl_mle.report.training_run import TrainingRun, ancestors, percent, read_run
from trl_mle.rewards.evaluation import kind_of_failure
from trl_mle.showing import for_html, metric_name, shorten, terminal_line


MOST_ERRORS = 12
MOST_GENERATIONS = 8
PNG_DPI = 150

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1240px; margin: 0 auto; padding: 12px 16px; }}
h1 {{ font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #ddd; }}
h3 {{ font-size: 1rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }}
.charts {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)); gap: 20px; align-items: start; }}
section > h3 {{ margin-top: 1rem; }}
figure {{ margin: 0; border: 1px solid #e4e4e4; border-radius: 6px; padding: 10px; }}
figure img {{ width: 100%; max-width: 480px; height: auto; display: block; margin: 0 auto; }}
figcaption, .note {{ font-size: .85rem; color: #444; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
th, td {{ text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid #eee; vertical-align: top; }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
pre {{ background: #f6f6f6; padding: 8px; overflow-x: auto; font-size: .8rem; line-height: 1.35; }}
code {{ overflow-wrap: anywhere; }}
summary {{ cursor: pointer; }}
@media (max-width: 600px) {{  /* a phone: a row of a table is a list */
  table {{ width: 100%; }}
  thead {{ display: none; }}
  tr {{ display: block; padding: 6px 0; border-bottom: 1px solid #ddd; }}
  td, td.number {{ display: flex; gap: 12px; justify-content: space-between; border: 0; padding: 1px 0; text-align: right; overflow-wrap: anywhere; }}
  td::before {{ content: attr(data-name); color: #444; text-align: left; flex-shrink: 0; max-width: 45%; }}
  td:first-child {{ display: block; font-weight: 600; text-align: left; }}
  td:first-child::before {{ content: none; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="note">{note}</p>
{body}
</body>
</html>
"""


RUNS_NOTE = (
    '<p class="note">Programs: the completions with code. The others are not executed, and count in no figure of the '
    "programs. Training time: the sum of the steps' times, without checkpoints, evaluations and pauses.</p>"
)
HELD_OUT_NOTE = (
    '<p class="note">The best programs are chosen on the hidden rows that training sees, and scored on the held-out rows. '
    "Chosen by test: chosen and scored on all hidden rows. Logged metrics and scores of ancestors are on the rows that "
    "training sees.</p>"
)


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
        `ValueError`: A folder is given twice.
    """
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
    with mpl.rc_context(STYLE):
        pictures = list(charts(groups))
        report_dir.mkdir(parents=True, exist_ok=True)
        shown = [_figure(chart, report_dir) for chart in pictures]
    title = " · ".join(groups)
    body = [
        "".join(f'<p class="note">{for_html(note)}</p>' for note in skipped),
        _section(
            "Runs",
            _table(_summary(groups)) + RUNS_NOTE + (HELD_OUT_NOTE if any(run.holds_out for run in runs) else ""),
        ),
        _section("Competitions", _table(_of_competitions(groups))),
        _section("Plots", f'<div class="charts">{"".join(shown)}</div>'),
        _section(
            "Best programs",
            "".join(
                part for name, of_name in groups.items() for part in _best_programs(name, of_name, len(groups) > 1)
            ),
        ),
        _section("Most frequent errors", _errors(groups)),
        _section(
            "Folders", _table([{"run": name, "folder": folder} for name, folder in zip(names, folders, strict=True)])
        ),
    ]
    path = report_dir / "report.html"
    page = PAGE.format(
        title=for_html(f"Training report: {title}"),
        note=f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Curves over training steps end with the last logged step, those over "
        "programs with the last program.",
        body="".join(body),
    )
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def _section(title: str, content: str) -> str:
    return f"<section><h2>{for_html(title)}</h2>{content}</section>\n" if content else ""


def _figure(chart: Chart, folder: Path) -> str:
    chart.figure.savefig(folder / f"{chart.name}.png", dpi=PNG_DPI)
    svg = io.BytesIO()
    chart.figure.savefig(svg, format="svg", metadata={"Date": None})
    # As a separate image, so that ids in different plots do not clash
    data = base64.b64encode(svg.getvalue()).decode()
    title, caption = for_html(chart.title), for_html(chart.caption)
    image = f'<img alt="{title}" src="data:image/svg+xml;base64,{data}">'
    return f'<figure id="{for_html(chart.name)}"><h3>{title}</h3>{image}<figcaption>{caption}</figcaption></figure>\n'


def _table(rows: Sequence[dict[str, Any]]) -> str:
    """A table of rows with the same keys; numeric columns are right-aligned."""
    if not rows:
        return ""
    numeric = {name: all(re.match(r"[-+<>]?[\d.]|-$|$", str(row[name])) for row in rows) for name in rows[0]}

    def line(tag: str, cells: dict[str, str]) -> str:
        return "<tr>" + "".join(f'<{tag} data-name="{for_html(name)}"{" class=number" if numeric[name] else ""}>{for_html(cell)}</{tag}>' for name, cell in cells.items()) + "</tr>"  # fmt: skip

    head = line("th", {name: name for name in rows[0]})
    body = "".join(line("td", {name: str(cell) for name, cell in row.items()}) for row in rows)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _summary(groups: Groups) -> list[dict[str, Any]]:
    """One row per name; several runs are summed or averaged."""
    holds_out = any(run.holds_out for runs in groups.values() for run in runs)
    reuses = any(run.reuses for runs in groups.values() for run in runs)
    rows = []
    for name, runs in groups.items():
        tables = [table for run in runs if not (table := run.programs()).empty]
        seconds = [run.training_s for run in runs if run.training_s is not None]
        rows.append(
            {
                "run": name if len(runs) == 1 else f"{name} ({len(runs)} runs)",
                "steps": _mean([max((entry["step"] for entry in run.history), default=0) for run in runs], "{:.0f}".format),
                "completions without code": _mean([fmean(rates) for run in runs if (rates := run.metric("mle/outcome/no_code_rate").values())], percent),
                "training time": duration(fmean(seconds)) if seconds else "-",
                **_of_programs(tables),
                "valid, never trained a model": f"{sum(int(table['untrained'].sum()) for table in tables)} of "
                f"{sum(int(table['valid'].sum()) for table in tables)}",
                "failures of ours": sum(len(run.executions) - len(run.programs()) for run in runs),
                "best score": _best_scores([best for run in runs for best in run.best], "reported"),
            }
        )  # fmt: skip
        if reuses:
            rows[-1]["programs not executed, with an equal one's result"] = _mean([int(table["reused"].sum()) for table in tables], "{:.0f}".format)  # fmt: skip
        if holds_out:
            rows[-1]["best score, chosen by test"] = _best_scores(
                [best for run in runs for best in _by_test(run)], "full"
            )
    return rows


def _of_programs(tables: Sequence[pd.DataFrame]) -> dict[str, str]:
    """Figures of the programs of several runs."""
    quarters = [(table["valid"], max(1, len(table) // 4)) for table in tables]
    return {
        "programs": _mean([len(table) for table in tables], "{:.0f}".format),
        "valid, first quarter": _mean([valid[:quarter].mean() for valid, quarter in quarters], percent),
        "valid, last quarter": _mean([valid[-quarter:].mean() for valid, quarter in quarters], percent),
        "mean Δt (s)": _mean([table["duration_s"].mean() for table in tables], "{:.2f}".format),
    }


def _of_competitions(groups: Groups) -> list[dict[str, Any]]:
    """A row for each competition of runs that have several: where programs were spent, and the best score."""
    rows = []
    for name, runs in groups.items():
        names = list(dict.fromkeys(competition for run in runs for competition in run.competitions))
        for competition in names if len(names) > 1 else ():
            pairs = [(run.programs(), table) for run in runs if not (table := run.programs(competition)).empty]
            best = [one for run in runs for one in run.best if one["competition"] == competition]
            rows.append(
                {
                    "run": name,
                    "competition": competition,
                    "share of programs": _mean([len(table) / len(all_) for all_, table in pairs], percent),
                    "share of Δt": _mean([table["duration_s"].sum() / (all_["duration_s"].sum() or 1) for all_, table in pairs], percent),
                    **_of_programs([table for _, table in pairs]),
                    "best score": _best_scores(best, "reported"),
                }
            )  # fmt: skip
    return rows


def _best_scores(best: Sequence[dict[str, Any]], key: str) -> str:
    """The mean over runs for each competition."""
    texts = []
    for found in _by_competition(best):
        score = _mean([one[key] for one in found], ("{:g}" if len(found) == 1 else "{:.4f}").format)
        texts.append(f"{score} ({found[0]['competition']}, {_metric(found[0])})")
    return ", ".join(texts) or "-"


def _by_test(run: TrainingRun) -> list[dict[str, Any]]:
    """The best score on all rows for each competition."""
    best_scores = []
    for best in run.best:
        table = run.programs(best["competition"])
        scores = [] if table.empty else table["full"].dropna().tolist()
        if scores:
            best_scores.append(best | {"full": (max if best["higher_is_better"] else min)(scores)})
    return best_scores


def _mean(values: Sequence[float], form: Callable[[float], str]) -> str:
    """The mean, with the standard deviation if values differ."""
    if not values:
        return "-"
    deviation = f" ± {form(stdev(values))}" if len(set(values)) > 1 else ""
    return form(fmean(values)) + deviation


def _by_competition(best: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in best:
        found[one["competition"]].append(one)
    return list(found.values())


def _metric(best: dict[str, Any]) -> str:
    return metric_name(best["metric"], best["higher_is_better"])


def _best_programs(name: str, runs: Sequence[TrainingRun], several: bool) -> Iterator[str]:
    """The best solution of each competition over all runs with a name, and its ancestors."""
    for found in _by_competition([best | {"run": run} for run in runs for best in run.best]):
        best = (max if found[0]["higher_is_better"] else min)(found, key=itemgetter("score"))
        run = best["run"]
        title = f"{best['competition']}: {_metric(best)} {best['reported']:g}"
        yield f"<h3>{for_html(f'{name}, {title}' if several else title)}</h3>"
        pool = run.solutions.get(best["competition"], [])
        entry = next((entry for entry in pool if entry["source"] == best["source"]), None)
        if entry is not None:
            line = ancestors(entry, pool)[:MOST_GENERATIONS]
            steps = " ← ".join(f"{entry['score']:g} (step {entry['step']})" for entry in line)
            yield f'<p class="note">This program, and those that it improves, as far as the pool has them: {steps}</p>'
        yield f"<details><summary>the program</summary><pre>{for_html(best['source'])}</pre></details>"


def _errors(groups: Groups) -> str:
    """The most frequent errors; those that differ only in names and numbers count as one."""
    parts = []
    for name, runs in groups.items():
        tables = [table for run in runs if not (table := run.programs()).empty]
        if not tables:
            continue
        halves = pd.concat([table.assign(late=[i >= len(table) / 2 for i in range(len(table))]) for table in tables])
        failed = halves[~halves["valid"]]
        if failed.empty:
            continue
        kinds = failed.assign(
            kind=[kind_of_failure(*pair) for pair in zip(failed["outcome"], failed["detail"], strict=True)]
        )
        rows = []
        late_total, early_total = max(1, int(halves["late"].sum())), max(1, int((~halves["late"]).sum()))
        for kind, count in kinds["kind"].value_counts()[:MOST_ERRORS].items():
            of_kind = kinds[kinds["kind"] == kind]
            late = int(of_kind["late"].sum())
            example = " ".join(of_kind["detail"].iloc[-1].split())
            rows.append(
                {
                    "error": kind,
                    "programs": count,
                    "first half": percent((count - late) / early_total),
                    "second half": percent(late / late_total),
                    "an example": "" if example in str(kind) else shorten(example, 160),
                }
            )
        heading = f"<h3>{for_html(name)}</h3>" if len(groups) > 1 else ""
        parts.append(heading + _table(rows))
    note = '<p class="note">Errors of programs without a valid submission; shares are of all programs.</p>'
    return note + "".join(parts) if parts else ""
