import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from trl_mle.execution.slots import Closed, Slots


OPEN = threading.Event()

HOLDER = """
import sys, threading, time
from pathlib import Path
from trl_mle.execution.slots import Slots
slots = Slots(1, 1, folder=Path(sys.argv[1]))
open_ = threading.Event()
"""


def holder(folder, body: str) -> subprocess.Popen:
    """Another process that shares the slots."""
    script = HOLDER + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("count", "threads", "training", "cpus"),
    [
        (None, 2, 0, [(2, 3), (5, 7)]),
        (3, 1, 1, [(3,), (5,), (7,)]),
        (3, 2, 0, [(), (), ()]),  # more slots than cores: no pinning
        (None, 3, 4, [()]),
    ],
)
def test_slots_have_cores_of_their_own_while_there_are_enough(tmp_path, monkeypatch, count, threads, training, cpus):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {11, 2, 3, 5, 7})
    slots = Slots(count, threads, folder=tmp_path, training_cores=training)
    assert slots.cores == [2, 3, 5, 7, 11][training:]
    assert [slot.cpus for slot in slots.slots] == cpus
    assert len({slot.number for slot in slots.slots}) == len(slots.slots)


def test_slots_have_gpus_of_their_own(tmp_path):
    assert [slot.gpu for slot in Slots(2, 1, ["4", "6"], tmp_path).slots] == ["4", "6"]
    with pytest.raises(ValueError, match="gpus names 2"):
        Slots(3, 1, ["4", "6"], tmp_path)


def test_each_slot_goes_to_one_at_a_time(tmp_path):
    slots = Slots(2, 1, folder=tmp_path)
    with slots.take(OPEN) as first, slots.take(OPEN) as second:
        assert first != second
        closed = threading.Event()
        threading.Timer(0.1, closed.set).start()
        with pytest.raises(Closed), slots.take(closed):
            pass
    with slots.take(OPEN) as again:
        assert again in (first, second)


def test_a_slot_by_number_goes_to_one_process_at_a_time_beside_the_others(tmp_path):
    other = holder(tmp_path, "with slots.take_number(7):\n    print('held', flush=True)\n    time.sleep(60)\n")
    assert other.stdout.readline() == "held\n"
    slots = Slots(1, 1, folder=tmp_path)
    with slots.take(OPEN), slots.take_number(8):  # neither waits
        pass
    threading.Timer(0.3, other.kill).start()
    started = time.monotonic()
    with slots.take_number(7) as slot:
        assert time.monotonic() - started > 0.2
        assert (slot.index, slot.number) == (1, 7)
    other.wait()


def test_a_slot_of_a_killed_process_is_free_again(tmp_path):
    other = holder(tmp_path, "with slots.take(open_):\n    print('held', flush=True)\n    time.sleep(60)\n")
    assert other.stdout.readline() == "held\n"
    slots = Slots(1, 1, folder=tmp_path)
    closed = threading.Event()
    threading.Timer(0.2, closed.set).start()
    with pytest.raises(Closed), slots.take(closed):
        pass
    other.kill()
    other.wait()
    with slots.take(OPEN) as slot:
        assert slot.index == 0


def test_a_process_forked_meanwhile_does_not_keep_the_slot(tmp_path):
    """For example a data loader's worker, with copies of all descriptors."""
    slots = Slots(1, 1, folder=tmp_path)
    with slots.take(OPEN):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
    closed = threading.Event()
    timer = threading.Timer(10, closed.set)
    timer.start()
    try:
        with slots.take(closed) as again:
            assert again.index == 0
    finally:
        timer.cancel()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_who_waits_for_a_busy_slot_does_not_block_a_free_one(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    both, one = Slots(2, 1, folder=tmp_path), Slots(1, 1, folder=tmp_path)
    closed = threading.Event()

    def wait() -> None:
        with pytest.raises(Closed), one.take(closed):
            pass

    with both.take(OPEN) as first:
        assert first.cpus == one.slots[0].cpus
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.1)
        with both.take(OPEN) as second:
            assert second.cpus == (1,)
        assert waiting.is_alive()
        closed.set()
        waiting.join()


def test_a_folder_of_somebody_else_stops_nobody(tmp_path, monkeypatch):
    """In /tmp, another user may have taken any name, and cannot be made to give it back."""
    monkeypatch.setattr("trl_mle.execution.slots.TMP", tmp_path)
    usual = f"trl_mle-slots-{os.geteuid()}"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / usual).symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / f"{usual}-1")
    (tmp_path / f"{usual}-2").mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / f"{usual}-2", 12345, 12345)
    mine, other = Slots(1, 1), Slots(1, 1)
    assert mine.folder == other.folder == tmp_path / (f"{usual}-3" if os.geteuid() == 0 else f"{usual}-2")
    assert mine.folder.stat().st_mode & 0o777 == 0o700 or os.geteuid() != 0
    assert not any((tmp_path / "elsewhere").iterdir())
