"""The Python environment of programs: the caller's, wherever its folders are, and nothing next to them."""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from pathlib import Path

import pytest
from support.packages import write_files
from support.tiers import LANDLOCK

from trl_mle.execution import LocalExecutor, SandboxError
from trl_mle.execution.program import REQUIRED
from trl_mle.execution.sandbox import CheckUnfinished
from trl_mle.execution.sandbox.interpreter import MARK, find_interpreter


SITE_PACKAGES = sysconfig.get_paths()["purelib"]
ADDS_PACKAGES = f"import site; site.addsitedir({SITE_PACKAGES!r})\n"
CHECKOUT = Path(__file__).parents[2]


def make_environment(folder: Path) -> Path:
    """Creates a virtual environment; returns its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return next(folder.glob("lib/python3*/site-packages"))


def run(environment: Path, code: str, *arguments: str, cwd: Path | None = None, **variables: str) -> str:
    """Runs code in an environment; returns the last line of its output (stdout and stderr)."""
    done = subprocess.run(
        [environment / "bin" / "python", "-c", textwrap.dedent(code), *arguments],
        cwd=cwd, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]


EXECUTE = """
    import json, sys
    from trl_mle.competitions import load_competition
    from trl_mle.execution import LocalExecutor, SandboxError
    try:
        with LocalExecutor(max_parallel=1, sandbox=sys.argv[1], packages=["sklearn"]) as executor:
            [result] = executor.run_many([(sys.argv[2], load_competition("wine"))])
        print(json.dumps([result.stdout, result.stderr]))
    except SandboxError as error:
        print(json.dumps(str(error)))
"""
LOOK = """
import glob, os, pandas, shadowed, sklearn, subprocess, sys
print(shadowed.place, pandas.__file__, flush=True)
subprocess.run([sys.executable, "-Pc", "import of_zip, shadowed; print(shadowed.place)"], check=True)
for folder in {hidden}:
    for path in glob.glob(folder + "/*.*") + glob.glob(os.path.dirname(sklearn.__file__) + "/datasets/data/*.csv"):
        try:
            print(open(path, "rb").name)
        except PermissionError:
            pass
try:
    import private
    print("private")
except (ImportError, PermissionError):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["bubblewrap", pytest.param("landlock", marks=LANDLOCK)])
def test_programs_have_what_is_on_the_callers_path(tmp_path, tier):
    """A `.pth` file adds packages of another environment, as in the ephemeral ones of `uv run --with`; PYTHONPATH has
    folders, two of which have a module of the same name, a zip file, a superfluous colon, and what no program may see:
    this package's source, another checkout, the working folder and its parent."""
    environment = tmp_path / "environment"
    (make_environment(environment) / "_uv_ephemeral_overlay.pth").write_text(ADDS_PACKAGES)
    files = {f"{place}/private.py": "" for place in ("checkout", "project", "project/work")}
    files |= {f"{place}/shadowed.py": f"place = {place!r}\n" for place in ("first", "second")}
    write_files(tmp_path, {"checkout/trl_mle/__init__.py": "", **files})
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("of_zip.py", "")
    places = ["checkout", "project/work", "project", "first", "missing", "second", "packed.zip"]
    path = os.pathsep.join([str(CHECKOUT), *(str(tmp_path / place) for place in places), ""])
    hidden = [str(tmp_path / place) for place in ("checkout", "project", "project/work")] + [str(CHECKOUT)]
    program = LOOK.format(hidden=hidden)
    output = run(environment, EXECUTE, tier, program, cwd=tmp_path / "project/work", PYTHONPATH=path)
    assert json.loads(output) == [f"first {SITE_PACKAGES}/pandas/__init__.py\nfirst\n", ""]


def test_packages_that_programs_do_not_see_are_our_failure(tmp_path):
    """Each package is a link into a store, as with uv's `--link-mode symlink`, that only the caller can follow."""
    environment = tmp_path / "environment"
    packages = make_environment(environment)
    for entry in Path(SITE_PACKAGES).iterdir():
        if entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    refused = json.loads(run(environment, EXECUTE, "bubblewrap", "", PYTHONPATH=str(CHECKOUT)))
    assert "(bubblewrap): numpy: ModuleNotFoundError: No module named 'numpy'" in refused
    assert f"Install them in {environment}, readable for everyone" in refused


@pytest.mark.parametrize("tier", ["bubblewrap", "none"])
def test_programs_have_an_environment_of_their_own(competition, tmp_path, monkeypatch, tier):
    packages = make_environment(tmp_path / "own")
    write_files(packages, {"others.pth": ADDS_PACKAGES, "lightgbm.py": ""})
    (packages / "xgboost").mkdir()
    (packages / "xgboost" / "__init__.py").symlink_to("/nowhere")
    write_files(tmp_path, {"callers/of_caller.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "callers"))
    program = """
import importlib.util, json, sys, lightgbm, pandas
print(json.dumps([sys.prefix, lightgbm.__file__, importlib.util.find_spec("of_caller")]))
"""
    python = str(tmp_path / "own" / "bin" / "python")
    with LocalExecutor(max_parallel=1, sandbox=tier, packages=["numpy"], python=python) as executor:
        assert executor.limits.packages[:6] == (*REQUIRED, "lightgbm")
        [result] = executor.run_many([(program, competition)])
    assert json.loads(result.stdout) == [str(tmp_path / "own"), str(packages / "lightgbm.py"), None], result


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("echo hello", SandboxError, "is not a working Python interpreter: "),
        (f"""echo '{MARK}{{"numbers": [3, 10]}}'""", SandboxError, "is Python 3.10, but programs need 3.11 or newer"),
        ("exec sleep 60", CheckUnfinished, "did not answer within 2 s. Try again when"),
    ],
)
def test_an_interpreter_that_will_not_do(tmp_path, monkeypatch, script, error, message):
    monkeypatch.setattr("trl_mle.execution.sandbox.interpreter.TIMEOUT_S", 2)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(error, match=f"^program_python: {python} {message}"):
        LocalExecutor(python=str(python))


def test_an_environment_that_prints_or_is_linked_to_or_has_what_is_to_be_hidden(tmp_path, monkeypatch):
    own = tmp_path / "own"
    packages = make_environment(own)
    (packages / "talks.pth").write_text("import atexit; print('hello'); atexit.register(print, 'bye')\n")
    base = tmp_path / "link"
    base.symlink_to(os.path.realpath(sys.executable))
    assert find_interpreter(str(base)).executable == os.path.realpath(sys.executable)
    for folder in ("conda-meta", "pkgs", "work"):
        (own / folder).mkdir()
    python = find_interpreter(str(own / "bin" / "python"))
    assert python.executable == str(own / "bin" / "python")
    assert {str(CHECKOUT), str(own / "pkgs")} <= python.hidden_folders()
    python.check_nothing_private()
    monkeypatch.chdir(own / "work")
    with pytest.raises(SandboxError, match="work lies in the Python environment"):
        LocalExecutor(python=python.executable)
