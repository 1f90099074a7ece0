# Opens the other end of its own output, to take back what it has printed, or to keep the pipe open.
# ends: ok
print("kept", flush=True)
def take():
    fd = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    os.read(fd, 100)
with suppress(OSError):
    take()
