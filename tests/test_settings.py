"""Settings from the environment."""

import msgspec
import pytest

from gateway.settings import ENV_PREFIX, Settings, SettingsError


def test_nothing_set_gives_the_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings.from_env({"GATEWAY_PORT": "  "}) == Settings()
    assert (Settings().host, Settings().port) == ("127.0.0.1", 8000)


def test_each_setting_is_read_in_its_type() -> None:
    defaults = Settings()
    for name in Settings.__struct_fields__:
        default = getattr(defaults, name)
        text = "text" if isinstance(default, str) else "7" if isinstance(default, int) else "2.5"
        settings = Settings.from_env({ENV_PREFIX + name.upper(): text})
        assert getattr(settings, name) == type(default)(text), name
        assert settings == msgspec.structs.replace(defaults, **{name: type(default)(text)})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GATEWAY_PORT", "http"),
        ("GATEWAY_PORT", "70000"),
        ("GATEWAY_PORT", "8000.5"),
        ("GATEWAY_WORKERS", "0"),
        ("GATEWAY_PING_INTERVAL", "0"),
        ("GATEWAY_DRAIN", "-1"),
        ("GATEWAY_RING_BYTES", "64 MB"),
    ],
)
def test_wrong_value_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        Settings.from_env({variable: value})


def test_each_setting_is_described_with_its_unit() -> None:
    described = Settings.descriptions()
    assert set(described) == set(Settings.__struct_fields__)
    for name, text in described.items():
        if isinstance(getattr(Settings(), name), float):
            assert "seconds" in text, name
        if name.endswith(("_bytes", "_frame")):
            assert "bytes" in text, name
