# Fills the pipe of its output, makes it as large as it can be, and ends with more in it than is kept.
# ends: ok
with suppress(OSError):
    fcntl.fcntl(1, 1031, 1 << 20)
os.set_blocking(1, False)
with suppress(BlockingIOError):
    while True:
        os.write(1, b"x" * 65536)
