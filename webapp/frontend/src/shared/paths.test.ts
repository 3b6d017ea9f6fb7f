import { expect, it } from "vitest";
import { componentPath, jobPath, serverPath } from "./paths";

it("has addresses for names of any kind", () => {
  expect(jobPath("a/b:1")).toBe("/jobs/a%2Fb%3A1");
  expect(serverPath("a/b?c")).toBe("/servers/a%2Fb%3Fc");
  const brick = { node: "n1", component: "gluster_server", instance: "lw:/data/b&1" };
  expect(componentPath(brick, new URLSearchParams("span=6h&component=x"))).toBe("/servers/n1?span=6h&component=gluster_server&instance=lw%3A%2Fdata%2Fb%261");
});
