# The same, with processes whose memory maps cannot be read.
# ends: out_of_memory
for _ in range(4):
    if os.fork() == 0:
        libc.prctl(4, 0)
        x = b"x" * (160 << 20)
        time.sleep(60)
time.sleep(60)
