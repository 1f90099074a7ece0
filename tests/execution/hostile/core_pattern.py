# With a limit of 0 a crash runs the machine's handler of core dumps, as root and outside of all limits. With 1 it does not.
# ends: ok
assert resource.getrlimit(resource.RLIMIT_CORE) == (1, 1)
for limits in ((0, 0), (0, 1), (1, 1), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
    attempt(f"{limits}", lambda: resource.setrlimit(resource.RLIMIT_CORE, limits))
    attempt(f"prlimit {limits}", lambda: resource.prlimit(0, resource.RLIMIT_CORE, limits))
