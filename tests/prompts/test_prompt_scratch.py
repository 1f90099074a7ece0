import pytest

from trl_mle.competitions import Competition, load_competition
from trl_mle.prompts import scratch_prompt


LOCAL = ["digits", "breast-cancer", "diabetes", "wine"]


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRL_MLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def _content(comp: Competition) -> str:
    (message,) = scratch_prompt(comp, timeout_s=60, memory_mb=4096)
    assert message["role"] == "user"
    return message["content"]


@pytest.mark.parametrize("name", LOCAL)
def test_says_what_a_solution_needs(name):
    comp = load_competition(name)
    content = _content(comp)
    assert content.splitlines()[0] == f"Kaggle competition: {name}"
    assert f"{comp.metric.replace('_', ' ')} ({'higher' if comp.higher_is_better else 'lower'} is better)" in content
    for part in ("input/train.csv", "input/test.csv", "submission.csv", "60 seconds", "4096 MB", "```python", "plan"):
        assert part in content
    assert all(f"{column}" in content for column in (comp.target_columns[0], comp.target_columns[-1]))
    # Three characters per token is fewer than Qwen's tokenizer makes of English, CSV or code.
    assert len(content) / 3 < 1024


def test_is_made_once_and_for_all():
    assert _content(load_competition("wine")) == _content(load_competition("wine"))


def test_condenses_numbered_columns_and_wide_rows():
    content = _content(load_competition("digits"))
    assert "str: id; int: pixel_0..pixel_63, label" in content
    assert "float: digit_0..digit_9" in content
    assert "pixel_7" not in content
    assert max(len(line) for line in content.splitlines() if line.startswith("id")) < 60


def test_an_unseen_competition_needs_no_new_code(tmp_path):
    public = tmp_path / "public"
    (public / "images").mkdir(parents=True)
    (public / "images" / "a.jpg").write_bytes(b"")
    (public / "extra.json").write_text("[]")
    sentence = "A long story about leaves. "
    (public / "description.md").write_text(
        f"# Overview\n\n## Description\n\n{sentence * 100}\n\n## Evaluation\n\nBy AUC.\n"
    )
    header = "row,f_00,f_01,f_02,text,seen,label\n"
    (public / "train.csv").write_text(header + f'1,0.5,0.5,0.5,"two\nlines {"x" * 500}",True,0\n' * 3)
    (public / "test.csv").write_text("row,f_00,f_01,f_02,text,seen\n1,0.5,0.5,0.5,b,True\n")
    (public / "sample.csv").write_text("row," + ",".join(f"class {i}x" for i in range(99)) + "\n1" + ",0" * 99 + "\n")
    comp = Competition(
        id="mirror:leaves",
        metric="roc_auc",
        public_dir=public,
        sample_submission=public / "sample.csv",
        answers=tmp_path / "private" / "test.csv",
        target_columns=tuple(f"class {i}x" for i in range(99)),
        id_column="row",
    )
    content = _content(comp)
    assert content.startswith("Kaggle competition: mirror:leaves\n\nA long story about leaves. A long")
    assert "By AUC." in content
    assert "leaves.\n" in content
    assert "int: row; float: f_00..f_02; str: text; bool: seen; int: label" in content
    assert "input/test.csv: the columns of train.csv without label" in content
    assert "input/images/: 1 files" in content
    assert "input/extra.json" in content
    assert "1,0.5,0.5,0.5,two lines xxx" in content
    assert len(content) / 3 < 1024
