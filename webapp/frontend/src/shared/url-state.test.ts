import { describe, expect, it } from "vitest";
import { choice, msToNs, nsToMs, withChanges, zoomWindow } from "./url-state";

describe("withChanges", () => {
  it("sets, repeats and takes away, and leaves the rest", () => {
    const before = new URLSearchParams("search=x&cursor=a&theme=1");
    const after = withChanges(before, { search: "y z", cursor: ["a", "b"], theme: null, empty: "" });
    expect(after.toString()).toBe("search=y+z&cursor=a&cursor=b");
    expect(before.toString()).toBe("search=x&cursor=a&theme=1");
    expect(withChanges(after, { cursor: [] }).getAll("cursor")).toEqual([]);
  });
});

it("an unknown choice is the default", () => {
  expect(choice(new URLSearchParams("by=bytes"), "by", ["ops", "bytes"])).toBe("bytes");
  expect(choice(new URLSearchParams("by=nonsense"), "by", ["ops", "bytes"])).toBe("ops");
});

describe("zoomWindow", () => {
  it("keeps every nanosecond", () =>
    expect(zoomWindow(new URLSearchParams("from_ns=1763720000000000001&to_ns=1763720000000000003"))).toEqual({
      fromNs: "1763720000000000001",
      toNs: "1763720000000000003",
    }));
  it.each(["", "from_ns=1", "from_ns=5&to_ns=5", "from_ns=9&to_ns=10&from_ns=", "from_ns=x&to_ns=10", "from_ns=-1&to_ns=10"])(
    "%s is the whole job or a sound window", (query) => {
      const window = zoomWindow(new URLSearchParams(query));
      if (window) expect(BigInt(window.fromNs)).toBeLessThan(BigInt(window.toNs));
      else expect(window).toBeNull();
    });
  it("compares as numbers, not as text", () => expect(zoomWindow(new URLSearchParams("from_ns=9&to_ns=10"))).not.toBeNull());
});

it("ms and ns agree to the microsecond", () => {
  expect(msToNs(1763720000123.456)).toBe("1763720000123456000");
  expect(nsToMs("1763720000123000000")).toBe(1763720000123);
});
