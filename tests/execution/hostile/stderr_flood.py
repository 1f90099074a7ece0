# Prints errors as fast as it can, from a child that outlives it.
# ends: ok
if os.fork() == 0:
    while True:
        print("x" * 1000, file=sys.stderr)
time.sleep(1)
