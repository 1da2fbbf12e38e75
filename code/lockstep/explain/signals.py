"""Say what the signal that ended a process usually means."""

SIGNALS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}

# What a signal that nothing else explains usually means, what to look at.
FATAL = {
    9: (
        "the kernel's OOM killer ended it, or somebody outside did",
        "host",
        "sudo journalctl -k | grep -iE 'oom|killed process'",
        "a kill at that time (the pid is the host's, not the container's)",
    ),
    11: (
        "native code read memory that it doesn't own",
        "code",
        "PYTHONFAULTHANDLER=1 in the next run's environment",
        "the Python stack at the crash",
    ),
    7: (
        "shared memory or a mapped file had no space behind it",
        "host",
        "df -h /dev/shm",
        "a full /dev/shm, or a small one (containers have 64 MB by default)",
    ),
    4: (
        "the binary uses instructions that this CPU doesn't have",
        "host",
        "lscpu | grep -i flags",
        "a CPU that differs from the other nodes' CPUs",
    ),
    8: (
        "native code divided by zero",
        "code",
        "PYTHONFAULTHANDLER=1 in the next run's environment",
        "the Python stack at the crash",
    ),
}


def signal_of(code: int) -> int:
    """Return the signal of an exit code: -9 and 137 are 9; 0 for none."""
    if code < 0:
        return -code
    return code - 128 if 128 < code < 160 else 0
