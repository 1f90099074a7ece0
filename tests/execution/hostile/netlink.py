# Asks the kernel about interfaces and processes by netlink.
# ends: ok
for protocol in (0, 4, 11, 15):
    attempt(f"protocol {protocol}", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol))
