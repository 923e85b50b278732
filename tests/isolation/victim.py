"""A process of the same user outside the fence, with what it listens on:
`python victim.py BASE`. Prints its port once all is there; ends with its input."""

import socket
import sys
import threading

udp, tcp = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
udp.bind(("127.0.0.1", 0))
port = udp.getsockname()[1]
tcp.bind(("127.0.0.1", port))
named, abstract = (socket.socket(socket.AF_UNIX) for _ in range(2))
named.bind(f"{sys.argv[1]}/run/tmux")
abstract.bind(f"\0autoexp-{port}")
for server in (tcp, named, abstract):
    server.listen()


def echo() -> None:
    while True:
        udp.sendto(*udp.recvfrom(1))


threading.Thread(target=echo, daemon=True).start()
print(port, flush=True)
sys.stdin.read()
