"""`trl-mle new`: makes the user's own competition."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from trl_mle.competitions.own import final_competition, new_competition
from trl_mle.rewards.mle_reward import lowest_valid_reward
from trl_mle.scripts.printing import facts_table
from trl_mle.showing import PlainConsole, metric_name


def new(
    table: Path,
    targets: Sequence[str],
    metric: str,
    folder: Path,
    id_column: str | None,
    test_share: float,
    test: Path | None,
    higher_is_better: bool | None,
    split: str | None,
) -> None:
    """
    Makes the competition, and prints the next commands. Takes the arguments of
    [`~trl_mle.competitions.own.new_competition`].
    """
    competition = new_competition(table, targets, metric, folder, id_column, test_share, test, higher_is_better, split)
    score = competition.grade(competition.sample_submission).value
    assert score is not None  # otherwise no folder would have been made
    tables = [competition.public_dir / name for name in ("train.csv", "test.csv")]
    train, hidden = (len(pd.read_csv(table, dtype=str, usecols=[0])) for table in tables)
    name = shlex.quote(str(folder) if "/" in str(folder) else f"./{folder}")
    facts = facts_table()
    facts.add_row("competition", name)
    facts.add_row("rows", f"{train} with labels that programs see, {hidden} with hidden labels")
    if final := final_competition(competition):
        facts.add_row("", f"{len(pd.read_csv(final.sample_submission))} without labels, for `solve`")
    facts.add_row("metric", metric_name(metric, competition.higher_is_better))
    if competition.rule:
        facts.add_row("", f"prompts say: {competition.rule}")
    facts.add_row("", f"a constant guess scores {score + 0.0:.5g}")
    facts.add_row("to edit", f"{folder}/public/description.md, Overview: what prompts show")
    facts.add_row("then", f"trl-mle prompt {name}")
    facts.add_row("", f"trl-mle run {name} solution.py")
    facts.add_row("", f"trl-mle quickstart --competition {name}")
    facts.add_row("", f"trl-mle train --config RECIPE --competitions {name}")
    facts.add_row("", f"trl-mle solve {name} --policy POLICY")
    console = PlainConsole()
    console.print(facts)
    lowest = lowest_valid_reward()
    if competition.scoring.gain(score) < lowest:
        console.print(
            f"The paper's reward clips such scores at {lowest:g}: train with objective: max_at_k, which ranks them."
        )
