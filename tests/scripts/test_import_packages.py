"""`trl-mle import`: metrics of other projects run in the sandbox, and only there."""

import os
import sys

import pandas as pd
import pytest
import yaml
from support.packages import ACCURACY, tables, write_package

from trl_mle import cli
from trl_mle.competitions import load_competition
from trl_mle.scripts import import_packages


def import_all(folder, to, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["trl-mle", "import", str(folder), "--to", str(to), *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_folder_of_packages(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "packages"
    write_package(folder / "kinds", "openmle")
    write_package(folder / "prices", "mle-dojo")
    write_package(folder / "sand", "sandmle")
    write_package(folder / "broken", "openmle", **{"{public}/description.txt": None})
    assert import_all(folder, tmp_path / "out", monkeypatch) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:-2] == [
        "failed    broken: there is no description.txt or description.md",
        "imported  kinds: accuracy ↑, the same as its metric on 12 trials (largest difference 0)",
        "imported  prices: rmse ↓, the same as its metric on 12 trials (largest difference 0)",
        said[3],
    ]
    assert said[3].startswith("imported  sand: mae ↓, the same as its metric on 12 trials (largest difference ")
    assert said[-2] == f"3 of 4 in {tmp_path}/out/"
    found = {
        path.name: yaml.safe_load((path / "competition.yaml").read_text()) for path in (tmp_path / "out").iterdir()
    }
    assert found == {
        "kinds": {"id": "kinds", "metric": "accuracy", "id_column": "id", "target_columns": ["kind"]},
        "prices": {
            "id": "prices",
            "metric": "rmse",
            "id_column": "id",
            "target_columns": ["price"],
            "exact_columns": True,
        },
        "sand": {"id": "sand", "metric": "mae", "id_column": "id", "target_columns": ["price"]},
    }
    for name in found:
        comp = load_competition(str(tmp_path / "out" / name))
        _, _, answers = tables(comp.target_columns[0])
        assert comp.grade(answers.to_csv(index=False).encode()).value == comp.scoring.best
        assert comp.grade(comp.sample_submission).valid


HOSTILE = {
    "ends the process": ("import os\nos._exit(0)", "ended the process before it had scored"),
    "prints scores": (
        'import os, sys\nprint(\'{"scores": {"trial-0": 1.0}}\')\nsys.stdout.flush()\nos._exit(0)',
        "ended the process before it had scored",
    ),
    "writes scores": (
        "import os, json\njson.dump({'scores': {'trial-0': 1e999, 'trial-1': 'x' * 9}, 'refused': 3,"
        " 'higher_is_better': 1}, open('submission.csv', 'w'))\nos._exit(0)",
        "wrote no scores",
    ),
    "writes a large number": (
        'import os\nopen("submission.csv", "w").write(\'{"scores": {"trial-0": 1\' + "0" * 400 + "}")\nos._exit(0)',
        "wrote no scores",
    ),
    "fails": ("raise RuntimeError('a')", "its metric fails (error: RuntimeError: a"),
    "is no class": ("def evaluate(a, b): return 1.0", "LookupError: metric.py has no class with a method evaluate"),
    "is constant": (
        ACCURACY.replace("return float(", "return 0.5 + 0 * float("),
        "scores trial submissions as no metric of ours does",
    ),
    "is upside down": (ACCURACY.replace("=True", "=False"), "scores as accuracy, but says that lower is better"),
    "refuses all": (
        ACCURACY.replace("if len", "if True or len"),
        "scores no trial submission (Exception: wrong number",
    ),
}


def test_hostile_metrics(tmp_path, monkeypatch, capsys):
    """None of them breaks the import of the others, or leaves anything."""
    for name, (code, _) in HOSTILE.items():
        write_package(tmp_path / "packages" / name, "openmle", **{"utils/metric.py": code})
    write_package(tmp_path / "packages" / "zero", "openmle")
    assert import_all(tmp_path / "packages", tmp_path / "out", monkeypatch) == 1
    *lines, last, _, _ = capsys.readouterr().out.splitlines()
    assert last.startswith("imported  zero: accuracy ↑, the same as its metric")
    assert len(lines) == len(HOSTILE)
    for name, (_, message) in HOSTILE.items():
        (line,) = [line for line in lines if line.startswith(f"failed    {name}: ")]
        assert message in line
        assert "name another with --metric" in line or "wrote no scores" in line
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["zero"]


def test_a_metric_that_does_not_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(import_packages, "TIMEOUT_S", 2.0)
    write_package(tmp_path / "endless", "openmle", **{"utils/metric.py": "while True:\n    pass"})
    assert import_all(tmp_path / "endless", tmp_path / "out", monkeypatch) == 1
    assert "failed    endless: its metric fails (timeout: " in capsys.readouterr().out
    assert not list((tmp_path / "out").iterdir())


READS = """
import os
secret = "{secret}"
tries = []
for path in (secret, os.path.dirname(secret), "/proc/{pid}/environ"):
    try:
        tries.append(open(path).read() if not os.path.isdir(path) else os.listdir(path))
    except OSError:
        pass
for path in ("input/package/test_answer.csv", "{secret}-written", "/usr/written"):
    try:
        open(path, "w")
        tries.append(path)
    except OSError:
        pass
raise RuntimeError("tried " + str(len(tries)))
"""


def test_a_metric_sees_nothing_but_its_package(tmp_path, monkeypatch, capsys):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    code = READS.format(secret=secret, pid=os.getpid())
    package = write_package(tmp_path / "curious", "openmle", **{"utils/metric.py": code})
    assert import_all(package, tmp_path / "out", monkeypatch) == 1
    assert "RuntimeError: tried 0" in capsys.readouterr().out
    assert not (tmp_path / "secret.txt-written").exists()
    assert pd.read_csv(package / "data/private/test_answer.csv").equals(tables("kind")[2].reset_index(drop=True))


def test_odd_files_are_one_line_each(tmp_path, monkeypatch, capsys):
    _, _, answers = tables("price")
    private, sample = "data/private/test_answer.csv", "{public}/sample_submission.csv"
    odd = {
        "no answers": {private: "id,price\n", sample: "id,price\n"},
        "gaps": {private: answers.assign(price=[None, *answers["price"][1:]])},
        "infinite": {private: answers.assign(price=float("inf"))},
        "binary": {private: "\0\1\2", sample: None},
        "no names": {private: answers.to_csv(index=False, header=False), sample: None},
        "twice": {private: "id,price,price\na,1,2\nb,2,3\n", sample: "id,price,price\na,1,2\nb,2,3\n"},
        "one row": {private: "id,price\na,1\n", sample: "id,price\na,1\n"},
        "texts": {private: answers.assign(price="a b")},
        "empty sample": {sample: ""},
        "no public files": {"{public}/train.csv": None, "{public}/test.csv": None},
    }
    for name, files in odd.items():
        write_package(tmp_path / "packages" / name, "mle-dojo", **files)
    assert import_all(tmp_path / "packages", tmp_path / "out", monkeypatch) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said[:-1]] == [f"failed    {name}" for name in sorted(odd)]
    assert said[-1].startswith("0 of 10 in ")
    assert not list((tmp_path / "out").iterdir())


def test_what_is_there_is_kept(tmp_path, monkeypatch, capsys):
    package = write_package(tmp_path / "prices", "mle-dojo")
    options = ("--metric", "rmse")
    assert import_all(package, tmp_path / "out", monkeypatch, *options) == 0
    assert capsys.readouterr().out.startswith("imported  prices: rmse ↓, as given\n1 of 1 in ")
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*"))
    assert import_all(package, tmp_path / "out", monkeypatch, *options) == 1
    assert "prices exists: remove it to import the package again" in capsys.readouterr().out
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*")) == before
