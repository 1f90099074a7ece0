import pytest

from trl_mle.instrumentation import AstInstrumenter, VerificationError, verify


NONCE = "0123456789abcdef"
MARKER = f'print("{NONCE} milestone: imports", flush=True)'


@pytest.mark.parametrize(
    ("original", "source"),
    [
        ("x = 1\n", f"{MARKER}\nx = 1\n"),  # before anything
        ('"""Doc."""\n', f'{MARKER}\n"""Doc."""\n'),
        ("if x:\n    a = 1\nelse:\n    b = 2\n", f"if x:\n    a = 1\n{MARKER}\nb = 2\n"),  # in place of `else`
        (
            '"""Doc."""\nfrom __future__ import annotations\n',
            f'"""Doc."""\n{MARKER}\nfrom __future__ import annotations\n',
        ),
        (f"{MARKER}\n", f"{MARKER}\n"),  # the program has the nonce itself
        ("x = 1\n", f"x = 1\n# {NONCE}\n"),
    ],
)
def test_prints_in_other_places_are_refused(original, source):
    with pytest.raises(VerificationError):
        verify(original, source, NONCE)


@pytest.mark.parametrize(
    "line",
    [
        "print = 1",
        "del print",
        "(print := 3)",
        "def print(): pass",
        "class print: pass",
        "def f(print): pass",
        "def f():\n    global print",
        "import print",
        "from rich import show as print",
        "try:\n    pass\nexcept E as print:\n    pass",
        "match x:\n    case A() as print: pass",
        "import builtins\nbuiltins.print = f",
        "__builtins__['print'] = f",
        "globals()['print'] = f",
        "setattr(builtins, 'print', f)",
        "mock.patch('builtins.print')",
        "sys.stdout = io.StringIO()",
        "with contextlib.redirect_stdout(f): pass",
        "sys.stdout.close()",
        "with sys.stdout as f: pass",
        "from sys import stdout\nstdout.close()",
        "sys.stdout.buffer.close()",
        "os.close(1)",
        "os.dup2(f, 1)",
        "from os import close",
        "open(1, 'w')",
        "os.fdopen(sys.stdout.fileno(), 'w').close()",
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
        "f(print=1)",
        "x.print()",
        "log = print",
        "from rich import print as show",
        "with open('print') as f: pass",
        "logging.StreamHandler(sys.stdout)",
    ],
)
def test_programs_that_use_print_are_accepted(line):
    verify(f"{line}\n", f"{line}\n{MARKER}\n", NONCE)
