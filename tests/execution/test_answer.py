"""Output that would make work for the caller."""

import resource

import pytest
from support.tiers import TIERS

from trl_mle.execution import LocalExecutor, Outcome
from trl_mle.execution.program import InstrumentedProgram


NONCE = "0123456789abcdef"
MARKER = f"{NONCE} milestone: imports\n".encode()
FLOOD = """
import os, time
end = time.monotonic() + 3
while time.monotonic() < end:
    os.write(1, @)
    time.sleep(0.0001)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", TIERS)
@pytest.mark.parametrize("text", [MARKER, b".", b"x\n" * 30000, f"{NONCE}\n".encode() * 4000])
def test_a_flood_costs_the_caller_little(competition, sandbox, text):
    """Before, programs of 5 s took 4.3 and 2.8 s of the caller's CPU."""
    source = FLOOD.replace("@", repr(text))
    program = InstrumentedProgram(source, source, ("imports",), NONCE)
    with LocalExecutor(max_parallel=1, timeout_s=30, sandbox=sandbox, packages=()) as executor:
        executor.run_many([("pass", competition)])
        before = resource.getrusage(resource.RUSAGE_SELF)
        [result] = executor.run_many([(program, competition)])
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert result.outcome is Outcome.OK, result.detail
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3 * max(3, result.duration_s)


WARNED = "import os, sys, warnings\nwarnings.warn('odd')\n"


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        (WARNED + "sys.exit(1)", "exit code 1"),  # was "  warnings.warn('odd')"
        (WARNED + "print('no train.csv', file=sys.stderr)\nsys.exit(1)", "no train.csv"),
        ("raise ValueError('a date.\\n- use dayfirst.\\n- or a format.')", "ValueError: a date."),
        (
            "import atexit, warnings\natexit.register(warnings.warn, 'late')\n1 / 0",
            "ZeroDivisionError: division by zero",
        ),
    ],
)
def test_the_detail_of_a_failure_is_not_a_warning(executor, competition, source, detail):
    [result] = executor.run_many([(source, competition)])
    assert (result.outcome, result.detail) == (Outcome.ERROR, detail), result.stderr


def test_what_would_move_the_cursor_of_a_terminal_is_spelled_out(executor, competition):
    [result] = executor.run_many([("raise SystemExit('\\x1b]0;owned\\x07 \\x9b2J Größe')", competition)])
    assert result.outcome is Outcome.ERROR
    assert result.detail == r"\x1b]0;owned\x07 \x9b2J Größe"
