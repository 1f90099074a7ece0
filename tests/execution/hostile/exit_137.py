# The exit code of a container that ran out of memory: it must not be taken for that.
# ends: error
os._exit(137)
