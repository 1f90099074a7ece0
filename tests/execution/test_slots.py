import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from trl_mle.execution.slots import Closed, Slots


OPEN = threading.Event()
HOLDER = """
import sys, threading, time
from pathlib import Path
from trl_mle.execution.slots import Slots
with Slots(1, 1, folder=Path(sys.argv[1])).take(threading.Event()):
    print("held", flush=True)
    time.sleep(60)
"""


def closed_soon() -> threading.Event:
    closed = threading.Event()
    threading.Timer(0.2, closed.set).start()
    return closed


def is_busy(slots: Slots) -> bool:
    try:
        with slots.take(closed_soon()):
            return False
    except Closed:
        return True


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


def test_each_slot_goes_to_one_at_a_time_with_its_gpu(tmp_path):
    with pytest.raises(ValueError, match="gpus names 2"):
        Slots(3, 1, ["4", "6"], tmp_path)
    slots = Slots(2, 1, ["4", "6"], tmp_path)
    assert [slot.gpu for slot in slots.slots] == ["4", "6"]
    with slots.take(OPEN) as first, slots.take(OPEN) as second:
        assert first != second
        with slots.take_number(7) as beside, slots.take_number(8):  # neither waits
            assert (beside.index, beside.number) == (2, 7)
        assert is_busy(slots)
    with slots.take(OPEN) as again:
        assert again in (first, second)


def test_a_slot_of_a_killed_process_is_free_again(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    slots = Slots(1, 1, folder=tmp_path)
    assert is_busy(slots)
    other.kill()
    other.wait()
    assert not is_busy(slots)


def test_a_process_forked_meanwhile_does_not_keep_the_slot(tmp_path):
    """For example a data loader's worker, with copies of all descriptors."""
    slots = Slots(1, 1, folder=tmp_path)
    with slots.take(OPEN):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
    try:
        assert not is_busy(slots)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_who_waits_for_a_busy_slot_does_not_block_a_free_one(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    both, one = Slots(2, 1, folder=tmp_path), Slots(1, 1, folder=tmp_path)
    with both.take(OPEN):
        waiting = threading.Thread(target=is_busy, args=[one])
        waiting.start()
        with both.take(OPEN) as second:
            assert second.cpus == (1,)
        waiting.join()


def test_a_folder_of_somebody_else_stops_nobody(tmp_path, monkeypatch):
    """In /tmp, another user may have taken any name, and cannot be made to give it back."""
    monkeypatch.setattr("trl_mle.execution.slots.TMP", tmp_path)
    usual = f"trl_mle-slots-{os.geteuid()}"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / usual).symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / f"{usual}-1")
    assert Slots(1, 1).folder == Slots(1, 1).folder == tmp_path / f"{usual}-2"
    assert not any((tmp_path / "elsewhere").iterdir())
