"""Messages for packages that only a part of Syncline needs."""


def missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Returns the error of an import with what to install."""
    return ModuleNotFoundError(f"{error}: pip install 'syncline[{extra}]'", name=error.name, path=error.path)
