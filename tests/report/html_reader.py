"""A page as a list of elements, which tests can search."""

from html.parser import HTMLParser
from typing import NamedTuple

VOID = {"meta", "line", "br"}


class Element(NamedTuple):
    """An element of a page, with all the text in it."""

    tag: str
    attributes: dict[str, str | None]
    texts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()


class HtmlReader(HTMLParser):
    """The elements of a page in their order; every tag must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> does not close the last open tag"

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.texts.append(data)

    def find(self, tag: str, class_: str | None = None, **attributes: str) -> list[Element]:
        """Return the elements with this tag, class and attributes."""
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (class_ is None or class_ in element.classes)
            and attributes.items() <= element.attributes.items()
        ]

    def texts(self, tag: str, class_: str | None = None) -> list[str]:
        """Return the texts of these elements."""
        return [element.text for element in self.find(tag, class_)]

    def ids(self) -> list[str | None]:
        """Return the ids of all elements."""
        return [e.attributes["id"] for e in self.elements if "id" in e.attributes]

    def links(self) -> list[str]:
        """Return where the links lead, without their #."""
        hrefs = [element.attributes["href"] or "" for element in self.find("a")]
        assert all(href.startswith("#") for href in hrefs)
        return [href[1:] for href in hrefs]
