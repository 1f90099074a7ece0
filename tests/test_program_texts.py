"""Whatever a policy writes, looking at it neither raises nor hangs, wherever our process looks at a program."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.hostile_texts import HOSTILE
from support.scripted_policy import ScriptedModel

import trl_mle
from trl_mle.execution.program import MAX_DEPTH, MAX_LENGTH, ProgramError, parse_program
from trl_mle.instrumentation import AstInstrumenter, LmInstrumenter
from trl_mle.prompts import extract_code, given_program
from trl_mle.solutions import syntax_tree_id


READ = "import pandas as pd\nt = pd.read_csv('input/train.csv')\n"
NUMBERS = {"hex": "0x" + "f" * 4000, "decimal": "9" * 4300}
PLACES = (
    "x = {}",
    "({}).a.close()",
    "with open('x') as a[{}]: pass",
    "with ({}).x as a: pass",
    "match t:\n    case {}: pass",
    "x = f'{{{}}}'",
    "def f(x={}): pass",
    "t[{}].to_csv('submission.csv')",
)
NESTS = [
    ("(", ",)"), ("[", "]"), ("f(", ")"), ("-", ""), ("x.y(", ").z"), ("x[", "]"), ("(lambda x: ", ")(t)"),
    ("[x for x in ", "]"), ("(x if x else ", ")"), ("(x := ", ")"), ("t + ", ""), ("", " + t"), ("", ".x()"), ("f(", ").b.append(1)"),
]  # fmt: skip
BLOCKS = ("if t:", "for x in t:", "with open('x') as x:", "try:", "def f(x):", "class A:", "while t:", "match t:")
LOOPS = "".join(f"{' ' * depth}for i{depth} in [1, 2, 3, 4, 5, 6, 7, 8]:\n" for depth in range(8))
THREE_LOOPS = LOOPS[: LOOPS.index("   for")]
LARGE = {
    "a long import": "import a" + ".a" * (MAX_LENGTH // 2 - 10),
    "fields": "f'" + "{a}" * (MAX_LENGTH // 3 - 10) + "'",
    "open parentheses": "(" * MAX_LENGTH,
    "doubled": "s = 'input/train.csv'\nx = [s]\n" + "s = s + s\nx = [x, x]\n" * 1000,
    "calls": READ + "".join(f"def f{i}(x): return f{i + 1}(x)\n" for i in range(1000)) + "f0(t)\n",
    "classes": "".join(f"class A{i + 1}(A{i}): pass\n" for i in range(1500)) + "A1500().fit(1)\n",
    "star imports": "from a import *\n" * 2300 + "a\n" * 1600,
    "a long name": "import transformers as t\nm = t.Auto" + "Model" * 5000 + "\n" + "m()\n" * 2000,
    "a growing name": f"import os as m\n{LOOPS}        m = m.{'x' * 40_000}\n",
    "short blocks": "".join(f"a{i} = 1\nif a:\n  b = 2\n" for i in range(900)),
    "lists in a loop": f"x = [1]\n{THREE_LOOPS}   x = [x, x]\n",
    "statements in a loop": THREE_LOOPS + "   pass\n" * 1000,
    "calls of calls": "".join(f"def f{i}(x):\n    f{i + 1}(x)\n    f{i + 1}(x)\n" for i in range(30)) + "f0(1)\n",
    "images in a loop": f"from PIL import Image\n{LOOPS}        y = Image.open(i0)\n",
    "files": "sub = 1\n" + "sub.to_csv('submission.csv')\n" * 1000,
}  # fmt: skip
HOSTILE_PROGRAMS = [
    path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "execution" / "hostile").glob("*.py"))
]


def look(source):
    """Does with a text all that is done outside the sandbox."""
    for text in (source, f"Here:\n```python\n{source}\n```", f"```\n{source}\n```\n```py\n{READ}\n```"):
        extract_code(text)
        given_program(text)
    syntax_tree_id(source)
    lines = source.splitlines()[:20]
    quotes = "\n".join(f"{name}: {line}" for name in ("train_data", "predictions") for line in lines)
    marked = source.replace("\n", "\nprint('milestone: train_data')\n", 1)
    for instrumenter in (
        AstInstrumenter(),
        LmInstrumenter(ScriptedModel(quotes), "quote"),
        LmInstrumenter(ScriptedModel(source), "rewrite"),
        LmInstrumenter(ScriptedModel(marked), "rewrite"),
    ):
        program = instrumenter.instrument(source)
        assert program.original == source
        program.reached(source)
    try:
        return parse_program(source)
    except ProgramError:
        return None


def deep(frames, call, *args):
    """A call from as deep a stack as a trainer's."""
    return deep(frames - 1, call, *args) if frames else call(*args)


@pytest.mark.parametrize("number", NUMBERS)
def test_long_numbers(number):
    look(READ + "\n".join(place.format(NUMBERS[number]) for place in PLACES) + "\n")


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("times", [MAX_DEPTH // 4 - 3, MAX_DEPTH // 3 - 3, MAX_LENGTH // 20])
def test_nested_expressions(nest, times):
    before, after = nest
    nested = before * times + "t" + after * times
    deep(150, look, READ + f"x = {nested}\nt.to_csv(x)\nwith {nested}: pass\n")


@pytest.mark.parametrize("block", BLOCKS)
def test_nested_blocks(block):
    inner = {"match t:": ["case 1:"]}.get(block, [])
    after = {"try:": "except E: pass"}.get(block)
    lines = [block, *inner] * ((MAX_DEPTH - 9) // (1 + len(inner)))
    lines = [" " * level + line for level, line in enumerate([*lines, "x = t"])]
    lines += [" " * level + after for level in reversed(range(len(lines) - 1)) if after]
    assert deep(150, look, READ + "\n".join(lines)) is not None


@pytest.mark.parametrize("name", LARGE)
def test_large_texts(name):
    began = time.process_time()
    look(LARGE[name])
    assert time.process_time() - began < 60


def test_one_function_parses_what_others_wrote():
    package = Path(trl_mle.__file__).parent
    parsing = [path for path in package.rglob("*.py") if re.search(r"\bast\.(un)?parse\(", path.read_text("utf-8"))]
    found = {path.relative_to(package).as_posix() for path in parsing}
    assert found == {"execution/program.py"}


PIECES = st.one_of(
    st.sampled_from([*HOSTILE, *HOSTILE_PROGRAMS]),
    st.sampled_from([READ, "```", "```python", "\n", "\r", "\\\n", "\f", "\x00", "\ud800", "\ufeff", "    ", "'''", "<think>", "%%time"]),
    st.sampled_from(["x = t", "def f(x):", "print = 1", "f'{", "}'", "0x", "import ", "lambda: ", "(", ")", "%time ", "!ls", "#"]),
    st.builds(lambda place, number: place.format(number), st.sampled_from(PLACES), st.sampled_from([*NUMBERS.values(), "1"])),
    st.text(max_size=5),
)  # fmt: skip


@given(st.lists(PIECES, max_size=8), st.sampled_from(["", "\n"]))
@example(["\ud800"], "")
def test_any_text(pieces, between):
    look(between.join(pieces))
