import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { Profile } from "../api/get-job";
import { JobFigures } from "./job-figures";

const profile: Profile = {
  job_id: "1", program: "dd", nodes: 1, processes: 4, io_processes: 3, runtime_s: 12.5, read_bytes: 1_073_741_825, write_bytes: 0, read_ops: 7, write_ops: 0,
  metadata_ops: 9, mdops_avg: 0.75, bandwidth_avg_read: 1234.5, bandwidth_avg_write: 0, bandwidth_peak_read: 4096, bandwidth_peak_write: 0, iops_avg: 1.5,
  io_mode_read: "N-1", io_mode_write: null, files: 2, phases: 1, errors: 0, mapped_bytes: 0, folded_ops: 0, io_nodes: 1, bearers: null, slowest_op: null, latency: null, phase_list: [],
  operations: [], request_sizes: [], granularity: "process", unseen: [], unseen_programs: 0,
};

/** data-testid → data-value of every figure in the markup. */
function figures(markup: string): Map<string, string> {
  const found = [...markup.matchAll(/data-testid="figure-([^"]+)" data-value="([^"]*)"/g)];
  return new Map(found.map(([, name, value]) => [name ?? "", value ?? ""]));
}

describe("JobFigures", () => {
  it("bears every figure as the plain number of the API", () => {
    const shown = figures(renderToStaticMarkup(<JobFigures profile={profile} />));
    const expected = ["read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "mdops_avg", "bandwidth_avg_read", "bandwidth_avg_write",
      "bandwidth_peak_read", "bandwidth_peak_write", "iops_avg", "io_mode_read", "io_mode_write", "processes", "io_processes", "files", "phases", "errors"] as const;
    expect([...shown.keys()].sort()).toEqual([...expected].sort());
    for (const name of expected) expect(shown.get(name), name).toBe(String(profile[name] ?? ""));
  });

  it("a figure that is not known is a dash with an empty value, not a zero", () => {
    const markup = renderToStaticMarkup(<JobFigures profile={{ ...profile, read_bytes: null }} />);
    expect(markup).toMatch(/data-testid="figure-read_bytes" data-value=""[^>]*>–</);
  });

  it("tells what the I/O mode means", () =>
    expect(renderToStaticMarkup(<JobFigures profile={profile} />)).toContain("All I/O processes share the same file or files."));
});
