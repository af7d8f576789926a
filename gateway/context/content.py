"""A piece of a message's content: text, thinking, an image, a video, a file."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.context.jsonlike import compact_json

__all__ = ["ContentPart", "flatten"]

_TEXT_FIELDS = ("text", "url", "data", "file_id", "media_type", "filename")
_DOCUMENT_NOTES = ("title", "context", "citations")


class ContentPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a message's content.

    Attributes:
        type: ``text``, ``thinking``, ``image_url``, ``video_url``, ``image``, ``file``; others are carried.
        text: The text of ``text`` and ``thinking``.
        url: Where the image or video is.
        data: The bytes themselves, as base64 text; given bytes are encoded.
        file_id: The provider's id of an uploaded file.
        media_type: MIME type.
        filename: The file's name.
        metadata: Whatever else belongs to the part.

    """

    type: str
    text: str | None = None
    url: str | None = None
    data: str | bytes | None = None
    file_id: str | None = None
    media_type: str | None = None
    filename: str | None = None
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if isinstance(self.data, bytes | bytearray):
            # JSON knows no bytes, and a part must come back from the log as it went in.
            msgspec.structs.force_setattr(self, "data", base64.b64encode(self.data).decode("ascii"))

    @classmethod
    def of_text(cls, text: str, *, metadata: Mapping[str, Any] | None = None) -> "ContentPart":
        """Make a text part."""
        return cls(type="text", text=text, metadata=dict(metadata or {}))

    @classmethod
    def of_thinking(cls, text: str, *, metadata: Mapping[str, Any] | None = None) -> "ContentPart":
        """Make a part of the model's reasoning."""
        return cls(type="thinking", text=text, metadata=dict(metadata or {}))

    @classmethod
    def of_image_url(cls, url: str, *, metadata: Mapping[str, Any] | None = None) -> "ContentPart":
        """Make an image that lies elsewhere."""
        return cls(type="image_url", url=url, metadata=dict(metadata or {}))

    @classmethod
    def of_image(
        cls, data: str | bytes, *, media_type: str = "image/png", metadata: Mapping[str, Any] | None = None
    ) -> "ContentPart":
        """Make an image of its bytes, or of their base64 text."""
        return cls(type="image", data=data, media_type=media_type, metadata=dict(metadata or {}))

    @classmethod
    def of_file(
        cls,
        data: str | bytes,
        filename: str,
        *,
        media_type: str = "application/octet-stream",
        metadata: Mapping[str, Any] | None = None,
    ) -> "ContentPart":
        """Make a file of its bytes, or of their base64 text."""
        return cls(type="file", data=data, filename=filename, media_type=media_type, metadata=dict(metadata or {}))

    @classmethod
    def of_file_id(
        cls,
        file_id: str,
        *,
        media_type: str = "application/pdf",
        filename: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "ContentPart":
        """Make a file that the provider has already."""
        return cls(
            type="file", file_id=file_id, media_type=media_type, filename=filename, metadata=dict(metadata or {})
        )

    @classmethod
    def from_raw(cls, raw: object) -> "ContentPart":
        """Import a part of any known shape; what is not understood becomes a text part holding its JSON."""
        if isinstance(raw, ContentPart):
            return raw
        if isinstance(raw, str):
            return cls(type="text", text=raw)
        part = _imported(raw) if isinstance(raw, Mapping) else None
        return part or cls(type="text", text=compact_json(raw))

    @classmethod
    def from_logged(cls, raw: object) -> "ContentPart":
        """Read a part as ``to_dict`` wrote it; anything else as `from_raw` does."""
        if type(raw) is not dict or type(raw.get("type")) is not str:
            return cls.from_raw(raw)
        fields = dict(raw)
        if fields["type"] == "thinking" and "thinking" in fields:
            fields["text"] = fields.pop("thinking")
        known = fields.keys() <= _FIELD_NAMES and type(fields.get("metadata", {})) is dict
        if known and all(type(fields.get(name, "")) is str for name in _TEXT_FIELDS):
            return cls(**fields)
        return cls.from_raw(raw)

    def to_dict(self) -> dict[str, Any]:
        """Give the fields that are set; the text of a thinking part is called ``thinking``."""
        fields: dict[str, Any] = {"type": self.type}
        for name in _TEXT_FIELDS:
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        if self.type == "thinking" and self.text is not None:
            fields["thinking"] = fields.pop("text")
        if self.metadata:
            fields["metadata"] = self.metadata
        return fields

    def flatten(self) -> str:
        """Give the part as text for people."""
        match self.type:
            case "text":
                return self.text or ""
            case "thinking":
                return f"[Thinking: {self.text or ''}]"
            case "image" | "image_url":
                return f"[Image: {self.url}]" if self.url else "[Image]"
            case "video_url":
                return f"[Video: {self.url}]" if self.url else "[Video]"
            case "file":
                name = self.filename or self.file_id
                return f"[File: {name}]" if name else "[File]"
            case other:
                return f"[{other}]"


_FIELD_NAMES = frozenset(ContentPart.__struct_fields__)


def flatten(content: object) -> str:
    """Give a message's content as text for people; None is empty."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, tuple | list):
        return "".join(ContentPart.from_raw(part).flatten() for part in content)
    return compact_json(content)


def _imported(raw: Mapping[str, Any]) -> ContentPart | None:
    """Read a part's map; None where a field it needs is missing."""
    kind = raw.get("type")
    metadata = raw.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    match kind:
        case "text" if isinstance(raw.get("text"), str):
            return ContentPart(type="text", text=raw["text"], metadata=metadata)
        case "thinking":
            text = _first_text(raw.get("thinking"), raw.get("text"))
            return None if text is None else ContentPart(type="thinking", text=text, metadata=metadata)
        case "image_url" | "video_url":
            nested = raw.get(kind)
            url = _first_text(raw.get("url"), nested.get("url") if isinstance(nested, Mapping) else nested)
            return None if url is None else ContentPart(type=kind, url=url, metadata=metadata)
        case "image" if isinstance(raw.get("data"), str | bytes):
            media_type = _first_text(raw.get("media_type"), "image/png")
            return ContentPart(type="image", data=raw["data"], media_type=media_type, metadata=metadata)
        case "file" | "file_id" | "document":
            return _imported_file(raw, metadata)
        case _:
            return None


def _imported_file(raw: Mapping[str, Any], metadata: dict[str, Any]) -> ContentPart | None:
    source = raw.get("source")
    places = (raw, source) if isinstance(source, Mapping) else (raw,)
    media_type = _first_text(raw.get("media_type"))
    filename = _first_filled(raw.get("filename"))
    file_id = _first_filled(*(place.get("file_id") for place in places))
    if file_id is not None:
        for note in _DOCUMENT_NOTES:
            values = [place[note] for place in places if place.get(note) is not None]
            if values:
                metadata.setdefault(note, values[0])
        return ContentPart(
            type="file",
            file_id=file_id.strip(),
            media_type=media_type or "application/pdf",
            filename=filename,
            metadata=metadata,
        )
    data = raw.get("data")
    if isinstance(data, str | bytes) and filename is not None:
        return ContentPart(
            type="file",
            data=data,
            filename=filename,
            media_type=media_type or "application/octet-stream",
            metadata=metadata,
        )
    return None


def _first_text(*values: object) -> str | None:
    return next((value for value in values if isinstance(value, str)), None)


def _first_filled(*values: object) -> str | None:
    return next((value for value in values if isinstance(value, str) and value.strip()), None)
