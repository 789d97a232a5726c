# SPDX-License-Identifier: MPL-2.0
"""Entry of a test process: `main.py run FILE FUNCTION`, or of a peer that a
test starts: `main.py peer FILE FUNCTION JSON-ARGUMENTS`."""

import ctypes
import faulthandler
import importlib.util
import json
import os
import signal
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import zt  # noqa: E402
from zt import proc  # noqa: E402


def load(path):
    """The module at `path`; its directory joins the search path."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0].replace("-", "_")
    spec = importlib.util.spec_from_file_location("zt_tests_" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_library():
    """If pyzmq is loaded, the libzmq mapped is the one under test, and no other."""
    if "zmq" not in sys.modules:
        return
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        mapped = {line.split()[-1] for line in maps if "libzmq.so" in line}
    want = os.path.realpath(zt.libdir()) + "/"
    if len(mapped) != 1 or not next(iter(mapped)).startswith(want):
        raise AssertionError(f"mapped is {sorted(mapped)}, not the library in {want}")


def take_interrupts():
    """What was started in the background of a shell ignores SIGINT, and so would all that it starts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def die_with_parent():
    """A peer does not outlive its test."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(path, function):
    """Run a test; its last words on stderr become the runner's reason."""
    try:
        module = load(path)
        check_library()
        getattr(module, function)()
    except zt.Missing as what:
        print(f"WHY: {what}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as what:
        if what.name != "zmq":
            raise
        print("WHY: no zmq module for /usr/bin/python3: apt-get install python3-zmq", file=sys.stderr)
        return 1
    except BaseException as what:  # pylint: disable=broad-except
        traceback.print_exc()
        text = " ".join(str(what).split())
        print(f"WHY: {type(what).__name__}: {text}"[:400], file=sys.stderr)
        return 1
    return 0


def peer(path, function, arguments):
    """Run a peer; what it returns or raises goes to the test."""
    proc.take_channel()
    try:
        module = load(path)
        check_library()
        value = getattr(module, function)(*json.loads(arguments))
    except BaseException:  # pylint: disable=broad-except
        proc.send({"error": traceback.format_exc()})
        return 1
    proc.send({"done": value})
    return 0


def main(what, *rest):
    """Arm the hang bound, then do it."""
    faulthandler.enable()
    take_interrupts()
    bound = zt.seconds_left() - (2 if what == "run" else 4)
    faulthandler.dump_traceback_later(max(bound, 1), exit=True)
    if what == "peer":
        die_with_parent()
    code = {"run": run, "peer": peer}[what](*rest)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a context that a failed test left open would hang in its destructor.
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
