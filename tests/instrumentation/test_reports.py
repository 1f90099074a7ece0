import contextlib
import io

import pytest

from trl_mle.execution.program import parse_program
from trl_mle.instrumentation import AstInstrumenter, insert_prints, verify
from trl_mle.instrumentation.milestones import report_lines
from trl_mle.instrumentation.reports import MAX_REPORTS, find_reports


NONCE = "5e1f0c9a7b3d2468"


def found(source):
    return find_reports(parse_program(source))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pandas as pd\ntrain = pd.read_csv('x')\n", [(2, "train.shape")]),
        ("import pandas\ntrain = pandas.read_json('x')\n", [(2, "train.shape")]),
        ("from pandas import read_csv as r\ntrain = r('x')\n", [(2, "train.shape")]),
        ("import polars as pl\ntrain = pl.read_parquet('x')\n", [(2, "train.shape")]),
        ("from sklearn.metrics import roc_auc_score\nauc = roc_auc_score(y, p)\n", [(2, "auc")]),
        ("from sklearn import metrics as m\nloss = m.log_loss(y, p)\n", [(2, "loss")]),
        (
            "import numpy as np\nfrom sklearn.metrics import mean_squared_error as mse\nrmse = np.sqrt(mse(y, p))\n",
            [(3, "rmse")],
        ),
        ("from sklearn.model_selection import cross_val_score\ncv = cross_val_score(m, X, y).mean()\n", [(2, "cv")]),
        ("accuracy = model.score(X, y)\n", [(1, "accuracy")]),
        ("best = search.best_score_\n", [(1, "best")]),
        ("import torch.nn.functional\nloss = torch.nn.functional.nll_loss(a, b)\n", [(2, "loss")]),
        ("from sklearn.metrics import matthews_corrcoef\nscore = matthews_corrcoef(y, p)\n", [(2, "score")]),
        ("from scipy.stats import spearmanr\nrho = spearmanr(y, p)[0]\n", [(2, "rho")]),
        # By hand, by the names of metrics
        ("acc = (p == y).mean()\n", [(1, "acc")]),
        ("import numpy as np\nval_smape = np.mean(2 * abs(y - p) / (abs(y) + abs(p)))\n", [(2, "val_smape")]),
        ("rmsle = float(((a - b) ** 2).mean() ** 0.5)\n", [(1, "rmsle")]),
        # Not by hand
        ("corr = train.corr()\n", []),
        ("correct = (p == y).sum()\n", []),
        ("f1 = open('x')\n", []),
        ("best_auc = 0.5\n", []),
        # Run at most once
        ("import pandas as pd\nif x:\n    train = pd.read_csv('x')\n", [(3, "train.shape")]),
        ("import pandas as pd\ndef main():\n    t = pd.read_csv('x')\nmain()\n", [(3, "t.shape")]),
        # More than once, or perhaps not at all
        ("import pandas as pd\nfor x in y:\n    train = pd.read_csv(x)\n", []),
        ("import pandas as pd\nwhile x:\n    train = pd.read_csv(x)\n", []),
        ("import pandas as pd\ndef f():\n    t = pd.read_csv('x')\n", []),
        ("import pandas as pd\ndef f():\n    t = pd.read_csv('x')\nf(), f()\n", []),
        ("import pandas as pd\ndef f():\n    t = pd.read_csv('x')\nx = [f() for _ in y]\n", []),
        ("import pandas as pd\n@d\ndef f():\n    t = pd.read_csv('x')\nf()\n", []),
        ("import pandas as pd\ndef f(n):\n    t = pd.read_csv('x')\n    f(n - 1)\nf(3)\n", []),
        # Nothing to report
        ("import pandas as pd\npd.read_csv('x')\n", []),
        ("import pandas as pd\na, b = pd.read_csv('x'), 1\n", []),
        ("import pandas as pd\nx.train = pd.read_csv('x')\n", []),
        ("import pandas as pd\nt = pd.read_csv('x', chunksize=2).get_chunk()\n", []),
        ("import pd\ntrain = pd.read_csv('x')\n", []),
        ("x = 1\n", []),
    ],
)
def test_find_reports(source, expected):
    assert found(source) == expected


def test_there_are_not_too_many():
    source = "import pandas as pd\n" + "".join(f"t{i} = pd.read_csv('x')\n" for i in range(50))
    assert len(found(source)) == MAX_REPORTS


def run(source):
    """Runs the instrumented program; returns its output and its names."""
    reports = found(source)
    program = insert_prints(source, [], NONCE, reports)
    verify(source, program.source, NONCE)
    assert len(program.inserted_lines) == 2 * len(reports) > 0
    output, names = io.StringIO(), {}
    with contextlib.redirect_stdout(output):
        exec(compile(program.source, "<test>", "exec"), names)
    return output.getvalue(), names


def test_the_output():
    source = "class M:\n    def score(self): return 0.875\nauc = M().score()\nprint('end')\n"
    assert run(source)[0] == f"{NONCE} report: auc = 0.875\nend\n"


@pytest.mark.parametrize(
    "body",
    [
        "1 / 0",
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "return 1",  # not a string
        "return '\\ud800'",
        "return str(self)",  # endless recursion
    ],
)
def test_a_value_that_cannot_be_printed_does_no_harm(body):
    source = f"class V:\n    def __str__(self): {body}\nclass M:\n    def score(self): return V()\nauc = M().score()\nend = 1\n"
    output, names = run(source)
    assert names["end"] == 1
    assert output.count("\n") <= 1


@pytest.mark.parametrize("name", ["训练_auc", "éauc", "auc_डेटा"])
def test_names_of_any_alphabet(name):
    program = AstInstrumenter().instrument(f"class M:\n    def score(self): return 0.5\n{name} = M().score()\n", NONCE)
    assert program.source.count(NONCE) == 2
    assert program.reports(f"{NONCE} report: {name} = 0.5\n") == [(name, "0.5")]


def test_a_long_value_is_cut():
    output, _ = run("class M:\n    def score(self): return 'x' * 10**6\nauc = M().score()\n")
    assert output == f"{NONCE} report: auc = {'x' * 80}\n"


def test_a_tuple_is_one_value():
    output, _ = run("class M:\n    def score(self): return (1, 2)\nauc = M().score()\n")
    assert output == f"{NONCE} report: auc = (1, 2)\n"


def test_reports_bind_no_name():
    source = "class M:\n    def score(self): return 0.5\nauc = M().score()\n"
    names = {}
    exec(source, names)
    assert run(source)[1].keys() == names.keys()


def test_reports_stand_after_milestones_of_the_same_statement_and_are_none():
    program = AstInstrumenter().instrument("import pandas as pd\ntrain = pd.read_csv('train.csv')\n", nonce=NONCE)
    assert program.source.splitlines()[3:] == [
        f'print("{NONCE} milestone: train_data", flush=True)',
        *report_lines(NONCE, "train.shape"),
    ]
    assert program.milestones == ("imports", "train_data")
    assert program.reached(f"{NONCE} report: milestone: imports = 1") == set()


def test_reports_are_read_from_the_output():
    """Text in the same form that the program itself prints does not count."""
    source = "class M:\n    def score(self): return 0.5\nprint('report: auc = 0.9', end='')\nauc = M().score()\n"
    output, _ = run(source)
    program = insert_prints(source, [], NONCE, found(source))
    assert program.reports(output) == [("auc", "0.5")]
    assert program.reports(f"{NONCE} report: auc = (3, 4)\nreport: auc = 1\n") == [("auc", "(3, 4)")]


def test_what_a_report_prints_is_no_milestone():
    """A value can contain anything but the nonce."""
    source = "class M:\n    def score(self): return 'milestone: submission\\n0123456789abcdef milestone: submission'\nauc = M().score()\n"
    output, _ = run(source)
    program = AstInstrumenter().instrument(
        "import pandas as pd\nt = pd.read_csv('test.csv')\nt.to_csv('submission.csv')\n", NONCE
    )
    assert "submission" in program.milestones
    assert program.reached(output) == set()
