import { expect, it } from "vitest";
import { amountFormat, bucketWords, formatShare, rateFormat, unitWord, valueWords } from "./words";

it("leaves out of a value's name the unit that its numbers bear", () => {
  const told = (name: string, unit: string | null, kind = "counter") => valueWords({ name, unit, kind });
  expect([told("busy_s", "s"), told("wait_us", "us"), told("read_bytes", "bytes"), told("free_bytes", "bytes", "gauge"), told("files_s", null), told("energy_package_uj", "uJ"), told("bandwidth_bytes_per_s", "bytes/s", "gauge")])
    .toEqual(["Busy", "Wait", "Read bytes", "Free", "Files s", "Energy package", "Bandwidth"]);
});

it("writes rates and amounts by their unit", () => {
  expect([rateFormat("bytes")(2048), rateFormat("requests")(7), rateFormat(null)(0.5), rateFormat("s")(0.374), rateFormat("us")(2_400_000), rateFormat("s")(null), rateFormat("uJ")(45_500_000), rateFormat("uJ")(null)])
    .toEqual(["2.00 KiB/s", "7/s", "0.50/s", "37 %", "240 %", "–", "45.5 W", "–"]);
  expect([amountFormat("bytes")(2048), amountFormat("ms")(1500), amountFormat("ns")(null), amountFormat("requests")(3), amountFormat("bytes/s")(2048)]).toEqual(["2.00 KiB", "1.50 s", "–", "3", "2.00 KiB/s"]);
  expect([formatShare(0), formatShare(0.0012), formatShare(0.0999)]).toEqual(["0 %", "0.12 %", "10 %"]);
  expect([unitWord("requests", true), unitWord("requests", false), unitWord("bytes", true), unitWord("us", true), unitWord("us", false), unitWord(null, true), unitWord("bytes/s", false)])
    .toEqual(["requests per second", "requests", "", "of the time", "", "", ""]);
});

it("says what a bucket is", () => {
  expect([0, 1, 2].map((place) => bucketWords([100, 5000, null], place, "us"))).toEqual(["up to 100 µs", "up to 5.00 ms", "over 5.00 ms"]);
  expect(bucketWords([null], 0, "bytes")).toBe("any");
});
