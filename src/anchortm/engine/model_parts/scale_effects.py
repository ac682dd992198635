"""Scale effects: covariates that change the spread, h = exp(z'g / 2) a(y)'theta + ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.model_parts.contract import MakeLoss, Part
from anchortm.engine.objective.location_scale import ScaledObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.scale_effects import check_scalable, scale_columns, scale_name, scaled_baseline
from anchortm.engine.result import ScaleEffects
from anchortm.inputs.splines import Marks

if TYPE_CHECKING:
    from anchortm.engine.formulation import Formulation
    from anchortm.engine.solve.newton import Solution
    from anchortm.engine.specification import Specification

__all__ = ["ScalePart"]

Array = NDArray[np.float64]


class ScalePart(Part):
    """Effects on the scale of h, with a penalty of their own on the anchors."""

    key = "scale"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether columns are named in ``scale``."""
        return spec.scale is not None

    def names(self, spec: Specification, data: Any) -> tuple[str, ...]:
        """Return the names of the scale effects."""
        return tuple(scale_name(data.names[j]) for j in scale_columns(spec.scale, data.names))

    def marks(self, spec: Specification, data: Any) -> Marks:
        """Return the smooth terms of the columns of the scale: their curves are as smooth as those of the shift."""
        return tuple(data.marks[j] for j in scale_columns(spec.scale, data.names))

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss of shift and scale effects: the columns of the scale stand after those of the shift."""
        spec = formulation.spec

        def scaled(data: Any) -> Objective:
            check_scalable(formulation.basis)
            columns = scale_columns(spec.scale, data.names)
            names = (*data.names, *self.names(spec, data))
            plain = make(data.repeated(columns, spec.sign, names))
            assert isinstance(plain, RowObjective)  # noqa: S101 - scale effects come before other parts
            return ScaledObjective(plain, len(columns), names, spec.xi_scale)

        return scaled

    def afar(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss of shift and scale effects of rows elsewhere."""
        spec = formulation.spec

        def scaled(data: Any) -> Objective:
            check_scalable(formulation.basis)
            columns = scale_columns(spec.scale, data.names)
            names = (*data.names, *self.names(spec, data))
            plain: Any = make(data.repeated(columns, spec.sign, names).asking(scale=columns))
            found: Objective = plain.of_scale(len(columns), names, spec.xi_scale)
            return found

        return scaled

    def theta(self, spec: Specification, theta: Array, own: Array, rows: Any) -> Array:
        """Return the baseline of each row."""
        columns = scale_columns(spec.scale, rows.design.names)
        return scaled_baseline(theta, rows.design.matrix[:, columns], own)

    def found(self, formulation: Formulation, objective: Objective, solution: Solution, own: Array) -> dict[str, Any]:
        """Return the scale effects, and both penalties."""
        spec, names = formulation.spec, formulation.data.names
        shift, scale = (part / objective.n_total for part in objective.penalties(solution.v))
        xi = solution.xi if spec.xi_scale is None else float(spec.xi_scale)
        named = [names[j] for j in scale_columns(spec.scale, names)]
        return {"penalty": shift, "scale": ScaleEffects(named, own, xi, scale)}
