# Processes whose names look like what is read of them.
# ends: out_of_memory
for name in (b"x) Z 1 2 3", b"\nVmRSS: 0 kB", b"\xff\xfe", b""):
    if os.fork() == 0:
        libc.prctl(15, name)
        x = b"x" * (160 << 20)
        time.sleep(60)
time.sleep(60)
