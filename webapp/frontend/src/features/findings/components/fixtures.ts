import type { Finding } from "@/shared/api/findings";

export const finding = (told: Partial<Finding> = {}): Finding => ({
  id: 7, kind: "metadata-storm", severity: "critical", begin_ns: 1_700_000_000e9, end_ns: 1_700_000_100e9, times: 42.56, is_reported: true, node: "", component: "", instance: "",
  jobs: [{ job: "4711", role: "subject" }], cause: "12,768 metadata operations a second", cause_by: null, remedy: "", state: "open", verdict: null,
  found_ns: 1_700_000_160e9, seen_ns: 1_700_000_160e9, changed_by: null, changed_ns: null, comments: 0, ...told,
});
