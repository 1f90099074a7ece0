"""`trl-mle check`, on task sets with broken competitions among them."""

import json

import pytest
from support.prepared_folders import write_task


@pytest.fixture
def check(command, capsys):
    return lambda *options: (command("check", *options), *capsys.readouterr())


@pytest.fixture
def folder(tmp_path):
    """Three competitions, of which two are broken, each in another way."""
    for name in ("whole", "unanswered", "unpresented"):
        write_task(tmp_path / name)
    (tmp_path / "unanswered" / "private" / "test.csv").write_text("id\n3\n")
    (tmp_path / "unpresented" / "public" / "description.md").unlink()
    return tmp_path


def test_each_broken_one_is_named_with_the_reason(check, folder):
    code, out, _ = check(str(folder), "task:train/0-1", "--json")
    found = {row["competition"]: row for row in json.loads(out)}
    assert (code, len(found)) == (1, 5)
    whole = found[f"{folder}/whole"]
    assert (whole["metric"], whole["problem"]) == ("accuracy", None)
    assert 100 < whole["prompt_tokens"] <= 1024
    assert {name for name, row in found.items() if row["problem"]} == {f"{folder}/unanswered", f"{folder}/unpresented"}
    assert "cannot be graded: the file lacks the columns" in found[f"{folder}/unanswered"]["problem"]
    assert "lacks the file" in found[f"{folder}/unpresented"]["problem"]
    code, out, _ = check(str(folder), f"without:{folder}/unanswered", f"without:{folder}/unpresented", "--json")
    assert (code, [row["problem"] for row in json.loads(out)]) == (0, [None])


def test_a_table_for_people(check, folder):
    """Of many, it shows those that are broken."""
    code, out, _ = check(str(folder))
    assert (code, out.splitlines()[-1]) == (1, "3 competitions, 2 broken")
    assert check("task:test/0-39")[:2] == (0, "40 competitions, 0 broken\n")


def test_prompts_that_are_too_long_for_the_model(check, solution_model):
    options = "task:train/0-1", "--json", "--model", str(solution_model.path), "--max_prompt_length"
    code, out, _ = check(*options, "99")
    assert (code, out.count(" tokens, more than max_prompt_length=99")) == (1, 2)
    assert check(*options, "99999")[0] == 0
