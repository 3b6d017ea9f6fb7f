import { createElement, Fragment, type ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { JobRow } from "../api/get-jobs";
import { jobColumns, runtimeS } from "./job-columns";

const nowMs = 1_763_720_060_000;
const job = { job_id: "a/b:1", state: "running", end_ns: null, start_ns: 1_763_720_000_000 * 1e6, runtime_s: 12, io_mode_read: null, read_bytes: null } as JobRow;

const shown = (cell: ReactNode) => renderToStaticMarkup(createElement(Fragment, null, cell));

describe("runtimeS", () => {
  it("ticks while the job runs", () => expect(runtimeS(job, nowMs)).toBeCloseTo(60));
  it("never goes back behind what the server said", () => expect(runtimeS({ ...job, runtime_s: 90 }, nowMs)).toBe(90));
  it("is final afterwards", () => expect(runtimeS({ ...job, end_ns: 1, state: "completed" }, nowMs)).toBe(12));
});

it("a program or user that is not known is a dash, also where the server has an empty text", () => {
  for (const key of ["program", "user"]) {
    const column = jobColumns(nowMs).find((one) => one.key === key);
    expect(shown(column?.cell({ ...job, program: "", user: "" }))).toBe("–");
    expect(shown(column?.cell({ ...job, program: "dd", user: "dd" }))).toBe("dd");
  }
});

it("a job that could not be watched is no idle one", () => {
  const column = jobColumns(nowMs).find((one) => one.key === "program");
  expect(shown(column?.cell({ ...job, program: "dd", unseen_programs: 1, read_ops: null }))).toContain(">unseen<");
  expect(shown(column?.cell({ ...job, program: "dd", unseen_programs: 1, read_ops: 4 }))).toContain(">partly seen<");
});

it("a figure that is not known yet is a dash, and its raw value is empty", () => {
  const column = jobColumns(nowMs).find((one) => one.key === "read_bytes");
  expect(column?.cell(job)).toBe("–");
  expect(column?.value?.(job)).toBeNull();
});
