# Prints errors for ever, from a child.
# ends: output_limit
import sys
if os.fork() == 0:
    while True:
        print("x" * 1000, file=sys.stderr)
os.wait()
