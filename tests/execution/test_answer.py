"""Output that would make work for the caller."""

import resource
import time

import pytest
from support.tiers import TIERS

from trl_mle.execution import LocalExecutor, Outcome
from trl_mle.execution.answer import REPEATS, Output
from trl_mle.execution.program import InstrumentedProgram


NONCE = "0123456789abcdef"
MARKER = f"{NONCE} milestone: imports\n".encode()


def test_repeats_of_a_marker_are_dropped_however_they_are_cut():
    text = b"epoch 1 " + MARKER + MARKER * 3 + b"x\n" * 3 + MARKER + b"the last line"
    for size in (1, 7, 1000):
        output = Output(1000, NONCE)
        assert all(output.feed(text[i : i + size]) for i in range(0, len(text), size))
        assert output.text() == f"epoch 1 {MARKER.decode()}{MARKER.decode()}x\nx\nx\nthe last line"


@pytest.mark.parametrize("nonce", [NONCE, ""])
def test_output_is_cut_at_its_limit(nonce):
    output = Output(10, nonce)
    assert output.feed(b"12345\n789")
    assert not output.feed(b"ab")
    assert not output.feed(b"")
    assert output.text() == "12345\n789a"


def test_repeats_have_a_limit_too():
    output = Output(100, NONCE)
    assert [output.feed(MARKER) for _ in range(20)].index(False) == REPEATS * 100 // len(MARKER)
    assert output.text() == MARKER.decode()


def test_the_work_for_a_chunk_does_not_depend_on_what_came_before():
    """Once, each chunk made it split a full output into lines again."""
    output = Output(1 << 20, NONCE)
    assert output.feed(b"x\n" * ((1 << 19) - 100))
    began = time.process_time()
    assert all(output.feed(MARKER) for _ in range(10_000))
    assert time.process_time() - began < 1


FLOOD = f"""
import os, time
os.write(1, b"x" * ((1 << 20) - 200) + b"\\n")
end = time.monotonic() + 3
while time.monotonic() < end:
    os.write(1, @)
    time.sleep(0.0001)
print({NONCE[:8]!r} + {NONCE[8:]!r}, "milestone: imports")
"""


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", TIERS)
@pytest.mark.parametrize("text", [MARKER, b"."])
def test_a_flood_costs_the_caller_little(competition, sandbox, text):
    """Before, programs of 5 s took 4.3 and 2.8 s of the caller's CPU."""
    source = FLOOD.replace("@", repr(text))
    program = InstrumentedProgram(source, source, ("imports",), NONCE)
    with LocalExecutor(max_parallel=1, timeout_s=30, sandbox=sandbox, packages=()) as executor:
        executor.run_many([("pass", competition)])
        before = resource.getrusage(resource.RUSAGE_SELF)
        [result] = executor.run_many([(program, competition)])
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert result.outcome is (Outcome.OK if text == MARKER else Outcome.OUTPUT_LIMIT), result.detail
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5 * max(3, result.duration_s)


def test_what_would_move_the_cursor_of_a_terminal_is_spelled_out(executor, competition):
    [result] = executor.run_many([("raise SystemExit('\\x1b]0;owned\\x07 \\x9b2J Größe')", competition)])
    assert result.outcome is Outcome.ERROR
    assert result.detail == r"\x1b]0;owned\x07 \x9b2J Größe"
