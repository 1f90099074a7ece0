"""What is kept of a program's output."""

import re
import tracemalloc

import pytest

from trl_mle.execution.output import LINE_BYTES, Output


NONCE = "0123456789abcdef"
MARKER = f"{NONCE} milestone: imports\n"
SIZES = pytest.mark.parametrize("size", [1, 7, 1000, 1 << 16])


def kept(text: str, limit: int, nonce: str = NONCE, size: int = 1 << 16) -> str:
    """What is kept of a text that arrives in chunks of this size."""
    output, data = Output(limit, nonce), text.encode()
    for i in range(0, len(data), size):
        output.feed(data[i : i + size])
    return output.text()


@SIZES
def test_markers_are_kept_once_and_in_order_however_they_are_cut(size):
    text = f"epoch 1 {MARKER}{MARKER * 3}x\nx\nepoch 2 {MARKER}the last line"
    assert kept(text, 1000, size=size) == f"epoch 1 {MARKER}x\nx\nepoch 2 \nthe last line"
    marks = [f"{NONCE} milestone: {name}\n" for name in ("imports", "train_data", "test_data", "submission")]
    flood = ("a warning\n" * 300).join(["", *marks, ""])
    text = kept(f"{flood}epoch 1 {marks[1]}", 2000, size=size)
    assert re.findall(f"{NONCE}.*\n", text) == marks
    assert len(text) < 2500
    text = kept("x" * 3 * LINE_BYTES + MARKER + "y\n" * LINE_BYTES, 1000, size=size)  # behind a long line
    assert text.count(MARKER) == 1


@SIZES
@pytest.mark.parametrize("nonce", [NONCE, ""])
def test_the_first_and_the_last_part_are_kept(nonce, size):
    lines = "".join(f"line {i}\n" for i in range(100))
    assert kept(lines, len(lines), nonce, size) == lines
    first, last = lines[:50], lines[-50:].partition("\n")[2]
    left_out = len(lines) - len(first) - len(last)
    assert kept(lines, 100, nonce, size) == f"{first}\n… {left_out} bytes left out …\n{last}"


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
