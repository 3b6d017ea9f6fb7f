import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import type { Job, Loss } from "@/shared/api/types";
import type { Profile } from "../api/get-job";
import { JobHeader } from "./job-header";
import { JobNotes } from "./job-notes";

const loss = (node: string, counts: Partial<Loss>): Loss => ({ node, lost: 0, lost_names: 0, lost_log_bytes: 0, spool_full_s: 0, folded: 0, ...counts });
const profile = { folded_ops: 0, mapped_bytes: 0, granularity: "process", unseen: [], read_ops: 1 } as unknown as Profile;

it("warns of what was lost while the job ran, by node, and of nothing else", () => {
  const losses = [loss("n1", { lost: 1234, lost_log_bytes: 2048 }), loss("n2", { lost_names: 2 })];
  const shown = renderToStaticMarkup(<JobNotes profile={profile} losses={losses} />);
  expect(shown).toContain("1,234 operations or records, 2.00 KiB of a trace log on n1; 2 file names on n2");
  expect(shown).toContain("some files have no name");
  expect(shown).not.toContain("note-spool-full");
  expect(renderToStaticMarkup(<JobNotes profile={profile} losses={[]} />)).toBe("");
  expect(renderToStaticMarkup(<JobNotes profile={profile} losses={[]} away={["g2"]} />)).toContain("group g2 is away");
});

it("says where records were dropped, even where nothing else is to be said", () => {
  expect(renderToStaticMarkup(<JobNotes profile={profile} losses={[]} dropped />)).toContain("Records of this job&#x27;s time were dropped");
});

it("says of how many nodes nothing came", () => {
  expect(renderToStaticMarkup(<JobNotes profile={profile} losses={[]} unheard={1} />)).toContain("from one of its nodes since this job ended");
  expect(renderToStaticMarkup(<JobNotes profile={profile} losses={[]} unheard={12} />)).toContain("from 12 of its nodes");
});

it("names what could not be watched, and never takes it for idle", () => {
  const unseen: Profile["unseen"] = [
    { program: "solver", file: "/opt/solver", reason: "static", processes: 4 },
    { program: "", file: null, reason: "io_uring", processes: 1 },
  ];
  const partly = renderToStaticMarkup(<JobNotes profile={{ ...profile, unseen }} losses={[]} />);
  expect(partly).toContain("solver ran in 4 processes unseen (statically linked), A program ran unseen (uses io_uring)");
  expect(partly).toContain("not in these figures");
  const wholly = renderToStaticMarkup(<JobNotes profile={{ ...profile, unseen, read_ops: null, folded_ops: null, mapped_bytes: null }} losses={[]} />);
  expect(wholly).toContain("is not known");
  const many = renderToStaticMarkup(<JobNotes profile={{ ...profile, unseen: Array(7).fill(unseen[0]) }} losses={[]} />);
  expect(many).toContain("and 2 more");
});

it("says when nodes stand for processes", () => {
  expect(renderToStaticMarkup(<JobNotes profile={{ ...profile, granularity: "node" }} losses={[]} />)).toContain("each node stands for one process");
});

it("tells how long a spool was full, and that nothing was lost by it", () => {
  const shown = renderToStaticMarkup(<JobNotes profile={profile} losses={[loss("n1", { spool_full_s: 75, folded: 18_211 })]} />);
  expect(shown).toContain("its spool on n1 was full, or could not be written, for 1 min 15 s, and 18,211 operations of programs there were folded");
  expect(shown).toContain("Counts and bytes are exact");
  expect(shown).not.toContain("note-lost");
});

it("a job whose program is not known bears its id for a name", () => {
  const job = { job_id: "4711", program: "", user: "", state: "completed", node_names: [], exit_code: 0, command: "" } as unknown as Job;
  const shown = renderToStaticMarkup(<MemoryRouter><JobHeader job={job} profile={profile} nowMs={0} /></MemoryRouter>);
  expect(shown).toMatch(/<h1[^>]*>4711<\/h1>/);
  expect(shown).toMatch(/data-testid="job-user">–</);
});
