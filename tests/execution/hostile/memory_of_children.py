# Keeps each process below the limit, and all of them together above it.
# ends: out_of_memory
for _ in range(4):
    if os.fork() == 0:
        x = b"x" * (160 << 20)
        time.sleep(60)
time.sleep(60)
