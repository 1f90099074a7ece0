# Files that are deleted and on their way between two sockets still take room.
# ends: error
pairs = []
for _ in range(10):
    pairs.append(socket.socketpair())
    fd = os.open("x", os.O_RDWR | os.O_CREAT)
    os.unlink("x")
    os.write(fd, b"x" * (30 << 20))
    pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
time.sleep(3)
print("LOOT")
