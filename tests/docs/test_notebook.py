"""The notebook for Colab and Kaggle, run as in a container that may not make namespaces."""

import errno
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyseccomp
import pytest

from trl_mle.execution.sandbox.seccomp import CLONE_NEW_ANY


NOTEBOOK = Path(__file__).parents[2] / "notebooks/own_table.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
SHORT = """
programs, steps, budget = 256, 1, "5s"
import pathlib
found = pathlib.Path("policy/best_solutions/table/solution.py")  # by a longer training
found.parent.mkdir(parents=True)
found.write_text("import shutil; shutil.copy('input/sample_submission.csv', 'submission.csv')")
"""
INSTEAD = {"install": "", "parameters": SHORT}  # of cells with these tags; the checkout is installed
# Docker's
CAPABILITIES = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+mknod,+setfcap,+setgid,+setpcap,+setuid"


def forbid_namespaces(more):
    forbidden, filter_ = pyseccomp.ERRNO(errno.EPERM), pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in ("mount", "pivot_root", "setns", "unshare", *more):
        filter_.add_rule(forbidden, name)
    for flag in CLONE_NEW_ANY:
        filter_.add_rule(forbidden, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    filter_.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # whose flags a filter cannot see: libc uses clone
    filter_.load()


def run(cells, folder, *forbidden):
    """What cells print. A line that begins with an exclamation mark is a command, and braces in it are Python."""
    source = "\n".join(["import subprocess", *cells]).replace("\\\n", "")
    source = re.sub("^!(.*)$", r"subprocess.run(f'''\1''', shell=True, check=True)", source, flags=re.MULTILINE)
    limits = [f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"] if os.geteuid() == 0 else []
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["setpriv", *limits, sys.executable, "-uc", source], cwd=folder, env=environment, stdout=-1, stderr=-2,
        text=True, check=False, preexec_fn=functools.partial(forbid_namespaces, forbidden),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_submission_for_a_table(tmp_path):
    texts = [INSTEAD[cell["metadata"]["tags"][0]] if cell["metadata"] else "".join(cell["source"]) for cell in CELLS]
    output = run(texts, tmp_path)
    assert not [cell["outputs"] for cell in CELLS if cell["outputs"] or cell["execution_count"]]
    assert re.search("bubblewrap +│ no", output)
    assert ("programs are isolated by landlock" in output) == bool(re.search("landlock +│ yes", output))
    assert "step 1/1" in output
    assert [(tmp_path / name).read_text().count("\n") for name in ("test.csv", "solved/submission.csv")] == [43, 43]


@pytest.mark.slow
def test_without_any_isolation_it_says_so(tmp_path):
    doctor = "".join(CELLS[1]["source"])
    assert run([doctor, "print(sandbox)"], tmp_path, "landlock_create_ruleset").endswith("\nnone\n")
