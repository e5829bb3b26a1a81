"""Settings of the documentation: ``python -m sphinx -W -n docs docs/_build/html``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # the package that is described is the one beside this folder

from jaxvar import __version__  # noqa: E402

project = "jaxvar"
author = "The jaxvar developers"
project_copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    "formulas",  # formulas.py and written_from_code.py are in this folder
    "written_from_code",
]
exclude_patterns = ["_build", "templates"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
nitpick_ignore_regex = [
    ("py:.*", r"(jax|jaxlib|numpy|np|collections|pathlib|typing|xarray|matplotlib)\..*"),  # no inventories are fetched
    ("py:class", r"jaxvar\.(algorithms|environments)\.\w+\.\w+"),  # what the makers return: users name the makers
    ("py:class", r"jaxvar\.wrappers\.\w+\.\w+"),  # likewise
    ("py:class", r"jaxvar\.(simulate\.T|study\.cells\.Cell|study\.store\.Manifest|episodes\.Visit)"),
    ("py:class", r"ArrayTree|Path"),  # of chex and pathlib, by their short names
]

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "jaxvar"
html_static_path = ["static"]
html_css_files = ["narrow_screens.css"]
html_copy_source = False
