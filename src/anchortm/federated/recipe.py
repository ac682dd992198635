"""The recipe of a model: what turns the rows of a site into its share in the loss. It travels as plain values.

A site makes from it what the engine makes of rows in memory, so that a new part of models needs no code here beyond the
arguments by which a specification asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.plain_values import is_count, is_flag, is_parameter, is_strength, is_text, list_of, plain
from anchortm.bases import Basis, ConstantBasis
from anchortm.engine.records import corners_of
from anchortm.engine.rows.quadrature import MOST_NODES
from anchortm.exceptions import InputError
from anchortm.families import FAMILY_TYPES, Family
from anchortm.federated.shared_anchors import SharedAnchors
from anchortm.federated.wire import WireError, digest_of
from anchortm.inputs.baselines import Corners
from anchortm.inputs.clusters import Effects
from anchortm.links import LINKS, Link, get_link

__all__ = ["FIELDS", "Recipe"]

Array = NDArray[np.float64]
Test = Callable[[Any], bool]


def _is_record(value: Any) -> bool:
    """Return whether a value is a table, which is checked where it is used."""
    return isinstance(value, dict)


#: arguments of a specification by which parts that change the loss of rows are asked for; columns by their places
ARGUMENTS: dict[str, Test] = {"scale": list_of(is_count)}
#: the fields of a recipe in a message, with their tests
FIELDS: dict[str, Test] = {
    "link": is_text,
    "family": lambda value: value is None or _is_record(value),
    "basis": _is_record,
    "sign": lambda value: value in (-1, 1),
    "intercept": is_flag,
    "shared": lambda value: value is None or _is_record(value),
    "corners": lambda value: value is None or _is_record(value),
    "effects": lambda value: value is None or _is_record(value),
    "n_nodes": lambda value: value is None or (is_count(value) and 0 < value <= MOST_NODES + MOST_NODES // 2),
    "arguments": lambda value: (
        _is_record(value) and all(name in ARGUMENTS and ARGUMENTS[name](own) for name, own in value.items())
    ),
}
#: the fields of a family that its rows depend on
FAMILY: dict[str, Test] = {
    "family": lambda value: value in FAMILY_TYPES,
    "link": is_text,
    "unit": lambda value: is_strength(value) and value > 0.0,
    "push": is_strength,
    "alpha": lambda value: value is None or (is_strength(value) and value > 0.0),
    "residual": lambda value: value == "score",
    "expected_information": is_flag,
}


@dataclass(frozen=True, eq=False)
class Recipe:
    """What turns the rows of a site into its share in the loss."""

    link: Link | Family
    basis: Basis
    sign: float
    intercept: bool
    shared: SharedAnchors | None = None
    corners: Corners | None = None  # of strata and varying effects
    arguments: Mapping[str, Any] = field(default_factory=dict)
    effects: Effects | None = None  # of the clusters of a site; slopes are named by the places of their columns
    n_nodes: int | None = None  # of their integrals

    def __post_init__(self) -> None:
        known = {type(own) for own in LINKS.values()} | set(FAMILY_TYPES.values())
        if type(self.link) not in known:
            raise InputError(
                f"sites know the links {', '.join(LINKS)} and the families {', '.join(FAMILY_TYPES)} by name, and "
                f"{self.link!r} is another one: no code is sent to them"
            )

    @property
    def family(self) -> Family | None:
        """Return the family if it is the mean that is modelled."""
        return self.link if isinstance(self.link, Family) else None

    def record(self) -> dict[str, Any]:
        """Return the fields of a message."""
        own = self.family
        return {
            "link": "" if own is not None else self.link.name,
            "family": None if own is None else {name: plain(getattr(own, name)) for name in FAMILY},
            "basis": plain(self.basis.to_dict()),
            "sign": int(self.sign),
            "intercept": self.intercept,
            "shared": None if self.shared is None else self.shared.record(),
            "corners": None if self.corners is None else plain(asdict(self.corners)),
            "arguments": plain(self.arguments),
            "effects": None if self.effects is None else plain(asdict(self.effects)),
            "n_nodes": self.n_nodes,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the numbers of a message."""
        none = np.zeros(0)
        numbers = {"anchor_mean": none, "anchor_unit": none, "anchor_root": np.zeros((0, 0))}
        return numbers if self.shared is None else self.shared.arrays()

    @property
    def digest(self) -> str:
        """Return the name of the model in later questions."""
        numbers = [values.tobytes().hex() for _, values in sorted(self.arrays().items())]
        return digest_of([self.record(), *numbers])

    @classmethod
    def of(cls, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> Recipe:
        """Return the recipe in a message, checked."""
        own = record["family"]
        shared = None if record["shared"] is None else SharedAnchors.of(record["shared"], arrays)
        link = get_link(record["link"]) if own is None else _family(own)
        corners = None if record["corners"] is None else corners_of(record["corners"])
        basis, sign = Basis.from_dict(record["basis"]), float(record["sign"])
        if corners is not None and corners.sign != sign:
            raise WireError("the baselines do not match the model")
        made = cls(link, basis, sign, record["intercept"], shared, corners, record["arguments"], *_effects(record))
        if not made._fits_together:
            raise WireError("the parts of the model do not go together")
        return made

    @property
    def _fits_together(self) -> bool:
        """Return whether a fit can have these parts: the rules at parameters are those of such models."""
        scale = self.arguments.get("scale", [])
        if (self.family is not None) != isinstance(self.basis, ConstantBasis) or len(set(scale)) < len(scale):
            return False
        if self.family is not None and (self.corners or scale or self.effects):
            return False
        return not ((scale or self.effects) and self.shared) and not (scale and self.effects)

    @property
    def taken(self) -> list[int]:
        """Return the columns whose effects vary along the response, in the order of the corners."""
        own = self.corners
        return [] if own is None else [own.covariates.index(name) for name in own.varying_names]


def _effects(record: Mapping[str, Any]) -> tuple[Effects | None, int | None]:
    """Return the random effects in a message, and the number of nodes."""
    own = record["effects"]
    if own is None:
        return None, None
    lists = {"names": is_text, "centre": is_parameter, "scale": lambda value: is_strength(value) and value > 0.0}
    fine = set(own) == {"cluster", *lists} and all(list_of(test)(own[name]) for name, test in lists.items())
    if not (fine and 0 < len(own["names"]) <= 2 and len({len(own[name]) for name in lists}) == 1):
        raise WireError("the random effects of the model are invalid")
    return Effects(str(own["cluster"]), *(tuple(own[name]) for name in lists)), record["n_nodes"]


def _family(record: Mapping[str, Any]) -> Family:
    """Return the family in a message."""
    if set(record) != set(FAMILY) or not all(test(record[name]) for name, test in FAMILY.items()):
        raise WireError("the family of the model is invalid")
    kind = FAMILY_TYPES[record["family"]]
    if kind.uses_alpha == (record["alpha"] is None):
        raise WireError("the family of the model is invalid")
    own = {part.name for part in fields(kind)}
    return kind(**{name: value for name, value in record.items() if name in own})
