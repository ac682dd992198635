"""Federated fits: rows stay at their sites, which send sums; the fit is that to all rows in one table.

A ``Coordinator`` asks, ``Site`` objects answer, and a transport carries the bytes between them. The guide says what
leaves a site and what does not.
"""

from anchortm.federated.assessment import CountedCalibration, FederatedAssessment
from anchortm.federated.coordinator import Coordinator
from anchortm.federated.hub import Certificate, Hub, join_hub
from anchortm.federated.ledger import Ledger
from anchortm.federated.masks import Keys
from anchortm.federated.plan import Plan
from anchortm.federated.policy import DisclosureError, Policy
from anchortm.federated.processes import ProcessSites
from anchortm.federated.site import Site
from anchortm.federated.study import Study
from anchortm.federated.transport import LocalSites, SiteLostError
from anchortm.federated.wire import WireError

__all__ = [
    "Certificate",
    "Coordinator",
    "CountedCalibration",
    "DisclosureError",
    "FederatedAssessment",
    "Hub",
    "Keys",
    "Ledger",
    "LocalSites",
    "Plan",
    "Policy",
    "ProcessSites",
    "Site",
    "SiteLostError",
    "Study",
    "WireError",
    "join_hub",
]


def __dir__() -> list[str]:
    return sorted(__all__)
