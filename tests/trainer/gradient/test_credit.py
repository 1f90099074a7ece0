"""Which tokens of a completion get its advantage if its program failed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.pretrained import pretrained_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from trl_mle.execution.program import split_lines
from trl_mle.prompts import extract_code
from trl_mle.rewards import Evaluation
from trl_mle.trainer.gradient.credit import Failure, credit_metrics, credited, failing_lines, find_failure
from trl_mle.trainer.rows import failure_of, has_failed


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    """A byte-level tokenizer: a character may be several tokens, and a token may span two lines."""
    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def with_fallback():
    """Like SentencePiece: words with their blank, and bytes for everything else."""
    words = ["▁x", "▁=", "▁1", "x", "=", "1", "▁", "\n", "```", "python", "/", "0", "<unk>"]
    vocabulary = {word: i for i, word in enumerate([f"<0x{i:02X}>" for i in range(256)] + words)}
    model = Tokenizer(
        models.BPE(vocabulary, [("▁", "x"), ("▁", "="), ("▁", "1")], byte_fallback=True, unk_token="<unk>")
    )
    model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    model.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=model, unk_token="<unk>")


PROGRAMS = {
    "simple": ("a = 1\nb = 2\nc = 3\n", {1: (1, 1), 2: (2, 2), 3: (3, 3), 4: None, 0: None}),
    "several lines": ("a = f(\n    1,\n    2,\n)\nb = 2\n", {1: (1, 4), 3: (1, 4), 5: (5, 5)}),
    "one line": ("a = 1; b = f(\n 2); c = 3\nd = 4", {1: (1, 2), 2: (1, 2), 3: (3, 3)}),
    "string": ('a = """\n# b\n# c"""\nd = 1\n', {1: (1, 3), 2: (1, 3), 4: (4, 4)}),
    "loop": ("for a in [\n  1,\n]:\n    # now\n    b = a\n    c = a\nd = 1", {1: (1, 3), 2: (1, 3), 5: (5, 5), 6: (6, 6), 7: (7, 7)}),
    "if": ("if a:\n  b\nelif (c or\n      d):\n  e\nelse:\n  f\n", {1: (1, 1), 2: (2, 2), 3: (3, 4), 4: (3, 4), 5: (5, 5), 7: (7, 7)}),
    "if on a line": ("if a: b = 1\nc = 2\n", {1: (1, 1)}),
    "try": (
        "try:\n  a\n# so\nexcept (B,\n        C) as e:\n  d\nfinally:\n  f\n",
        {2: (2, 2), 4: (4, 5), 5: (4, 5), 6: (6, 6), 8: (8, 8)},
    ),
    "with": ("with (\n  a as b,\n  c as d,\n):\n\n  e\n", {3: (1, 4), 6: (6, 6)}),
    "match": ("match a(\n  1):\n  case B(c) if d():\n    e\n  case _:\n    f\n", {2: (1, 3), 3: (1, 3), 4: (4, 4), 6: (6, 6)}),
    "decorated": ("@a(\n  1)\n@b\ndef f(c=d):\n  '''e'''\n  return 1\ng = 1\n", {1: (1, 4), 4: (1, 4), 6: (6, 6), 7: (7, 7)}),
    "class": ("class A(\n  B):\n  c = 1\n\n  @d\n  def e(self): pass\n", {2: (1, 2), 3: (3, 3), 5: (5, 5), 6: (6, 6)}),
    "lambda": ("a = map(\n  lambda b:\n    b / 0,\n  c)\nd", {3: (1, 4)}),
    "windows line ends": ("a = 1\r\nb = (\r\n2)\r\rc = 3", {2: (2, 3), 3: (2, 3), 5: (5, 5)}),
    "no lines of Python's": ("a = 'b\x0cc\u2028d\x85e\x1cf'\n\x0c\ng = 1\n", {1: (1, 1), 3: (3, 3)}),
    "byte order mark": ("\ufeffa = 1\nb = 2\n", {1: (1, 1), 2: (2, 2)}),
    "broken": ("a = (\n", {1: None}),
    "deep": ("(" * 5000, {1: None}),
    "NUL": ("a = 1\0", {1: None}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_of_the_statement(name):
    program, expected = PROGRAMS[name]
    assert {line: failing_lines(program, line) for line in expected} == expected


def kinds(tokenizer, ids, failure):
    """The texts of the tokens before, in and after the statement."""
    parts = ids[: failure.first], ids[failure.first : failure.after], ids[failure.after :]
    return [tokenizer.decode(part, skip_special_tokens=True) for part in parts]


SHOWN = "# é\nx = 1\nif x:\n    y = dict(a=1 / 0,\n      b='🙂')\nz = 3\n"
COMPLETIONS = {
    "bare": (SHOWN, "    y = dict(a=1 / 0,\n      b='🙂')\n"),
    "fenced": (f"Plan é.\n```python\n{SHOWN}```\nDone.", "    y = dict(a=1 / 0,\n      b='🙂')\n"),
    "windows": (
        f"Plan.\n```python\n{SHOWN}```\nDone.".replace("\n", "\r\n"), "    y = dict(a=1 / 0,\r\n      b='🙂')\r\n",
    ),
    "indented": (
        "1. So:\n   ```python\n" + "".join(f"   {line}\n" for line in SHOWN.splitlines()) + "   ```\n",
        "       y = dict(a=1 / 0,\n         b='🙂')\n",
    ),
    "thought": (
        f"<think>Hm.\n```python\n{SHOWN}```\n</think>\n```python\n{SHOWN}```", "    y = dict(a=1 / 0,\n      b='🙂')\n",
    ),
    "given twice": (
        f"```python\n{SHOWN}```\nBetter:\n```python\n{SHOWN}```", "    y = dict(a=1 / 0,\n      b='🙂')\n",
    ),
    "cut off": (f"```python\n{SHOWN}w = 4", "    y = dict(a=1 / 0,\n      b='🙂')\n"),
    "the last line": ("```python\n# é\nx = 1\n\ny = 1 / 0\n```\nDone", "y = 1 / 0\n"),
    "the last line, and a fence": ("```python\n# é\nx = 1\n\ny = 1 / 0```\nDone", "y = 1 / 0"),
    "the end": ("import os\nx = 1\n\ny = 1 / 0", "y = 1 / 0"),
    "no lines of Python's": (f"```python\nw = 'a\u2028b\x0c\x85'\nx = 2\ny = 1 / 0\n{SHOWN}```", "y = 1 / 0\n"),
}  # fmt: skip
LINES = {"the last line": 4, "the last line, and a fence": 4, "the end": 4, "no lines of Python's": 3}


@pytest.mark.parametrize("name", COMPLETIONS)
def test_tokens_of_the_statement_byte_by_byte(tokenizer, name):
    """Each byte is a token, so that it is known exactly where each belongs."""
    text, statement = COMPLETIONS[name]
    program = extract_code(text)
    ids = tokenizer.convert_tokens_to_ids([BYTES[byte] for byte in text.encode()])
    assert tokenizer.decode(ids) == text
    failure = find_failure([*ids, tokenizer.eos_token_id], tokenizer, program, LINES.get(name, 4))
    before, failing, after = kinds(tokenizer, ids, failure)
    assert failing == statement
    assert before + failing + after == text
    assert text.rfind(statement) == len(before) or name == "the end"


@pytest.mark.pretrained
@pytest.mark.parametrize("model", ["coder-0.5b", "smollm2-135m"])
@pytest.mark.parametrize("name", COMPLETIONS)
def test_tokens_of_the_statement_with_real_tokenizers(model, name):
    """A token may hold the end of one line and the beginning of the next, never more."""
    tokenizer = AutoTokenizer.from_pretrained(pretrained_tokenizer(model))
    text, statement = COMPLETIONS[name]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    failure = find_failure([*ids, tokenizer.eos_token_id], tokenizer, extract_code(text), LINES.get(name, 4))
    before, failing, after = kinds(tokenizer, ids, failure)
    assert failing.strip().startswith(statement.strip()[:3])
    assert statement.strip().startswith(failing.strip()[:-3].strip())
    assert before + failing + after == text


def byte_names():
    """How byte-level tokenizers write bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + place) for place, byte in enumerate(others)}


BYTES = byte_names()
FRAGMENTS = [
    "x = 1\n",
    "y = 'é🙂\u2028'\n",
    "# ✓\n",
    "\n",
    "if 1:\n    z = (1,\n  2)\n",
    "for i in ():\n\n  w = 1\r\n",
]


@given(
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=400, max_size=400),
    st.sampled_from(["", "Plan ✓.\r\n", "<think>```python\nx = 1\n```</think>"]),
    st.data(),
)
def test_any_tokens_of_any_program(tokenizer, parts, merged, beginning, data):
    """Tokens of one byte or two: each belongs to the line of its first byte."""
    text = f"{beginning}```python\n{''.join(parts)}```\nDone."
    program = extract_code(text)
    lines = split_lines(program or "")
    line = data.draw(st.integers(1, max(1, len(lines))))
    found = failing_lines(program, line) if program else None
    raw = text.encode()
    pieces, place = [], 0
    while place < len(raw):
        size = 2 if merged[place % 400] and place + 1 < len(raw) else 1
        pieces.append((place, size))
        place += size
    wide = WideBytes(raw, pieces)
    failure = find_failure(list(range(len(pieces))), wide, program, line)
    if found is None:
        assert failure is None
        return
    # The program follows the last opening fence; its line ends are those of the completion, except for \r\n
    begin = text.rindex("```python\n") + len("```python\n")
    skipped = len(text[begin:]) - len(text[begin:].lstrip("\r\n"))
    shown = split_lines(text[begin + skipped :])
    start = begin + skipped + sum(map(len, shown[: found[0] - 1]))
    end = start + sum(map(len, shown[found[0] - 1 : found[1]]))
    firsts = [len(raw[:place].decode(errors="ignore")) for place, _ in pieces]
    expected = ["before" if first < start else "in" if first < end else "after" for first in firsts]
    got = ["before"] * failure.first + ["in"] * (failure.after - failure.first)
    assert got + ["after"] * (len(pieces) - failure.after) == expected


class WideBytes:
    """A tokenizer whose tokens are arbitrary pieces of the bytes of a text."""

    def __init__(self, raw, pieces):
        self.raw, self.pieces = raw, pieces

    def decode(self, token_ids, skip_special_tokens):
        assert skip_special_tokens
        return b"".join(self.raw[p : p + size] for p, size in (self.pieces[i] for i in token_ids)).decode(
            errors="replace"
        )


def test_words_with_blanks_and_bytes_for_the_rest(with_fallback):
    text = "```python\nx = 1\nx = 1/0\nx = 1\n```"
    text = text.replace("x = 1\n```", "x = '✓'\n```")
    ids = with_fallback(text, add_special_tokens=False)["input_ids"]
    assert with_fallback.decode(ids) == text
    failure = find_failure(ids, with_fallback, extract_code(text), 2)
    assert with_fallback.decode(ids[failure.first : failure.after]) == "x = 1/0\n"
    last = find_failure(ids, with_fallback, extract_code(text), 3)
    assert with_fallback.decode(ids[last.first : last.after]) == "x = '✓'\n"


def test_tokens_that_have_no_text_and_what_is_not_found(tokenizer):
    ids = tokenizer("```python\nx = 1\ny = 2\nz = 3\n```")["input_ids"]
    program, end = "x = 1\ny = 2\nz = 3", tokenizer.eos_token_id
    failure = find_failure(ids, tokenizer, program, 2)
    assert kinds(tokenizer, ids, failure)[1].strip() == "y = 2"
    later = find_failure([end, *ids, end, end], tokenizer, program, 2)
    assert (later.first, later.after) == (failure.first + 1, failure.after + 1)
    assert find_failure(ids, tokenizer, program, None) is None
    assert find_failure(ids, tokenizer, None, 2) is None
    assert find_failure(ids, tokenizer, program, 4) is None
    assert find_failure(ids, tokenizer, "x = 1\ny = 2", 2) is None  # not the completion's program
    assert find_failure([end], tokenizer, program, 2) is None
    assert find_failure([], tokenizer, program, 2) is None


def test_a_program_that_the_prompt_began(tokenizer):
    """Tokens are those of the completion; a failure in what the prompt wrote is not its."""
    opening, text = "```python\nx = 1\n", "y = 2\nz = 3\n```"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    program = extract_code(opening + text)
    failure = find_failure(ids, tokenizer, program, 2, opening)
    assert tokenizer.decode(ids[: failure.after]) == "y = 2\n"
    assert failure.first == 0
    failure = find_failure(ids, tokenizer, program, 3, opening)
    assert tokenizer.decode(ids[failure.first : failure.after]) == "z = 3\n"
    assert find_failure(ids, tokenizer, program, 1, opening) is None
    # A line that was begun
    ids = tokenizer("Cat\n```", add_special_tokens=False)["input_ids"]
    failure = find_failure(ids, tokenizer, "x = 1\nimport Cat", 2, "```python\nx = 1\nimport ")
    assert tokenizer.decode(ids[failure.first : failure.after]) == "Cat\n"


def test_what_never_ran_neither_gains_nor_loses():
    advantages = torch.tensor([-2.0, 3.0, -1.0, 0.0])
    failures = [Failure(2, 4), Failure(1, 3), None, Failure(0, 5)]
    expected = [[-2, -2, -2, -2, 0], [3, 0, 0, 0, 0], [-1] * 5, [0] * 5]
    assert credited(advantages, failures, 5).tolist() == expected
    assert advantages.tolist() == [-2, 3, -1, 0]
    of_tokens = torch.tensor([[-1.0, 2, -3, 4, 5]] * 2)
    assert credited(of_tokens, [Failure(1, 3), None], 5).tolist() == [[-1, 0, -3, 0, 0], [-1, 2, -3, 4, 5]]
    assert credited(advantages, [None] * 4, 0).shape == (4, 0)
    assert credited(advantages.half(), failures, 5).dtype == torch.half


def test_metrics():
    found = [(10, Failure(2, 4), True), (5, None, True), (5, None, False), (20, Failure(0, 30), True)]
    assert credit_metrics(found) == {"credit/spared_rate": 6 / 40, "credit/located_rate": 2 / 3}
    assert credit_metrics([(5, None, False)]) == {"credit/spared_rate": 0.0}
    assert credit_metrics([]) == {"credit/spared_rate": 0.0}


def test_what_is_read_of_a_row():
    assert failure_of({"failed_line": None}) == (None, None)
    assert failure_of({"failed_line": 3, "program": "x"}) == ("x", 3)
    with pytest.raises(ValueError, match="needs to know where programs failed: log_extra"):
        failure_of({"program": "x"})
    outcomes = ("ok", "error", "timeout", "no_code", "infrastructure")
    assert [has_failed({"outcome": outcome}) for outcome in outcomes] == [False, True, True, False, False]


def test_evaluations_of_older_checkpoints_have_no_line():
    older = {"reward": -10.0, "score": None, "milestones": [], "reports": [], "outcome": "error"}
    assert Evaluation.from_dict(older).failed_line is None
    assert Evaluation.from_dict(older | {"failed_line": 3}).failed_line == 3
