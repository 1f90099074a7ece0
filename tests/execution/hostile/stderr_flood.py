# Prints errors as fast as it can, from a child that outlives it.
# ends: ok
import sys
if os.fork() == 0:
    while True:
        print("x" * 1000, file=sys.stderr)
time.sleep(1)
