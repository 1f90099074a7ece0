import io
import json
import re
from dataclasses import replace

import pytest
from support.training_runs import make_run

from trl_mle.competitions import Score, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.evaluation.evaluate import comparison_table
from trl_mle.evaluation.result_tables import (
    REPORTED,
    best_of_k_table,
    main_table,
    program_table,
    read_results,
    to_markdown,
)
from trl_mle.evaluation.results import figures
from trl_mle.instrumentation import MILESTONES
from trl_mle.report.training_run import read_run
from trl_mle.rewards import Evaluation
from trl_mle.scripts.compare import training_table
from trl_mle.showing import PlainConsole


def evaluation(score):
    return Evaluation(0.0, 1.0, None if score is None else Score(score, True), "ok", MILESTONES, source="x = 1")


def make_rows(competition, scores_by_policy):
    """Results as an evaluation writes them, for programs with given scores."""
    rows = []
    for name, scores in scores_by_policy.items():
        evaluations = [score if isinstance(score, Evaluation) else evaluation(score) for score in scores]
        rows.append(figures(name, competition, evaluations))
    return json.loads(json.dumps(rows))


def write_results(folder, rows):
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps({"rows": rows}))
    return folder


def competition(name):
    """One of the paper's competitions, without its data."""
    return replace(load_competition("breast-cancer"), id=name, metric=MLEBENCH_COMPETITIONS[name].metric)


PIZZA, SPOOKY = map(competition, ("random-acts-of-pizza", "spooky-author-identification"))


@pytest.fixture
def rows():
    """Two systems, two seeds, a competition where higher and one where lower is better."""
    return [
        *make_rows(PIZZA, {"large": [0.6, None], "small": [0.5, 0.7]}),
        *make_rows(PIZZA, {"large": [0.62, 0.1], "small": [0.8, None]}),
        *make_rows(SPOOKY, {"large": [0.5, 0.6], "small": [0.4, 0.9]}),
        *make_rows(SPOOKY, {"large": [None, None], "small": [0.3, None]}),
    ]


def test_the_main_table_marks_the_best_and_shows_the_reported(rows):
    head, pizza, spooky = main_table(rows)
    assert head[:4] == ["competition", "metric", "large", "small"]
    assert head[4] == "Qwen2.5-3B RL (reported)"
    assert pizza[:4] == ["random-acts-of-pizza", "roc auc ↑", "0.610 ± 0.010", "0.750 ± 0.050 *"]
    assert pizza[4:] == list(REPORTED["random-acts-of-pizza"])
    assert spooky[1:4] == ["log loss ↓", "0.500 (1 of 2 runs)", "0.350 ± 0.050 *"]
    assert "scored on all hidden rows" not in to_markdown(rows)  # none is held out


def test_the_headline_is_the_best_of_few_where_there_are_enough(wine):
    """Where most programs were invalid before, the mean of the valid ones says little, and so does the best of all."""
    few, enough = make_rows(wine, {"few": [0.5, 0.6], "enough": [0.9, 0.5, *[None] * 7]})
    head, *lines = program_table([few, enough | {"medal": "gold"}])
    assert [line[-1] for line in lines] == ["-", "gold"]
    assert head[2:6] == ["valid rate", "best of 8", "mean score", "best score"]
    # Of the nine sets of eight, one lacks the better program, and none lacks both
    assert [line[2:6] for line in lines] == [
        ["1.000", "-", "0.550", "0.600"], ["0.222", f"{(8 * 0.9 + 0.5) / 9:.3f}", "0.700", "0.900"],
    ]  # fmt: skip


def graded(value, held_out, full):
    """A program's scores on the validation rows, the held-out rows and all rows."""
    return replace(evaluation(value), score=Score(value, True, None, held_out, full))


def test_the_tables_where_rows_are_held_out():
    """
    The large system looks best by its luckiest program, but is not: the headline is honest, and the footnote has the
    figures that are comparable with the paper's.
    """
    large = [graded(0.9, 0.5, 0.7), graded(0.6, 0.6, 0.6), graded(0.5, 0.9, 0.8), None]
    small = [graded(0.7, 0.7, 0.7), graded(0.8, 0.6, 0.75)]
    text = to_markdown(make_rows(replace(PIZZA, holdout=0.5), {"large": large, "small": small}))
    headline, footnote = text.split("## If chosen and scored on all hidden rows")
    assert "| random-acts-of-pizza | roc auc ↑ | 0.500 | 0.600 \\* |" in headline
    assert "(reported)" not in headline
    assert "| random-acts-of-pizza | roc auc ↑ | 0.800 \\* | 0.750 | 0.663 ± .011 |" in footnote


def test_the_best_of_k_over_runs(rows):
    """The mean and error of several runs, or the interval of one; a run has no k above its number of programs."""
    pizza = [line[2:] for line in best_of_k_table(rows) if line[:2] == ["random-acts-of-pizza", "small"]]
    assert pizza == [["1", "75%", "0.700 ± 0.100", "-"], ["2", "100%", "0.750 ± 0.050", "-"]]
    _, one, _ = best_of_k_table(rows[1:2])
    assert one[2:] == ["1", "100%", "0.600", "0.500 to 0.700"]
    *_, two = best_of_k_table([rows[1], *make_rows(PIZZA, {"small": [None]})])
    assert two[2:] == ["2", "100%", "0.700 (1 of 2 runs)", "-"]
    assert "## Best of k\n" not in to_markdown(make_rows(PIZZA, {"none": [None] * 8}))


def test_what_cannot_be_compared(rows, tmp_path):
    write_results(tmp_path / "one", rows[:1])
    with pytest.raises(OSError, match=r"has no results.json: has trl-mle evaluate finished there\?"):
        read_results([tmp_path])
    with pytest.raises(ValueError, match="a folder is named twice"):
        read_results([tmp_path / "one", tmp_path / "one" / ".." / "one"])
    write_results(tmp_path / "other", [rows[0] | {"holdout": 0.5}])
    with pytest.raises(ValueError, match=r"random-acts-of-pizza has holdout=.* in one folder and 0\.5 in another"):
        read_results([tmp_path / "one", tmp_path / "other"])


def test_a_policy_whose_programs_all_failed_because_of_us_is_not_worse():
    ours = Evaluation(None, outcome="infrastructure", source="x")
    rows = make_rows(load_competition("wine"), {"b": [ours] * 8, "a": [0.5] * 8})
    console = PlainConsole(width=80, record=True, file=io.StringIO())
    console.print(comparison_table(load_competition("wine"), rows))
    assert re.search(r": 8 sampled programs(.|\n)*b[ │]+-[ │]+-[ │]+-[ │]+-[ │]+-", console.export_text())


def test_training_beside_sampling(tmp_path, wine):
    """As many sampled programs as the run has, or the most below that are known."""
    run = read_run(make_run(tmp_path / "run", steps=2, programs=3))
    rows = make_rows(wine, {"six": [0.5, 0.9, None, 0.7, 0.6, 0.8], "many": [0.6] * 9})
    _, training, six, many = training_table(run, rows)
    rate, best = f"{run.programs()['valid'].mean():.0%}", f"{run.best[0]['score']:.3f}"
    assert training == ["wine", "training", "6", rate, "-", best, "-"]
    assert six[1:6] == ["six", "6", "83%", "100%", "0.900"]
    assert many[1:] == ["many", "4", "100%", "100%", "0.600", "0.600 to 0.600"]
    with pytest.raises(ValueError, match="--holdout"):
        training_table(run, [rows[0] | {"holdout": 0.5}])
    run.executions["outcome"] = "infrastructure"
    assert training_table(run, [])[1][2:5] == ["0", "-", "-"]


def test_the_command(command, rows, tmp_path, monkeypatch, capsys):
    """Compares two folders, one for each run, on the terminal and in a file, and beside a run of training."""
    for i, part in enumerate((rows[:2] + rows[4:6], rows[2:4] + rows[6:])):
        write_results(tmp_path / f"run{i}", part)
    run = make_run(tmp_path / "run", steps=2, programs=3)
    words = "compare", tmp_path / "run0", tmp_path / "run1", "--runs", run, "--markdown", tmp_path / "x.md"
    monkeypatch.setenv("COLUMNS", "80")
    assert command(*words) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "beside sampled programs" in " ".join(out.split())
    assert "0.750 ± 0.050" in (text := (tmp_path / "x.md").read_text())
    assert "\n| wine | training | 6 | " in text
