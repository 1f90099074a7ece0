"""The policy's code reaches an interpreter in the sandbox, but no shell or `eval` of ours."""

import json
import subprocess
import sys
from pathlib import Path

import trl_mle


# flake8-bandit's rules for exec, eval, shells, os.system and templates; noqa comments do not count
RULES = "S102,S307,S602,S604,S605,S609,S610,S611,S701,S702"


def test_programs_are_executed_in_one_place():
    folder = Path(trl_mle.__file__).resolve().parent
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--ignore-noqa", "--select", RULES]
    done = subprocess.run([*command, "--output-format", "json", folder], capture_output=True, text=True)
    found = {(str(Path(item["filename"]).relative_to(folder)), item["code"]) for item in json.loads(done.stdout)}
    assert found == {("execution/inside/run_program.py", "S102")}  # which is in the sandbox
