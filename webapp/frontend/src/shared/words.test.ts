import { expect, it } from "vitest";
import { inWords } from "./words";

it("writes names of values and kinds as words", () => {
  expect(["block_device", "nfs_server", "cpu_busy_s", "ost", "X"].map(inWords)).toEqual(["Block device", "NFS server", "CPU busy s", "OST", "X"]);
});
