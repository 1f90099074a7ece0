# Data wait for somebody to accept the connection that they came by, and those who sent them are gone.
# ends: out_of_memory; landlock: error
listeners = []
for name in range(100):
    listeners.append(socket.socket(socket.AF_UNIX))
    listeners[-1].bind(str(name))
    listeners[-1].listen(4096)
    with suppress(BlockingIOError):  # as many as may wait
        for _ in range(4096):
            with socket.socket(socket.AF_UNIX) as client:
                client.setblocking(False)
                client.connect(str(name))
                with suppress(BlockingIOError):
                    while True:
                        client.send(b"x" * 100_000)
time.sleep(60)
