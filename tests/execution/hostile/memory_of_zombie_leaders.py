# The same, by threads whose process' first thread has ended: /proc shows nothing of such a process.
# ends: out_of_memory
def hog():
    time.sleep(0.3)
    x = b"x" * (160 << 20)
    time.sleep(60)
for _ in range(4):
    if os.fork() == 0:
        threading.Thread(target=hog).start()
        libc.syscall(60, 0)  # exit, of this thread alone
time.sleep(60)
