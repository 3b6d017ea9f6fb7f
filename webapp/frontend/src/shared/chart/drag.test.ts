import { expect, it, vi } from "vitest";
import { trackDrag } from "./drag";

it.each(["pointerup", "pointercancel"])("%s ends a drag", (name) => {
  const [element, page, onEnd] = [new EventTarget(), new EventTarget(), vi.fn()];
  const drag = trackDrag(element, page, onEnd);
  element.dispatchEvent(new Event("pointerdown"));
  expect(drag.isDragging()).toBe(true);
  page.dispatchEvent(new Event(name));
  expect(drag.isDragging()).toBe(false);
  expect(onEnd).toHaveBeenCalledOnce();
  drag.stop();
  element.dispatchEvent(new Event("pointerdown"));
  page.dispatchEvent(new Event(name));
  expect(drag.isDragging()).toBe(false);
  expect(onEnd).toHaveBeenCalledOnce();
});
