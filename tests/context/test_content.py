import base64
from typing import Any

import pytest
from hypothesis import given

from gateway.context.content import ContentPart, flatten

from .strategies import JSON, PARTS


@given(PARTS)
def test_from_logged_reads_what_to_dict_wrote(part: Any) -> None:
    assert ContentPart.from_logged(part.to_dict()) == part


@given(JSON)
def test_from_raw_and_from_logged_never_fail(raw: Any) -> None:
    for part in (ContentPart.from_raw(raw), ContentPart.from_logged(raw)):
        assert isinstance(part.flatten(), str)


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ("hi", {"type": "text", "text": "hi"}),
        ({"type": "text", "text": "hi", "extra": 1}, {"type": "text", "text": "hi"}),
        ({"type": "thinking", "text": "hm"}, {"type": "thinking", "thinking": "hm"}),
        ({"type": "thinking", "thinking": "a", "text": "b"}, {"type": "thinking", "thinking": "a"}),
        ({"type": "image_url", "url": "u"}, {"type": "image_url", "url": "u"}),
        ({"type": "image_url", "image_url": {"url": "u"}}, {"type": "image_url", "url": "u"}),
        ({"type": "video_url", "video_url": {"url": "u"}}, {"type": "video_url", "url": "u"}),
        ({"type": "image", "data": "aGk="}, {"type": "image", "data": "aGk=", "media_type": "image/png"}),
        (
            {"type": "file_id", "file_id": " f1 "},
            {"type": "file", "file_id": "f1", "media_type": "application/pdf"},
        ),
        (
            {
                "type": "document",
                "source": {"file_id": "f1", "title": "T"},
                "metadata": {"context": "mine"},
                "context": "c",
            },
            {
                "type": "file",
                "file_id": "f1",
                "media_type": "application/pdf",
                "metadata": {"title": "T", "context": "mine"},
            },
        ),
        (
            {"type": "file", "data": "aGk=", "filename": "a.bin"},
            {"type": "file", "data": "aGk=", "filename": "a.bin", "media_type": "application/octet-stream"},
        ),
    ],
)
def test_from_raw_reads_known_shapes(raw: Any, fields: Any) -> None:
    assert ContentPart.from_raw(raw).to_dict() == fields


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"type": "text", "text": 5}, '{"type":"text","text":5}'),
        ({"type": "image_url"}, '{"type":"image_url"}'),
        ({"type": "file", "file_id": " ", "data": "x"}, '{"type":"file","file_id":" ","data":"x"}'),
        ({"type": "input_audio", "audio": 1}, '{"type":"input_audio","audio":1}'),
        ({}, "{}"),
        (7, "7"),
    ],
)
def test_from_raw_keeps_the_rest_as_its_json(raw: Any, text: Any) -> None:
    assert ContentPart.from_raw(raw) == ContentPart.of_text(text)


def test_bytes_become_base64_text() -> None:
    part = ContentPart.of_image(b"\x00\xff")
    assert part.data == base64.b64encode(b"\x00\xff").decode()
    assert ContentPart.of_image(part.data) == part


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (ContentPart.of_text("hi"), "hi"),
        (ContentPart.of_thinking("hm"), "[Thinking: hm]"),
        (ContentPart.of_image_url("u"), "[Image: u]"),
        (ContentPart.of_image(b"x"), "[Image]"),
        (ContentPart(type="video_url", url="v"), "[Video: v]"),
        (ContentPart.of_file(b"x", "a.txt"), "[File: a.txt]"),
        (ContentPart.of_file_id("f1"), "[File: f1]"),
        (ContentPart(type="other"), "[other]"),
    ],
)
def test_flatten_part(part: Any, text: Any) -> None:
    assert part.flatten() == text


def test_flatten_content() -> None:
    assert flatten(None) == ""
    assert flatten("a") == "a"
    assert flatten((ContentPart.of_text("a"), ContentPart.of_image_url("u"))) == "a[Image: u]"
    assert flatten({"a": 1}) == '{"a":1}'
