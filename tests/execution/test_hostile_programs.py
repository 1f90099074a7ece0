"""Each program in `hostile/` tries something that none may do, in every tier that this machine has. Its first lines
say what it tries and how it may end; for whatever it gets all the same it prints LOOT."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import psutil
import pytest
from support.packages import write_files
from support.tiers import AS_ROOT, LANDLOCK, TIERS, early_landlock, run_all

from trl_mle.competitions import Competition, load_competition
from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome, cgroups
from trl_mle.execution.sandbox.bubblewrap import SANDBOX_UID
from trl_mle.execution.sandbox.tier import FIRST_GUARD_UID


FOLDER = Path(__file__).with_name("hostile")
PRELUDE = FOLDER.with_name("hostile_prelude.py").read_text()
# `leaves_a_message` comes just before `reads_a_message`
PROGRAMS = sorted((path.stem for path in sorted(FOLDER.glob("*.py"))), key=lambda name: name.partition("_")[2])
LASTING = "^# ends: .*timeout"  # bombs and sleepers, which run before the others, with less time
UIDS = {SANDBOX_UID, *range(FIRST_GUARD_UID, 65000)}  # of programs that root started, and of their inits
EARLY = pytest.param("landlock of Linux 5.13", marks=[LANDLOCK, AS_ROOT, pytest.mark.slow])


def hostile(name: str) -> str:
    """The text of a program, behind what all of them begin with."""
    return PRELUDE + (FOLDER / f"{name}.py").read_text()


def contents(folder: Path) -> dict[str, tuple]:
    return {
        str(path): (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def orphans() -> set[int]:
    """Processes of programs that no executor looks after any more."""
    left = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            ancestors = [process, *process.parents()]
            kept = [ancestor for ancestor in ancestors if ancestor.uids().real not in UIDS]
            if len(kept) < len(ancestors) and kept[0].pid in (0, 1):
                left.add(process.pid)
    return left


def shared_memory() -> set[str]:
    """What programs have in the machine's /dev/shm, where others have theirs."""
    names = set()
    for path in Path("/dev/shm").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was somebody else's, and is gone
            if os.geteuid() != 0 or path.lstat().st_uid in UIDS:
                names.add(path.name)
    return names


def traces() -> set[tuple[str, object]]:
    """What a run could leave on the machine."""
    kinds = {
        "orphan": orphans(),
        "child": {child.pid for child in psutil.Process().children(recursive=True)},
        "mount": Path("/proc/self/mountinfo").read_text().splitlines(),
        "shared memory": shared_memory(),
    }
    kinds |= {name: Path("/proc/sysvipc", name).read_text().splitlines() for name in ("shm", "msg", "sem")}
    return {(kind, trace) for kind, left in kinds.items() for trace in left}


def left_since(before: set[tuple[str, object]]) -> set[tuple[str, object]]:
    """New traces, once 10 s have not taken them away: other tests, which kill executors, leave some for a moment."""
    end = time.monotonic() + 10
    while (left := traces() - before) and time.monotonic() < end:
        time.sleep(0.2)
    return left


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that only this user may enter, with somebody else's submission in it."""
    folder = tmp_path_factory.mktemp("closed")
    folder.chmod(0o700)
    (folder / "submission.csv").write_text("somebody else's\n")
    return folder


@pytest.fixture(scope="module", params=[*TIERS, EARLY])
def futures(request, competition: Competition, closed: Path) -> Iterator[dict[str, Future[ExecutionResult]]]:
    """The results of all programs, run side by side; afterwards nothing is left of them."""
    tier, early, _ = request.param.partition(" of ")
    folder = competition.public_dir.parent
    before, before_folder, descriptors = traces(), contents(folder), psutil.Process().num_fds()
    limits = {"memory_mb": 512, "disk_mb": 64, "submission_mb": 8, "output_kb": 64, "max_processes": 64}
    unix = Path(f"/tmp/trl_mle-test-{os.getpid()}")
    with (
        early_landlock(1) if early else contextlib.nullcontext(),
        LocalExecutor(max_parallel=3, timeout_s=3, sandbox=tier, **limits) as executor,
        executor._runner.inputs.use(load_competition("digits").public_dir) as other,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as in_folder,
    ):
        run_dir = executor._run_dir
        abstract.bind(f"\0{unix.name}")
        abstract.listen()
        in_folder.bind(str(unix))
        in_folder.listen()
        unix.chmod(0o777)
        values = {
            "other": load_competition("digits").public_dir, "copy": other.folder,
            "private": folder / "private", "caller": os.getpid(), "port": server.getsockname()[1],
            "abstract": unix.name, "unix": unix, "closed": closed,
            "venv": sys.prefix.split("/")[1], "base": sys.base_prefix.split("/")[1],
        }  # fmt: skip

        def submit(name):
            program = re.sub("@([a-z]+)@", lambda match: str(values[match[1]]), hostile(name))
            return executor.submit(program, competition)

        lasting = [name for name in PROGRAMS if re.search(LASTING, hostile(name), re.MULTILINE)]
        submitted = {name: submit(name) for name in lasting}
        wait(submitted.values())
        executor.timeout_s = 15
        submitted |= {name: submit(name) for name in PROGRAMS if name not in lasting}
        yield submitted | {"tier": tier, "submit": submit}
        unix.unlink()
    assert not run_dir.exists()
    assert not left_since(before)
    assert contents(folder) == before_folder
    assert psutil.Process().num_fds() <= descriptors


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_program_gets_nothing(futures, name):
    result = futures[name].result()
    text = hostile(name)
    ends = dict(
        ([tier.strip() for tier in reversed(part.split(":"))] if ":" in part else (part.strip(), "any"))[::-1]
        for part in re.search("^# ends: (.*)$", text, re.MULTILINE)[1].split(";")
    )
    expected = ends.get(futures["tier"], ends["any"]).split(", ")
    if result.outcome is Outcome.TIMEOUT and "timeout" not in expected:  # others had the cores
        result = futures["submit"](name).result()
    seen = f"{result.outcome} ({result.detail})\n{result.stdout}\n{result.stderr}"
    assert result.outcome in expected, seen
    assert "LOOT" not in result.stdout, seen
    assert "failed " in result.stdout or text.count("attempt(") == 1, seen  # of the prelude
    assert "Traceback" not in result.stderr or result.outcome is not Outcome.OK, seen
    if submission := re.search("^# submission: (.*)$", text, re.MULTILINE):
        assert (result.submission or b"none").decode().strip() == submission[1]


PLACES = [
    "share/tool/venv/lib/python3.11/site-packages",
    "pipx/venvs/tool/lib64/python3.14/site-packages",
    "src/app/.venv/lib/pypy3.11/site-packages",
    "local/lib/python3/dist-packages",
    "share/many-packages/target",  # of `pip install --target`
    "a/b/c/d/e/f/g/h/i",
]


@pytest.mark.parametrize("sandbox", TIERS)
def test_labels_are_hidden_in_other_environments_wherever_they_lie(competition, tmp_path, sandbox):
    own, packages = tmp_path / "own", sysconfig.get_paths()["purelib"]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    path = next(own.glob("lib/python3*/site-packages")) / "others.pth"
    path.write_text(f"import site; site.addsitedir({packages!r})\n")
    labels = ["sklearn/datasets/data/wine_data.csv", "trl_mle/competitions/mirrors/making.py"]
    files = {f"{place}/{name}": "label" for place in [*PLACES, "share/store"] for name in labels}
    files |= {"opt/conda/conda-meta/history": "", "opt/conda/pkgs/scikit-learn.conda": "label"}
    files |= {f"{place}/seen.txt": "seen" for place in PLACES}
    write_files(own, files)
    (own / "share/store/sklearn/datasets").rename(own / "share/datasets")
    (own / "share/store/sklearn/datasets").symlink_to(own / "share/datasets")
    others = f"""
attempt("link", lambda: open("{own}/share/store/{labels[0]}").read())
for place in {PLACES}:
    print(open("{own}/" + place + "/seen.txt").read())
"""
    python = str(own / "bin/python")
    program = hostile("labels_in_other_environments") + others
    [result] = run_all(competition, program, sandbox=sandbox, python=python)
    assert [result.stdout.count(word) for word in ("LOOT", "failed ", "seen")] == [0, 2, len(PLACES)], result


NEIGHBOUR = """
import time
open("submission.csv", "w").write("unfinished")
print("begun", flush=True)
time.sleep(2)
open("submission.csv", "w").write("honest")
"""
SEARCH = """
import glob
own = ("/proc/self/", "/proc/thread-self/", f"/proc/{os.getpid()}/")
for pattern in ("/tmp/*/*/work/*", "RUN_DIR/*/work/*", "RUN_DIR/*", "/proc/*/cwd/*.csv"):
    attempt(pattern, lambda: [open(path).read() for path in glob.glob(pattern) if not path.startswith(own)] or 1 / 0)
own = os.getcwd()
with suppress(OSError):
    os.rename(own, own + "-old")
    os.symlink("WORK", own)
    print("swapped")
"""


@pytest.mark.parametrize("sandbox", [*TIERS, "none"])
def test_programs_get_nothing_from_another_executors_and_do_not_hand_it_in(competition, sandbox):
    options = {"max_parallel": 2, "timeout_s": 60, "sandbox": sandbox, "packages": ()}
    with LocalExecutor(**options) as other, LocalExecutor(**options) as executor:
        victim = other.submit(NEIGHBOUR, competition)
        work = Path("/sandbox/work")  # with bubblewrap, it lies in no folder of this machine
        if sandbox != "bubblewrap":
            while not (submissions := list(other._run_dir.glob("*/work/submission.csv"))):
                assert not victim.done()
                time.sleep(0.05)
            work = submissions[0].parent
        program = PRELUDE + SEARCH.replace("RUN_DIR", str(other._run_dir)).replace("WORK", str(work))
        [result] = executor.run_many([(program, competition)])
        assert (result.outcome, result.submission) == (Outcome.OK, None), result
        assert ("swapped" in result.stdout) == (sandbox == "none")
        if sandbox != "none":
            assert "LOOT" not in result.stdout, result
            assert result.stdout.count("failed ") == 4, result
        assert victim.result().submission == b"honest", victim.result()


WITHOUT_LANDLOCK = """
how = (ctypes.c_uint64 * 3)(os.O_TRUNC, 0, 0)
for name in ("input/train.csv", "input/sample_submission.csv"):
    attempt("truncate " + name, lambda: os.truncate(name, 0))
    attempt("O_TRUNC " + name, lambda: os.open(name, os.O_RDONLY | os.O_TRUNC))
    attempt("openat2 " + name, lambda: checked(libc.syscall(437, -100, os.path.abspath(name).encode(), how, 24)))
attempt("for ioctl alone", lambda: fcntl.ioctl(os.open("/dev/ptmx", os.O_ACCMODE), 0x80045430, bytearray(4)))
attempt("kill", lambda: os.kill(os.getppid(), 0))
attempt("thread", lambda: checked(libc.syscall(234, os.getppid(), os.getppid(), 0)))  # tgkill
attempt("trace", lambda: open(f"/proc/{os.getppid()}/mem"))
os.mkdir("below")
open("below/file", "w").close()
try:
    os.rename("below/file", "file")
    print("moves")
except OSError as error:
    print(error.strerror)
os.rename("below/file", "below/other") if os.path.exists("below/file") else None
print(open("input/train.csv").readline().strip(), os.getresuid(), os.getresgid())
"""


@LANDLOCK
@AS_ROOT
@pytest.mark.parametrize("abi", [1, pytest.param(2, marks=pytest.mark.slow), 6])
def test_the_filter_and_uids_do_what_early_landlock_does_not(competition, abi):
    """The data are everybody's to write, as on some network disks: nothing but the sandbox protects them."""
    public = competition.public_dir
    before, modes = contents(public), {path: path.stat().st_mode for path in (public, *public.iterdir())}
    try:
        for path in modes:
            path.chmod(0o777)
        with early_landlock(abi):
            [result] = run_all(competition, PRELUDE + WITHOUT_LANDLOCK, sandbox="landlock")
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    seen = f"{result.outcome} ({result.detail})\n{result.stdout}\n{result.stderr}"
    assert result.outcome is Outcome.OK, seen
    assert "LOOT" not in result.stdout, seen
    assert result.stdout.count("failed ") == 10, seen
    assert ("Invalid cross-device link" if abi == 1 else "moves") in result.stdout.splitlines(), seen
    uid = str(re.search(r"\((\d+), \1, \1\) \(\1, \1, \1\)$", result.stdout.strip())[1])
    assert int(uid) >= FIRST_GUARD_UID, seen
    assert contents(public) == before


@LANDLOCK
@AS_ROOT
def test_no_program_ends_another_where_landlock_scopes_no_signals(competition):
    """`kill(-1)`, of an init or a program, reaches no other program and no init."""
    programs = [
        "import time\ntime.sleep(0.5)\nprint('whole')",
        "import os, signal\nos.kill(-1, signal.SIGKILL)\nprint('whole')",
        "import os\nfor _ in range(50): os.fork()",
    ] * 3
    with early_landlock(1):
        options = {"max_parallel": 4, "timeout_s": 3, "max_processes": 64, "sandbox": "landlock"}
        results = run_all(competition, *programs, **options)
    for result in (*results[::3], *results[1::3]):
        assert (result.outcome, result.stdout) == (Outcome.OK, "whole\n"), result
    assert all(result.outcome is not Outcome.INFRASTRUCTURE for result in results), results


@pytest.mark.parametrize("sandbox", TIERS)
def test_disk_and_memory_are_bounded_without_control_groups(competition, sandbox, monkeypatch):
    monkeypatch.setattr("trl_mle.execution.cgroups.parents", list)
    disk = [name for name in PROGRAMS if re.match("disk_(mapped|in_flight|of_|without)", name)]
    ends = {name: ["error", "output_limit"] for name in disk}
    ends |= {"memory_shared": ["error"], "memory_in_sockets": ["out_of_memory"], "locks_without_end": ["killed"]}
    if sandbox == "bubblewrap":
        ends["memory_on_the_way"] = ["out_of_memory"]
    programs = [hostile(name) for name in ends]
    options = {"timeout_s": 20, "memory_mb": 512, "disk_mb": 64, "sandbox": sandbox}
    results = run_all(competition, *programs, max_parallel=2, **options)
    assert len(disk) == 5
    for name, result in zip(ends, results, strict=True):
        assert result.outcome in ends[name], (name, result)
        assert "LOOT" not in result.stdout, name


@pytest.mark.slow
@pytest.mark.skipif(not cgroups.parents(), reason="no control group can be made here")
@pytest.mark.parametrize("sandbox", TIERS)
def test_files_are_no_part_of_the_memory_that_a_group_counts(competition, sandbox):
    """Shared memory beyond `memory_mb`, which no process shows, is seen, though a group could hold it."""
    shared = hostile("memory_shared").replace("time.sleep(3)", "time.sleep(15)")
    files = """
import os, time
with open("x", "wb") as file:
    for _ in range(70):
        file.write(b"x" * (10 << 20))
time.sleep(4)
os.remove("x")
time.sleep(1)
"""
    options = {"max_parallel": 2, "memory_mb": 512, "disk_mb": 4096, "sandbox": sandbox}
    of_shared, of_files = run_all(competition, shared, files, timeout_s=20, **options)
    if sandbox == "bubblewrap":
        assert of_shared.detail == "its processes held more than 512 MB", of_shared
    assert of_files.outcome is Outcome.OK, of_files


# Makes the interpreter's home, which may be root's alone, one that everybody may walk through, in a mount namespace
AS_PLAIN_USER = """
mount --make-rprivate /
mount --bind "$1" /mnt
mount -t tmpfs -o mode=755 none "$2"
mkdir -p "$1"
mount --bind /mnt "$1"
umount /mnt
shift 2
exec setpriv --reuid=61234 --regid=61234 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_programs_of_a_plain_user_get_nothing(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("all tests are a plain user's")
    base, checkout = Path(sys.base_prefix), Path(__file__).parents[2]
    folders = [folder for folder in base.parents if not folder.stat().st_mode & 1]
    if not folders or not os.access("/mnt", os.W_OK):
        pytest.skip("any user can reach this interpreter: run the tests as a plain user instead")
    home = Path("/tmp") / f"trl_mle-test-plain-{os.getpid()}"
    home.mkdir()
    try:
        for name in ("tests", "trl_mle"):
            shutil.copytree(checkout / name, home / name)
        shutil.copy(checkout / "pyproject.toml", home)
        subprocess.run(["chown", "-R", "61234:61234", str(home)], check=True)
        command = ["unshare", "--mount", "sh", "-ec", AS_PLAIN_USER, "sh", str(base), str(folders[-1])]
        command += [sys.executable, "-m", "pytest", "-q", "tests/execution/test_hostile_programs.py"]
        environment = {"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(home), "LANG": "C.UTF-8"}
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


# The promise: two seconds and a tenth of the timeout.
@pytest.mark.slow
@pytest.mark.parametrize("sandbox", TIERS)
def test_timeouts_are_kept_beside_fork_bombs_and_load(competition, sandbox):
    timeout_s = 8
    begin = "import time\nprint(time.monotonic(), flush=True)\n"
    ended: dict[Future, float] = {}
    with LocalExecutor(max_parallel=4, timeout_s=timeout_s, sandbox=sandbox) as executor:
        executor.run_many([("pass", competition)])
        load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(20)]
        try:
            programs = [hostile("fork_bomb"), hostile("fork_bomb"), "while True: pass"]
            late = [executor.submit(begin + program, competition) for program in programs]
            for future in late:
                future.add_done_callback(lambda future: ended.setdefault(future, time.monotonic()))
            time.sleep(timeout_s / 2)  # the bombs are as large as they get
            neighbour = executor.submit("print('fine')", competition)
            results = [future.result() for future in late]
            assert neighbour.result().outcome is Outcome.OK, neighbour.result()
        finally:
            for process in load:
                process.kill()
                process.wait()
    assert [result.outcome for result in results] == [Outcome.TIMEOUT] * 3
    after = [ended[future] - float(result.stdout.split()[0]) for future, result in zip(late, results, strict=True)]
    # 10 s on idle cores, 17 beside other tests; a watch that fork bombs can starve took more than 30
    assert max(after) <= 3 * timeout_s
