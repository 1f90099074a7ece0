# Processes that would not be looked into and end while the watch looks; one wants to outlive the run. They turn out to share
# their memory, unless the kernel is slow to take back what the ended ones held.
# ends: timeout, out_of_memory
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(1000)
    os._exit(0)
libc.prctl(4, 0)
x = b"x" * (120 << 20)
for _ in range(8):
    if os.fork() == 0:
        while True:
            if os.fork() == 0:
                os._exit(0)
            os.wait()
time.sleep(1000)
