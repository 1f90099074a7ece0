# Forks for ever.
# ends: timeout, out_of_memory
while True:
    with suppress(OSError):
        os.fork()
