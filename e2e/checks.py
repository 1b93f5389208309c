"""A list of checks that run in order. Each prints one result line, which `cargo xtask e2e` counts."""

import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))

_checks = []


def check(function):
    """Registers a check. Its docstring (or its name) states what is true if it passes."""
    _checks.append(function)
    return function


class Failed(AssertionError):
    """A mismatch between the expected and the actual value."""


def equal(actual, expected, what=""):
    if actual != expected:
        raise Failed(f"{what}: expected {expected!r}, got {actual!r}".removeprefix(": "))


def contains(text, *parts):
    for part in parts:
        if part not in text:
            raise Failed(f"expected {part!r} in:\n{text}")


def lacks(text, *parts):
    for part in parts:
        if part in text:
            raise Failed(f"expected no {part!r} in:\n{text}")


def eventually(condition, what, seconds=10):
    """Waits until the condition returns a truthy value and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def located(error):
    """Describes an unexpected error and the line of these checks that raised it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) == HERE]
    return f"{type(error).__name__}: {error}\nat {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}: {frames[-1].line}"


def run():
    """Runs all checks, or those whose name contains $E2E_FILTER, and exits with 1 if one failed."""
    wanted = os.environ.get("E2E_FILTER", "")
    failed = 0
    for function in _checks:
        if wanted not in function.__name__:
            continue
        name = (function.__doc__ or function.__name__.replace("_", " ")).strip()
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            message = str(error) if isinstance(error, Failed) else located(error)
            print(f"FAILED {name} [{function.__name__}]\n    " + message.strip().replace("\n", "\n    "), flush=True)
    sys.exit(1 if failed else 0)
