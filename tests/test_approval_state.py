import pytest

from gateway.approval_state import ApprovalState, approval_field


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ApprovalState(deadline=0), "pending 0 null"),
        (ApprovalState(deadline=1790000000000).decided("edit", "ann b"), 'edit 1790000000000 "ann b"'),
        (ApprovalState(deadline=5).decided("expired", None), "expired 5 null"),
        (ApprovalState(deadline=5).decided("approve", {"id": "x\n"}), r'approve 5 {"id":"x\n"}'),
    ],
)
def test_state_is_the_text_of_its_field(state: ApprovalState, text: str) -> None:
    assert state.text == text
    assert ApprovalState.parse(text) == state


@pytest.mark.parametrize("text", ["", "pending", "pending 5", "pending x null", "pending 5 {"])
def test_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ApprovalState.parse(text)


def test_field_names_run_and_call() -> None:
    assert approval_field("r1", "call 1") == "a:r1/call 1"
