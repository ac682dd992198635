"""How questions reach the sites: the contract, and sites in the process of the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from anchortm.exceptions import AnchorTMError, InputError
from anchortm.federated.masks import FEWEST_SITES, Keys
from anchortm.federated.site import Site

__all__ = ["LocalSites", "SiteLostError", "Transport", "prepared_sites"]


class SiteLostError(AnchorTMError, ConnectionError):
    """Raised if a site does not answer: it died, was late, or left. The message names the site.

    Examples
    --------
    >>> from anchortm.federated import SiteLostError
    >>> print(SiteLostError("the site 'north' has closed its connection"))
    the site 'north' has closed its connection
    """


class Transport(Protocol):
    """What carries questions to sites and answers back; it sees bytes only.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import LocalSites, Site
    >>> from anchortm.federated.transport import Transport
    >>> sites: Transport = LocalSites([Site(atm.datasets.load_geyser(), "park")])
    >>> list(sites.names)
    ['park']
    """

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the sites."""
        ...

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> Mapping[str, bytes]:
        """Return the answers of these sites by name; raise ``SiteLostError`` if one does not answer in time."""
        ...


def prepared_sites(sites: Sequence[Site]) -> dict[str, Site]:
    """Return sites by name; from three on, those without keys get keys for masks."""
    if not sites:
        raise InputError("there are no sites: pass a list of Site objects")
    found = {site.name: site for site in sites}
    if len(found) < len(sites):
        twice = sorted({site.name for site in sites if sum(other.name == site.name for other in sites) > 1})
        raise InputError(f"two sites have the same name: {', '.join(twice)}")
    if len(sites) >= FEWEST_SITES:
        for site in sites:
            if site.keys is None:
                site.keys = Keys.generate()
    return dict(sorted(found.items()))


class LocalSites:
    """Sites in one process, for teaching and tests: the protocol is that of real sites, down to the bytes.

    Parameters
    ----------
    sites : list of Site
        With three or more, those without keys get keys for masks.
    watch : callable, optional
        Called with the name of the site, the question and the answer, such as to record the traffic.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import LocalSites, Site
    >>> data = atm.datasets.load_boston_housing2()
    >>> sites = LocalSites([Site(data[k::3], name) for k, name in enumerate(["east", "north", "west"])])
    >>> list(sites.names)
    ['east', 'north', 'west']
    """

    def __init__(self, sites: Sequence[Site], watch: Callable[[str, bytes, bytes], object] | None = None) -> None:
        self.sites = prepared_sites(sites)
        self.watch = watch

    @property
    def names(self) -> list[str]:
        """Return the names of the sites.

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import LocalSites, Site
        >>> LocalSites([Site(atm.datasets.load_geyser(), "park")]).names
        ['park']
        """
        return sorted(self.sites)

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> dict[str, bytes]:
        """Return the answers of these sites by name; ``timeout`` does not matter in one process.

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import LocalSites, Site
        >>> sites = LocalSites([Site(atm.datasets.load_geyser(), "park")])
        >>> list(sites.ask(b"hello", timeout=1.0, to=["park"]))
        ['park']
        """
        found = {}
        for name in to:
            found[name] = self.sites[name].answer(question)
            if self.watch is not None:
                self.watch(name, question, found[name])
        return found
