"""Comparison tables as in the paper: competitions in rows, systems in columns."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from trl_mle.competitions.metrics import gain
from trl_mle.showing import for_markdown, metric_name, number


# Figures of https://huggingface.co/papers/2509.01684, best of 128, ± standard error, with its "NaN" and "N/A"; "" is
# unknown to us.
REPORTED_SYSTEMS = (
    "Qwen2.5-3B RL", "Qwen2.5-3B + AIDE", "Claude-3.5-Sonnet + AIDE", "GPT-4o + AIDE", "GPT-4o + AIDE 100 h",
    "GPT-4o OpenHands", "GPT-4o MLAB",
)  # fmt: skip
REPORTED = {
    "detecting-insults-in-social-commentary": ("0.895 ± .001", "0.870", "N/A", "NaN", "N/A", "0.867 ± .017", "0.749 ± .039"),
    "learning-agency-lab-automated-essay-scoring-2": ("0.746 ± .002", "", "", "0.720 ± .031", "", "0.681 ± .010", "0.533 ± .080"),
    "random-acts-of-pizza": ("0.663 ± .011", "0.589", "0.627", "0.645 ± .009", "0.638", "0.591 ± .048", "0.520 ± .013"),
    "tweet-sentiment-extraction": ("0.596 ± .002", "0.027", "0.448", "0.294 ± .032", "0.283", "0.415 ± .008", "0.158 ± .057"),
    "tabular-playground-series-may-2022": ("0.913 ± .000", "0.787", "0.743", "0.884 ± .012", "0.883", "0.882 ± .030", "0.711 ± .050"),
    "tabular-playground-series-dec-2021": ("0.951 ± .000", "", "", "0.957 ± .002", "", "0.957 ± .000", "0.828 ± .118"),
    "us-patent-phrase-to-phrase-matching": ("0.527 ± .003", "", "", "0.756 ± .019", "", "0.366 ± .039", "NaN"),
    "plant-pathology-2020-fgvc7": ("0.970 ± .004", "", "", "0.980 ± .002", "", "0.680 ± .113", "0.735 ± .052"),
    "leaf-classification": ("0.124 ± .000", "0.884", "0.436", "0.656 ± .070", "0.846", "0.902 ± .018", "4.383 ± 2.270"),
    "nomad2018-predict-transparent-conductors": ("0.059 ± .000", "0.178", "0.083", "0.144 ± .031", "0.072", "0.183 ± .120", "0.294 ± .126"),
    "spooky-author-identification": ("0.404 ± .011", "0.596", "0.701", "0.576 ± .071", "0.546", "0.582 ± .020", "0.992 ± .463"),
    "lmsys-chatbot-arena": ("1.081 ± .002", "11.48", "2.211", "1.323 ± .147", "1.451", "1.131 ± .019", "10.324 ± 4.509"),
}  # fmt: skip

K = 8  # of the best of k in tables: a hundred samples can show it

# What the tables read of a row
ROW_KEYS = {
    "policy", "competition", "metric", "higher_is_better", "num_samples", "num_valid", "num_untrained", "valid_rate",
    "mean_score", "best_score", "mean_duration_s", "best_of_k", "medal", "medal_thresholds",
    "human_rank", "cost", "at_equal_programs", "at_equal_time", "holdout", "chosen_by", "on_all_rows",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A figure of a system in a competition over runs, some of which may not have one."""

    runs: Sequence[float | None]

    @property
    def values(self) -> list[float]:
        """The values of the runs that have one."""
        return [value for value in self.runs if value is not None]

    @property
    def mean(self) -> float | None:
        """Mean over the runs that have a value."""
        return fmean(self.values) if self.values else None

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; `None` for fewer than two values."""
        return stdev(self.values) / math.sqrt(len(self.values)) if len(self.values) > 1 else None

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        error = f" ± {number(self.standard_error, like=self.mean)}" if self.standard_error is not None else ""
        some = f" ({len(self.values)} of {len(self.runs)} runs)" if len(self.values) < len(self.runs) else ""
        return f"{number(self.mean)}{error}{some}"


class Best(str):
    """A figure in bold, between `**`, because it is the best of its row; names may hold `**`, too."""


def read_results(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """
    Reads the rows of several evaluations. Policies with the same name in different folders are runs of one system,
    with different seeds. Raises `OSError` if a folder has no results yet, and `ValueError` if it is named twice, its
    results are incomplete, or a competition has another metric than in another folder.
    """
    rows = []
    known: set[Path] = set()
    for folder in folders:
        path = Path(folder) / "results.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} has no results.json: has trl-mle evaluate finished there?")
        if path.resolve() in known:
            raise ValueError(f"{folder} is named twice: name each run once")
        known.add(path.resolve())
        rows += _read_rows(path)
    metrics: dict[str, str] = {}
    for row in rows:
        if (other := metrics.setdefault(row["competition"], row["metric"])) != row["metric"]:
            raise ValueError(
                f"{row['competition']} has the metric {other} in one folder and {row['metric']} in another: compare them apart"
            )
    return rows


def _read_rows(path: Path) -> list[dict[str, Any]]:
    remedy = "evaluate it again with the same command"
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is truncated, or not JSON: {remedy} ({error})") from error
    rows = results.get("rows") if isinstance(results, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{path} has no rows: {remedy}")
    for row in rows:
        missing = ROW_KEYS.difference(row if isinstance(row, dict) else ())
        if missing:
            raise ValueError(f"{path} has a row without {', '.join(sorted(missing))}: {remedy}")
        row["seed"] = results.get("seed")  # of the sampling
    return rows


def on_all_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with figures of programs chosen by and scored on all hidden answers."""
    return [{**row, **row["on_all_rows"]} for row in rows]


def chosen_by_validation(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether programs are chosen and scored on different hidden rows."""
    return any(row["chosen_by"] == "validation" for row in rows)


def uneven_holdouts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning if evaluations hold out different shares, so that their scores are on different rows."""
    shares = sorted({row["holdout"] for row in rows})
    if len(shares) < 2:
        return []
    return [
        f"the evaluations hold out different shares ({', '.join(f'{share:g}' for share in shares)}): the best programs are chosen "
        "by, and compared on, the scores on all rows"
    ]


def runs_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The runs of each competition and system; the same programs, evaluated twice, are one run."""
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found = runs.setdefault((row["competition"], row["policy"]), [])
        if all(_programs(row) != _programs(other) for other in found):
            found.append(row)
    return runs


def _programs(row: Mapping[str, Any]) -> tuple:
    """What hardly any other programs have in common."""
    names = ("num_samples", "num_valid", "mean_score", "best_score", "holdout")
    return *(row[name] for name in names), row["cost"]["completion_tokens"], row.get("seed")


def uneven_runs(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warnings about runs of a system that are the same, and about runs in a competition that differ in their number of programs."""
    given = Counter((row["competition"], row["policy"]) for row in rows)
    lines = [
        f"{given[competition, system]} runs of {system} in {competition} count as {len(runs)}: they have the same programs; use "
        "other seeds (--seed)"
        for (competition, system), runs in runs_of(rows).items()
        if len(runs) < given[competition, system]
    ]
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(row["competition"], set()).add(row["num_samples"])
    for competition, found in counts.items():
        if len(found) > 1:
            lines.append(
                f"runs in {competition} have {min(found)} to {max(found)} programs: the best of more is better"
            )
    return lines


def cells(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Cell]]:
    """The best scores of the runs of each competition and system."""
    table: dict[str, dict[str, Cell]] = {}
    for (competition, system), runs in runs_of(rows).items():
        table.setdefault(competition, {})[system] = Cell([run["best_score"] for run in runs])
    return table


def best_of_k_point(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The best of [`K`] programs of a run; `None` if it has fewer."""
    return next((point for point in row["best_of_k"] if point["k"] == K), None)


def average_relative_improvement(
    scores: Mapping[str, float | None], baseline: Mapping[str, float | None], higher_is_better: Mapping[str, bool]
) -> tuple[float | None, int]:
    """
    The mean of (score − baseline) / |baseline| over the competitions where both have a score, or `None`, and the number of
    these competitions. The sign is flipped where lower is better. docs/evaluation.md compares it with the paper's average,
    whose formula is unknown.
    """
    gains = []
    for competition, ours in scores.items():
        theirs = baseline.get(competition)
        if ours is not None and theirs:  # undefined relative to 0
            gains.append(gain(ours - theirs, higher_is_better[competition]) / abs(theirs))
    return (fmean(gains) if gains else None), len(gains)


def reported_scores(system: str) -> dict[str, float | None]:
    """The paper's figure of a system for each competition; `None` if it has no figure."""
    column = REPORTED_SYSTEMS.index(system)
    texts = {competition: row[column].partition(" ")[0] for competition, row in REPORTED.items()}
    return {competition: None if text in ("", "N/A", "NaN") else float(text) for competition, text in texts.items()}


def main_table(rows: Sequence[Mapping[str, Any]], reported: Sequence[str] = REPORTED_SYSTEMS) -> list[list[str]]:
    """
    The best score of each system in each competition, mean ± standard error over runs: a header, a row per competition
    with the best of our systems as [`Best`], and the average improvement over the first system, if there are several. The
    paper's systems in `reported` are shown, too, if a competition is one of the paper's (a mirror is not) and programs
    are chosen by the score on all rows, as in the paper.
    """
    table = cells(rows)
    direction = {row["competition"]: row["higher_is_better"] for row in rows}
    metric = {row["competition"]: row["metric"] for row in rows}
    systems = list(dict.fromkeys(row["policy"] for row in rows))
    comparable = any(competition in REPORTED for competition in table) and not chosen_by_validation(rows)
    shown = list(reported) if comparable else []
    lines = [["competition", "metric", *systems, *(f"{system} (reported)" for system in shown)]]
    for competition, found in table.items():
        means = [found[system].mean if system in found else None for system in systems]
        known = [mean for mean in means if mean is not None]
        best = (max if direction[competition] else min)(known, default=None)
        line = [competition, metric_name(metric[competition], direction[competition])]
        for system, mean in zip(systems, means, strict=True):
            text = str(found[system]) if system in found else ""
            line.append(Best(f"**{text}**") if mean is not None and mean == best and len(known) > 1 else text)
        figures = dict(zip(REPORTED_SYSTEMS, REPORTED.get(competition, ("",) * len(REPORTED_SYSTEMS)), strict=True))
        lines.append(line + [figures[system] for system in shown])
    improvements = _improvements(table, direction, systems, shown)
    return [*lines, improvements] if any(improvements[3:]) else lines


def _improvements(
    table: Mapping[str, Mapping[str, Cell]],
    direction: Mapping[str, bool],
    systems: Sequence[str],
    shown: Sequence[str],
) -> list[str]:
    def means(system: str) -> dict[str, float | None]:
        return {name: found[system].mean if system in found else None for name, found in table.items()}

    baseline = means(systems[0])
    line = ["average relative improvement", f"over {systems[0]}", ""]
    for scores in [*map(means, systems[1:]), *map(reported_scores, shown)]:
        improvement, count = average_relative_improvement(
            {name: score for name, score in scores.items() if name in direction}, baseline, direction
        )
        line.append("" if improvement is None or count < 2 else f"{improvement:+.0%} (of {count})")
    return line


def best_of_k_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """
    The best of k programs: a single run with its bootstrap interval, several runs as mean ± standard error. Systems
    without a valid program are left out.
    """
    lines: list[list[str]] = [["competition", "system", "k", "any valid", "best of k", "95% interval"]]
    for (competition, system), runs in runs_of(rows).items():
        points = [{point["k"]: point for point in run["best_of_k"]} for run in runs]
        for k in sorted(set().union(*points)):
            found = [of_run[k] for of_run in points if k in of_run]
            score = Cell([of_run[k]["score"] if k in of_run else None for of_run in points])
            if score.mean is None:
                continue
            low, high = found[0]["low"], found[0]["high"]
            interval = "-" if len(runs) > 1 or low is None else f"{number(low)} to {number(high)}"
            valid_rate = fmean(point["valid_rate"] for point in found)
            lines.append([competition, system, str(k), f"{valid_rate:.0%}", str(score), interval])
    return lines


def program_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Figures of each system's programs, as mean ± standard error over runs; counts are sums."""
    lines = [["competition", "system", "valid rate", f"best of {K}", "mean score", "best score", "mean Δt (s)", "valid, never trained a model", "medals", "human rank"]]  # fmt: skip
    for (competition, system), runs in runs_of(rows).items():

        def mean(name: str, runs: Sequence[Mapping[str, Any]] = runs) -> str:
            return str(Cell([run[name] for run in runs]))

        untrained = [run["num_untrained"] for run in runs if run["num_untrained"] is not None]
        medals = [run["medal"] or "none" for run in runs if run["medal_thresholds"]]
        lines.append(
            [
                competition,
                system,
                mean("valid_rate"),
                str(Cell([point["score"] if point is not None else None for point in map(best_of_k_point, runs)])),
                *map(mean, ("mean_score", "best_score")),
                mean("mean_duration_s"),
                f"{sum(untrained)} of {sum(run['num_valid'] for run in runs)}" if len(untrained) == len(runs) else "-",
                ", ".join(medals) or "-",
                mean("human_rank"),
            ]
        )
    return lines


def cost_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The cost of each system's programs, and the best score at equal cost, for each run."""
    lines = [["competition", "system", "executed", "prompt tokens", "completion tokens", "sampling (s)", "total Δt (s)", "wall clock (s)", "best at equal programs", "best at equal wall clock"]]  # fmt: skip
    for row in rows:
        cost, programs, seconds = row["cost"], row["at_equal_programs"], row["at_equal_time"]
        lines.append(
            [
                row["competition"],
                row["policy"],
                *(f"{cost[name]:,.0f}" for name in ("num_executed", "prompt_tokens", "completion_tokens")),
                *(f"{cost[name]:.1f}" for name in ("sampling_s", "programs_s", "elapsed_s")),
                f"{number(programs['best_score'])} ({programs['num_executed']})",
                ""
                if seconds["elapsed_s"] is None
                else f"{number(seconds['best_score'])} ({seconds['elapsed_s']:.0f} s)",
            ]
        )
    return lines


def to_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """All tables as Markdown."""
    samples = sorted({row["num_samples"] for row in rows})
    numbers = str(samples[0]) if len(samples) == 1 else f"{samples[0]} to {samples[-1]}"
    improvement = "Improvement: mean over competitions of (score − baseline) / |baseline|, with the sign flipped where lower is better.\n"
    reported = "(reported): figures of the [paper](https://huggingface.co/papers/2509.01684), best of 128, not measured here. "
    headline = (
        f"Scores on the hidden answers of the best program by that score; mean ± standard error over runs. {reported}"
    )
    footnote = []
    if chosen_by_validation(rows):
        headline = (
            "Scores on the held-out rows of the best program by the score on the other hidden rows (`chosen_by: validation`); mean ± "
            "standard error over runs. "
        )
        footnote = [
            "## Chosen by the test score\n",
            _markdown(main_table(on_all_rows(rows))),
            "For comparison with published figures: scores on all hidden answers of the best program by that score "
            f"(`chosen_by: test`). As the best of many, these scores are too optimistic. {reported}\n",
        ]
    curves = best_of_k_table(rows)
    best_of_k = [
        "## Best of k\n",
        _markdown(curves),
        "Average of the best score over all subsets of k programs with a valid one. Several runs: mean ± standard error over runs. One "
        "run: 95% bootstrap interval, which is too narrow for k near the number of programs.\n",
    ]
    parts = [
        "## Programs\n",
        _markdown(program_table(rows)),
        f"Mean ± standard error over runs. The best of {K} is the mean over all subsets of {K} programs with a valid one; the mean "
        "score is that of the valid programs alone. A valid submission from a program that was not observed to train a model may game "
        "the metric.\n",
        f"## Best of {numbers} programs\n",
        _markdown(main_table(rows)),
        headline + improvement,
        *(best_of_k if len(curves) > 1 else ()),  # more than its header
        "## Cost\n",
        _markdown(cost_table(rows)),
        "Equal cost: the cost of the cheapest system. Sampling and wall-clock time depend on the machine.\n",
        *footnote,
    ]
    return "\n".join(parts)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table whose first line is its header."""
    head, *body = [[cell if isinstance(cell, Best) else for_markdown(cell) for cell in line] for line in lines]
    rule = ["---"] * len(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *body))
