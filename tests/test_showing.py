"""Text of programs, models and tables in every medium, and in every command that shows some."""

import base64
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from support.hostile_texts import HOSTILE, check_plain
from support.scripted_policy import ScriptedPolicy, fenced
from support.training_runs import make_run
from transformers import TrainerState

from trl_mle.competitions import Score, TaskSet, load_competition
from trl_mle.evaluation import evaluate, harness
from trl_mle.rewards import BestSolutions, Evaluation, ProgramLog
from trl_mle.rewards.progress import RUNNING_FILE
from trl_mle.showing import PlainConsole, for_markdown, for_terminal, markdown_code, terminal_line
from trl_mle.trainer.engine.pushes import results_table


EVERYTHING = "\n".join(HOSTILE)
SUBMIT = """\
import pandas as pd
sub = pd.read_csv("input/sample_submission.csv")
sub.to_csv("submission.csv", index=False)
"""


@pytest.mark.parametrize("text", HOSTILE)
def test_each_medium_shows_the_text(text):
    check_plain(for_terminal(text))
    assert "\n" not in terminal_line(text)
    console = PlainConsole(width=500)
    with console.capture() as captured:
        console.print(text, end="")
    assert captured.get().rstrip("\n") == for_terminal(text).expandtabs().rstrip("\n")
    markdown = MarkdownIt("gfm-like", {"linkify": False})
    shown = terminal_line(text)
    for line in (f"a {for_markdown(text)}", f"| a |\n|---|\n| a {for_markdown(text)} |"):
        tokens = [part for token in markdown.parse(line) for part in token.children or ()]
        parts = [token for token in tokens if token.type != "text_special" and token.content != "a"]
        assert {token.type for token in parts} <= {"text"}
        assert "".join(token.content for token in tokens).removeprefix("a" * ("---" in line)) == f"a {shown}"
    (code,) = markdown.parse(markdown_code(text))[1].children
    assert (code.type, code.content) == ("code_inline", shown)


def test_what_is_harmless_stays():
    text = "Größe: 0.5 ± 0.1\t模型 🙂\xa0½\n  indented"
    assert for_terminal(text) == text
    assert for_markdown("Qwen2.5-3B RL (reported), 0.895 ± .001") == "Qwen2.5-3B RL (reported), 0.895 ± .001"
    assert for_terminal("one\r\ntwo\rthree") == "one\ntwo\nthree"


def check_markdown(text):
    """Checks that a page holds no more than text, tables and links to the Hub."""
    check_plain(text)
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inner = [part for token in tokens for part in token.children or ()]
    assert not {token.type for token in [*tokens, *inner]} & {"html_block", "html_inline", "image", "s_open"}
    links = {token.attrs["href"] for token in inner if token.type == "link_open"}
    assert all(link.startswith("https://huggingface.co/") for link in links)


@pytest.fixture
def command(command, monkeypatch, capsys, tmp_path):
    """Runs a command in an empty folder; returns its exit code and output, which must be plain."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code, written = command(*arguments), capsys.readouterr()
        check_plain(written.out)
        check_plain(written.err)
        return code, *written

    return run


def test_watch_and_report(command, tmp_path):
    """A report on hostile programs with hostile errors."""
    folder = make_run(tmp_path / "a $x_{$ <b> [red]", steps=3)
    log = ProgramLog(folder / "executions" / "rank-1.jsonl")
    for text in HOSTILE:
        log.append("wine", Evaluation(-10.0, 1.0, None, "error", detail=text.replace("\ud800", "")))
    BestSolutions(folder / "best_solutions").offer(load_competition("wine"), EVERYTHING, b"id\n", Score(2.0, True))
    status = {"done": 1, "of": 2, "note": "".join(HOSTILE)}
    (folder / "executions" / RUNNING_FILE).write_text(json.dumps(status))
    code, out, error = command("watch", folder)
    assert code == 0, error
    assert "".join(for_terminal("".join(HOSTILE[:9])).split()) in "".join(out.split())  # however lines are broken
    assert command("report", folder)[0] == 0
    page = (folder / "report" / "report.html").read_text()
    check_plain(page)
    elements = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: elements.append((tag, dict(attributes)))
    parser.feed(page)
    assert not {"script", "b"} & {tag for tag, _ in elements}
    assert all(attributes.get("src", "data:").startswith("data:") for _, attributes in elements)
    assert html.unescape(page).count("[/bold]") >= 2  # the best program and an error
    picture = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([^\"]+)", page)[1])
    ElementTree.fromstring(picture)
    competition = replace(load_competition("wine"), id=EVERYTHING.replace("\ud800", ""))
    state = TrainerState(global_step=1, log_history=[{"step": 1, "reward": 0.5, "mle/score/best": 0.9}])
    check_markdown(results_table(TaskSet([competition]), state, folder.parent))  # of a model card


def test_evaluate_and_compare(command, tmp_path, monkeypatch):
    names = ["".join(HOSTILE).replace("\ud800", "").replace("\x00", ""), "**plain**"]
    answers = {name: fenced(f"x = {EVERYTHING!r}\n{SUBMIT}") for name in names}
    policies = {f"p{i}": ScriptedPolicy(lambda prompt, seed, name=name: answers[name]) for i, name in enumerate(names)}
    monkeypatch.setattr(harness, "load_policy", policies.get)
    monkeypatch.setattr(evaluate, "check_policy", lambda name: None)
    monkeypatch.setattr(evaluate, "file_name", lambda name: str(names.index(name)))
    code, out, error = command(
        "evaluate", "--policies", *policies, "--names", *names, "--competitions", "wine", "--output_dir", "out",
        "--num_samples", 1,
    )  # fmt: skip
    assert code == 0, error
    assert "[/bold]" in out
    code, out, _ = command("compare", "out", "--markdown", "tables.md")
    assert code == 0
    assert names[0][:8] in out  # the rest is in other lines of its cell
    assert "**plain**" in out
    for text in Path("tables.md").read_text(), (tmp_path / "out" / "results.md").read_text():
        check_markdown(text)
