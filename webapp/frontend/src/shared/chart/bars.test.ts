import { expect, it } from "vitest";
import { barFrame } from "./bars";
import type { Palette } from "./palette";

it("asks for the place that is hovered, be it one bar or several, and for none where there is none", () => {
  const { formatter } = barFrame({} as Palette, (place) => `at ${place}`).tooltip as unknown as { formatter: (hovered: unknown) => string };
  expect([{ dataIndex: 3 }, [{ dataIndex: 2 }, { dataIndex: 2 }], []].map(formatter)).toEqual(["at 3", "at 2", "at -1"]);
});
