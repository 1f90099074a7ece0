"""`trl-mle new`: makes the user's own competition."""

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions import Competition, CompetitionError
from trl_mle.competitions.own import final_competition, moment, new_competition
from trl_mle.competitions.reading import as_read, as_times, clean_name, listed, read_options
from trl_mle.competitions.table_checks import holds_times
from trl_mle.prompts.features import date_format_of
from trl_mle.rewards.mle_reward import lowest_valid_reward
from trl_mle.scripts.printing import facts_table
from trl_mle.showing import PlainConsole, metric_name, number


def new(args: argparse.Namespace) -> int:
    """Makes the competition, and prints what was read and the next commands."""
    folder = Path(args.to or re.sub(r"(?i)\.[a-z]\w{,6}$", "", Path(args.table).name, count=1))
    options = read_options(args.read_csv)
    competition = new_competition(
        Path(args.table), args.target, args.metric, folder, args.id, args.test_share,
        Path(args.test) if args.test else None, args.higher_is_better, args.split, options,
    )  # fmt: skip
    score = competition.grade(competition.sample_submission).value or 0.0
    name = shlex.quote(str(folder) if "/" in str(folder) else f"./{folder}")
    facts = facts_table()
    for row in (
        ("competition", name),
        *_read(competition, [clean_name(name) for name in args.target], options.get("date_format")),
        ("metric", metric_name(args.metric, competition.higher_is_better)),
        *([("", f"prompts say: {competition.rule}")] if competition.rule else []),
        ("", f"a constant guess scores {number(score, 5)}"),
        ("to edit", f"{folder}/public/description.md, Overview: what prompts show"),
        ("then", f"trl-mle prompt {name}"),
        ("", f"trl-mle quickstart --competition {name}"),
        ("", f"trl-mle train --config RECIPE --competitions {name}"),
    ):
        facts.add_row(*row)
    console = PlainConsole()
    console.print(facts)
    if competition.scoring.gain(score) < (lowest := lowest_valid_reward()):
        console.print(f"The paper's reward clips such scores at {lowest:g}: train with objective: max_at_k.")
    return 0


def _read(competition: Competition, targets: Sequence[str], date_format: Any) -> Iterator[tuple[str, str]]:
    train, test = (
        pd.read_csv(competition.public_dir / f"{name}.csv", dtype=str, na_filter=False) for name in ("train", "test")
    )
    yield "rows", f"{len(train)} with labels that programs see, {len(test)} with hidden labels"
    if final := final_competition(competition):
        yield "", f"{len(pd.read_csv(final.sample_submission))} without labels, for `solve`"
    both = pd.concat([train, test], ignore_index=True)
    features = both.columns.drop([competition.id_column, *targets], errors="ignore")
    numbers = list(as_read(both[features]).select_dtypes("number"))
    for what, names in ("numbers", numbers), ("texts", list(features.drop(numbers))):
        yield what, f"{len(names)} columns: {listed(names)}" if names else "no column"
    for name in features[[holds_times(both[name]) for name in features]]:
        yield "dates", f"{name}: {_span(both[name], date_format)}"
    yield "id", f"{competition.id_column}, such as {both[competition.id_column].iloc[0]}"
    for name in targets:
        labels = as_read(train[[name]])[name]
        if is_numeric_dtype(labels) and labels.nunique() > 5:
            yield "target", f"{name}: numbers from {labels.min()} to {labels.max()}"
        else:
            counts = [f"{label} in {count} rows" for label, count in labels.value_counts().head(5).items()]
            yield "target", f"{name}: {', '.join(counts)}" + (", …" if labels.nunique() > 5 else "")


def _span(cells: pd.Series, date_format: Any) -> str:
    cells = cells[cells != ""]
    named = date_format.get(cells.name) if isinstance(date_format, dict) else date_format
    form = named or date_format_of(cells, cells)
    try:
        times = as_times(cells, form)
    except CompetitionError as error:
        return str(error)
    found = f"{moment(times.min())} to {moment(times.max())}"
    return found if form in (None, "ISO8601") else f"{found}, as {form}"
