"""One self-contained HTML page of a study: no network, no server, nothing to install."""

from jaxvar.report.page import page, write_page

__all__ = ["page", "write_page"]
