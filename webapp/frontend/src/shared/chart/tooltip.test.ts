import { expect, it } from "vitest";
import { tooltipHtml } from "./tooltip";

it("names from the wire cannot become markup", () => {
  const html = tooltipHtml('<img src=x onerror="1">', [{ colour: '"><script>', label: "<b>", value: "a & b" }]);
  expect(html).not.toMatch(/<img|<script|<b>/);
  expect(html).toContain("&lt;img src=x onerror=&quot;1&quot;&gt;");
  expect(html).toContain("a &amp; b");
});
