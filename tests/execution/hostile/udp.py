# Sends datagrams.
# ends: ok
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"labels, please", address)
attempt("internet", lambda: send(("1.1.1.1", 53)))
attempt("this machine", lambda: send(("127.0.0.1", @port@)))
attempt("broadcast", lambda: send(("255.255.255.255", 9)))
