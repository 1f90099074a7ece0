# SIGKILL from its own hand: it must not be taken for ours, nor for the kernel's.
# ends: killed
os.kill(os.getpid(), 9)
