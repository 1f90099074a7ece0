# Types into the terminal that the training was started from.
# ends: ok
import fcntl
for path in ("/dev/tty", "/dev/console", "/dev/pts/0"):
    attempt(path, lambda: fcntl.ioctl(os.open(path, os.O_RDWR), 0x5412, b"x"))
for fd in (0, 1, 2):
    attempt(f"fd {fd}", lambda: fcntl.ioctl(fd, 0x5412, b"x"))
master, slave = None, None
try:
    master, slave = os.openpty()
except OSError:
    pass
if slave is not None:
    attempt("own terminal", lambda: fcntl.ioctl(slave, 0x5412, b"x"))
    attempt("32 bits are compared", lambda: __import__("ctypes").CDLL(None).ioctl(slave, 0x5412 | 1 << 32, b"x") == 0 or 1 / 0)
