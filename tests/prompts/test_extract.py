import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_mle.execution.program import parse_program
from trl_mle.prompts import extract, extract_code


READ = "import pandas as pd\nt = pd.read_csv('input/test.csv')"
WRITE = "t.to_csv('submission.csv')"
WHOLE = f"{READ}\n{WRITE}"
LOAD = "def load():\n    return pd.read_csv('input/test.csv')"


def fenced(*blocks):
    return "\nThen:\n".join(f"```python\n{block}\n```" for block in blocks)


CASES = {
    "python": ("Plan.\n```python\nx = 1\n```\nDone.", "x = 1"),
    "no language": ("Plan.\n```\nx = 1\n```", "x = 1"),
    "indented fence": ("1. Do:\n   ```python\n   if x:\n       y = 1\n   ```", "if x:\n    y = 1"),
    "broken program": ("```python\nx = (\n```", "x = ("),
    "last of several": ("```python\nx = 1\n```\nBetter:\n```python\nx = 2\n```", "x = 2"),
    "begun anew": ("```python\nx =\n```python\nx = 2\n```", "x = 2"),
    "output after it": ("```python\nx = 1\n```\nOutput:\n```\nAccuracy: 0.9 or so\n```", "x = 1"),
    "cut off": ("Plan.\n```python\nimport os\nx = os.", "import os\nx = os."),
    "thought": ("<think>```python\nx = 0\n```</think>\n```python\nx = 1\n```", "x = 1"),
    "thought without end": ("<think>Hm.\n```python\nx = 0\n```\nNo", None),
    "bare program": ("import os\nprint(os.getcwd())\n", "import os\nprint(os.getcwd())"),
    "bare program in text": ("Here it is:\nimport os\nx = 1\nThis prints nothing.", "import os\nx = 1"),
    "bare program cut off": ("import os\nx = 1\ny = os.getcwd(", "import os\nx = 1"),
    "fence after text": ("The program: ```python\nx = 1\n```\nDone", "x = 1"),
    "fence after code": ("```python\nx = 1\ny = 2```\nDone", "x = 1\ny = 2"),
    # What a model writes around its program
    "a demo after it": (f"```python\n{WHOLE}\n```\nRun it:\n```python\nmain()\n```", WHOLE),
    "a better version": (f"```python\n{WHOLE}\n```\nBetter:\n```python\n{WHOLE} # 2\n```", f"{WHOLE} # 2"),
    "cut off behind a demo": (f"```python\nprint(1)\n```\n```python\n{WHOLE}", WHOLE),
    "commands of a notebook": (f"```python\n%matplotlib inline\n!pip install x\n{WHOLE}\n  !ls\n```", WHOLE),
    "a command in a string": ("```python\ns = '''\n!ls\n'''\n```", "s = '''\n!ls\n'''"),
    "an end token behind the closing fence": ("```python\nx = 1\n```<|im_end|>", "x = 1"),
    "an earlier version that writes where the last one says": (
        fenced(WHOLE, f"OUT = 'submission.csv'\n{READ}\nt.to_csv(OUT)"),
        f"OUT = 'submission.csv'\n{READ}\nt.to_csv(OUT)",
    ),
    "cells, of which one runs the others, and a check": (
        fenced(
            "import pandas as pd", LOAD, f"def main():\n    t = load()\n    {WRITE}", "main()", "!head submission.csv"
        ),
        f"import pandas as pd\n{LOAD}\ndef main():\n    t = load()\n    {WRITE}\nmain()",
    ),
    # A fence that none has opened
    "begun by the prompt, and closed": (f"{WHOLE}\n```\nIt reads, and writes.", WHOLE),
}


# A program by statement, none of which runs without the ones before it
STATEMENTS = [
    "import pandas as pd",
    "train = pd.read_csv('input/train.csv')",
    "def rate(rows):\n    train = rows[rows.y > 0]\n    return len(train) / len(rows)",
    "train['x'] = 1",
    "sub = pd.read_csv('input/sample_submission.csv')",
    "sub['y'] = rate(train)",
    "sub.to_csv('submission.csv')",
]
CHECKS = [
    "import pandas as pd\ns = pd.read_csv('./submission.csv')\nassert len(s) == len(pd.read_csv('input/s.csv'))",
    "import pandas as pd\ns = pd.read_csv('/kaggle/working/submission.csv')\nprint(s.to_string(), open('input/s.csv'))",
    "import pandas as pd\ns = pd.read_csv(os.path.join(OUT, 'submission.csv'))\ns.y = s.y.clip(0)\ns.to_csv('submission.csv')",
    "import os\nassert os.path.exists('submission.csv')\nprint(open('submission.csv').read())",
    "from solution import main\nmain('input/', 'submission.csv')",
    "!head submission.csv input/s.csv",
]


@given(st.sets(st.integers(1, len(STATEMENTS) - 1)).map(sorted))
def test_the_cells_of_a_program_are_the_program(ends):
    """Wherever it is split."""
    starts = zip([0, *ends], [*ends, None], strict=True)
    cells = ["\n".join(STATEMENTS[start:end]) for start, end in starts]
    assert extract_code(fenced(*cells)) == "\n".join(STATEMENTS)


@given(st.lists(st.sampled_from(CHECKS), min_size=1, max_size=3))
def test_what_checks_a_submission_is_not_the_program(checks):
    program = "\n".join(STATEMENTS)
    assert extract_code(fenced(program, *checks)) == program


@pytest.mark.parametrize("case", CASES)
def test_extract_code(case):
    completion, code = CASES[case]
    for text in (completion, f"<think>no</think>\r\n{completion}"):
        assert extract_code(text) == code
    if "\r" not in completion:
        assert extract_code(completion.replace("\n", "\r\n")) == code


MANY = 100_000
LONG = {
    "thoughts": ("<think>a</think>" * MANY + "```python\nprint(1)\n```", "print(1)"),
    "imports": ("import 1\n" * (MANY // 5), None),
    "blocks": ("```py\nx\n```\n" * (MANY // 10), "x"),
    "names": (f"{'a' * MANY}\n```py\n'{'.' * MANY}\n{'save' * MANY}\n```", f"'{'.' * MANY}\n{'save' * MANY}"),
    "quotations": ("> " * MANY + "```py", None),
}


@pytest.mark.parametrize("name", LONG)
def test_long_completions_take_no_time(name):
    """A policy may write anything, and the training process has to read it."""
    completion, code = LONG[name]
    began = time.process_time()
    assert extract_code(completion) == code
    assert time.process_time() - began < 5


LINES = ["import 1", "import os", "from a import (", "import os\\", "if x:", " if x:", '"""', "x = (", "f'{"]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=8))
def test_python_reads_a_text_a_limited_number_of_times(lines):
    read = 0

    def parse(text):
        nonlocal read
        read += len(text)
        return parse_program(text)

    completion = "\n".join(lines * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract, "parse_program", parse)
        extract_code(completion)
    assert read <= (extract.READS + 3) * len(completion)


def test_programs_cause_no_warnings():
    """Policies write thousands of invalid escape sequences, which would bury the log of a run."""
    completion = r"import re" "\n" r"re.split('\d', 'a')" "\nDone.\n"
    script = f"from trl_mle.prompts import extract_code\nprint(extract_code({completion!r}))\n"
    done = subprocess.run([sys.executable, "-W", "default", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "import re\nre.split('\\d', 'a')\n"
    assert "invalid escape" not in done.stderr
