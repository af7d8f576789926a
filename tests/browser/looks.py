"""Pictures of pages at the widths and in the themes that they are made for, and what must be true of each."""

import asyncio
from pathlib import Path

from playwright.async_api import Page

__all__ = ["SCREENSHOTS", "look"]

SCREENSHOTS = Path(__file__).parent / "screenshots"
AXE = Path(__file__).parent.parent / "js" / "node_modules" / "axe-core" / "axe.min.js"
FAULTS = """async () => {
    const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const { violations } = await axe.run({ runOnly: rules });
    return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html.slice(0, 120))}`);
}"""
SIZES = ((360, 740), (768, 900), (1440, 900))
OVERFLOW = """() => {
    const root = document.documentElement;
    const wide = [...document.querySelectorAll('.top, .tools, .stats, .bar, .scrub, .pane-head, .facts, .run-row')]
        .filter((element) => element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1)
        .map((element) => `${element.className}: ${element.scrollWidth} > ${element.clientWidth}`);
    return root.scrollWidth > root.clientWidth ? [...wide, `page: ${root.scrollWidth}`] : wide;
}"""


async def look(page: Page, name: str, *, sizes: tuple[tuple[int, int], ...] = SIZES) -> None:
    """Take a picture of a state at every width, dark and light; nothing sticks out sideways, and axe finds no fault.

    Args:
        page: It gets back the size that it had.
        name: Of the state; the pictures are `screenshots/<name>-<width>-<theme>.png`.
        sizes: Widths and heights, px.

    """
    SCREENSHOTS.mkdir(exist_ok=True)
    axe = await asyncio.to_thread(AXE.read_text)
    before = page.viewport_size
    for width, height in sizes:
        await page.set_viewport_size({"width": width, "height": height})
        for theme in ("dark", "light"):
            # Without motion no picture shows the middle of a change.
            await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            path = SCREENSHOTS / f"{name}-{width}-{theme}.png"
            image = await page.screenshot()
            await asyncio.to_thread(path.write_bytes, image)
            await page.evaluate(axe)
            faults = await page.evaluate(FAULTS)
            assert faults == [], f"{name} at {width} px, {theme}: {faults}"
        wide = await page.evaluate(OVERFLOW)
        assert wide == [], f"{name} at {width} px: {wide}"
    if before is not None:
        await page.set_viewport_size(before)
