"""Keeps a set of processes running and stops them in order.

Decides when to look, restart and give up on a clean stop. One thread, no Django: signals wake a selector that also
reads the children's output. Refuses to interpret what the processes do.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from fleet.ops.children import Child, Spec
from fleet.ops.output import Console

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """Somebody asked the supervisor to stop while it was waiting for something."""


class Supervisor:
    """Owns the children. `add` and `remove` at any time, `run` until a signal comes, then `stop`."""

    def __init__(self, var: Path, console: Console) -> None:
        self._var = var
        self.console = console
        self.children: dict[str, Child] = {}
        self.asked = 0
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def install_signals(self) -> None:
        """Ours even where the shell started us with SIGINT ignored."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._ask)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def _ask(self, number: int, _frame: object) -> None:
        self.asked += 1
        if self.asked > 1:
            for child in self.children.values():
                child.end()

    def say(self, text: str) -> None:
        self.console.line("muster", text)

    def add(self, spec: Spec) -> Child:
        child = Child(spec, self._var, self.console)
        self.children[spec.name] = child
        self._start(child)
        return child

    def remove(self, name: str) -> None:
        """Stop one process for good, without waiting for it here."""
        self.children[name].ask_to_stop()

    def _start(self, child: Child) -> None:
        child.start(time.monotonic())
        if child.process:
            self._selector.register(child.descriptor, selectors.EVENT_READ, child)

    def turn(self, timeout: float = 0.2) -> None:
        """One look at everything: outputs, deaths, starts that are due."""
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
            elif not self._alive_output(key.data):
                self._selector.unregister(key.fileobj)
        now = time.monotonic()
        for child in list(self.children.values()):
            self._look_after(child, now)

    def _alive_output(self, child: Child) -> bool:
        """False when every writer has closed, which the selector would report for ever."""
        if child.process is None:
            return False
        child.drain()
        return not child.output_closed

    def _look_after(self, child: Child, now: float) -> None:
        if child.process is not None:
            descriptor = child.descriptor
            code = child.reap(now)
            if code is None:
                return
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(descriptor)
            if child.wanted and not self.asked:
                how = f"signal {-code}" if code < 0 else f"code {code}"
                self.say(f"{child.spec.name} ended ({how}), again in {max(0.0, child.due - now):.1f} s")
        if not child.wanted:
            child.forget()
            self.children.pop(child.spec.name, None)
        elif now >= child.due and not self.asked:
            self._start(child)

    def wait_for(self, test: Callable[[], bool], timeout: float, what: str, every: float = 0.1) -> None:
        """Look after the children until `test()`; Stopped when asked to stop, TimeoutError after `timeout`."""
        until = time.monotonic() + timeout
        while not test():
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not come up within {timeout:.0f} s")
            self.turn(every)
            if self.asked:
                raise Stopped

    def once(self, spec: Spec, timeout: float) -> int:
        """Run a process to its end and return its code."""
        child = self.add(spec)
        child.once = True
        until = time.monotonic() + timeout
        while spec.name in self.children:
            if time.monotonic() > until:
                child.end()
                raise TimeoutError(f"{spec.name} did not finish within {timeout:.0f} s")
            self.turn(0.1)
            if self.asked:
                raise Stopped
        return child.code if child.code is not None else 1

    def run(self, each_turn: Callable[[], None]) -> None:
        """Until a stop signal."""
        while not self.asked:
            self.turn()
            each_turn()

    def stop(self) -> None:
        """Ask stage by stage, kill what does not end in time; a second signal kills at once."""
        self.asked = max(self.asked, 1)
        for stage in sorted({child.spec.stage for child in self.children.values()}):
            group = [child for child in self.children.values() if child.spec.stage == stage]
            for child in group:
                child.ask_to_stop()
            self._wait_gone(group, max(child.spec.patience for child in group))
            left = [child for child in group if child.process]
            if left:
                self.say("killed, because it did not end: " + ", ".join(child.spec.name for child in left))
                for child in left:
                    child.end()
                self._wait_gone(left, 2.0)

    def _wait_gone(self, group: list[Child], patience: float) -> None:
        until = time.monotonic() + patience
        while any(child.process for child in group) and time.monotonic() < until:
            self.turn(0.05)
