"""Thumbnails of the gallery: one panel of a figure each, since whole figures are too small to read.

``panels`` saves figures as sphinx-gallery does, and each panel by itself; ``setup`` makes the thumbnails of them after
all pages have run. A page whose last panel of the first figure is not the telling one is listed in ``SHOWN``.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

__all__ = ["SHOWN", "panels", "setup"]

SHOWN: dict[str, tuple[int, int]] = {  # page -> figure and panel, both counted from 0
    "plot_02_capped_prices": (0, 0),
    "plot_06_needed_at_all": (0, 2),
    "plot_07_do_intervention": (0, 1),
    "plot_09_how_sure": (0, 0),
    "plot_10_whole_distribution": (0, 1),
    "plot_14_many_covariates": (1, 1),
    "plot_15_effects_that_vary": (0, 0),
    "plot_16_spread_at_new_sites": (0, 0),
    "plot_22_which_are_causes": (0, 0),
    "plot_23_hospital_13_joins": (0, 0),
    "plot_24_three_real_data_sets": (0, 2),
}
DPI, ROOM = 160, 0.06  # of panels, and the room around them in inches


def panels(block: Any, block_vars: Any, gallery_conf: Any, **options: Any) -> str:
    """Save the figures of a block, and their panels."""
    import matplotlib.pyplot as plt
    from PIL import Image
    from sphinx_gallery.scrapers import matplotlib_scraper

    folder = Path(block_vars["image_path_iterator"].image_path.format(0)).parent / "panels"
    folder.mkdir(parents=True, exist_ok=True)
    page = Path(block_vars["src_file"]).stem
    before = len(block_vars["image_path_iterator"])
    for k, number in enumerate(plt.get_fignums()):
        figure, drawn = plt.figure(number), io.BytesIO()
        figure.savefig(drawn, dpi=DPI)
        whole = Image.open(drawn)
        for j, ax in enumerate(figure.axes):
            inches = ax.get_tightbbox().transformed(figure.dpi_scale_trans.inverted()).padded(ROOM)
            left, low, right, high = (DPI * inches.extents).round().astype(int)
            above, below = max(whole.height - high, 0), min(whole.height - low, whole.height)
            panel = whole.crop((max(left, 0), above, min(right, whole.width), below))
            panel.save(folder / f"{page}_{before + k}_{j}.png")
    return str(matplotlib_scraper(block, block_vars, gallery_conf, **options))


def _thumbnails(app: Any) -> None:
    from PIL import Image

    images = Path(app.srcdir) / "gallery" / "images"
    width, height = app.config.sphinx_gallery_conf["thumbnail_size"]
    for thumb in sorted((images / "thumb").glob("sphx_glr_plot_*_thumb.png")):
        page = thumb.stem.removeprefix("sphx_glr_").removesuffix("_thumb")
        made = sorted((images / "panels").glob(f"{page}_0_*.png"))
        figure, panel = SHOWN.get(page, (0, len(made) - 1))
        source = images / "panels" / f"{page}_{figure}_{panel}.png"
        if source.exists():
            picture = Image.open(source).convert("RGB")
            picture.thumbnail((width, height), Image.Resampling.LANCZOS)
            ground = Image.new("RGB", (width, height), "white")
            ground.paste(picture, ((width - picture.width) // 2, (height - picture.height) // 2))
            ground.save(thumb)


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("builder-inited", _thumbnails, priority=900)  # after the gallery has run
    return {"parallel_read_safe": True, "parallel_write_safe": True}
