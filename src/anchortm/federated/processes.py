"""Sites in processes of their own on one machine, which share no memory with the coordinator."""

from __future__ import annotations

import multiprocessing as mp
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from anchortm._util.threads import one_blas_thread
from anchortm.exceptions import InputError
from anchortm.federated.site import Site
from anchortm.federated.transport import SiteLostError, prepared_sites
from anchortm.federated.wire import MAX_BYTES

__all__ = ["ProcessSites"]

END = b""


def _work(site: Site, pipe: Connection) -> None:
    """Answer questions until the coordinator closes the pipe."""
    while True:
        try:
            question = pipe.recv_bytes(2 * MAX_BYTES)
        except (EOFError, OSError, KeyboardInterrupt):
            return
        if question == END:
            return
        with one_blas_thread():  # sites of one machine share its cores
            answer = site.answer(question)
        pipe.send_bytes(answer)


class ProcessSites:
    """Sites in processes of their own, one each, on this machine. Use it as a context, or call ``close``.

    Parameters
    ----------
    sites : list of Site
        With three or more, those without keys get keys for masks. Each is sent to its process once.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import Coordinator, ProcessSites, Site
    >>> data = atm.datasets.load_geyser()
    >>> parts = [Site(data[:150], "early"), Site(data[150:], "late")]
    >>> with ProcessSites(parts) as sites:  # doctest: +SKIP
    ...     model = Coordinator(sites, {"formula": "waiting ~ duration | site"}).fit(atm.NormalLinear(), xi=1.0)
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        context = mp.get_context("spawn")
        self._pipes: dict[str, Connection] = {}
        self._processes: dict[str, Any] = {}
        self._owed: Counter[str] = Counter()  # answers that have not come yet
        for name, site in prepared_sites(sites).items():
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(site, there), daemon=True)
            process.start()
            there.close()
            self._pipes[name], self._processes[name] = here, process

    @property
    def names(self) -> list[str]:
        """Return the names of the sites."""
        return sorted(self._pipes)

    @property
    def pids(self) -> dict[str, int]:
        """Return the number of each site's process."""
        return {name: process.pid for name, process in self._processes.items()}

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> dict[str, bytes]:
        """Return the answers of these sites by name; raise ``SiteLostError`` if one does not answer in time."""
        unknown = [name for name in to if name not in self._pipes]
        if unknown:
            raise InputError(f"there is no site {unknown[0]!r}: there are {', '.join(self.names)}")
        for name in to:
            try:
                self._pipes[name].send_bytes(question)
                self._owed[name] += 1
            except (OSError, ValueError):
                raise SiteLostError(f"the process of the site {name!r} has ended") from None
        waiting: dict[Any, str] = {self._pipes[name]: name for name in to}
        found = {}
        end = time.monotonic() + timeout
        while waiting:
            ready = wait(list(waiting), max(0.0, end - time.monotonic()))
            if not ready:
                late = ", ".join(repr(name) for name in sorted(waiting.values()))
                for name in waiting.values():
                    self._lose(name)
                raise SiteLostError(f"no answer within {timeout:g} seconds from the site {late}")
            for pipe in ready:
                name = waiting[pipe]
                try:
                    answer = self._pipes[name].recv_bytes(2 * MAX_BYTES)
                except (EOFError, OSError):
                    self._lose(name)
                    raise SiteLostError(f"the process of the site {name!r} has ended") from None
                self._owed[name] -= 1
                if not self._owed[name]:  # else it answers a question whose asker has given up
                    found[name] = answer
                    del waiting[pipe]
        return found

    def _lose(self, name: str) -> None:
        """Give a site up: an answer that comes later must not be taken for one to another question."""
        self._pipes[name].close()
        if self._processes[name].is_alive():
            self._processes[name].terminate()

    def close(self) -> None:
        """End the processes."""
        for name, pipe in self._pipes.items():
            try:
                pipe.send_bytes(END)
                pipe.close()
            except (OSError, ValueError):
                pass
            process = self._processes[name]
            process.join(5.0)
            if process.is_alive():
                process.kill()
                process.join(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
