# The flags of a file (immutable, not to be dumped) need no more than a descriptor that it was opened by.
# ends: ok
GET, SET = 0x80086601, 0x40086602
def change():
    fd = os.open("input/train.csv", os.O_RDONLY)
    (flags,) = struct.unpack("=I", fcntl.ioctl(fd, GET, bytes(4))[:4])
    fcntl.ioctl(fd, SET, struct.pack("=I", flags ^ 0x40))
attempt("flags", change)
