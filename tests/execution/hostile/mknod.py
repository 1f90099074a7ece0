# Makes device nodes of the disk and of the kernel's memory.
# ends: ok
attempt("disk", lambda: os.mknod("disk", 0o666 | stat.S_IFBLK, os.makedev(254, 0)))
attempt("mem", lambda: os.mknod("mem", 0o666 | stat.S_IFCHR, os.makedev(1, 1)))
for path in ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/kvm", "/dev/net/tun"):
    attempt(path, lambda: os.open(path, os.O_RDWR))
