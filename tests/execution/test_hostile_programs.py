"""What a program must not be able to do. Each tries several ways and prints LOOT for what it got."""

import socket
import sys
import time

import psutil
import pytest

from trl_mle.execution import LocalExecutor, Outcome


TRY = """
import os, glob
def attempt(name, action):
    try:
        got = action()
    except Exception as error:
        print("failed", name, type(error).__name__)
    else:
        print("LOOT", name, got)
"""


def run(executor, competition, program, **values):
    for name, value in values.items():
        program = program.replace(f"@{name}@", str(value))
    return executor.run_many([(TRY + program, competition)])[0]


def test_labels_are_out_of_reach(executor, competition):
    result = run(
        executor,
        competition,
        """
attempt("absolute path", lambda: open("@private@/test.csv").read())
attempt("parent of input", lambda: open("input/../private/test.csv").read())
attempt("parent of the bind", lambda: open("/sandbox/private/test.csv").read())
attempt("root of pid 1", lambda: os.listdir("/proc/1/root/@private@"))
attempt("cwd of pid 1", lambda: os.listdir("/proc/1/cwd"))
def link():
    os.symlink("@private@/test.csv", "link")
    return open("link").read()
attempt("link", link)
attempt("the data's source", lambda: __import__("sklearn.datasets").datasets.load_wine())
def submission_link():
    os.symlink("@private@/test.csv", "submission.csv")
    raise RuntimeError
attempt("submission", submission_link)
""",
        private=competition.public_dir.parent / "private",
    )
    assert result.outcome is Outcome.OK
    assert "LOOT" not in result.stdout, result.stdout
    assert result.stdout.count("failed") == 8
    assert result.submission is None


def test_a_search_finds_no_labels(competition):
    with LocalExecutor(max_parallel=1, timeout_s=60, memory_mb=1024) as executor:
        result = run(
            executor,
            competition,
            """
def found():
    hits = [path for folder in set(os.listdir("/")) - {"proc", "usr", "@venv@", "@base@"}
            for top, _, names in os.walk("/" + folder) for name in names if name in ("test.csv", "answers.csv")
            for path in [os.path.join(top, name)] if path != "/sandbox/input/test.csv" and "work/input" not in path]
    assert hits
    return hits
attempt("search", found)
""",
            venv=sys.prefix.split("/")[1],
            base=sys.base_prefix.split("/")[1],
        )
    assert result.outcome is Outcome.OK
    assert result.stdout.startswith("failed search AssertionError"), result.stdout


def test_network_is_out_of_reach(executor, competition):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0trl_mle-test")
        abstract.listen()
        result = run(
            executor,
            competition,
            """
import socket, urllib.request
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", @port@), 1))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53)))
attempt("tcp6", lambda: socket.create_connection(("::1", @port@), 1))
attempt("dns", lambda: socket.getaddrinfo("example.com", 80))
attempt("http", lambda: urllib.request.urlopen("http://127.0.0.1:@port@", timeout=1))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt("abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\\0trl_mle-test"))
""",
            port=server.getsockname()[1],
        )
    assert result.outcome is Outcome.OK
    assert "LOOT" not in result.stdout, result.stdout
    assert result.stdout.count("failed") == 7


def test_the_callers_environment_and_memory_are_out_of_reach(executor, competition):
    result = run(
        executor,
        competition,
        """
def environments():
    seen = [dict(os.environ)] + [open(path, "rb").read() for path in glob.glob("/proc/[0-9]*/environ")
                                 if os.access(path, os.R_OK)]
    assert "hf_secret" in str(seen)
    return seen
attempt("environment", environments)
attempt("memory of pid 1", lambda: open("/proc/1/mem", "rb").read(1))
attempt("descriptors of pid 1", lambda: os.listdir("/proc/1/fd"))
attempt("ptrace", lambda: 1 / (__import__("ctypes").CDLL(None).ptrace(16, 1, 0, 0) + 1))
attempt("open descriptors", lambda: {}[str([fd for fd in os.listdir("/proc/self/fd") if int(fd) > 3]) == "x"])
attempt("host processes", lambda: [pid for pid in os.listdir("/proc") if pid.isdigit()][2])
attempt("shadow", lambda: open("/etc/shadow").read())
""",
    )
    assert result.outcome is Outcome.OK
    assert "LOOT" not in result.stdout, result.stdout


def test_pid_1_cannot_be_signalled_or_limited(executor, competition):
    result = run(
        executor,
        competition,
        """
import resource, signal, time
attempt("prlimit", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
attempt("affinity", lambda: os.sched_setaffinity(0, range(os.cpu_count())))
attempt("more memory", lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2))
attempt("uid 0", lambda: os.setuid(0))
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
    os.kill(1, number)
time.sleep(0.2)
print("alive")
""",
    )
    assert result.outcome is Outcome.OK
    assert "LOOT" not in result.stdout, result.stdout
    assert "alive" in result.stdout


def test_the_data_and_the_system_are_read_only(executor, competition):
    before = {path.name: path.read_bytes() for path in competition.public_dir.iterdir()}
    result = run(
        executor,
        competition,
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def must(code):
    if code != 0:
        raise OSError(ctypes.get_errno())
attempt("overwrite", lambda: open("input/train.csv", "w"))
attempt("new file", lambda: open("input/new", "w"))
attempt("remove", lambda: os.remove("input/train.csv"))
attempt("rename", lambda: os.rename("input", "other"))
attempt("chmod", lambda: os.chmod("input/train.csv", 0o777))
attempt("source of the bind", lambda: open("/sandbox/input/train.csv", "w"))
attempt("remount", lambda: must(libc.mount(b"none", b"/sandbox/work/input", None, 0x1020, None)))
attempt("unmount", lambda: must(libc.umount2(b"/sandbox/work/input", 2)))
attempt("unshare", lambda: must(libc.unshare(0x10020000)))
attempt("site-packages", lambda: open(os.path.dirname(__import__("numpy").__file__) + "/x", "w"))
attempt("root", lambda: open("/x", "w"))
attempt("dev", lambda: open("/dev/x", "w"))
attempt("sysctl", lambda: open("/proc/sys/kernel/hostname", "w"))
attempt("mknod", lambda: os.mknod("disk", 0o60600, os.makedev(254, 0)))
attempt("chroot", lambda: os.chroot("/tmp"))
""",
    )
    assert result.outcome is Outcome.OK
    assert "LOOT" not in result.stdout, result.stdout
    assert result.stdout.count("failed") == 15
    assert {path.name: path.read_bytes() for path in competition.public_dir.iterdir()} == before


@pytest.mark.parametrize(
    ("ending", "outcome"), [("time.sleep(60)", Outcome.TIMEOUT), ("", Outcome.OK), ("os._exit(1)", Outcome.ERROR)]
)
def test_no_process_outlives_its_program(executor, competition, ending, outcome):
    """A daemon with setsid and double fork, which ignores every signal and keeps stdout open."""
    executor.run_many([("pass", competition)])
    [zygote] = executor._zygotes.values()
    before = len(psutil.Process(zygote.process.pid).children(recursive=True))
    result = run(
        executor,
        competition,
        f"""
import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.1)
    os._exit(0)
{ending}
""",
    )
    assert result.outcome is outcome
    deadline = time.monotonic() + 5
    while len(psutil.Process(zygote.process.pid).children(recursive=True)) > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_memory_outside_of_every_count_is_refused(executor, competition):
    result = run(
        executor,
        competition,
        """
import ctypes
attempt("memfd", lambda: os.memfd_create("x"))
attempt("shmget", lambda: {}[ctypes.CDLL(None).shmget(0, 1 << 30, 0o1600)])
print(open("/proc/self/oom_score_adj").read())
""",
    )
    assert "LOOT" not in result.stdout
    assert result.stdout.count("failed") == 2
    assert result.stdout.split()[-1] == "1000"


def test_disk_and_inodes_are_bounded_and_gone(executor, competition):
    fill = """
def flood(folder):
    for i in range(1000):
        with open(f"{folder}/{i}", "wb") as file:
            file.write(b"x" * (1 << 20))
    return "unbounded"
for folder in (".", "/tmp", "/dev/shm"):
    attempt(folder, lambda: flood(folder))
def files():
    for i in range(200_000):
        os.mkdir(f"/tmp/d{i}")
    return "unbounded"
attempt("inodes", files)
print(sorted(os.listdir("/tmp"))[:1], len(os.listdir("/dev/shm")))
"""
    first = run(executor, competition, fill)
    assert first.outcome is Outcome.OK
    assert "LOOT" not in first.stdout, first.stdout
    # The next program finds everything empty.
    second = run(executor, competition, "print(os.listdir('/tmp'), os.listdir('/dev/shm'), sorted(os.listdir('.')))")
    assert second.stdout == "[] [] ['input', 'solution.py']\n"


@pytest.mark.parametrize("hide", ["", "__import__('ctypes').CDLL(None).prctl(4, 0)"], ids=["seen", "undumpable"])
def test_memory_is_bounded_over_all_processes(competition, hide):
    with LocalExecutor(max_parallel=1, timeout_s=60, memory_mb=1024) as executor:
        result = run(
            executor,
            competition,
            """
import time
for _ in range(8):
    if os.fork() == 0:
        @hide@
        x = b"x" * (256 << 20)  # within the limit of one process
        time.sleep(60)
time.sleep(60)
""",
            hide=hide or "pass",
        )
    assert result.outcome is Outcome.OUT_OF_MEMORY
    assert "its processes held more than 1024 MB" in result.detail


def test_a_fork_bomb_is_bounded_and_does_not_starve_its_neighbour(executor, competition):
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    bystander = "import subprocess, sys, time\ntime.sleep(1)\nprint(subprocess.run([sys.executable, '-c', 'print(1)']).returncode)"
    first, second = executor.run_many([(bomb, competition), (bystander, competition)])
    assert first.outcome in (Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY)
    assert (second.outcome, second.stdout.split()[-1]) == (Outcome.OK, "0")


@pytest.mark.parametrize(
    "make",
    [
        "os.symlink('/etc/ld.so.cache', 'submission.csv')",
        "os.link('solution.py', 'submission.csv')",
        "os.mkfifo('submission.csv')",
        "os.mkdir('submission.csv')",
        "__import__('socket').socket(1).bind('submission.csv')",
    ],
)
def test_only_a_regular_file_is_taken_as_submission(executor, competition, make):
    result = run(executor, competition, make)
    assert result.submission is None
    assert "submission.csv" in result.detail


def test_the_report_cannot_be_forged(executor, competition):
    result = run(
        executor,
        competition,
        """
import json, struct
report = json.dumps({"reason": "exit", "exit_code": 0, "duration_s": 1e-9, "has_submission": True}).encode()
for fd in range(3, 1024):
    try:
        os.write(fd, struct.pack("=I", len(report)) + report + b"id,cultivar")
    except OSError:
        pass
os._exit(1)
""",
    )
    assert result.outcome is Outcome.ERROR
    assert result.submission is None
    assert result.duration_s > 1e-4
