import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { NOW_MS, counter, message, palette, series } from "./fixtures";
import { grouped } from "./grouping";
import { marksOf } from "./message-marks";
import { MessageTable, MessagesPanel } from "./messages-panel";
import { timesOf, valueOption } from "./value-option";

const shown = (element: React.ReactNode) => renderToStaticMarkup(<>{element}</>);
const table = (...messages: ReturnType<typeof message>[]) => shown(<MessageTable list={{ messages, total: messages.length, is_whole: true }} />);

it("shows a message's words as text alone", () => {
  const page = table(message({ text: '<img src=x onerror="alert(1)">', program: "<b>sshd", event: null }));
  expect([page.includes("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;"), page.includes("&lt;b&gt;sshd"), page.includes("<img")]).toEqual([true, true, false]);
});

it("says how grave a message is, what it tells of, and whether the log vouches for who wrote it", () => {
  const page = table(message({ severity: 2, event: "io_error" }), message({ origin: "claimed", event: "target_read_only", count: 1234 }));
  expect(page.match(/data-severity="\d"/g)).toEqual(['data-severity="2"', 'data-severity="4"']);
  expect([page.includes('<span class="bad">critical</span>'), page.includes("I/O error<"), page.includes("Target read only ?<"), page.includes("1,234 times until")]).toEqual([true, true, true, true]);
});

it("tells how many there are where it shows the last ones", () => {
  const some = shown(<MessageTable list={{ messages: [message()], total: 10_000, is_whole: false }} />);
  expect(some).toContain("of more than 10,000");
  expect(table()).toContain("No messages in this time");
  expect(shown(<MessagesPanel list={undefined} error={null} choice="all" onChoice={() => {}} />)).toContain("messages");
});

it("marks events on the axis of charts, and names them there", () => {
  const messages = [message(), message({ event: "path_down", origin: "claimed" }), message({ event: "io_error", start_ns: (NOW_MS + 1500) * 1e6 })];
  const marks = marksOf(messages);
  expect(marks.map(({ label }) => label)).toEqual(["Lustre failover", "Path down ?", "I/O error"]);
  expect(marksOf(Array.from({ length: 500 }, () => message())).length).toBe(60);
  const [group] = grouped([counter("read_ops", [4, 7], "requests"), counter("write_ops", [1, 2], "requests")]).charts;
  if (!group) throw new Error("no chart");
  const option = valueOption(group, timesOf(series([]), NOW_MS, NOW_MS + 2000, marks), palette);
  const lines = option.series as { markLine?: { data: { xAxis: number }[] } }[];
  expect(lines.map(({ markLine }) => markLine?.data.map(({ xAxis }) => xAxis))).toEqual([[NOW_MS, NOW_MS, NOW_MS + 1500], undefined]);
  const { formatter } = option.tooltip as { formatter: (hovered: unknown) => string };
  expect([formatter([{ axisValue: NOW_MS + 200 }]).includes("Lustre failover"), formatter([{ axisValue: NOW_MS + 1200 }]).includes("Lustre failover"), formatter([{ axisValue: NOW_MS + 1200 }]).includes("I/O error")]).toEqual([true, false, true]);
});
