"""The tables of the papers, computed again with streamcal."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from streamcal import StreamcalError
from streamcal.datasets import fetch


def path_of(name: str) -> Path:
    """Return the file of a data set from `$STREAMCAL_DATA`, the cache or a download; exit if there is none."""
    try:
        return fetch(name)
    except StreamcalError as error:
        raise SystemExit(str(error)) from None


def save(figure: Figure, path: Path, dpi: float, colours: int = 256) -> None:
    """Write a figure as a PNG with a palette, about half the size of one without."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba().tobytes())
    picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
