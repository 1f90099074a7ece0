"""
Programs with prints, changed in thousands of ways: a change that does more than print a milestone must be refused, and
any other must be accepted. A separate oracle, slow but obvious, decides whether two programs are the same.
"""

import ast
import functools
import io
import json
import random
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest
from support.programs import PROGRAMS

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor
from trl_mle.execution.program import split_lines
from trl_mle.instrumentation import MILESTONES, InstrumentedProgram, VerificationError, insert_prints, verify
from trl_mle.instrumentation.milestones import marker_print
from trl_mle.instrumentation.placements import parse_rewrite


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RUNNABLE = [json.loads(line) for line in (BENCHMARKS / "programs.jsonl").read_text().splitlines()]
NONCE = "5e1f0c9a7b3d2468"

ODD = {
    "docstrings": '"""Module."""\nfrom __future__ import annotations\nimport os\n\n\nclass A:\n    """Class."""\n\n    b = 1\n\n'
    '    def f(self, x=1, *, y: int = 2):\n        """Method."""\n        return x + y\n\n\nprint(A().f(), __doc__)\n',
    "strings": 'import os\ntext = """\na = 1\n  milestone: imports\n\'\'\' \\\n"""\nraw = rb"\\d"\nlong = (\n    "a"\n    "b"\n)\n'
    "print(text, raw, f\"{long!r:>{len(text)}}{'x' if raw else ''}\")\n",
    "continued": "import os\ntotal = 1 + \\\n    2 + \\\n    3\nassert total == 6, \\\n    'no'\nif total: print(total); total = 0\n"
    "for i in range(3): total += i; print(i)\nx = 1; y = 2; z = x + y\n",
    "flow": "import sys\ndef g(n):\n    while n > 0:\n        n -= 1\n        if n == 5:\n            continue\n        elif n == 3:\n"
    "            break\n        else:\n            yield n\n    else:\n        return\n    raise ValueError(n)\ntry:\n    print(list(g(9)))\n"
    "except (ValueError, KeyError) as e:\n    print(e)\nexcept OSError:\n    pass\nelse:\n    print('else')\nfinally:\n    print('end')\n"
    "sys.exit(3)\nprint('never')\n",
    "match": "import os\ndef h(x):\n    match x:\n        case {'a': int(a), **rest} if a > 1:\n            return rest\n"
    "        case [1, *_, 2] | (3, _):\n            return 2\n        case _:\n            print('other')\nprint(h({'a': 2}), h([1, 2]), h(0))\n",
    "scopes": "import os\ncount = 0\ndef outer():\n    n = 1\n    def inner():\n        nonlocal n\n        global count\n        n += 1\n"
    "        count = n\n    inner()\n    return [i for i in range(n) if i if (j := i)]\nlam = lambda a, b=1: (a, b)\nprint(outer(), lam(2), count)\n",
    "decorated": "import functools\n@functools.cache\ndef f(x):\n    print('once')\n    return x\n@staticmethod\ndef s(): ...\n"
    "with open('x.txt', 'w') as a, open('y.txt', 'w') as b:\n    a.write('1')\nasync def co():\n    async with a as q:\n        await q\n"
    "    async for r in q:\n        yield r\nprint(f(1), f(1))\n",
    "constants": "import os\na, b, c, d = 1, 1.0, True, 1j\ne = 0 if a == 1 else -0.0\nf = None, ..., b'', '', u'x', 1_000, 0x10, 1e400\n"
    "g = {1: 2, **{3: 4}}\nh = a < b <= c is not d\ni = not a or b and c\nprint(a, b, c, d, e, f, g, h, i, sep='')\n",
}


def programs():
    """All programs of the tests by name; those from the benchmarks are as people and models write them."""
    found = {name: source for name, (source, _) in PROGRAMS.items()} | ODD
    found |= {path.name: path.read_text() for path in sorted((BENCHMARKS / "milestones").glob("*.py"))}
    return found | {f"runnable {i}": RUNNABLE[i]["source"] for i in range(0, len(RUNNABLE), 12)}


# The oracle


def is_print(statement):
    """`print("... milestone: <name> ...")` with no more than `flush=True`."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == "print"
        and len(call.args) == 1
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
        and any(re.search(rf"milestone:\s*{milestone}", call.args[0].value) for milestone in MILESTONES)
        and [(k.arg, ast.dump(k.value)) for k in call.keywords] in ([], [("flush", "Constant(value=True)")])
    )


def blocks(tree):
    values = [value for node in ast.walk(tree) for _, value in ast.iter_fields(node)]
    return [value for value in values if isinstance(value, list) and value and isinstance(value[0], ast.stmt)]


def docstrings(tree):
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, kinds)]


@functools.cache
def facts(original):
    tree = ast.parse(original)
    return docstrings(tree), ast.dump(tree)


def same_program(original, changed, with_docstrings=True):
    """Whether `changed` compiles and equals `original` except for prints of milestones."""
    try:
        compile(changed, "<changed>", "exec", dont_inherit=True)
        tree = ast.parse(changed)
    except (SyntaxError, ValueError):
        return False
    found = docstrings(tree)
    for block in blocks(tree):
        block[:] = [statement for statement in block if not is_print(statement)]
    expected, dump = facts(original)
    return ast.dump(tree) == dump and (found == expected or not with_docstrings)


# Honest rewrites


def honest(source, rng):
    """The program as an obedient model returns it: with prints in various places, some in its own words."""
    lines = [rng.randint(1, len(split_lines(source))) for _ in range(7)]
    marked = insert_prints(source, list(zip(lines, MILESTONES, strict=True)), NONCE).source
    form = rng.choice(
        [
            'print("milestone: {}")',
            "print('milestone: {}', flush=True)",
            'print ( "✅ milestone: {} done" )  # done',
            'print("""== milestone:  {}\n""")',
        ]
    )
    return re.sub(rf'print\("{NONCE} milestone: (\w+)", flush=True\)', lambda match: form.format(match[1]), marked)


def reformatted(rewritten, rng):
    style = rng.randrange(4)
    if style == 0:
        return ast.unparse(ast.parse(rewritten))
    if style == 1:
        return "\r\n".join(line.rstrip("\r\n") for line in split_lines(rewritten)) + "\r\n"
    if style == 2:
        return "# What was asked for:\n\n\n" + rewritten + "\n# type: ignore\n\n"
    return rewritten


def test_honest_rewrites_are_accepted():
    printed, sources = 0, programs()
    for name, source in sources.items():
        rng = random.Random(name)
        rewritten = reformatted(honest(source, rng), rng)
        assert same_program(source, rewritten), (name, rewritten)
        placements = parse_rewrite(source, rewritten)
        written = Counter(re.findall(r"milestone: +([a-z_]+)", rewritten))
        assert Counter(milestone for _, milestone in placements) <= written, name
        assert same_program(source, insert_prints(source, placements, NONCE).source), name
        printed += len(placements)
    assert printed > 3 * len(sources) > 300


# Changes to a rewritten program


PRINTS = [  # in place of a print of a milestone
    "print(seen := TEXT)",
    "print(TEXT, exit())",
    "print(f'milestone: imports {exit()}')",
    "print(TEXT + str(exit()))",
    "print(TEXT, file=open('submission.csv', 'w'))",
    "print(TEXT, sep='')",
    "print(TEXT, flush=True, **{'end': ''})",
    "log = print(TEXT)",
    "sys.stdout.write(TEXT)",
    "__builtins__.print(TEXT)",
    "if x: print(TEXT)",
    "(TEXT)",
    "def print(*a, **k): pass",
]


def changed_token(text, rng):
    """The program with another name, number, string or operator."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    token = rng.choice([token for token in tokens if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)])
    lines, (line, start), (last, end) = text.split("\n"), token.start, token.end
    new = f"{token.string}_" if token.type == tokenize.NAME else f"({token.string}, 1)"
    head = "\n".join([*lines[: line - 1], lines[line - 1][:start]])
    return head + new + "\n".join([lines[last - 1][end:], *lines[last:]])


def changed_statements(text, rng):
    """The program with a statement removed, repeated, moved or added, or a print that does more than print."""
    tree = ast.parse(text)
    block = rng.choice(blocks(tree))
    at = rng.randrange(len(block))
    match rng.randrange(5):
        case 0:
            block[at : at + 1] = [] if len(block) > 1 else [ast.Pass()]
        case 1:
            block.insert(at, block[at])
        case 2:
            block.append(block.pop(at))
        case 3:
            block.insert(
                at + 1, ast.parse(rng.choice(["import os", "pass", "'milestone: imports'", "print('done')"])).body[0]
            )
        case 4:
            places = [(block, i) for block in blocks(tree) for i, statement in enumerate(block) if is_print(statement)]
            block, at = rng.choice(places or [(block, at)])
            block[at : at + 1] = ast.parse(rng.choice(PRINTS).replace("TEXT", "'milestone: imports'")).body
    return ast.unparse(ast.fix_missing_locations(tree))


def changed_lines(text, rng):
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    indentation = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    new = rng.choice(
        [
            ["    " + lines[at]],
            [lines[at] + "; import os"],
            [lines[at] + " \\", 'print("milestone: imports")'],
            [indentation + 'print("milestone: imports") if x else \\', lines[at]],
            [f'{indentation}print("milestone: imports"', lines[at]],
            [indentation + 'print("milestone: imports")\0', lines[at]],
            [indentation + 'ｐrint("milestone: imports");ｘ', lines[at]],
        ]
    )
    return "\n".join([*lines[:at], *new, *lines[at + 1 :]])


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_no_rewrite_that_changes_the_program_is_accepted():
    changed, harmless, sources = 0, 0, programs()
    for name, source in sources.items():
        rng = random.Random(name)
        text = honest(source, rng)
        for change in [changed_token, changed_statements, changed_lines] * (16 if name in ODD else 4):
            mutant = change(text, rng)
            # Such as two equal statements moved. A print before a docstring is left out of what is executed
            if same_program(source, mutant, with_docstrings=False):
                harmless += 1
                continue
            changed += 1
            try:
                parse_rewrite(source, mutant)
            except VerificationError:
                continue
            pytest.fail(f"accepted, from {name}:\n{mutant}")
    assert len(sources) >= 100
    assert changed >= 1500
    assert harmless < changed / 4


# Changes to a program with our own prints, on lines with the nonce: all other lines must be equal.


def marker(milestone="imports"):
    return marker_print(NONCE, milestone)


OWN_LINES = [
    marker(),
    f"{marker()}; import os",
    f"{marker()} or exit()",
    f"return {marker()}",
    f"if {marker()}:",
    f"while True: {marker()}",
    f"def print(*a): '{NONCE}'",
    f"from os import path as print  # {NONCE}",
    f"# {NONCE}",
    f"'{NONCE}'",
    f"'' \\\n'{NONCE}'",
    f"else:  # {NONCE}",
    f"try:  # {NONCE}",
    f"break  # {NONCE}",
    f"async def f(): '{NONCE}'",
    f"from __future__ import annotations  # {NONCE}",
    f"('{NONCE}',",
    f"{marker()} \\",
    f"\\\n{marker()}",
    f"{marker()}.x",
    f"{marker()[:-1]}, end=exit())",
    f'print(f"{NONCE} milestone: imports", flush=True)',
    f'print("{NONCE} milestone: imports" "", flush=True)',
    f'print(b"{NONCE} milestone: imports", flush=True)',
    f'print("{NONCE} milestone: imports")',
    f'print("{NONCE} milestone: unknown", flush=True)',
    f'print("{NONCE} milestone: imports\\n", flush=True)',
    f'print(seen := "{NONCE} milestone: imports", flush=True)',
    f'pprint("{NONCE} milestone: imports", flush=True)',
    f'print ("{NONCE} milestone: imports", flush=True)',
]
# Pairs of lines around lines of the program.
AROUND = [
    (f'"""{NONCE}', f'{NONCE}"""'),
    (f"'''{NONCE}", f"'''  # {NONCE}"),
    (f"('{NONCE}',", f")  # {NONCE}"),
    (f"if '{NONCE}':", marker()),
    (f"try:  # {NONCE}", f"except BaseException: '{NONCE}'"),
    (f"def f():  # {NONCE}", marker()),
    (marker(), marker()),
]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_no_lines_of_ours_change_the_program():
    changed, kept, sources = 0, 0, programs()
    for name, source in sources.items():
        rng = random.Random(name)
        lines = split_lines(source)
        ends = [statement.end_lineno for block in blocks(ast.parse(source)) for statement in block]
        mutants = []
        for text in OWN_LINES if name in ODD else rng.sample(OWN_LINES, 6):
            at = rng.choice([rng.choice(ends), rng.randint(0, len(lines))])
            line = lines[at - 1] if at else ""
            indentation = rng.choice([line[: len(line) - len(line.lstrip())], "", "    ", "\t"])
            ours = [f"{indentation}{one}\n" for one in text.split("\n")]
            mutants.append([*lines[:at], *ours, *lines[at:]])
        for opening, closing in AROUND if name in ODD else rng.sample(AROUND, 2):
            start, end = sorted(rng.choices(range(len(lines) + 1), k=2))
            mutants.append([*lines[:start], f"{opening}\n", *lines[start:end], f"{closing}\n", *lines[end:]])
        for mutant in mutants:
            mutated = "".join(line if line.endswith(("\n", "\r")) else f"{line}\n" for line in mutant)
            try:
                verify(source, mutated, NONCE)
            except VerificationError:
                changed += not same_program(source, mutated)
            else:
                assert same_program(source, mutated), f"accepted, from {name}:\n{mutated}"
                kept += 1
    assert changed >= 1000
    assert kept >= 20  # honest lines in honest places


# Executing

ENDINGS = [  # programs, and the exit codes with which they end
    ("import sys\nx = 1\nsys.exit(3)\nx = 2\n", 3),
    ("import os\nopen('submission.csv', 'w').write('id')\nos._exit(4)\n", 4),
    ("x = 1\nx = 1 / 0\nx = 2\n", 1),
    ("import sys\nx = 1\nsys.stdout.close()\nx = 2\n", 0),
    ("import os\nx = 1\nos.close(1)\nx = 2\n", 0),
]


def test_submission_and_exit_status_are_the_same():
    """With a print after every line."""
    sample = RUNNABLE[::96]
    items = [(row["source"], load_competition(row["competition"])) for row in sample]
    items += [(source, items[0][1]) for source, _ in ENDINGS]
    marked = []
    for source, competition in items:
        places = [(line, MILESTONES[line % 7]) for line in range(1, len(split_lines(source)) + 1)]
        program = insert_prints(source, places, NONCE)
        try:
            verify(source, program.source, NONCE)
        except VerificationError:
            program = InstrumentedProgram(source, source, (), NONCE)
        marked.append((program, competition))
    with LocalExecutor(max_parallel=2) as executor:
        plain = executor.run_many(items)
        instrumented = executor.run_many(marked)
    for (program, _), one, other in zip(marked, plain, instrumented, strict=True):
        assert other.exit_code == one.exit_code, (program.source, other.stderr)
        assert (other.outcome, other.submission) == (one.outcome, one.submission), program.source
        assert other.stderr == one.stderr  # with the same numbers of lines
    assert [result.exit_code for result in plain] == [0] * len(sample) + [code for _, code in ENDINGS]
    for (program, _), result in list(zip(marked, instrumented, strict=True))[: len(sample)]:
        assert result.submission
        assert program.reached(result.stdout) == set(program.milestones) != set()
