"""A client of `lockstep.site.verify.warm`, which writes this text as `python`,
`torchrun` and `lockstep`. It imports little, since it starts as often as they.
"""

import array
import json
import os
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
NAME, WORDS = os.path.basename(sys.argv[0]), sys.argv[1:]


def cold() -> None:
    """Have Python itself do what a fork cannot do."""
    program = NAME if NAME in ("torchrun", "lockstep") else "python"
    real = os.path.join(os.path.dirname(sys.executable), program)
    os.execv(real, [real, *WORDS])


def taken() -> bool:
    """Whether a fork can do it: `-m`, `-c` or a script, with no other flag and
    no salt of its own."""
    if "PYTHONHASHSEED" in os.environ:
        return False
    if NAME in ("torchrun", "lockstep"):
        return True
    words = [word for word in WORDS if word not in ("-u", "-B", "-P")]
    return bool(words) and (words[0] in ("-m", "-c") or words[0][0] != "-")


if not taken():
    cold()

pid = 0  # the fork's, once there is one
sent: list[int] = []  # signals that came before it


def pass_on(number: int, _: object) -> None:
    """Give the fork a signal that this process was sent."""
    if not pid:
        sent.append(number)
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


for forwarded in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1:
    signal.signal(forwarded, pass_on)
path = os.path.join(HERE, "socket")
while not os.path.exists(path):  # it is still importing
    time.sleep(0.02)
server = socket.socket(socket.AF_UNIX)
files: list[int] = []
for number in sorted(map(int, os.listdir("/proc/self/fd"))):
    try:
        os.fstat(number)
    except OSError:
        continue  # the folder's own
    if number != server.fileno():
        files.append(number)
server.connect(path)
asked = json.dumps(
    {
        "command": [NAME, *WORDS],
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "files": files,
        "pid": os.getpid(),
    }
).encode()
rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files)
server.sendmsg([b"%08x" % len(asked)], [rights])
server.sendall(asked)
answers = server.makefile()
pid = int(answers.readline())
for early in sent:
    pass_on(early, None)
code = int(answers.readline() or -signal.SIGKILL)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
