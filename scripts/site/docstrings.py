"""Turns docstrings into Markdown: their examples into code, and their references into names."""

import re

import griffe

REFERENCE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):``?~?([^`]+)``?")


class Docstrings(griffe.Extension):
    """Changes each docstring when it has been read."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text):
    """Returns a docstring as Markdown."""
    paragraphs = []
    for paragraph in REFERENCE.sub(r"`\1`", text).split("\n\n"):
        if paragraph.lstrip().startswith(">>>"):
            paragraph = f"```pycon\n{paragraph}\n```"
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)
