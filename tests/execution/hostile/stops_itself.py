# SIGSTOP: it never ends, and uses nothing.
# ends: timeout
os.kill(os.getpid(), signal.SIGSTOP)
