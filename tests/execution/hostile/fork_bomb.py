# Forks for ever.
# ends: timeout, out_of_memory
while True:
    try:
        os.fork()
    except OSError:
        pass
