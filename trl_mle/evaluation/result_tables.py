"""Comparison tables as in the paper: competitions in rows, systems in columns."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trl_mle.data_files import read_data
from trl_mle.showing import for_markdown, metric_name, number


# The paper's systems and their figures, by competition
REPORTED: dict[str, tuple[str, ...]] = read_data(Path(__file__).with_name("reported.yaml"))
REPORTED_SYSTEMS = REPORTED.pop("systems")

K = 8  # of the best of k in tables: a hundred samples can show it
NOTES = """\
Means ± standard errors over runs. {chosen} An asterisk marks the best of several systems; (reported) are figures of
the [paper](https://huggingface.co/papers/2509.01684), best of 128, not measured here. The best of {k} is the mean over
all subsets of {k} programs with a valid one, with a 95% bootstrap interval for a single run, which is too narrow for
k near the number of programs. A valid submission of a program that was not seen to train a model may game the metric.
"""


def read_results(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Reads the rows of several evaluations; policies with the same name in different folders are runs of one system.
    Raises `OSError` if a folder has no results yet, and `ValueError` if it is named twice, or does not fit another."""
    rows: list[dict[str, Any]] = []
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("a folder is named twice: name each run once")
    for folder in folders:
        path = folder / "results.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} has no results.json: has trl-mle evaluate finished there?")
        rows += json.loads(path.read_text(encoding="utf-8"))["rows"]
    for name, runs in pd.DataFrame(rows).groupby("competition"):
        for key in ("metric", "holdout"):
            if len(values := runs[key].unique()) > 1:
                raise ValueError(f"{name} has {key}={values[0]} in one folder and {values[1]} in another")
    return rows


def on_all_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with figures of programs chosen by and scored on all hidden answers."""
    return [{**row, **row["on_all_rows"]} for row in rows]


def chosen_by_validation(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether programs are chosen and scored on different hidden rows."""
    return any(row["chosen_by"] == "validation" for row in rows)


def best_of_k_point(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The best of [`K`] programs of a run; `None` if it has fewer."""
    return next((point for point in row["best_of_k"] if point["k"] == K), None)


def mean_of(runs: pd.Series) -> str:
    """Mean ± standard error of a figure over runs, some of which may not have one."""
    values = runs.dropna().to_numpy(float)
    if not len(values):
        return "-"
    mean = float(values.mean())
    error = f" ± {number(float(values.std(ddof=1)) / len(values) ** 0.5)}" if len(values) > 1 else ""
    some = f" ({len(values)} of {len(runs)} runs)" if len(values) < len(runs) else ""
    return f"{number(mean)}{error}{some}"


def main_table(rows: Sequence[Mapping[str, Any]], reported: Sequence[str] = REPORTED_SYSTEMS) -> list[list[str]]:
    """The best score of each system in each competition, mean ± standard error over runs: a header, and a row per
    competition, with an asterisk at the best of our systems. The paper's systems in `reported` are shown, too, if a
    competition is one of the paper's and programs are chosen by the score on all rows, as there."""
    table = pd.DataFrame(rows)
    systems = list(table["policy"].unique())
    comparable = any(name in REPORTED for name in table["competition"]) and not chosen_by_validation(rows)
    shown = list(reported) if comparable else []
    lines = [["competition", "metric", *systems, *(f"{system} (reported)" for system in shown)]]
    for competition, runs in table.groupby("competition", sort=False):
        first = runs.iloc[0]
        scores = runs.groupby("policy")["best_score"]
        texts = scores.agg(mean_of).to_dict()
        means = scores.agg(lambda values: values.astype(float).mean()).dropna()
        if len(means) > 1:
            for system in means.index[means == (means.max() if first["higher_is_better"] else means.min())]:
                texts[system] += " *"
        line = [str(competition), metric_name(first["metric"], first["higher_is_better"])]
        line += [texts.get(system, "") for system in systems]
        figures = dict(zip(REPORTED_SYSTEMS, REPORTED.get(str(competition), ()), strict=False))
        lines.append(line + [figures.get(system, "") for system in shown])
    return lines


def best_of_k_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The best of k programs: a single run with its bootstrap interval, several runs as mean ± standard error."""
    lines: list[list[str]] = [["competition", "system", "k", "any valid", "best of k", "95% interval"]]
    points = pd.DataFrame(
        [
            {"competition": row["competition"], "policy": row["policy"], "run": run} | point
            for run, row in enumerate(rows)
            for point in row["best_of_k"]
        ]
    )
    if points.empty:
        return lines
    for (competition, system), of_system in points.groupby(["competition", "policy"], sort=False):
        # A run has no k above its number of programs
        scores = of_system.pivot(index="run", columns="k", values="score").astype(float)
        for k, runs in of_system.groupby("k"):
            if scores[k].notna().any():
                low, high = runs.iloc[0][["low", "high"]]
                interval = f"{number(low)} to {number(high)}" if len(scores) == 1 else "-"
                valid = f"{runs['valid_rate'].mean():.0%}"
                lines.append([str(competition), str(system), str(k), valid, mean_of(scores[k]), interval])
    return lines


def program_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Figures of each system's programs, as mean ± standard error over runs; counts are sums."""
    means = {
        "valid_rate": "valid rate", "best_of_few": f"best of {K}", "mean_score": "mean score",
        "best_score": "best score", "mean_duration_s": "mean Δt (s)", "human_rank": "human rank",
    }  # fmt: skip
    table = pd.DataFrame(rows)
    table["best_of_few"] = [point["score"] if (point := best_of_k_point(row)) else None for row in rows]
    lines = [["competition", "system", *means.values(), "valid, never trained a model", "medals"]]
    for (competition, system), runs in table.groupby(["competition", "policy"], sort=False):
        untrained = "-"
        if runs["num_untrained"].notna().all():
            untrained = f"{runs['num_untrained'].sum():.0f} of {runs['num_valid'].sum()}"
        medals = ", ".join(runs["medal"].dropna()) or "-"
        lines.append([str(competition), str(system), *(mean_of(runs[name]) for name in means), untrained, medals])
    return lines


def to_markdown(rows: Sequence[Mapping[str, Any]], of_runs: Mapping[str, list[list[str]]] | None = None) -> str:
    counts = sorted({row["num_samples"] for row in rows})
    chosen = "Scores on the hidden answers of the best program by that score."
    if chosen_by_validation(rows):
        chosen = "Scores on the held-out rows of the best program by its score on the validation rows."
    tables = {
        "Programs": program_table(rows),
        f"Best of {' to '.join(map(str, counts[:: max(1, len(counts) - 1)]))} programs": main_table(rows),
        "Best of k": best_of_k_table(rows),
        **(of_runs or {}),
    }
    if chosen_by_validation(rows):
        tables["If chosen and scored on all hidden rows"] = main_table(on_all_rows(rows))
    parts = [f"## {for_markdown(title)}\n\n{_markdown(lines)}\n" for title, lines in tables.items() if len(lines) > 1]
    return "".join([*parts, NOTES.format(chosen=chosen, k=K)])


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *body = [list(map(for_markdown, line)) for line in lines]
    rule = ["---"] * len(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *body))
