"""The server of an NVFlare job that fits to sites, and a run of it in the simulator or as a POC."""

from __future__ import annotations

import json
import sys

from nvflare.collab import CollabRecipe, collab
from nvflare.recipe import PocEnv, SimEnv

import anchortm as atm
from anchortm.federated import Coordinator
from anchortm.federated.nvflare import NVFlareSites, SiteApp


class FitApp:
    """Fits one model and saves it."""

    def __init__(self, study: str, result: str) -> None:
        self.study, self.result = study, result

    @collab.main  # type: ignore[untyped-decorator, unused-ignore]
    def run(self) -> None:
        coordinator = Coordinator(NVFlareSites(), self.study)
        model = coordinator.fit(atm.ContinuousLogit(order=5), xi=1.0)
        atm.save(model, self.result)
        with open(f"{self.result}.facts", "w") as file:
            json.dump({"rounds": coordinator.rounds}, file)


def main(folder: str, poc: bool) -> None:
    """Run the job: in the simulator, or with a server and clients that are processes of their own."""
    server = FitApp(f"{folder}/study.toml", f"{folder}/model.json")
    recipe = CollabRecipe("anchortm", server=server, client=SiteApp(), min_clients=3)
    if not poc:
        recipe.execute(SimEnv(num_clients=3, workspace_root=f"{folder}/workspace"))
        return
    env = PocEnv(num_clients=3)  # in the folder that NVFLARE_POC_WORKSPACE names
    try:
        run = recipe.execute(env)
        run.get_result(timeout=90.0)
        print("status:", run.get_status())
    finally:
        env.stop(clean_up=True)


if __name__ == "__main__":
    main(sys.argv[1], "poc" in sys.argv[2:])
