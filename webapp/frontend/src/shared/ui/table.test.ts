import { describe, expect, it } from "vitest";
import { nextSort, sortRows, type Column } from "./table";

it("numbers sort downward first, names upward; a second click turns round", () => {
  expect(nextSort("-start", "bytes", true)).toBe("-bytes");
  expect(nextSort("-bytes", "bytes", true)).toBe("bytes");
  expect(nextSort("bytes", "bytes", true)).toBe("-bytes");
  expect(nextSort(undefined, "file", false)).toBe("file");
});

describe("sortRows", () => {
  interface Row { n: number | null; s: string }
  const columns: Column<Row>[] = [
    { key: "n", header: "n", sortKey: "n", value: (row) => row.n, cell: (row) => row.n },
    { key: "s", header: "s", sortKey: "s", value: (row) => row.s, cell: (row) => row.s },
  ];
  const rows: Row[] = [{ n: 10, s: "b" }, { n: null, s: "a" }, { n: 9, s: "c" }];
  it("by number, not by text", () => expect(sortRows(rows, columns, "n").map((row) => row.n)).toEqual([9, 10, null]));
  it("unknown values stay last", () => expect(sortRows(rows, columns, "-n").map((row) => row.n)).toEqual([10, 9, null]));
  it("by name", () => expect(sortRows(rows, columns, "s").map((row) => row.s)).toEqual(["a", "b", "c"]));
  it("an unknown column leaves the order", () => expect(sortRows(rows, columns, "x")).toEqual(rows));
});
