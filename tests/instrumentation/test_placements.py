import re
import time

import pytest

from trl_mle.instrumentation import MILESTONES, VerificationError
from trl_mle.instrumentation.placements import REASONS, check, parse_quotes, parse_rewrite


# Reading answers in quote mode

SHOWN = """\
import pandas as pd
from sklearn.svm import SVC
train = pd.read_csv("train.csv")
model = SVC(C=2)
model.fit(train, train.y)
model = SVC(C=3)
model.fit(train, train.y)
out["y"] = model.predict(test)
out.to_csv("submission.csv")
"""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('train_data: train = pd.read_csv("train.csv")', {"train_data": 3}),
        ('train_data: pd.read_csv("train.csv")\nmodel_built: SVC(C=2)', {"train_data": 3, "model_built": 4}),  # a part
        ("model_trained: model.fit(train, train.y)", {"model_trained": 7}),  # the last one
        ('- **predictions**: `model.predict(test)`\n"submission": out.to_csv(', {"predictions": 8, "submission": 9}),
        ('submission: out["y"] = model.predict(test)\nout.to_csv("submission.csv")', {"submission": 9}),  # two lines
        ('- train_data: train = pd.read_csv("train.csv"): reads the data\n- more', {"train_data": 3}),  # and says why
        ("`imports: import pandas as pd; from sklearn.svm import SVC;`", {"imports": 2}),
        ("- model_built: make:\n- model = SVC(C=2)\n- print('SVC')", {"model_built": 4}),
        ("imports:\n    import pandas as pd\n    from sklearn.svm import SVC", {"imports": 2}),
        ("<think>imports: import pandas as pd</think>train_data: train = pd.read", {"train_data": 3}),
        # What is not in the program, or says too little
        ("imports: from os import path\nmodel_built: model_built = SVC()", {}),
        ("train_data: training data loaded\nmodel_built: model", {}),
        ("model.fit(train, train.y)", {}),
        ("trained: model.fit(train, train.y)\nmodel_built model = SVC(C=2)", {}),
        ('{"imports":3,"train_data":6}', {}),
        ("", {}),
        ("\0\ud800", {}),
    ],
)
def test_parse_quotes(answer, expected):
    assert {milestone: line for line, milestone in parse_quotes(SHOWN, answer)} == expected


def test_long_quotations_take_no_long_time():
    began = time.process_time()
    assert parse_quotes(SHOWN, " *`" * 100_000 + "imports" + "`*" * 100_000 + ": x") == []
    assert time.process_time() - began < 4


# Reading answers in rewrite mode

PROGRAM = """\
import os
x = [
    1]
for i in x:
    y = i
    z = i
print("done", z)
"""


def test_parse_rewrite():
    rewritten = """\
print("milestone: test_data")
import os
print('milestone: imports')

x = [1]  # on one line now
print("milestone: train_data", flush=True)
print("Milestone reached! milestone:  model_built")
for i in x:
    print("milestone: predictions")
    y = i
    print("milestone: model_trained")
    z = i
print("done", z)
print("milestone: submission")
"""
    expected = [
        (1, "imports"),
        (2, "train_data"),
        (2, "model_built"),
        (5, "model_trained"),
        (7, "submission"),
    ]  # prints before a block's first statement are left out: no statement in it has run
    assert parse_rewrite(PROGRAM, rewritten) == expected


def test_a_rewrite_without_prints_is_one():
    assert parse_rewrite(PROGRAM, PROGRAM) == []
    assert parse_rewrite("", "") == []


def test_prints_of_the_program_itself_stay_its_own():
    source = 'x = 1\nprint("milestone: imports")\nif x:\n    print("milestone: submission")\n'
    assert parse_rewrite(source, source) == []
    assert parse_rewrite(source, source + 'print("milestone: train_data")\n') == [(3, "train_data")]
    with pytest.raises(VerificationError, match="line 2 of the rewritten program is not the original's"):
        parse_rewrite(source, source.replace('print("milestone: imports")\n', ""))


@pytest.mark.parametrize(
    ("rewritten", "message"),
    [
        (PROGRAM.replace("1", "2"), "line 2 of the rewritten program is not the original's"),
        (PROGRAM + "import sys\n", "line 8 of the rewritten program"),
        (PROGRAM.replace('print("done", z)\n', ""), "line 7 of the original is missing"),
        (PROGRAM + "print('milestone: nothing')\n", "line 8"),
        (PROGRAM + "print('milestone: imports', end='')\n", "line 8"),
        (PROGRAM + "print(f'milestone: imports')\n", "line 8"),
        (PROGRAM + "else:", "does not compile"),
        (PROGRAM + "\0", "does not compile"),
        (PROGRAM + "return\n", "line 8 of the rewritten program"),
        ("", "line 1 of the original is missing"),
    ],
)
def test_other_programs_are_refused(rewritten, message):
    with pytest.raises(VerificationError, match=message):
        parse_rewrite(PROGRAM, rewritten)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('@"""Doc."""\nx = 1\n', "before a docstring"),
        ('def f():\n    @"""Doc."""\n', "before a docstring"),
        ('class A:\n    b = 1\n    def f(self):\n        @"""Doc."""\n', "before a docstring"),
        ("@from __future__ import annotations\n", "before `from __future__`"),
        ('"""Doc."""\n@from __future__ import annotations\n', "before `from __future__`"),
    ],
)
def test_prints_before_what_must_come_first_are_refused(source, message):
    rewritten = re.sub("( *)@", r"\1print('milestone: imports')\n\1", source)
    with pytest.raises(VerificationError, match=message):
        parse_rewrite(source.replace("@", ""), rewritten)


# Impossible places

CHECKED = '''\
"""Docstring."""
import os
import sys

TEXT = """
several
lines"""


def f():
    return os.getcwd()
    x = 1


y = f()
if y == "/":
    sys.exit(1)
    z = 2
z = [
    y,
    f"""
{y}""",
]
import re
'''


@pytest.mark.parametrize(
    ("line", "milestone", "reason"),
    [
        (3, "imports", None),
        (15, "train_data", None),
        (16, "submission", None),
        (19, "submission", None),
        (23, "submission", None),
        (24, "imports", None),
        (24, "submission", "import"),
        (1, "imports", "before_imports"),
        (2, "imports", "before_imports"),
        (5, "imports", "in_string"),
        (6, "train_data", "in_string"),
        (21, "predictions", "in_string"),
        (12, "predictions", "after_exit"),
        (18, "predictions", "after_exit"),
        (3, "train_data", "no_work"),
        (7, "submission", "no_work"),
    ],
)
def test_check(line, milestone, reason):
    kept, refused = check(CHECKED, [(line, milestone)])
    assert refused == ([] if reason is None else [reason])
    assert kept == ([(line, milestone)] if reason is None else [])


def test_all_on_one_line_is_no_answer():
    places = [(19, milestone) for milestone in MILESTONES]
    assert check(CHECKED, places) == ([], ["one_line"] * 7)
    assert check(CHECKED, places[:3]) == ([], ["one_line"] * 3)
    assert check(CHECKED, places[:2]) == (places[:2], [])  # `model = Ridge().fit(X, y)`
    assert check(CHECKED, [*places[:6], (15, "submission")]) == ([*places[:6], (15, "submission")], [])


def test_imports_of_a_program_without_any_are_refused():
    assert check("x = [1][0]\ny = 2\n", [(2, "imports"), (2, "train_data")]) == ([(2, "train_data")], ["no_work"])


def test_lines_are_counted_as_python_does():
    source = "import os\nx = f('\x0c\x85\u2028')\ny = 1\n"
    assert check(source, [(3, "train_data")]) == ([(3, "train_data")], [])


def test_every_reason_has_a_test():
    reasons = {mark.args[1][i][2] for mark in test_check.pytestmark for i in range(len(mark.args[1]))} - {None}
    assert reasons | {"one_line"} == set(REASONS)


def test_an_empty_program_has_no_places():
    assert check("# nothing\n", []) == ([], [])
