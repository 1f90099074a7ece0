# Pages that are moved into pipes and sockets, not written to them, stay there when their files and mappings are gone. Of a huge
# page one byte is enough.
# ends: ok
reader, writer = os.pipe()
source = os.open("pages", os.O_RDWR | os.O_CREAT)
os.write(source, b"x" * (1 << 16))
buffer = ctypes.create_string_buffer(4096)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 4096)
attempt("vmsplice", lambda: checked(libc.vmsplice(writer, vector, ctypes.c_size_t(1), 0)))
attempt("splice", lambda: checked(libc.splice(source, (ctypes.c_long * 1)(0), writer, None, ctypes.c_size_t(1), 0)))
attempt("tee", lambda: checked(libc.tee(reader, writer, ctypes.c_size_t(1), 0)))
attempt("sendfile to a pipe", lambda: os.sendfile(writer, source, 0, 1))
attempt("sendfile to a socket", lambda: os.sendfile(socket.socketpair()[0].fileno(), source, 0, 1))
shutil.copyfile("pages", "copy")
assert open("copy", "rb").read() == b"x" * (1 << 16)
