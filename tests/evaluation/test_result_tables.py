import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.training_runs import make_run

from trl_mle import cli
from trl_mle.competitions import Score, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.competitions.metrics import METRICS
from trl_mle.evaluation import Sample, SampleLog
from trl_mle.evaluation.evaluate import comparison_table, difference
from trl_mle.evaluation.result_tables import (
    REPORTED,
    REPORTED_SYSTEMS,
    Cell,
    average_relative_improvement,
    best_of_k_table,
    cells,
    cost_table,
    main_table,
    on_all_rows,
    program_table,
    read_results,
    reported_scores,
    to_markdown,
)
from trl_mle.evaluation.results import add_equal_costs, figures
from trl_mle.instrumentation import MILESTONES, Completion
from trl_mle.report.training_run import read_run
from trl_mle.rewards import Evaluation
from trl_mle.scripts.compare import training_table
from trl_mle.showing import PlainConsole


DIRECTIONS = {name: METRICS[layout.metric].higher_is_better for name, layout in MLEBENCH_COMPETITIONS.items()}


def evaluation(score, duration_s=1.0, milestones=MILESTONES):
    found = None if score is None else Score(score, True)
    return Evaluation(0.0, duration_s, found, "ok", milestones, source="x = 1")


def make_rows(tmp_path, competition, scores_by_policy):
    """Results as an evaluation writes them, for programs with given scores."""
    rows, logs = [], []
    for name, scores in scores_by_policy.items():
        log = SampleLog(tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl", {"policy": name})
        evaluations = [score if isinstance(score, Evaluation) else evaluation(score) for score in scores]
        for i, found in enumerate(evaluations):
            sample = Sample(competition.id, "scratch", i)
            log.add_completions([sample], [Completion("text", 10, 100)], log.now(), "scratch", [None])
            log.add_evaluation(sample, found)
        rows.append(figures(name, competition, evaluations, log))
        logs.append(log)
    add_equal_costs(rows, logs)
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
def rows(tmp_path):
    """Two systems, two seeds, a competition where higher and one where lower is better."""
    return [
        *make_rows(tmp_path, PIZZA, {"large": [0.6, None], "small": [0.5, 0.7]}),
        *make_rows(tmp_path, PIZZA, {"large": [0.62, 0.1], "small": [0.8, None]}),
        *make_rows(tmp_path, SPOOKY, {"large": [0.5, 0.6], "small": [0.4, 0.9]}),
        *make_rows(tmp_path, SPOOKY, {"large": [None, None], "small": [0.3, None]}),
    ]


def test_cells_are_the_best_of_each_run(rows):
    table = cells(rows)
    assert table["random-acts-of-pizza"]["large"].values == [0.6, 0.62]
    assert str(table["random-acts-of-pizza"]["large"]) == "0.610 ± 0.010"
    assert str(table["random-acts-of-pizza"]["small"]) == "0.750 ± 0.050"
    assert str(table["spooky-author-identification"]["small"]) == "0.350 ± 0.050"  # lower is better
    assert str(table["spooky-author-identification"]["large"]) == "0.500 (1 of 2 runs)"


def test_the_main_table_marks_the_best_and_shows_the_reported(rows):
    head, pizza, spooky, gain = main_table(rows)
    assert head[:4] == ["competition", "metric", "large", "small"]
    assert head[4] == "Qwen2.5-3B RL (reported)"
    assert pizza[:4] == ["random-acts-of-pizza", "roc auc ↑", "0.610 ± 0.010", "**0.750 ± 0.050**"]
    assert pizza[4:] == list(REPORTED["random-acts-of-pizza"])
    assert spooky[1:4] == ["log loss ↓", "0.500 (1 of 2 runs)", "**0.350 ± 0.050**"]
    assert gain[1:4] == ["over large", "", f"{((0.75 - 0.61) / 0.61 + (0.5 - 0.35) / 0.5) / 2:+.0%} (of 2)"]


def test_a_mirror_is_not_compared_with_the_papers_figures(tmp_path):
    mirror = load_competition("mirror:random-acts-of-pizza?rows=60")
    head, line = main_table(make_rows(tmp_path, mirror, {"small": [0.6]}))
    assert head == ["competition", "metric", "small"]
    assert line == [mirror.id, "roc auc ↑", "0.600"]


def test_one_competition_has_no_average(rows):
    assert [line[0] for line in main_table(rows[:2])] == ["competition", "random-acts-of-pizza"]


def test_the_headline_is_the_best_of_few_where_there_are_enough(tmp_path):
    """Where most programs were invalid before, the mean of the valid ones says little, and so does the best of all."""
    wine = load_competition("wine")
    few, enough = make_rows(tmp_path, wine, {"few": [0.5, 0.6], "enough": [0.9, 0.5, *[None] * 7]})
    head, *lines = program_table([few, enough])
    assert head[2:6] == ["valid rate", "best of 8", "mean score", "best score"]
    # Of the nine sets of eight, one lacks the better program, and none lacks both
    assert [line[2:6] for line in lines] == [
        ["1.000", "-", "0.550", "0.600"], ["0.222", f"{(8 * 0.9 + 0.5) / 9:.3f}", "0.700", "0.900"],
    ]  # fmt: skip


def test_average_relative_improvement_by_hand():
    ours, theirs = {"a": 0.9, "b": 0.2, "c": 1.0, "d": None}, {"a": 0.6, "b": 0.4, "d": 1.0}
    directions = {"a": True, "b": False, "c": True, "d": True}
    gain, count = average_relative_improvement(ours, theirs, directions)
    assert (gain, count) == (pytest.approx((0.3 / 0.6 + 0.2 / 0.4) / 2), 2)
    assert average_relative_improvement({}, theirs, directions) == (None, 0)


def test_the_papers_own_average_with_the_cells_that_are_known():
    """The figure in the docstring of `average_relative_improvement`."""
    small, large = map(reported_scores, ("Qwen2.5-3B RL", "Claude-3.5-Sonnet + AIDE"))
    gain, count = average_relative_improvement(small, large, DIRECTIONS)
    assert (round(gain, 3), count) == (0.365, 7)


def test_the_papers_table_is_whole():
    assert REPORTED.keys() <= MLEBENCH_COMPETITIONS.keys()
    assert len(REPORTED) == 12
    assert {len(row) for row in REPORTED.values()} == {len(REPORTED_SYSTEMS)}
    assert reported_scores("GPT-4o MLAB")["us-patent-phrase-to-phrase-matching"] is None
    assert all(score is not None for score in reported_scores("Qwen2.5-3B RL").values())


def test_the_figures_of_a_policy(tmp_path):
    evaluations = [
        evaluation(0.7, milestones=("imports",)),
        evaluation(0.8),
        evaluation(0.6),
        evaluation(None),
        Evaluation(None, outcome="infrastructure", source="x"),
    ]
    [row] = make_rows(tmp_path, load_competition("breast-cancer"), {"x": evaluations})
    assert (row["num_samples"], row["num_valid"], row["num_untrained"], row["num_failures_of_ours"]) == (4, 3, 1, 1)
    assert row["best_score"] == 0.8
    assert [point["k"] for point in row["best_of_k"]] == [1, 2, 4]
    assert row["medal_thresholds"] is None
    assert row["cost"]["prompt_tokens"] == 500


def graded(value, held_out, full, **more):
    """A program's scores on the validation rows, the held-out rows and all rows."""
    return replace(evaluation(value, **more), score=Score(value, True, None, held_out, full))


@pytest.fixture
def held_out_rows(tmp_path):
    """The large system looks best by its luckiest program, but is not."""
    half = replace(PIZZA, holdout=0.5)
    large = [graded(0.9, 0.5, 0.7), graded(0.6, 0.6, 0.6), graded(0.5, 0.9, 0.8), None]
    small = [graded(0.7, 0.7, 0.7), graded(0.8, 0.6, 0.75)]
    return make_rows(tmp_path, half, {"large": large, "small": small})


def test_the_figures_where_rows_are_held_out(held_out_rows):
    large, small = held_out_rows
    assert (large["holdout"], large["chosen_by"], large["num_valid"]) == (0.5, "validation", 3)
    assert (large["best_score"], small["best_score"]) == (0.5, 0.6)
    assert large["mean_score"] == pytest.approx(2 / 3)
    assert [point["score"] for point in large["best_of_k"]] == [pytest.approx(x) for x in (2 / 3, 0.6, 0.5)]
    assert large["at_equal_programs"] == {"num_executed": 2, "best_score": 0.5}
    footnote = large["on_all_rows"]
    assert (footnote["chosen_by"], footnote["best_score"]) == ("test", 0.8)
    assert footnote["best_of_k"][-1]["score"] == 0.8
    assert footnote["at_equal_programs"] == {"num_executed": 2, "best_score": 0.7}
    assert on_all_rows(held_out_rows)[0].items() >= footnote.items()


def test_the_medal_is_that_of_the_chosen_program_on_all_rows(tmp_path):
    evaluations = [graded(0.2, 0.3, 0.25), graded(0.3, 0.02, 0.16)]
    [row] = make_rows(tmp_path, replace(SPOOKY, holdout=0.5), {"x": evaluations})
    assert row["medal"] == "silver"


def test_without_held_out_rows_there_is_no_footnote(rows):
    assert {(row["holdout"], row["chosen_by"]) for row in rows} == {(0.0, "test")}
    assert on_all_rows(rows) == rows
    assert "Chosen by the test score" not in to_markdown(rows)


def test_the_tables_where_rows_are_held_out(held_out_rows):
    """The headline is honest; the footnote has the figures that are comparable with the paper's."""
    text = to_markdown(held_out_rows)
    headline, footnote = text.split("## Chosen by the test score")
    assert "| random-acts-of-pizza | roc auc ↑ | 0.500 | **0.600** |" in headline
    assert "(`chosen_by: validation`)" in headline
    assert "(reported)" not in headline
    assert "| random-acts-of-pizza | roc auc ↑ | **0.800** | 0.750 | 0.663 ± .011 |" in footnote
    assert "(`chosen_by: test`)" in footnote
    for source, expected in ((held_out_rows, (0.5, 0.6)), (on_all_rows(held_out_rows), (0.8, 0.75))):
        found = cells(source)["random-acts-of-pizza"]
        assert (found["large"].mean, found["small"].mean) == expected


def test_the_command_has_the_footnote(held_out_rows, tmp_path, monkeypatch, capsys):
    code, out, error = compare(capsys, monkeypatch, write_results(tmp_path / "run", held_out_rows))
    assert code == 0
    assert error == (
        "trl-mle: warning: runs in random-acts-of-pizza have 2 to 4 programs: the best of more is better\n"
    )
    assert max(map(len, out.splitlines())) <= 80
    headline, footnote = out.split("chosen by the test score")
    assert "0.600" in headline
    assert "(reported)" not in headline
    assert "0.800" in footnote
    assert "(reported)" in " ".join(footnote.split())


def test_different_shares_are_compared_by_all_rows(rows, held_out_rows, tmp_path, monkeypatch, capsys):
    write_results(tmp_path / "none", rows)
    write_results(tmp_path / "half", held_out_rows)
    code, out, error = compare(capsys, monkeypatch, tmp_path / "none", tmp_path / "half", "--json")
    assert code == 0
    assert (
        "trl-mle: warning: the evaluations hold out different shares (0, 0.5): the best programs are chosen by"
        in error
    )
    assert cells(json.loads(out))[PIZZA.id]["large"].mean == pytest.approx((0.6 + 0.62 + 0.8) / 3)


def test_a_medal_where_the_thresholds_are_known(tmp_path):
    [row] = make_rows(tmp_path, SPOOKY, {"x": [0.25]})
    assert row["medal"] == "silver"
    assert row["medal_thresholds"]["gold"] == 0.16506


def test_equal_cost_is_that_of_the_thriftiest(tmp_path):
    wine = load_competition("wine")
    short, long = make_rows(tmp_path, wine, {"short": [0.5, 0.6], "long": [0.4, 0.5, 0.7]})
    assert short["at_equal_programs"] == {"num_executed": 2, "best_score": 0.6}
    assert long["at_equal_programs"] == {"num_executed": 2, "best_score": 0.5}
    assert short["at_equal_time"]["elapsed_s"] == long["at_equal_time"]["elapsed_s"]


def test_where_results_were_reused_time_says_nothing(tmp_path, monkeypatch):
    in_order = SampleLog.in_order

    def reused(self, competition):
        return [(elapsed_s, replace(evaluation, reused=True)) for elapsed_s, evaluation in in_order(self, competition)]

    monkeypatch.setattr(SampleLog, "in_order", reused)
    rows = make_rows(tmp_path, load_competition("wine"), {"short": [0.5, 0.6], "long": [0.4, 0.5, 0.7]})
    assert [row["at_equal_time"] for row in rows] == [{"elapsed_s": None, "best_score": None}] * 2
    assert [row["at_equal_programs"]["best_score"] for row in rows] == [0.6, 0.5]
    assert [line[-1] for line in cost_table(rows)[1:]] == ["", ""]


def test_all_tables_as_markdown(rows):
    text = to_markdown(rows)
    for part in (
        "## Best of 2 programs",
        "**0.750 ± 0.050**",
        "never trained a model",
        "not measured here",
        "total Δt",
    ):
        assert part in text
    widths = {len(line) for line in best_of_k_table(rows)} | {len(line) for line in cost_table(rows)}
    assert widths == {6, 10}


def test_the_best_of_k_over_runs(rows, tmp_path):
    """The mean and error of several runs, or the interval of one; a run has no k above its number of programs."""
    pizza = [line[2:] for line in best_of_k_table(rows) if line[:2] == ["random-acts-of-pizza", "small"]]
    assert pizza == [["1", "75%", "0.700 ± 0.100", "-"], ["2", "100%", "0.750 ± 0.050", "-"]]
    _, one, _ = best_of_k_table(rows[1:2])
    assert one[2:] == ["1", "100%", "0.600", "0.500 to 0.700"]
    *_, two = best_of_k_table([rows[1], *make_rows(tmp_path, PIZZA, {"small": [None]})])
    assert two[2:] == ["2", "100%", "0.700 (1 of 2 runs)", "-"]


def test_what_has_no_value_is_left_out(tmp_path, monkeypatch, capsys):
    none, one = make_rows(tmp_path, PIZZA, {"none": [None] * 8, "one": [0.7] + [None] * 7})
    assert [line[1:3] for line in best_of_k_table([none, one])[1:]] == [["one", k] for k in ("1", "2", "4", "8")]
    assert "average relative improvement" not in to_markdown([{**none, "competition": "wine"}])
    for rows, shown in (([none], False), ([none, one], True)):
        assert ("## Best of k\n" in to_markdown(rows)) is shown
        code, out, _ = compare(capsys, monkeypatch, write_results(tmp_path / f"{shown}", rows))
        assert (code, "best of k" in out) == (0, shown)


def test_results_that_are_not_there_yet(tmp_path):
    with pytest.raises(OSError, match=r"has no results.json: has trl-mle evaluate finished there\?"):
        read_results([tmp_path])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"rows": [{"pol', "is truncated, or not JSON"),
        ('{"rows": []}', "has no rows"),
        ("[]", "has no rows"),
        ('{"a": 1}', "has no rows"),
        ('{"rows": [1]}', "has a row without at_equal_programs,"),
    ],
)
def test_results_that_are_not_whole(text, problem, tmp_path):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=rf"results.json {problem}.*: evaluate it again with the same command"):
        read_results([tmp_path])


def test_results_of_an_earlier_version(rows, tmp_path):
    del rows[0]["num_samples"]
    with pytest.raises(ValueError, match=r"run/results.json has a row without num_samples: evaluate it again"):
        read_results([write_results(tmp_path / "run", rows)])


def test_a_run_counts_once(rows, tmp_path, monkeypatch):
    write_results(tmp_path / "run", rows[:2])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="run is named twice"):
        read_results([tmp_path / "run", Path("run")])


def test_runs_of_different_size_are_told(tmp_path, monkeypatch, capsys):
    for i, scores in enumerate(([0.6], [0.6, 0.7])):
        write_results(tmp_path / f"run{i}", make_rows(tmp_path, PIZZA, {"small": scores}))
    code, _, error = compare(capsys, monkeypatch, tmp_path / "run0", tmp_path / "run1")
    assert code == 0
    assert error == (
        "trl-mle: warning: runs in random-acts-of-pizza have 1 to 2 programs: the best of more is better\n"
    )


def test_the_same_programs_count_once(tmp_path, monkeypatch, capsys):
    """One policy that was evaluated beside others in two folders, with one seed."""
    for i in range(2):
        write_results(tmp_path / f"run{i}", make_rows(tmp_path, PIZZA, {"small": [0.6, 0.7]}))
    code, out, error = compare(capsys, monkeypatch, tmp_path / "run0", tmp_path / "run1")
    assert code == 0
    assert error.startswith(
        "trl-mle: warning: 2 runs of small in random-acts-of-pizza count as 1: they have the same programs"
    )
    assert "± 0.000" not in out


def test_another_metric_is_another_competition(rows, tmp_path):
    write_results(tmp_path / "one", rows[:1])
    write_results(tmp_path / "two", [rows[0] | {"metric": "accuracy"}])
    with pytest.raises(
        ValueError, match=r"random-acts-of-pizza has the metric roc_auc in one folder and accuracy in another"
    ):
        read_results([tmp_path / "one", tmp_path / "two"])


def test_small_and_large_scores_keep_their_digits():
    assert [str(Cell([value])) for value in (0.0, 0.0000123456, -0.00456, 0.5, 9999.0, 53421.123)] == [
        "0.000", "1.23e-05", "-0.00456", "0.500", "9999.000", "53421",
    ]  # fmt: skip
    assert str(Cell([0.00002, 0.00004])) == "3e-05 ± 1e-05"
    assert str(Cell([0.5, 0.504])) == "0.502 ± 0.002"


def test_the_command(rows, tmp_path, monkeypatch, capsys):
    """Compares two folders, one for each run, on the terminal and in files."""
    for i, part in enumerate((rows[:2] + rows[4:6], rows[2:4] + rows[6:])):
        write_results(tmp_path / f"run{i}", part)
    files = ["--markdown", str(tmp_path / "x.md")]
    command = ["trl-mle", "compare", str(tmp_path / "run0"), str(tmp_path / "run1")]
    monkeypatch.setattr("sys.argv", command + files)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "0.750" in out
    assert "0.750 ± 0.050" in (tmp_path / "x.md").read_text()
    monkeypatch.setattr("sys.argv", [*command, "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert len(json.loads(capsys.readouterr().out)) == 8


def compare(capsys, monkeypatch, *options):
    """Runs the command; returns its exit code, output and error."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["trl-mle", "compare", *map(str, options)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_many_systems_on_a_narrow_terminal(tmp_path, monkeypatch, capsys):
    """Systems that do not fit into columns become rows, and long names stay distinct."""
    names = [f"/data/outputs/benchmark-ablation/policy [{i}]" for i in range(6)]
    mirrors = [replace(PIZZA, id=f"mirror{i}") for i in range(5)]
    scores = {name: [0.5 + i / 100] for i, name in enumerate(names)}
    rows = [row for mirror in mirrors for row in make_rows(tmp_path, mirror, scores)]
    folder = write_results(tmp_path / "run", rows)
    code, out, _ = compare(capsys, monkeypatch, folder, "--markdown", tmp_path / "x.md")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "--markdown" not in out
    rest, table = out.split("best score, mean", 1)
    table = "best score, mean" + table.partition(" best of k ")[0]
    assert table.count("best score, mean") == 2  # six columns of figures do not fit
    assert all(table.count(f"mirror{i}") == 1 for i in range(5))
    assert all(table.count(f"0.5{i}0") == 5 for i in range(6))
    assert all(f"[{i}]" in text for i in range(6) for text in (table, rest))


def test_a_policy_whose_programs_all_failed_because_of_us_is_not_worse(tmp_path):
    ours = Evaluation(None, outcome="infrastructure", source="x")
    rows = make_rows(tmp_path, load_competition("wine"), {"a": [0.5] * 8, "b": [ours] * 8})
    assert difference(*rows) == []
    console = PlainConsole(width=80, record=True, file=io.StringIO())
    console.print(comparison_table(load_competition("wine"), rows))
    assert re.search(r"b[ │]+-[ │]+-[ │]+-[ │]+-[ │]+-", console.export_text())
    assert program_table(rows)[2][2] == "-"


def test_a_block_names_competition_and_system_once(rows, tmp_path, monkeypatch, capsys):
    _, out, _ = compare(capsys, monkeypatch, write_results(tmp_path / "run", rows[:2]))
    _, programs, _, best_of_k = re.split("programs, mean|best score, mean|best of k *\n", out)
    for table in (programs, best_of_k):
        assert [table.count(name) for name in ("random-acts-of-pizza", "large", "small")] == [1, 1, 1]


def test_training_beside_sampling(tmp_path, monkeypatch, capsys):
    """As many sampled programs as the run has, or the most below that are known."""
    run = read_run(make_run(tmp_path / "run", steps=2, programs=3), "x")
    wine = load_competition("wine")
    rows = make_rows(tmp_path, wine, {"six": [0.5, 0.9, None, 0.7, 0.6, 0.8], "many": [0.6] * 9})
    _, training, six, many = training_table(run, rows)
    assert training == [
        "wine",
        "training",
        "6",
        f"{run.programs()['valid'].mean():.0%}",
        f"{run.best[0]['score']:.3f}",
        "-",
    ]
    assert six[1:5] == ["six", "6", "100%", "0.900"]
    assert many[1:] == ["many", "4", "100%", "0.600", "0.600 to 0.600"]
    folder = write_results(tmp_path / "results", rows)
    code, out, _ = compare(capsys, monkeypatch, folder, "--runs", tmp_path / "run")
    assert code == 0
    assert "beside sampled programs" in out
