import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { ApiError } from "../api/client";
import { Loading } from "./states";

const told = (failure: unknown) => renderToStaticMarkup(<Loading what="the layers" failure={failure} />).replace(/<[^>]*>/g, "");

it("says why it takes long while a busy server is asked again, and nothing of other failures, which come to an end", () => {
  expect(told(new ApiError(503, "busy", "the server is at work", "", 2))).toBe("Loading the layers… Waiting: the server is at work.");
  expect([null, new ApiError(500, "internal_error", "a bug", ""), new Error("away")].map(told)).toEqual(Array(3).fill("Loading the layers…"));
});
