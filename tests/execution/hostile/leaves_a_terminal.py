# Leaves a terminal with a message in it, and one's mode changed, for as long as `reads_a_terminal` may run beside it.
# ends: ok
with suppress(OSError):
    master, slave = os.openpty()
    os.write(slave, b"the answer is 42")
    os.chmod(os.ttyname(slave), 0o666)
    os.chmod("/dev/pts/ptmx", 0o600)
time.sleep(2)
