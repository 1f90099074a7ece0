"""
`trl-mle prepare`. A script that does, or says, the same replaces the real `mlebench`, which needs Kaggle's network and
an account.
"""

import sys

import pytest
from support.bench import SITE

from trl_mle.competitions import CompetitionError
from trl_mle.scripts.prepare import prepare


PIZZA = "random-acts-of-pizza"


@pytest.fixture
def mlebench(tmp_path, monkeypatch):
    """Installs an `mlebench` with the given script; until then there is none."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MLEBENCH_DATA_DIR", "~/data")

    def install(body):
        script = tools / "mlebench"
        script.write_text(f"#!{sys.executable}\nimport os, sys\nfrom pathlib import Path\n{body}\n")
        script.chmod(0o755)

    return install


WRITES = """
name, data = sys.argv[3], Path(sys.argv[5] if len(sys.argv) > 4 else os.environ["MLEBENCH_DATA_DIR"])
assert sys.argv[1:3] == ["prepare", "-c"], sys.argv
for part in ("public/sampleSubmission.csv", "private/test.csv"):
    path = data / name / "prepared" / part
    path.parent.mkdir(parents=True)
    path.write_text("request_id,requester_received_pizza\\na,0\\nb,1\\n")
print("Preparing competition", name)
"""


def test_it_is_prepared_once(mlebench, tmp_path, monkeypatch, capfd):
    mlebench(WRITES)
    public = prepare(PIZZA, None)
    assert public == tmp_path / "data" / PIZZA / "prepared" / "public"
    assert "Preparing competition random-acts-of-pizza" in capfd.readouterr().err
    mlebench("sys.exit('asked twice')")
    assert prepare(PIZZA, None) == public
    mlebench(WRITES)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))  # its environment is not activated
    monkeypatch.setattr("sys.executable", str(tmp_path / "tools/python"))
    assert prepare(PIZZA, str(tmp_path / "elsewhere")).is_relative_to(tmp_path / "elsewhere")


def test_what_prevents_it_is_said(mlebench, tmp_path, monkeypatch, capfd):
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", str(tmp_path / "python"))
        for name in (PIZZA, "spaceship-titanic"):  # the second is not one of the twelve
            with pytest.raises(CompetitionError, match=f"pip install git.*{name}/rules"):
                prepare(name, None)
    mlebench("sys.exit('OSError: Could not find kaggle.json')")
    with pytest.raises(CompetitionError, match="failed with exit code 1; its last lines say why"):
        prepare(PIZZA, None)
    assert "kaggle.json" in capfd.readouterr().err


def test_others_that_an_installed_mlebench_knows(mlebench, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SITE)
    body = f"import sys; sys.path[:0] = {sys.path!r}\nfrom support.bench import write_prepared\n"
    mlebench(body + "write_prepared(Path(os.environ['MLEBENCH_DATA_DIR']).expanduser())")
    public = prepare("rank-the-kinds", None)
    assert public == tmp_path / "data" / "rank-the-kinds" / "prepared" / "public"
