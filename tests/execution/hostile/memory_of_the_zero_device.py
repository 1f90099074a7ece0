# What is mapped of /dev/zero is such memory, too, even for who may only read it.
# ends: ok
attempt("write", lambda: os.open("/dev/zero", os.O_RDWR))
attempt("read", lambda: os.open("/dev/zero", os.O_RDONLY))
