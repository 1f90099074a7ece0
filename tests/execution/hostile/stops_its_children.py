# Stops its children, whose parents are stopped, and then itself: none of them ever ends.
# ends: timeout
for _ in range(8):
    if os.fork() == 0:
        for _ in range(2):
            if (pid := os.fork()) == 0:
                while True:
                    pass
            os.kill(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
