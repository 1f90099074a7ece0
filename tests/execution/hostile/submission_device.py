# Hands in a device.
# ends: error
# submission: none
os.mknod("submission.csv", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
