# Types into the terminal that the training was started from.
# ends: ok
import termios
for path in ("/dev/tty", "/dev/console", "/dev/pts/0"):
    attempt(path, lambda: fcntl.ioctl(os.open(path, os.O_RDWR), termios.TIOCSTI, b"x"))
for fd in (0, 1, 2):
    attempt(f"fd {fd}", lambda: fcntl.ioctl(fd, termios.TIOCSTI, b"x"))
def types(request):
    if libc.ioctl(slave, request, b"x") and ctypes.get_errno() == errno.EPERM:
        raise PermissionError  # a kernel without the call (dev.tty.legacy_tiocsti = 0) answers EIO: the filter was passed
try:
    slave = os.openpty()[1]
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)  # of any other terminal, the kernel refuses it
except OSError:
    pass
else:
    attempt("own terminal", lambda: types(termios.TIOCSTI))
    attempt("32 bits are compared", lambda: types(termios.TIOCSTI | 1 << 32))
