import { expect, it } from "vitest";
import { draftFor } from "./draft";

it("a blank that was typed last stays through a pause", () => {
  const typed = { text: "one ", base: "" };
  expect(draftFor(typed, "")).toEqual(typed);
  expect(draftFor(typed, "one")).toEqual({ text: "one ", base: "one" });
});

it("another value takes the draft's place: the back button, or a button that clears the search", () => {
  expect(draftFor({ text: "one ", base: "one" }, "")).toBeNull();
  expect(draftFor({ text: "one", base: "" }, "two")).toBeNull();
  expect(draftFor(null, "two")).toBeNull();
});
