# Descriptors on their way between sockets are counted for all of a user's processes together.
# ends: ok
pairs = []
try:
    for _ in range(400):
        pairs.append(socket.socketpair())
        pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1] * 250))])
except OSError as error:
    print(error)
os.execv("/bin/sleep", ["sleep", "1"])
