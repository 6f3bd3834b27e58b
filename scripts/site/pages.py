"""Pages of the documentation site that are not in docs/, and links between all of them."""

import re
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]

#: Pages from the root of the repository, by their names on the site.
OF_ROOT = {
    "index.md": "README.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
}

MODULES = ("", ".cuda", ".zarr", ".numcodecs", ".h5py", ".xarray", ".dask", ".safetensors")

#: Wide enough for lines of code.
STYLE = ".md-grid { max-width: 76rem; }\n"

#: A link to a page that is named by its file, as is right for readers of the repository.
NAMED_BY_FILE = re.compile(r"\[[\w/-]+\.md\]\(([\w-]+\.md)(#[^)\s]*)?\)")

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files, config):
    """Adds the pages of the root folder, and one with the API of the Python package."""
    for name, source in OF_ROOT.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    modules = "\n\n".join(f"::: syncline{module}" for module in MODULES)
    files.append(File.generated(config, "API.md", content=f"# Python API\n\n{modules}\n"))
    files.append(File.generated(config, "site.css", content=STYLE))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links that leave the site into links to the repository, and names of files into titles of pages."""
    name = page.file.src_uri
    folder = PurePosixPath("." if name in OF_ROOT else "docs")
    pages = {source: page for page, source in OF_ROOT.items()}

    def link(match):
        target = (ROOT / folder / match[1]).resolve()
        if not target.exists():
            return match[0]  # MkDocs reports it.
        path = target.relative_to(ROOT.resolve()).as_posix()
        anchor = match[2] or ""
        if path in pages:
            return f"]({pages[path]}{anchor})"
        if path.startswith("docs/") and target.is_file():
            return f"]({path.removeprefix('docs/')}{anchor})"
        return f"]({repository()}/{'tree' if target.is_dir() else 'blob'}/main/{path}{anchor})"

    titles = dict(titles_of(config.nav))

    def titled(match):
        return f"[{titles[match[1]]}]({match[1]}{match[2] or ''})" if match[1] in titles else match[0]

    return NAMED_BY_FILE.sub(titled, LINK.sub(link, markdown))


def titles_of(nav):
    """Returns the names of the pages in the navigation with their titles."""
    for entry in nav:
        for title, target in entry.items():
            yield from titles_of(target) if isinstance(target, list) else [(target, title)]


def repository():
    """Returns the address of the repository, which Cargo.toml names."""
    return re.search(r'^repository = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
