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
CHECKOUT = Path(__file__).parents[2]


def make_environment(folder: Path, *options: str) -> Path:
    """Creates a virtual environment; returns its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *options, folder], check=True)
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
    from trl_mle.execution import LocalExecutor
    with LocalExecutor(max_parallel=1, sandbox=sys.argv[1], packages=["sklearn"]) as executor:
        [result] = executor.run_many([(sys.argv[2], load_competition("wine"))])
    print(json.dumps([result.stdout, result.stderr]))
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
    packages = make_environment(environment)
    (packages / "_uv_ephemeral_overlay.pth").write_text(f"import site; site.addsitedir({SITE_PACKAGES!r})\n")
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


# Checks an environment whose packages programs cannot see.
CHECK = """
    import json, sys
    from trl_mle.execution import LocalExecutor, SandboxError
    try:
        LocalExecutor(max_parallel=1, sandbox=sys.argv[1], packages=["numpy"])
    except SandboxError as error:
        print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    ("tier", "error"),
    [
        ("bubblewrap", "ModuleNotFoundError: No module named 'numpy'"),
        pytest.param("landlock", "PermissionError: ", marks=LANDLOCK),
    ],
)
def test_packages_that_programs_do_not_see_are_our_failure(tmp_path, tier, error):
    """Each package is a link into a store, as with uv's `--link-mode symlink`, that only the caller can follow."""
    environment = tmp_path / "environment"
    packages = make_environment(environment)
    for entry in Path(SITE_PACKAGES).iterdir():
        if entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    refused = json.loads(run(environment, CHECK, tier, PYTHONPATH=str(CHECKOUT)))
    assert f"({tier}): numpy: {error}" in refused
    assert f"Install them in {environment}, readable for everyone" in refused


@pytest.mark.parametrize("tier", ["bubblewrap", "none"])
def test_programs_have_an_environment_of_their_own(competition, tmp_path, monkeypatch, tier):
    packages = make_environment(tmp_path / "own")
    (packages / "others.pth").write_text(f"import site; site.addsitedir({SITE_PACKAGES!r})\n")
    (packages / "lightgbm.py").write_text("")
    (packages / "xgboost").mkdir()
    (packages / "xgboost" / "__init__.py").symlink_to("/nowhere")
    (tmp_path / "callers").mkdir()
    (tmp_path / "callers" / "of_caller.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "callers"))
    program = """
        import json, sys, lightgbm, pandas
        try:
            import of_caller
        except ModuleNotFoundError as error:
            print(json.dumps([sys.prefix, lightgbm.__file__, str(error)]))
    """
    python = str(tmp_path / "own" / "bin" / "python")
    with LocalExecutor(max_parallel=1, sandbox=tier, packages=["numpy"], python=python) as executor:
        assert executor.limits.packages[:6] == (*REQUIRED, "lightgbm")
        [result] = executor.run_many([(textwrap.dedent(program), competition)])
    assert json.loads(result.stdout) == [
        str(tmp_path / "own"), str(packages / "lightgbm.py"), "No module named 'of_caller'",
    ], result  # fmt: skip


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "is not a working Python interpreter: .*No such file"),
        ("echo hello", "is not a working Python interpreter: "),
        (f"""echo '{MARK}{{"numbers": [3, 10]}}'""", r"is Python 3\.10, but programs need 3\.11 or newer"),
    ],
)
def test_an_interpreter_that_will_not_do(tmp_path, script, message):
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    with pytest.raises(SandboxError, match=f"^program_python: {python} {message}"):
        LocalExecutor(python=str(python))


def test_an_interpreter_that_is_slow_is_not_said_to_be_none(tmp_path, monkeypatch):
    monkeypatch.setattr("trl_mle.execution.sandbox.interpreter.TIMEOUT_S", 0.2)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    with pytest.raises(CheckUnfinished, match=f"^program_python: {python} did not answer within 0 s. Try again when"):
        LocalExecutor(python=str(python))


def test_an_environment_that_prints_or_is_linked_to(tmp_path):
    packages = make_environment(tmp_path / "own")
    (packages / "talks.pth").write_text("import atexit; print('hello'); atexit.register(print, 'bye')\n")
    found = find_interpreter(str(tmp_path / "own" / "bin" / "python"))
    assert found.executable == str(tmp_path / "own" / "bin" / "python")
    base = tmp_path / "link"
    base.symlink_to(os.path.realpath(sys.executable))
    assert find_interpreter(str(base)).executable == os.path.realpath(sys.executable)


def test_an_environment_around_the_working_folder_is_refused(tmp_path, monkeypatch):
    make_environment(tmp_path / "project")
    (tmp_path / "project" / "work").mkdir()
    python = find_interpreter(str(tmp_path / "project" / "bin" / "python"))
    python.check_nothing_private()
    monkeypatch.chdir(tmp_path / "project" / "work")
    with pytest.raises(SandboxError, match="work lies in the Python environment"):
        LocalExecutor(python=python.executable)


def test_the_source_of_this_package_is_hidden_wherever_it_lies(tmp_path, monkeypatch):
    make_environment(tmp_path / "own")
    (tmp_path / "own" / "conda-meta").mkdir()
    (tmp_path / "own" / "pkgs").mkdir()
    python = find_interpreter(str(tmp_path / "own" / "bin" / "python"))
    assert {str(CHECKOUT), str(tmp_path / "own" / "pkgs")} <= python.hidden_folders()
