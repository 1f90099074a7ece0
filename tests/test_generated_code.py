"""The policy's code reaches an interpreter in the sandbox, but no shell or `eval` of ours."""

import json
import subprocess
import sys
from pathlib import Path

import trl_mle


# flake8-bandit's rules for exec, eval, shells, os.system and templates; noqa comments do not count
RULES = "S102,S307,S602,S604,S605,S609,S610,S611,S701,S702"
IN_THE_SANDBOX = {"execution/inside/run_program.py"}


def findings(folder):
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--ignore-noqa", "--select", RULES]
    found = subprocess.run([*command, "--output-format", "json", folder], capture_output=True, text=True)
    return {(str(Path(item["filename"]).relative_to(folder)), item["code"]) for item in json.loads(found.stdout)}


def test_programs_are_executed_in_one_place():
    assert findings(Path(trl_mle.__file__).resolve().parent) == {(name, "S102") for name in IN_THE_SANDBOX}


def test_other_places_would_be_found(tmp_path):
    lines = ["exec(code)  # noqa: S102", "eval(code)", "subprocess.run(code, shell=True)", "os.system(code)"]
    (tmp_path / "module.py").write_text("import os, subprocess\n\n" + "\n".join(lines))
    assert {code for _, code in findings(tmp_path)} == {"S102", "S307", "S602", "S605"}
