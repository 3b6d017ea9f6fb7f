"""The built pages: files as they are, any other address the application, which finds its own way."""

from pathlib import Path

from flask import Blueprint, Response, current_app, send_from_directory
from werkzeug.exceptions import NotFound

from .errors import ApiError

blueprint = Blueprint("pages", __name__)

NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Bellrock</title>
<h1>The pages are not built</h1><p>Run <code>make build</code>, then load this address again.
The API answers under <a href="/api/v1/jobs">/api/v1</a>.</p></html>
"""


@blueprint.get("/")
@blueprint.get("/<path:path>")
def page(path: str = "") -> Response:
    """A file of the build, or its index.html."""
    if path == "api" or path.startswith("api/"):
        raise ApiError(404, "no_such_address", f"there is nothing at /{path[:200]}", "see /api/v1/openapi.json for every address")
    folder = Path(current_app.config["FRONTEND_DIR"])
    if not (folder / "index.html").is_file():
        return Response(NOT_BUILT, status=503, mimetype="text/html")
    if path:
        try:
            response = send_from_directory(folder, path)
        except NotFound:
            if path.startswith("assets/"):
                raise  # a file of another build: the application in its place would only confuse
        else:
            # Vite names what lies in assets/ by its contents.
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if path.startswith("assets/") else "no-cache"
            return response
    response = send_from_directory(folder, "index.html")
    response.headers["Cache-Control"] = "no-cache"
    return response
