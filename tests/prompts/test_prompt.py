import json
from dataclasses import replace

import pytest
from support.pretrained import pretrained_tokenizer
from transformers import AutoTokenizer

from trl_mle.competitions import Competition, list_competitions, load_competition
from trl_mle.execution import Limits
from trl_mle.execution.program import REQUIRED
from trl_mle.prompts import estimate_tokens, improve_prompt, keep_packages, scratch_prompt
from trl_mle.prompts.prompt import MAX_TOKENS


LOCAL = ["digits", "breast-cancer", "diabetes", "wine"]
MIRRORS = [name for name in list_competitions() if name.startswith("mirror:")]


def _content(comp: Competition) -> str:
    (message,) = scratch_prompt(comp, Limits(60, 4096))
    assert message["role"] == "user"
    return message["content"]


@pytest.mark.parametrize("name", [*LOCAL, *MIRRORS])
def test_says_what_a_solution_needs(name):
    comp = load_competition(name)
    content = _content(comp)
    assert content.splitlines()[0] == f"Kaggle competition: {name}"
    assert f"{comp.metric.replace('_', ' ')} ({'higher' if comp.higher_is_better else 'lower'} is better)" in content
    for part in ("input/train.", "input/test.", "submission.csv", "60 seconds", "4096 MB", "```python", "plan"):
        assert part in content
    assert all(f"{column}" in content for column in (comp.target_columns[0], comp.target_columns[-1]))
    assert comp.id_column in content
    assert estimate_tokens(content) <= MAX_TOKENS < 1024


# Texts that a program for a competition depends on.
NEEDED = {
    "random-acts-of-pizza": ["input/train.json", "the columns of test.json and", "request_text_edit_aware", "[0, 1]"],
    "plant-pathology-2020-fgvc7": ["input/images/: 400 files such as Test_0.jpg", "No other columns."],
    "leaf-classification": [
        "the 99 columns Acer_Capillipes, Acer_Circinatum, …, Zelkova_Serrata for each id.",
        "sum to 1",
    ],
    "spooky-author-identification": ["Text: id, text, author", "\nid,EAP,HPL,MWS\n", "id is the first column"],
}


@pytest.mark.parametrize("name", NEEDED)
def test_says_what_is_particular(name):
    content = _content(load_competition(f"mirror:{name}"))
    assert not [part for part in NEEDED[name] if part not in content]


def _write_competition(folder, columns, cell="0.123456", n_files=0, text="Words. "):
    public = folder / "public"
    public.mkdir(parents=True)
    (public / "description.md").write_text(f"# Overview\n\n{text * 2000}\n\n## Evaluation\n\n{text * 2000}\n")
    header, row = ",".join(["id", *columns, "y"]), ",".join(["1", *[cell] * len(columns), "0"])
    (public / "train.csv").write_text(f"{header}\n{row}\n{row}\n")
    (public / "test.csv").write_text(f"{header.removesuffix(',y')}\n1\n")
    (public / "sample.csv").write_text(f"id,y\n1,{cell}\n2,{cell}\n")
    for number in range(n_files):
        (public / f"a file with a long name {number:04}.csv").write_text("a,b\n1,2\n")
    return Competition(
        id="worst-case",
        metric="roc_auc",
        public_dir=public,
        sample_submission=public / "sample.csv",
        answers=folder / "private" / "test.csv",
        target_columns=("y",),
    )


@pytest.mark.parametrize(
    "worst",
    [
        {"columns": [f"column {'x' * 2000} {i}" for i in range(40)]},
        {"columns": ["特征" * 30 + str(i) for i in range(100)], "cell": "这是" * 1000, "text": "这是一个比赛。"},
        {"columns": [f"{i}{'0' * 60}" for i in range(100)], "cell": "#" * 100, "text": "1234567890 "},
    ],
    ids=["long names", "other script", "everything"],
)
def test_worst_cases_fit(tmp_path, worst):
    content = _content(_write_competition(tmp_path, **worst))
    assert estimate_tokens(content) <= MAX_TOKENS
    for part in ("worst-case\n", "(higher is better)", "Predict y for each id.", "60 seconds", "input/train.csv"):
        assert part in content
    assert content.endswith("writes submission.csv to the working directory.")


def test_a_worst_case_of_a_submission_fits(tmp_path):
    comp = _write_competition(tmp_path, ["a"], text="1234567890 ")
    targets = tuple(f"{'的' * 50} {i}x" for i in range(200))
    rows = "".join(f"{i}{',9876543210987654321' * 200}\n" for i in range(2))
    comp.sample_submission.write_text(f"{'识' * 500},{','.join(targets)}\n{rows}")
    comp = replace(comp, id_column="识" * 500, target_columns=targets, exact_columns=True, in_file_order=True)
    content = _content(comp)
    assert estimate_tokens(content) <= MAX_TOKENS
    for part in ("the 200 columns 的", "in the order of the sample", "9876543210", "60 seconds", "```python"):
        assert part in content


def test_long_files_are_read_from_their_beginning(tmp_path):
    comp = _write_competition(tmp_path, ["a"])
    with (comp.public_dir / "train.csv").open("a") as file:
        file.write("1,0.5,0\n" * 300_000 + "1,2,3,4,5,6\n")  # the end does not fit the table
    records = [{"id": i, "text": f'a \\ "word" {i}', "tags": ["x", "y"]} for i in range(40_000)]
    (comp.public_dir / "more.json").write_text(json.dumps(records, indent=1) + "]")
    (comp.public_dir / "lines.json").write_text("\n".join(json.dumps({"key": i}) for i in range(3)))
    (comp.public_dir / "single.json").write_text("[1, 2]")
    (comp.public_dir / "broken.csv").write_bytes(b"\xff\xfe\x00")
    content = _content(comp)
    assert "input/train.csv, 3 columns:\nid,a,y\n" in content
    assert 'input/more.json, 3 columns:\nid,text,tags\n0,"a \\ ""word"" 0","[\'x\', \'y\']"\n' in content
    assert "input/lines.json, 1 columns:\nkey\n0\n1\n" in content
    assert "\ninput/single.json\n" in content
    assert "\ninput/broken.csv\n" in content


MORE = Limits(5, 512, 1, (*REQUIRED, "lightgbm", "torch"))


def test_prompts_state_the_limits(wine):
    usual = "Limits: 60 seconds, 4096 MB of memory, no network (no pip install, no pretrained weights). Installed are only numpy, pandas, scipy, scikit-learn, pillow."
    more = "Limits: 5 seconds, 512 MB of memory, no network (no pip install, no pretrained weights). Installed are only numpy, pandas, scipy, scikit-learn, pillow, lightgbm, torch."
    assert usual in scratch_prompt(wine)[0]["content"].splitlines()
    for prompt in scratch_prompt(wine, MORE), improve_prompt(wine, "x = 1", "1", MORE, 1000, lambda prompt: 0):
        assert more in prompt[0]["content"].splitlines()


def test_a_run_goes_on_with_the_packages_that_it_began_with(tmp_path, caplog):
    first, second = tmp_path / "first", tmp_path / "second"
    assert keep_packages(MORE, first) == MORE
    assert json.loads((first / "limits.json").read_text())["packages"] == list(MORE.packages)
    # Resumed on a machine without lightgbm and torch, with a longer time limit
    assert keep_packages(Limits(9), second, begun_in=first) == Limits(9, packages=MORE.packages)
    assert "can no longer import: lightgbm, torch" in caplog.text
    assert keep_packages(Limits(9), second, begun_in=second).packages == MORE.packages
    assert keep_packages(Limits(9), second) == Limits(9)  # another run


@pytest.mark.pretrained
@pytest.mark.parametrize("model", ["coder-0.5b", "smollm2-135m"])
def test_fits_into_the_papers_limit_with_a_real_chat_template(model):
    tokenizer = AutoTokenizer.from_pretrained(pretrained_tokenizer(model))
    for name in [*LOCAL, *MIRRORS]:
        prompt = scratch_prompt(load_competition(name), Limits(60, 4096))
        assert len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)) <= 1024
