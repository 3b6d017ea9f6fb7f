import { expect, it } from "vitest";
import { rowName, rowWords, whoName } from "./who";

it("says rank of a rank alone", () => {
  expect(["0", "17", "n1:7.1", "n3 without rank"].map(whoName)).toEqual(["rank 0", "rank 17", "n1:7.1", "n3 without rank"]);
});

it("tells the first, the last and how many a row has", () => {
  expect(rowWords("node", { first: "n1", last: "n1", members: 1 })).toBe("node n1");
  expect(rowWords("node", { first: "n1", last: "n4", members: 4 })).toBe("nodes n1 – n4 (4 together)");
  expect(rowWords("rank", { first: "3", last: "3", members: 1 })).toBe("rank 3");
  expect(rowWords("rank", { first: "0", last: "1347", members: 1348 })).toBe("ranks 0 – 1347 (1,348 together)");
  expect(rowWords("rank", { first: "0", last: "63", members: 16 })).toBe("16 of ranks 0 – 63");
  expect(rowWords("rank", { first: "62", last: "n2:2.1", members: 3 })).toBe("rank 62 – n2:2.1 (3 together)");
  expect(rowWords("rank", { first: "n9 without rank", last: "n9 without rank", members: 2 })).toBe("n9 without rank (2 together)");
  expect([rowName({ first: "0", last: "0" }), rowName({ first: "0", last: "7" })]).toEqual(["0", "0 – 7"]);
});
