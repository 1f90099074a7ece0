"""What a caller learns of a program's end, and what its output costs."""

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
def test_a_flood_costs_the_caller_little(competition, sandbox):
    """Before, programs of 5 s took 4.3 and 2.8 s of the caller's CPU."""
    with LocalExecutor(max_parallel=1, timeout_s=30, sandbox=sandbox, packages=()) as executor:
        executor.run_many([("pass", competition)])
        for text in (MARKER, b".", b"x\n" * 30000, f"{NONCE}\n".encode() * 4000):
            source = FLOOD.replace("@", repr(text))
            program = InstrumentedProgram(source, source, ("imports",), NONCE)
            before = resource.getrusage(resource.RUSAGE_SELF)
            [result] = executor.run_many([(program, competition)])
            after = resource.getrusage(resource.RUSAGE_SELF)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            assert result.outcome is Outcome.OK, result.detail
            assert seconds < 0.3 * max(3, result.duration_s), text[:20]


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
        ("raise SystemExit('\\x1b]0;owned\\x07 \\x9b2J Größe')", r"\x1b]0;owned\x07 \x9b2J Größe"),
    ],
)
def test_the_detail_of_a_failure_is_its_message_without_what_moves_a_cursor(executor, competition, source, detail):
    [result] = executor.run_many([(source, competition)])
    assert (result.outcome, result.detail) == (Outcome.ERROR, detail), result.stderr
