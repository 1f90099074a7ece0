# A pair of datagram sockets, made without a name, can be used to write to a socket in the file system.
# ends: ok
attempt("datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"labels", "@unix@"))
attempt("raw", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"labels", "@unix@"))
