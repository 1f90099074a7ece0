# Daemons whose parent is a reaper of their own, which ends with the program; zombies that nobody waits for.
# ends: ok
libc.prctl(36, 1, 0, 0, 0)
libc.prctl(1, 0, 0, 0, 0)  # no signal when the parent ends
for _ in range(20):
    if os.fork() == 0:
        libc.prctl(36, 1, 0, 0, 0)
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            time.sleep(60)
        os._exit(0)
