"""A study as one self-contained HTML page, which needs no network and no server."""

from jaxvar.report.page import page, write_page

__all__ = ["page", "write_page"]
