"""Names as parts of a path in a URL."""

from urllib.parse import quote


def url_part(name: str) -> str:
    """The name as one part of a path; `.` and `..`, which would mean a place in the path, as what they are."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
