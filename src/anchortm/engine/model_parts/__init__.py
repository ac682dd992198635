"""Parts of a model beside its rows: known anchors, scale effects, random effects, penalties. One file each."""

from __future__ import annotations

from anchortm.engine.model_parts.anchor_forms import ProxyPart, TargetPart
from anchortm.engine.model_parts.contract import MakeLoss, Part
from anchortm.engine.model_parts.penalties import CollinearPart, PenaltyPart
from anchortm.engine.model_parts.random_effects import RandomPart
from anchortm.engine.model_parts.scale_effects import ScalePart
from anchortm.engine.model_parts.tail_risk import TailPart, WorstPart

__all__ = ["PARTS", "MakeLoss", "Part"]

#: The parts of this package, in the order in which they wrap the loss.
PARTS: tuple[Part, ...] = (
    TargetPart(),
    ProxyPart(),
    ScalePart(),
    RandomPart(),
    CollinearPart(),
    PenaltyPart(),
    TailPart(),
    WorstPart(),
)
