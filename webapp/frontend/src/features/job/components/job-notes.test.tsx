import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import type { Job } from "@/shared/api/types";
import type { Profile } from "../api/get-job";
import { JobHeader } from "./job-header";
import { JobNotes } from "./job-notes";

const profile = { folded_ops: 0, mapped_bytes: 0, granularity: "process" } as Profile;

it("warns of what was lost while the job ran, by node, and of nothing else", () => {
  const shown = renderToStaticMarkup(<JobNotes profile={profile} losses={[{ node: "n1", lost: 1234 }, { node: "n2", lost: 1 }]} />);
  expect(shown).toContain("n1 (1,234), n2 (1)");
  expect(renderToStaticMarkup(<JobNotes profile={profile} losses={[]} />)).toBe("");
});

it("a job whose program is not known bears its id for a name", () => {
  const job = { job_id: "4711", program: "", user: "", state: "completed", node_names: [], exit_code: 0, command: "" } as unknown as Job;
  const shown = renderToStaticMarkup(<MemoryRouter><JobHeader job={job} profile={profile} nowMs={0} /></MemoryRouter>);
  expect(shown).toMatch(/<h1[^>]*>4711<\/h1>/);
  expect(shown).toMatch(/data-testid="job-user">–</);
});
