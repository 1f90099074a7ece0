# Ends while its children fork as fast as they can, each in a session of its own.
# ends: ok, error
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        while True:
            with suppress(OSError):
                if os.fork() != 0:
                    os._exit(0)
os._exit(0)
