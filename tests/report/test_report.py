import json
import re
import shutil
from html import unescape
from itertools import islice

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from support.training_runs import make_run

from trl_mle.report import training_run, write_report
from trl_mle.report.charts import charts
from trl_mle.report.training_run import best_so_far, percent, read_run
from trl_mle.rewards import Evaluation, ProgramLog


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    folder = shutil.copytree(run, tmp_path_factory.mktemp("runs") / "digits <&> RL")
    return write_report(folder, tmp_path_factory.mktemp("report"))


def chart_names(folder):
    return [chart.name for chart in charts(read_run(folder))]


def test_a_run_is_read_as_its_executions_were_written(run):
    read = read_run(run)
    table = read.executions
    assert len(table) == 160
    assert table["time"].is_monotonic_increasing
    assert (table["valid"] == table["score"].notna()).all()
    assert (table["untrained"] == (table["valid"] & ~table["model_trained"])).all()
    assert 0 < table["untrained"].sum() < table["valid"].sum()
    assert read.best[0]["score"] == table["score"].max()
    assert list(read.metric("reward")) == list(range(1, 11))
    assert read.training_s == 20.0
    read.history = [{"step": 5, "step_time": 3.0}, {"step": 7, "step_time": 4.0}, {"step": 8, "reward": 0.0}]
    assert read.training_s == 5 * 3.0 + 2 * 4.0  # means over the steps since the last log
    read.history = read.history[2:]
    assert read.training_s is None


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0%"), (1e-6, "<1%"), (0.004, "<1%"), (0.006, "1%"), (0.5, "50%"), (0.994, "99%"), (0.9999, ">99%"), (1.0, "100%")],
)  # fmt: skip
def test_rounding_makes_no_program_valid_or_invalid(share, text):
    assert percent(share) == text


CHARTS = ["learning", "score", "milestones", "durations"]


def test_the_page_holds_everything(page):
    text = page.read_text()
    assert re.findall(r'<figure id="([^"]+)"', text) == CHARTS
    for chart in CHARTS:
        picture = np.asarray(Image.open(page.parent / f"{chart}.png").convert("L"))
        assert picture.min() < 80 < 250 < picture.max()
    assert "digits &lt;&amp;&gt; RL" in text
    assert 'data-name="training time">20 s<' in text
    assert "FileNotFoundError: [Errno N] No such file or directory: &#39;…&#39;" in text


def test_each_of_several_competitions_has_a_row(tmp_path, first_chart_only, monkeypatch):
    """Of many, the same few are shown everywhere."""
    run = make_run(tmp_path / "run", competitions=("wine", "diabetes"), steps=4)
    ProgramLog(run / "executions/rank-1.jsonl").append("digits", Evaluation(None, outcome="infrastructure"))
    text = write_report(run, tmp_path / "report").read_text()
    for name, count, ours in (("all", "64", "1"), ("wine", "32", "0"), ("diabetes", "32", "0"), ("digits", "0", "1")):
        [row] = re.findall(rf'<tr><td data-name="competition">{name}</td>(.*?)</tr>', text)
        cells = dict(re.findall(r'data-name="([^"]*)">([^<]*)</td>', row))
        assert (cells["programs"], cells["failures of ours"]) == (count, ours)
        assert re.match(rf"-$|0\.\d+ \({'' if name == 'all' else name}", cells["best score"])
        assert len(cells) == 9
    monkeypatch.setattr(training_run, "FEW", 1)
    read = read_run(run)
    assert read.competitions == [best["competition"] for best in read.best] == ["wine"]


def test_the_best_is_reported_on_the_held_out_rows(run, tmp_path, first_chart_only):
    before = read_run(run)
    assert before.executions["reported"].equals(before.executions["score"])
    folder = make_run(tmp_path / "run", holdout=True, finished=False)
    read = read_run(folder)
    [best], score = read.best, read.executions["score"].max()
    assert (best["score"], best["reported"]) == (score, pytest.approx(score - 0.2))
    text = write_report(folder, tmp_path / "report").read_text()
    assert f"wine: accuracy ↑ {score - 0.2:g}<" in text
    assert f'data-name="best score">{score - 0.2:g} (wine, accuracy ↑)' in text


@pytest.mark.parametrize("sign", [1, -1])
def test_best_so_far_on_the_held_out_rows(sign):
    scores = sign * pd.Series([np.nan, 0.5, np.nan, 0.3, 0.9, 0.9, 0.4])
    chosen = best_so_far(scores, sign == 1, pd.Series(np.arange(7.0)))
    assert np.isnan(chosen[0])
    assert chosen.tolist()[1:] == [1.0, 1.0, 1.0, 4.0, 4.0, 4.0]


def test_the_page_asks_for_nothing(page):
    """Everything that a browser could fetch is in the page itself, which also forbids it to fetch anything else."""
    text = page.read_text()
    assert "default-src 'none'" in text
    assert all(source.startswith("data:image/svg+xml;base64,") for source in re.findall(r'src="([^"]*)"', text))
    assert not re.search(r"<(script|link|iframe|object|embed)|href=|url\(|@import", text)


def test_a_run_in_its_first_steps_has_fewer_charts(tmp_path):
    folder = make_run(tmp_path / "before its first checkpoint", steps=2, finished=False)
    log = folder / "executions" / "rank-0.jsonl"
    log.write_text(log.read_text() + '{"time": "2026-01-01T')  # a line that is still being written
    assert chart_names(folder) == ["score", "milestones"]

    row = json.loads(log.read_text().splitlines()[0])  # before its first valid program
    row |= {"score": None, "outcome": "error", "milestones": [], "reward": -10.0}
    log.write_text(json.dumps(row) + "\n")
    shutil.rmtree(folder / "best_solutions")
    assert chart_names(folder) == ["milestones"]

    folder = make_run(tmp_path / "before its first program", steps=3)
    shutil.rmtree(folder / "executions")
    assert chart_names(folder) == ["learning", "durations"]


@pytest.fixture
def first_chart_only(monkeypatch):
    """Draws only the first chart, because drawing takes most of a report's time."""
    monkeypatch.setattr("trl_mle.report.page.charts", lambda run: islice(charts(run), 1))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("best_solutions/wine/score.json", lambda path: path.write_text("{")),
        ("best_solutions/wine/score.json", lambda path: path.write_text("{}")),
        ("executions/rank-0.jsonl", lambda path: path.write_text('{"time": "20\n\0\0{\n' + path.read_text())),
    ],
)
def test_a_file_that_cannot_be_read_is_skipped(tmp_path, first_chart_only, name, spoil):
    folder = make_run(tmp_path / "run", steps=1, programs=4)
    spoil(folder / name)
    page = write_report(folder, tmp_path / "report").read_text()
    read = read_run(folder)
    assert (len(read.executions), len(read.best)) == (4, 0 if name.startswith("best") else 1)
    assert len(read.skipped) == (0 if name.startswith("best") else 2)
    for note in read.skipped:
        assert note.startswith(str(folder / name))
        assert note in unescape(page)
