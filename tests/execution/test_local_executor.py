import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.tiers import LANDLOCK, TIERS, run_all

from trl_mle.competitions import load_competition
from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome, ProgramFuture, SandboxError
from trl_mle.execution.sandbox import CheckUnfinished
from trl_mle.execution.sandbox.interpreter import Interpreter
from trl_mle.execution.sandbox.landlock import Landlock
from trl_mle.execution.sandbox.tier import FIRST_SLOT_UID
from trl_mle.execution.slots import Slots
from trl_mle.execution.warm_parent import WarmParents
from trl_mle.instrumentation import AstInstrumenter


SOLUTION = "import shutil; shutil.copy('input/sample_submission.csv', 'submission.csv')\n"


def run(executor, competition, program) -> ExecutionResult:
    return executor.run_many([(program, competition)])[0]


@pytest.mark.parametrize(
    ("program", "outcome", "exit_code", "detail"),
    [
        ("print('no submission')", Outcome.OK, 0, ""),
        ("import sys; sys.exit(3)", Outcome.ERROR, 3, "exit code 3"),
        ("raise SystemExit('a message')", Outcome.ERROR, 1, "a message"),
        ("1 / 0", Outcome.ERROR, 1, "ZeroDivisionError"),
        ("def f(:", Outcome.ERROR, 1, "SyntaxError"),
        ("x = '\ud800'", Outcome.ERROR, 1, "UnicodeEncodeError"),
        ("import time; time.sleep(60)", Outcome.TIMEOUT, -9, "still running after 5 s"),
        ("import numpy; numpy.ones(10**11)", Outcome.OUT_OF_MEMORY, 1, "Unable to allocate"),
        ("import os; os.kill(os.getpid(), 9)", Outcome.KILLED, -9, "SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", Outcome.KILLED, -40, "signal 40"),
        ("import os; os._exit(137)", Outcome.ERROR, 137, "exit code 137"),
        ("import sys; sys.exit(2**70)", Outcome.ERROR, 255, "exit code 255"),
        ("import sys; sys.stderr = None; del sys.stdout", Outcome.OK, 0, ""),
        ("import sys; sys.excepthook = None; raise ValueError('its own')", Outcome.ERROR, 1, "ValueError: its own"),
    ],
)
def test_every_end_has_its_outcome(executor, competition, program, outcome, exit_code, detail):
    result = run(executor, competition, program)
    assert (result.outcome, result.exit_code) == (outcome, exit_code)
    assert detail in result.detail
    assert result.duration_s is not None


@pytest.mark.parametrize(
    "code",
    [
        "import pandas as pd; pd.read_csv('input/sample_submission.csv').to_csv(NAME, index=False)",
        "me = [open(NAME, 'w')]; me.append(me); me[0].write(TEXT); del me",  # left open
        "import os, sys; os.close(0); file = open(NAME, 'w'); file.write(TEXT); sys.exit()",
    ],
)
def test_a_submission_comes_back_whole(executor, competition, code):
    program = "NAME = 'submission.csv'\nTEXT = open('input/sample_submission.csv').read()\n" + code
    result = run(executor, competition, program)
    assert result.outcome is Outcome.OK
    assert competition.grade(result.submission).valid


def test_checks_wait_for_no_program_and_are_not_bounded_by_the_timeout_of_programs(competition, monkeypatch):
    """Other programs of this user have all slots, for as long as they like."""
    monkeypatch.setattr("trl_mle.execution.local_executor._PROVEN", {})
    with Slots(1, 1).take(threading.Event()), LocalExecutor(max_parallel=1, timeout_s=0.001, packages=()) as executor:
        assert "numpy" in executor.limits.packages
        executor.check(competition)


def test_duration_is_the_programs_own_time(executor, competition):
    # Four programs on two slots: the last two wait for the first two, but their Δt does not include that.
    results = executor.run_many([("import time; time.sleep(1)", competition)] * 4)
    assert all(1 <= result.duration_s < 2 for result in results)
    assert max(result.queue_wait_s for result in results) >= 1


def test_cpu_time_and_memory_are_counted_over_all_processes(executor, competition):
    busy = "import os, time\nif os.fork() == 0:\n    while time.process_time() < 0.2: pass\n"
    result = run(executor, competition, busy + "    os._exit(0)\nos.wait()\nx = bytearray(200 << 20)")
    assert result.cpu_s >= 0.2
    assert result.max_rss_mb > 200


def test_equal_programs_do_equal_things(executor, competition):
    program = "import random, numpy\nprint(random.random(), numpy.random.rand(), hash('x'))"
    results = executor.run_many([(text, competition) for text in (program, program, program + "\n# another")])
    first, second, other = (result.stdout for result in results)
    assert first == second
    assert first != other


def test_a_program_runs_as_with_pythons_own_command(executor, competition):
    """It is the main module of a file, may change its priority, and ends with its threads and what it registered."""
    program = """
import atexit, inspect, multiprocessing, os, subprocess, sys, threading, time
def double(x):
    return 2 * x
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [21]), sys.argv, inspect.getsource(double).count("return"))
    print(hasattr(__builtins__, "open"))
    print(subprocess.run(["head", "-c", "1"], input=b"x" * 10**6, stdout=subprocess.PIPE).stdout)
    os.nice(1)
    os._exit = lambda code: None  # once, the process went on with the code of its supervisor
    atexit.register(lambda: print("atexit"))
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
"""
    result = run(executor, competition, program)
    assert result.stdout == "[42] ['/sandbox/work/solution.py'] 1\nTrue\nb'x'\nthread\natexit\n", result.stderr
    assert (result.outcome, result.stderr) == (Outcome.OK, "")


@pytest.mark.parametrize("sandbox", TIERS)
def test_where_tmp_is_full_a_program_is_not_to_blame(competition, monkeypatch, sandbox):
    """That it is full is pretended: filling a file system takes one of its own."""
    is_ours = sandbox == "landlock"  # with bubblewrap, programs have a file system of their own
    full, fails = shutil.disk_usage("/tmp")._replace(free=0), "raise OSError(28, 'No space left on device')"
    with LocalExecutor(sandbox=sandbox, max_parallel=1, packages=()) as executor:
        run(executor, competition, "")
        monkeypatch.setattr("shutil.disk_usage", lambda path: full)
        fine, failed = executor.run_many([("print(1)", competition), (fails, competition)])
        left = [1024 << 20, 0]  # of a program that filled it itself
        monkeypatch.setattr("shutil.disk_usage", lambda path: full._replace(free=left.pop()))
        its_own = run(executor, competition, fails)
    assert failed.outcome is (Outcome.INFRASTRUCTURE if is_ours else Outcome.ERROR)
    assert ("/tmp is full" in failed.detail) == is_ours
    assert (fine.outcome, its_own.outcome) == (Outcome.OK, Outcome.ERROR)


def test_tracebacks_and_the_file_show_the_original_of_an_instrumented_program(executor, competition):
    original = """import pandas as pd
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
print(open("solution.py").read())
def broken():
    raise ValueError("here")
broken()
"""
    program = AstInstrumenter().instrument(original)
    result = run(executor, competition, program)
    assert program.reached(result.stdout) == {"imports", "train_data", "test_data"}
    assert original in result.stdout
    assert 'solution.py", line 6, in broken\n    raise ValueError("here")' in result.stderr
    assert program.nonce not in result.stderr


CLOSES = """
import io, shutil, sys
import pandas as pd
def show(text):
    out = io.TextIOWrapper(sys.stdout.buffer)  # closes the output when the function ends
    print(text, file=out)
show("shown")
train = pd.read_csv("input/train.csv")
shutil.copy("input/sample_submission.csv", "submission.csv")
"""


def test_milestone_prints_do_not_fail_a_program_that_has_closed_its_output(executor, competition):
    program = AstInstrumenter().instrument(CLOSES)
    assert "train_data" in program.milestones
    result = run(executor, competition, program)
    assert (result.outcome, result.stdout.splitlines()[-1]) == (Outcome.OK, "shown"), result.stderr
    assert competition.grade(result.submission).valid
    assert program.reached(result.stdout) == {"imports"}


def test_memory_that_processes_share_counts_once(competition):
    program = """
import os, time
block = bytearray(b"x") * (128 << 20)
for _ in range(6):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
for _ in range(6):
    os.wait()
"""
    assert run_all(competition, program, memory_mb=512)[0].outcome is Outcome.OK


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start a process of another user")
@pytest.mark.parametrize("sandbox", TIERS)
def test_processes_of_a_user_with_a_programs_uid_are_spared(competition, sandbox):
    service = subprocess.Popen(["sleep", "60"], user=FIRST_SLOT_UID, group=FIRST_SLOT_UID, extra_groups=[])
    try:
        kill = f"import os, signal\nos.kill(-1, signal.SIGKILL)\nos.kill({service.pid}, signal.SIGKILL)"
        assert run_all(competition, kill, sandbox=sandbox)[0].outcome is not Outcome.OK
        assert service.poll() is None
    finally:
        service.kill()
        service.wait()


@pytest.mark.parametrize("sandbox", [*TIERS, "none"])
def test_labels_where_programs_can_read_are_refused(competition, monkeypatch, sandbox):
    with LocalExecutor(max_parallel=1, sandbox=sandbox, packages=()) as executor:
        monkeypatch.setattr(Interpreter, "folders", [str(competition.public_dir.parents[1])])
        if sandbox == "none":  # every program can read them anyway
            return executor.check(competition)
        for ask in (executor.check, lambda competition: executor.submit("pass", competition)):
            with pytest.raises(SandboxError, match="TRL_MLE_CACHE"):
                ask(competition)


@LANDLOCK
def test_the_next_tier_is_taken_where_bubblewrap_does_not_work(monkeypatch, caplog):
    monkeypatch.setattr("trl_mle.execution.sandbox.bubblewrap.shutil.which", lambda name: None)
    with LocalExecutor(max_parallel=1, packages=()) as executor:
        assert executor.tier.name == "landlock"
    assert "because a stronger tier does not work: bubblewrap: bubblewrap is missing" in caplog.text


def test_a_machine_without_isolation_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("trl_mle.execution.inside.kernel.landlock_abi", lambda: 0)
    with pytest.raises(SandboxError, match=r"bubblewrap is missing.*no Landlock.*apt-get install bubblewrap"):
        LocalExecutor()
    monkeypatch.setattr("trl_mle.execution.inside.kernel.landlock_abi", lambda: 4)
    monkeypatch.setattr("os.geteuid", lambda: 1000)  # a plain user needs a Landlock that scopes signals
    with pytest.raises(SandboxError, match="ABI 4, and 6 is needed"):
        Landlock().check_available()


def test_a_sandbox_that_does_not_isolate_is_refused(monkeypatch):
    monkeypatch.setattr("trl_mle.execution.sandbox.probe.PROBE", "print('network'); print('checked')")
    with pytest.raises(SandboxError, match="network checked"):
        LocalExecutor(sandbox="bubblewrap", packages=())


def test_a_check_that_does_not_end_is_no_reason_for_a_weaker_tier(monkeypatch):
    monkeypatch.setattr("trl_mle.execution.warm_parent.START_TIMEOUT_S", 0.001)
    with pytest.raises(CheckUnfinished, match=r"did not start within .* Try again when this machine is less busy$"):
        LocalExecutor(max_parallel=1, packages=())


def test_a_program_runs_from_when_it_has_its_slot(competition):
    with (
        LocalExecutor(max_parallel=1, timeout_s=30, packages=()) as executor,
        LocalExecutor(max_parallel=1, timeout_s=30, packages=()) as another,  # another process's: it shares the slot
    ):
        first = executor.submit("import time; time.sleep(2)", competition)
        while not first.running():
            time.sleep(0.01)
        second, third = another.submit("print('second')", competition), another.submit("print('third')", competition)
        time.sleep(0.2)
        assert not second.running()
        assert third.cancel()
        assert second.result(timeout=20).queue_wait_s > 1
        assert first.done()


CALLER = """
import sys, time
from pathlib import Path
from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor, slots
slots.TMP = Path(sys.argv[1])
executor = LocalExecutor(max_parallel=1, timeout_s=300, packages=())
for seconds in (3, 300):
    executor.submit(f"import time; time.sleep({seconds})", load_competition("wine"))
print(executor._run_dir, flush=True)
time.sleep(300)
"""


@pytest.mark.slow
def test_a_caller_that_is_stopped_keeps_no_slot_and_killing_it_ends_its_programs(tmp_path, monkeypatch):
    monkeypatch.setattr("trl_mle.execution.slots.TMP", tmp_path)
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        run_dir = Path(caller.stdout.readline().strip())
        time.sleep(1)  # the first program runs
        caller.send_signal(signal.SIGSTOP)
        gave_up = threading.Event()
        threading.Timer(60, gave_up.set).start()
        with Slots(1, 1).take(gave_up):
            assert not gave_up.is_set()
        caller.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 20
        # the warm parent, and an init and the second program
        while len(family := psutil.Process(caller.pid).children(recursive=True)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        caller.kill()
        caller.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    with LocalExecutor(max_parallel=1) as other:  # the next executor cleans up, but not after live ones
        assert not run_dir.exists()
        with LocalExecutor(max_parallel=1):
            assert other._run_dir.exists()


class FakeParent:
    def __init__(self, bound):
        self.lock, self.users, self.process = threading.Lock(), 0, self

    def poll(self):
        return None

    def close(self):
        self.process = None


def test_warm_parents_of_large_competitions_make_room_for_each_other(monkeypatch):
    """The least recently used one ends first, but none that has a program."""
    monkeypatch.setattr("trl_mle.execution.warm_parent.MAX_WARM_PARENTS", 2)
    parents = WarmParents(FakeParent)
    for name in "abac":
        with parents.use(Path(name)):
            pass
    assert list(parents._running) == [Path("a"), Path("c")]
    with parents.use(Path("a")), parents.use(Path("c")), parents.use(Path("d")) as more:
        assert len(parents._running) == 3  # both others are in use
    parents.close()
    assert more.process is None
    with pytest.raises(SandboxError), parents.use(Path("a")):
        pass


def test_a_program_is_not_to_blame_where_its_data_are_taken_away(tmp_path, monkeypatch):
    """Grading still works: the answers were read at the start."""
    monkeypatch.setattr("trl_mle.execution.sandbox.inputs.MAX_COPIED_MB", 0)  # no program has a copy
    wine, folder = load_competition("wine"), tmp_path / "wine"
    shutil.copytree(wine.public_dir.parent, folder)
    competition = replace(wine, public_dir=folder / "public", answers=folder / "private" / "test.csv")
    with LocalExecutor(max_parallel=1, timeout_s=30, packages=()) as executor:
        submission = run(executor, competition, SOLUTION).submission
        score = competition.grade(submission)
        future = executor.submit("import time\ntime.sleep(2)\nopen('input/train.csv')", competition)
        time.sleep(1)
        shutil.rmtree(folder)
        for result in (future.result(), run(executor, competition, "print(1)")):
            assert result.outcome is Outcome.INFRASTRUCTURE
            assert "are not those that programs began with" in result.detail
    assert competition.grade(submission) == score


def family_of_the_only_program(executor: LocalExecutor) -> list[psutil.Process]:
    """Waits until it runs; returns its warm parent, its supervisor, and the program."""
    depth = 3 if executor.tier.namespaces else 2
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for warm_parent in list(executor._runner.warm_parents._running.values()):
            with contextlib.suppress(psutil.NoSuchProcess):  # the last program's are still ending
                parent = psutil.Process(warm_parent.process.pid)
                below = parent.children(recursive=True)
                if len(below) == depth:
                    time.sleep(0.5)  # the program may not have started yet, or have ended
                    if parent.children(recursive=True) == below:
                        return [parent, *below][-3:]
        time.sleep(0.05)
    raise AssertionError("no program runs")


def kill_supervisor(executor: LocalExecutor) -> psutil.Process:
    """Kills the supervisor of the only program, which no program can do; returns its warm parent."""
    parent, *others = family_of_the_only_program(executor)
    others[0].kill()
    psutil.wait_procs(others, timeout=5)
    return parent


def test_a_killed_warm_parent_is_an_infrastructure_failure_and_replaced(competition):
    with LocalExecutor(max_parallel=1, timeout_s=30, packages=()) as executor:
        future = executor.submit("import time; time.sleep(30)", competition)
        family_of_the_only_program(executor)[0].kill()  # which ends the others
        result = future.result(timeout=20)
        assert (result.outcome, result.duration_s) == (Outcome.INFRASTRUCTURE, None)
        assert "the program had started; the warm parent ended with " in result.detail
        assert run(executor, competition, "print('again')").stdout == "again\n"


@pytest.mark.parametrize("sandbox", TIERS)
def test_a_report_that_is_lost_twice_is_the_programs_failure_if_a_control_succeeds(competition, sandbox):
    with LocalExecutor(max_parallel=2, timeout_s=60, sandbox=sandbox, packages=()) as executor:
        future = executor.submit("import time\ntime.sleep(3)\nprint('done')", competition)
        kill_supervisor(executor)
        family_of_the_only_program(executor)
        once = future.result(timeout=100)
        future = executor.submit("import time\nprint('here', flush=True)\ntime.sleep(60)", competition)
        kill_supervisor(executor)
        kill_supervisor(executor)
        result = future.result(timeout=100)
        assert run(executor, competition, "print('again')").stdout == "again\n"
    assert (once.outcome, once.stdout) == (Outcome.OK, "done\n"), once.detail
    assert (result.outcome, result.stdout, result.submission) == (Outcome.KILLED, "here\n", None), result.detail
    assert result.detail.endswith("; a control program beside it: ok")
    assert 0.3 < result.duration_s < 10


def test_a_lost_report_is_our_failure_where_a_control_fails_too(competition, monkeypatch):
    monkeypatch.setattr("trl_mle.execution.runner.GRACE_S", 2.0)
    monkeypatch.setattr("trl_mle.execution.local_executor.GRACE_S", 2.0)
    with LocalExecutor(max_parallel=1, timeout_s=60, packages=()) as executor:
        future = executor.submit("import time\ntime.sleep(60)", competition)
        kill_supervisor(executor)
        warm_parent = kill_supervisor(executor)
        warm_parent.suspend()  # so that it starts nothing
        result = future.result(timeout=100)
        warm_parent.resume()
    assert (result.outcome, result.duration_s) == (Outcome.INFRASTRUCTURE, None)
    assert "a control program failed, too" in result.detail


@pytest.mark.parametrize("sandbox", TIERS)
def test_each_slot_has_its_gpu_and_programs_may_do_what_cuda_does_when_it_starts(competition, sandbox):
    """This needs no GPU: a program learns which one is its own, has a file in memory, and names a thread by /proc."""
    program = """
import ctypes, os, threading, time
os.memfd_create("cuda")
ended = threading.Event()
thread = threading.Thread(target=ended.wait)
thread.start()
name = ctypes.CDLL(None).pthread_setname_np
name.argtypes = [ctypes.c_ulong, ctypes.c_char_p]
named = name(thread.ident, b"cuda-EvtHandlr"), open(f"/proc/self/task/{thread.native_id}/comm").read().strip()
ended.set()
try:
    open("/proc/self/comm", "w")
except OSError:  # read-only, or denied
    time.sleep(0.5)
    print(os.environ["CUDA_VISIBLE_DEVICES"], *named)
"""
    results = run_all(competition, program, program, max_parallel=2, gpus=["3", "GPU-5f"], sandbox=sandbox)
    seen = sorted(result.stdout for result in results)
    assert seen == ["3 0 cuda-EvtHandlr\n", "GPU-5f 0 cuda-EvtHandlr\n"], results


@pytest.mark.slow  # takes names of files from the machine's memory, and slows it down for a moment
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_programs_keep_their_proc_when_memory_is_short(competition):
    look = "print(len(open('/proc/self/status').read()) > 0, flush=True)\n"
    with LocalExecutor(timeout_s=20, sandbox="landlock", packages=()) as executor:
        future = executor.submit(f"import time\n{look}time.sleep(3)\n{look}", competition)
        while not future.done():
            Path("/proc/sys/vm/drop_caches").write_text("2")
            time.sleep(0.5)
    assert future.result().stdout == "True\nTrue\n", future.result().stderr


def test_without_a_sandbox_the_limits_apply(competition):
    memory = "held = bytearray(600 << 20)"
    disk = "with open('large', 'wb') as file:\n    file.writelines(bytes(1 << 20) for _ in range(150))"
    processes = "import os, time\nfor _ in range(100):\n    os.fork() or time.sleep(30)"
    limits = {"memory_mb": 500, "disk_mb": 100, "max_processes": 50}
    results = run_all(competition, memory, disk, processes, "print('well')", sandbox="none", **limits)
    outcomes = [Outcome.OUT_OF_MEMORY, results[1].outcome, Outcome.ERROR, Outcome.OK]
    assert [result.outcome for result in results] == outcomes, results
    assert results[1].outcome == Outcome.OUTPUT_LIMIT or "File too large" in results[1].detail  # whoever sees it first
    assert "BlockingIOError" in results[2].detail


def test_without_a_sandbox_programs_run_and_are_ended_all_the_same(competition, caplog):
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.fork() or time.sleep(60)\n    os._exit(0)\n"
    with LocalExecutor(max_parallel=2, timeout_s=2, sandbox="none", packages=()) as executor:
        assert "all rights of this user" in caplog.text
        programs = (daemon + "time.sleep(60)", SOLUTION, daemon)
        results = executor.run_many([(program, competition) for program in programs])
        assert [result.outcome for result in results] == [Outcome.TIMEOUT, Outcome.OK, Outcome.OK]
        assert competition.grade(results[1].submission).valid
        [warm_parent] = executor._runner.warm_parents._running.values()
        time.sleep(0.2)
        assert psutil.Process(warm_parent.process.pid).children(recursive=True) == []


@pytest.mark.parametrize("sandbox", [*TIERS, "none"])
def test_what_nobody_waits_for_is_ended_and_nothing_is_left_after_the_with(competition, sandbox):
    me, sleeps = psutil.Process(), ("import time\ntime.sleep(60)", competition)
    before, descriptors = set(me.children(recursive=True)), me.num_fds()

    def start(executor) -> list[ProgramFuture]:
        futures = [executor.submit(*sleeps) for _ in range(2)]
        while futures[0].started is None:
            time.sleep(0.01)
        time.sleep(0.5)
        return futures

    with LocalExecutor(max_parallel=1, timeout_s=60, sandbox=sandbox, packages=()) as executor:
        running, queued = start(executor)
        began = time.monotonic()
        queued.stop()
        running.stop()
        result = running.result(timeout=10)
        assert time.monotonic() - began < 5
        assert (result.outcome, result.detail) == (Outcome.KILLED, "ended by the caller")
        assert queued.cancelled()
        futures = start(executor)  # the slot is free
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert {future.result().outcome for future in futures} == {Outcome.INFRASTRUCTURE}
    assert set(me.children(recursive=True)) <= before
    assert me.num_fds() <= descriptors
    assert not executor._run_dir.exists()
