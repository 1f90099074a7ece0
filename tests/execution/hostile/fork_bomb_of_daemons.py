# Forks for ever; each child starts a session of its own and leaves its parent, which ends.
# ends: timeout, out_of_memory
while True:
    with suppress(OSError):
        if os.fork() == 0:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
