# Full buffers of sockets, which are larger if one asks for it.
# ends: out_of_memory
for _ in range(16):
    if os.fork() == 0:
        pairs = []
        try:
            while True:
                pairs.append(socket.socketpair())
                for one in pairs[-1]:
                    one.setblocking(False)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
                    with suppress(BlockingIOError):
                        while True:
                            one.send(b"x" * 100_000)
        except OSError:
            time.sleep(60)
        os._exit(0)
time.sleep(60)
