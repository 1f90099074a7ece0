# Fills the pipe of its output, makes it as large as it can be, and ends with more in it than is kept.
# ends: ok
import fcntl
try:
    fcntl.fcntl(1, 1031, 1 << 20)
except OSError:
    pass
os.set_blocking(1, False)
try:
    while True:
        os.write(1, b"x" * 65536)
except BlockingIOError:
    pass
