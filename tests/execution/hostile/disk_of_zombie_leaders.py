# Deleted files held by a thread whose process' first thread has ended: /proc shows no descriptors of such a process.
# ends: error; landlock: output_limit
def fill():
    time.sleep(0.3)
    try:
        files = []
        for _ in range(10):
            files.append(open("x", "wb", buffering=0))
            os.unlink("x")
            files[-1].write(b"x" * (30 << 20))
            assert os.fstat(files[-1].fileno()).st_size == 30 << 20
        time.sleep(3)
        os.write(1, b"LOOT")
    finally:
        os._exit(1)
threading.Thread(target=fill).start()
libc.syscall(60, 0)  # exit, of this thread alone
