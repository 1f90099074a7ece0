# Kills and stops its parent, pid 1 and the caller. Pid 1 of a namespace is deaf to it: that the run ends well is the proof.
# ends: ok
for pid in (os.getppid(), 1, @caller@):
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        with suppress(OSError):
            os.kill(pid, number)
time.sleep(0.3)
attempt("caller", lambda: os.kill(@caller@, 0))
