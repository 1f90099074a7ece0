import pytest

from trl_mle.instrumentation import AstInstrumenter, VerificationError, insert_prints, verify


NONCE = "0123456789abcdef"
ORIGINAL = """\
import pandas as pd
rate = 1
train = pd.read_csv("train.csv")
for i in range(3):
    x = i
    y = x + rate
print(u"done", y)
"""
SOURCE = insert_prints(ORIGINAL, [(1, "imports"), (3, "train_data"), (5, "model_built")], NONCE).source
MARKER = f'print("{NONCE} milestone: imports", flush=True)'


def test_honest_program():
    verify(ORIGINAL, SOURCE, NONCE)
    verify(ORIGINAL, ORIGINAL, NONCE)
    assert SOURCE.count(NONCE) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rate = 1\n", "rate = 2\n"),
        ("rate = 1\n", "rate = 1.0\n"),
        ("rate = 1\n", "rate = True\n"),
        ('u"done"', '"done"'),
        ("rate", "ratio"),
        ("x = i\n", "x = j\n"),
        ("rate = 1\n", ""),
        ("rate = 1\n", "rate = 1\nrate = 1\n"),
        ("    y = x + rate\n", "y = x + rate\n"),  # out of the loop
        ('print(u"done", y)', '    print(u"done", y)'),  # into the loop
        ("+", "-"),
        ("rate = 1\n", "rate  = 1\n"),  # the same program, but not the same text
        (f"{MARKER}\n", f'print("{NONCE} milestone: imports", open("x", "w"), flush=True)\n'),
        (f"{MARKER}\n", f'print(f"{NONCE} milestone: imports", flush=True)\n'),
        (f"{MARKER}\n", f'print("{NONCE} milestone: imports")\n'),
        (f"{MARKER}\n", f'print("{NONCE} milestone: unknown", flush=True)\n'),
        (f"{MARKER}\n", 'print("fedcba9876543210 milestone: imports", flush=True)\n'),
        (f"{MARKER}\n", f"{MARKER}; import os\n"),
        (f"{MARKER}\n", f"{MARKER}.x\n"),
        (f"{MARKER}\n", f"if True:\n    {MARKER}\n"),
        (f"{MARKER}\n", f"  {MARKER}\n"),
        (f"{MARKER}\n", f"z = {MARKER}\n"),
        ('"train.csv"', f'"train.csv" if {MARKER} else 0'),
        ("range(3):\n", "range(3):\n    pass\n"),
    ],
)
def test_any_change_is_refused(old, new):
    assert old in SOURCE
    with pytest.raises(VerificationError):
        verify(ORIGINAL, SOURCE.replace(old, new), NONCE)


def test_reordered_statements_are_refused():
    lines = SOURCE.splitlines(keepends=True)
    lines[2], lines[3] = lines[3], lines[2]
    with pytest.raises(VerificationError):
        verify(ORIGINAL, "".join(lines), NONCE)


def test_marker_in_a_string_is_refused():
    with pytest.raises(VerificationError):
        verify('x = """\na\n"""\n', f'x = """\n{MARKER}\na\n"""\n', NONCE)


def test_marker_that_replaces_the_body_is_refused():
    with pytest.raises(VerificationError):
        verify("if x:\n    pass\n", f"if x:\n    {MARKER}\n", NONCE)


def test_marker_that_moves_a_statement_is_refused():
    original = "if x:\n    a = 1\nelse:\n    b = 2\n"
    with pytest.raises(VerificationError):
        verify(original, f"if x:\n    a = 1\n{MARKER}\nb = 2\n", NONCE)


def test_marker_before_a_future_import_is_refused():
    original = "from __future__ import annotations\n"
    with pytest.raises(VerificationError, match="before `from __future__"):
        verify(original, f"{MARKER}\n{original}", NONCE)


def test_nonce_in_the_original_is_refused():
    with pytest.raises(VerificationError, match="nonce"):
        verify(f"{MARKER}\n", f"{MARKER}\n", NONCE)


@pytest.mark.parametrize(
    "line",
    [
        "print = 1",
        "del print",
        "x, (print, *y) = z",
        "*print, y = z",
        "print: int = 3",
        "print += 1",
        "(print := 3)",
        "def print(): pass",
        "async def print(): pass",
        "class print: pass",
        "class A:\n    def print(self): pass",
        "def f(print): pass",
        "def f(*print): pass",
        "def f(**print): pass",
        "f = lambda print: 1",
        "def f():\n    global print",
        "import print",
        "import print.x",
        "import rich as print",
        "from rich import print",
        "from rich import show as print",
        "for print in x: pass",
        "[1 for print in x]",
        "with a as print: pass",
        "try:\n    pass\nexcept E as print:\n    pass",
        "match x:\n    case print: pass",
        "match x:\n    case [*print]: pass",
        "match x:\n    case {**print}: pass",
        "match x:\n    case A() as print: pass",
        "import builtins\nbuiltins.print = f",
        "del builtins.print",
        "__builtins__.print = f",
        "__builtins__['print'] = f",
        "vars(builtins)['print'] = f",
        "globals()['print'] = f",
        "setattr(builtins, 'print', f)",
        "mock.patch('builtins.print')",
        "sys.stdout = io.StringIO()",
        "with contextlib.redirect_stdout(f): pass",
        "sys.stdout.close()",
        "sys.__stdout__.detach()",
        "from sys import stdout\nstdout.close()",
        "with sys.stdout as f: pass",
        "os.close(1)",
        "os.closerange(0, 3)",
        "os.dup2(f, 1)",
        "from os import close",
        "open(1, 'w')",
        "os.fdopen(1)",
        "os.fdopen(sys.stdout.fileno(), 'w').close()",
        "sys.stdout.buffer.close()",
        "from os import getcwd as print\n(1)",
        "def \\\nprint(*a): pass",
        "class \\\nprint(dict): pass",
        "def f():\n    x = 1\n    global print\n    (1)",
    ],
)
def test_programs_that_take_over_print_are_refused(line):
    original = f"{line}\nx = 1\n"
    source = f"{original}{MARKER}\n"
    with pytest.raises(VerificationError, match="print"):
        verify(original, source, NONCE)
    program = AstInstrumenter().instrument("import os\n" + original)
    assert program.milestones == ()
    assert program.source == program.original


@pytest.mark.parametrize(
    "line",
    [
        "print('print')",
        "f(print=1)",
        "x.print()",
        "log = print",
        "from rich import print as show",
        "sys.stdout.flush()",
        "f.close()",
        "with open('print') as f: pass",
        "logging.StreamHandler(sys.stdout)",
    ],
)
def test_programs_that_use_print_are_accepted(line):
    verify(f"{line}\n", f"{line}\n{MARKER}\n", NONCE)
