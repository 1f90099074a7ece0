"""What is kept of a program's output."""

import re
import tracemalloc

import pytest

from trl_mle.execution.output import LINE_BYTES, Output


NONCE = "0123456789abcdef"
MARKER = f"{NONCE} milestone: imports\n"


def kept(text: str, limit: int, nonce: str = NONCE, size: int = 1 << 16) -> str:
    """What is kept of a text that arrives in chunks of this size."""
    output, data = Output(limit, nonce), text.encode()
    for i in range(0, len(data), size):
        output.feed(data[i : i + size])
    return output.text()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_repeats_of_a_marker_are_dropped_however_they_are_cut(size):
    text = f"epoch 1 {MARKER}{MARKER * 3}x\nx\nepoch 2 {MARKER}the last line"
    assert kept(text, 1000, size=size) == f"epoch 1 {MARKER}x\nx\nepoch 2 \nthe last line"


@pytest.mark.parametrize("nonce", [NONCE, ""])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_first_and_the_last_part_are_kept(nonce, size):
    lines = "".join(f"line {i}\n" for i in range(100))
    assert kept(lines, len(lines), nonce, size) == lines
    first, last = lines[:50], lines[-50:].partition("\n")[2]
    left_out = len(lines) - len(first) - len(last)
    assert kept(lines, 100, nonce, size) == f"{first}\n… {left_out} bytes left out …\n{last}"


@pytest.mark.parametrize("size", [1, 1000, 1 << 16])
def test_what_is_printed_in_a_flood_is_kept_in_order(size):
    marks = [f"{NONCE} milestone: {name}\n" for name in ("imports", "train_data", "test_data", "submission")]
    noise = "a warning\n" * 300
    text = kept(
        noise.join(["", *(f"{mark}" for mark in marks), ""]) + "epoch 1 ".join(["", marks[1]]), 2000, size=size
    )
    assert re.findall(f"{NONCE}.*\n", text) == marks
    assert len(text) < 2500


def test_a_long_line_does_not_hide_a_marker():
    text = kept("x" * 3 * LINE_BYTES + MARKER + "y\n" * LINE_BYTES, 1000, size=100)
    assert text.count(MARKER) == 1


@pytest.mark.parametrize(
    "chunk", [b"x" * 65536, b"x\n" * 32768, MARKER.encode() * 1500, b"%d" + MARKER.encode(), NONCE.encode() + b"%d\n"]
)
def test_memory_is_bounded(chunk):
    output = Output(1 << 16, NONCE)
    tracemalloc.start()
    for i in range(1_000_000 // max(len(chunk), 10_000)):
        output.feed(chunk.replace(b"%d", str(i).encode()))
    assert tracemalloc.get_traced_memory()[1] < 8 << 16
    tracemalloc.stop()
    assert len(output.text()) < 2 << 16
