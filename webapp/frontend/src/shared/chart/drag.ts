/**
 * Whether a pointer that went down on `element` is still down. It may come up anywhere on `page`, or be taken away: a touch
 * that turns into scrolling ends with pointercancel. `onEnd` is called after either.
 */
export function trackDrag(element: EventTarget, page: EventTarget, onEnd: () => void) {
  let dragging = false;
  const down = () => { dragging = true; };
  const up = () => {
    dragging = false;
    onEnd();
  };
  element.addEventListener("pointerdown", down);
  for (const name of ["pointerup", "pointercancel"]) page.addEventListener(name, up);
  return {
    isDragging: () => dragging,
    stop: () => {
      element.removeEventListener("pointerdown", down);
      for (const name of ["pointerup", "pointercancel"]) page.removeEventListener(name, up);
    },
  };
}
