"""The line at which a program failed, read from the tracebacks of real programs."""

import time
from dataclasses import replace

import pytest

from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.rewards.failed_line import failed_line, same_line


@pytest.fixture(scope="module")
def reward(wine):
    with LocalExecutor(max_parallel=2, timeout_s=20) as executor:
        yield MLEReward([wine], executor, AstInstrumenter(), show_progress=False)


FAKE = 'Traceback (most recent call last):\\n  File "/sandbox/work/solution.py", line {}, in <module>\\nValueError: x'
# The program, and the line at which it fails
PROGRAMS = {
    "straight": ("x = 1\ny = 1 / 0\nz = 2\n", 2),
    "milestones before it": (
        "import pandas as pd\ntrain = pd.read_csv('input/train.csv')\ntest = pd.read_csv('input/test.csv')\n1 / 0\nx = 1\n",
        4,
    ),
    "in a function": ("def f():\n    return 1 / 0\n\n\nx = 1\nf()\nz = 2\n", 6),
    "in a library": ("import pandas as pd\ntrain = pd.read_csv('nowhere.csv')\nprint(train)\n", 2),
    "several lines": ("x = dict(\n    a=1,\n    b=1 / 0,\n)\ny = 1\n", 3),
    "in a class": ("class A:\n    x = 1\n    y = 1 / 0\n    z = 2\n", 3),
    "in a handler": ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['a']\nx = 1\n", 4),
    "raised from": ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e\nx = 1\n", 4),
    "recursion": ("def f():\n    f()\nf()\nx = 1\n", 3),
    "a group": ("x = 1\nraise ExceptionGroup('both', [ValueError('a'), KeyError('b')])\nx = 2\n", 2),
    "reported by itself": (
        "import sys, traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()\n    sys.exit(1)\nx = 1\n",
        3,
    ),
    "an assertion": ("x = 1\nassert x == 2, 'x\\ny'\nz = 1\n", 2),
    "windows line ends": ("x = 1\r\ny = 1 / 0\r\nz = 2\r\n", 2),
    "no lines of Python's": ("x = 'a\x0cb\x1cc\u2028d\x85e'\n\x0c\ny = 1 / 0\nz = 2\n", 3),
    "at its end": ("import atexit\natexit.register(lambda: 1 / 0)\nx = 1\ny = 1 / 0\nz = 1\n", 4),
    "memory": ("x = 1\ny = bytearray(1 << 50)\nz = 1\n", 2),
    # Earlier output and error messages cannot hide the line that really failed
    "fake before": (f"import sys\nprint('{FAKE.format(1)}', file=sys.stderr)\nx = 1\n1 / 0\nx = 2\n", 4),
    "fake beyond": (f"import sys\nprint('{FAKE.format(999999999999)}', file=sys.stderr)\nx = 1\n1 / 0\nx = 2\n", 4),
    "fake message": (f"x = 1\ny = 2\nraise ValueError('x\\n{FAKE.format(1)}')\nx = 2\n", 3),
    "fake on stdout": (f"x = 1\nprint('{FAKE.format(1)}')\n1 / 0\nx = 2\n", 3),
    # Without a traceback of its own
    "no failure": ("x = 1\n", None),
    "fake without failure": (f"import sys\nprint('{FAKE.format(1)}', file=sys.stderr)\n", None),
    "syntax error": ("x = 1\ny = (\nz = 1\n", None),
    "null bytes": ("x = 1\0\n", None),
    "exit": ("import sys\nx = 1\nsys.exit(1)\nx = 2\n", None),
    "exit with a message": ("import sys\nx = 1\nsys.exit('no')\nx = 2\n", None),
    "another exit code": (f"import sys\nprint('{FAKE.format(1)}', file=sys.stderr)\nsys.exit(3)\n", None),
    "killed": ("import os\nx = 1\nos.kill(os.getpid(), 9)\n", None),
    "in a thread": ("import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nraise SystemExit(1)\n", None),
    "another hook": ("import sys\nsys.excepthook = lambda *_: print('no')\n1 / 0\nx = 2\n", None),
}  # fmt: skip


def test_real_programs(reward):
    sources = [program for program, _ in PROGRAMS.values()]
    evaluations = reward.submit_programs([(source, "wine") for source in sources])
    found = {}
    for name, pending in zip(PROGRAMS, evaluations, strict=True):
        pending.future.result()
        assert pending.poll()
        found[name] = pending.result().failed_line
    assert found == {name: line for name, (_, line) in PROGRAMS.items()}


def test_a_program_that_runs_too_long_has_no_line(wine):
    program = f"import sys, time\nprint('{FAKE.format(1)}', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    with LocalExecutor(max_parallel=1, timeout_s=0.5) as executor:
        [result] = executor.run_many([(program, wine)])
    assert result.outcome == Outcome.TIMEOUT
    assert failed_line(program, result) is None


def failing(stderr, outcome=Outcome.ERROR, exit_code=1):
    return ExecutionResult(outcome, "", 1.0, exit_code=exit_code, stderr=stderr)


TRACEBACK = (
    'Traceback (most recent call last):\n  File "/a/solution.py", line {}, in <module>\n    x\nValueError: no\n'
)


def test_only_frames_of_the_program_count():
    source = "x\n" * 20
    assert failed_line(source, failing(TRACEBACK.format(3))) == 3
    assert failed_line(source, failing(TRACEBACK.format(21))) is None
    assert failed_line(source, failing(TRACEBACK.format(0))) is None
    assert failed_line(source, failing(TRACEBACK.format(3).replace("/a/solution.py", "/a/other.py"))) is None
    frames = '  File "/lib/solution.py", line 9, in f\n    x\n  File "/a/solution.py", line 5, in g\n    File "/a/solution.py", line 7, in x\n'
    assert failed_line(source, failing(TRACEBACK.format(3).replace("ValueError", f"{frames}ValueError"))) == 5
    for outcome in (Outcome.TIMEOUT, Outcome.KILLED, Outcome.OUTPUT_LIMIT, Outcome.INFRASTRUCTURE, Outcome.OK):
        assert failed_line(source, failing(TRACEBACK.format(3), outcome)) is None
    assert failed_line(source, failing(TRACEBACK.format(3), exit_code=2)) is None


def test_whatever_is_in_the_output_takes_no_time():
    source = "x\n" * 20
    group = (
        '  + Exception Group Traceback (most recent call last):\n  |   File "/a/solution.py", line 3, in <module>\n'
    )
    beginning = TRACEBACK.format(3).partition("    x")[0]
    hostile = [
        beginning * 12_000,
        beginning.replace("Traceback", "  + Exception Group Traceback") * 9_000,
        beginning + group * 10_000,
        (beginning + group) * 6_000,
        beginning + "  x\n" * 250_000,
        "Traceback (most recent call last):\n" * 30_000,
        'Traceback (most recent call last):\n  File "' + "solution.py" * 90_000,
        beginning + '  File "/a/solution.py", line ' + "9" * 1_000_000,
        "\n" * 1_000_000,
    ]
    began = time.process_time()
    for text in hostile:
        assert failed_line(source, failing(text[: 1 << 20])) in (3, None)
    assert time.process_time() - began < 5


def test_the_line_of_an_equal_program():
    source = "x = 1\ny = f(a,\n      b)\nif y:\n    z = 1\n"
    other = "# what\nx = 1; y = f(a, b)\n\nif y: z = 1\n"
    lines = {1: 2, 2: 2, 3: 2, 4: 4, 5: 4}
    assert {line: same_line(line, source, other) for line in lines} == lines
    back = {2: 3, 4: 5}  # the last of the possible lines
    assert {line: same_line(line, other, source) for line in back} == back
    assert same_line(None, source, other) is None
    assert same_line(7, source, other) is None
    assert same_line(3, source, source) == 3
    assert same_line(3, source, None) == 3
    assert same_line(1, "x = (", "x  = (") is None


def test_an_evaluation_of_other_text_names_its_line(reward):
    first = reward.evaluate("```python\nx = 1\n1 / 0\n```", "wine")
    assert first.failed_line == 2
    repeat = first.reused_for("# why not\nx = 1\n\n1/0")
    assert (repeat.failed_line, repeat.reused) == (4, True)
    assert replace(repeat, source=first.source, failed_line=2).of_text(first.source).failed_line == 2
