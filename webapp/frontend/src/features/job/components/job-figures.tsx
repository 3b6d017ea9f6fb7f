import type { IoMode } from "@/shared/api/types";
import { Figure, Tile } from "@/shared/ui/figure";
import { IoModePicture, ioModeMeaning } from "@/shared/ui/io-mode";
import { UNKNOWN, formatByteRate, formatBytes, formatCount, formatDuration, formatRate } from "@/shared/units";
import type { Profile } from "../api/get-job";

const HELP = {
  bytes: "Bytes that the calls returned. stdio counts at the stdio call.",
  average: "A direction's bytes in phases ÷ its time in each, from the first call's start to the last call's end",
  peak: "The highest second",
  iops: "Reads and writes in phases ÷ the time, in each, from the first to the last of them",
  mdops: "Metadata operations in phases ÷ their time. open, close, stat, access, unlink, rename, mkdir, rmdir, readdir, link, truncate and sync count.",
  processes: "Ranks where the program has them, else processes with an operation on a watched file; directories do not count",
  ioProcesses: "Processes with at least 1 % of the bytes of the busiest",
  files: "Distinct files with a read or a write",
  phases: "Spans of I/O without a pause of over 5 s, or bursts that stand out of what goes on all the time, such as a log; what lies outside is background",
  errors: "Calls that failed; they count here only",
};

/** The profile's figures, each with its plain value on hovering. */
export function JobFigures({ profile: p }: { profile: Profile }) {
  const bytes = (name: keyof Profile & string, value: number | null) => <Figure name={name} value={value} unit="bytes" text={formatBytes(value)} help={HELP.bytes} />;
  const byteRate = (name: string, value: number | null, help: string) => <Figure name={name} value={value} unit="bytes/s" text={formatByteRate(value)} help={help} />;
  const count = (name: string, value: number | null, help?: string) => <Figure name={name} value={value} text={formatCount(value)} help={help} />;
  return (
    <dl className="tiles" data-testid="figures">
      <Tile label="Read" tone="read" note={<>{count("read_ops", p.read_ops)} reads</>}>{bytes("read_bytes", p.read_bytes)}</Tile>
      <Tile label="Written" tone="write" note={<>{count("write_ops", p.write_ops)} writes</>}>{bytes("write_bytes", p.write_bytes)}</Tile>
      <Tile label="Read bandwidth" tone="read" help={HELP.average} note={<>peak second {byteRate("bandwidth_peak_read", p.bandwidth_peak_read, HELP.peak)}</>}>
        {byteRate("bandwidth_avg_read", p.bandwidth_avg_read, HELP.average)}
      </Tile>
      <Tile label="Write bandwidth" tone="write" help={HELP.average} note={<>peak second {byteRate("bandwidth_peak_write", p.bandwidth_peak_write, HELP.peak)}</>}>
        {byteRate("bandwidth_avg_write", p.bandwidth_avg_write, HELP.average)}
      </Tile>
      <Tile label="IOPS" help={HELP.iops} note="reads and writes">
        <Figure name="iops_avg" value={p.iops_avg} unit="1/s" text={formatRate(p.iops_avg)} help={HELP.iops} />
      </Tile>
      <Tile label="MDOPS" tone="metadata" help={HELP.mdops} note={<>{count("metadata_ops", p.metadata_ops)} metadata operations</>}>
        <Figure name="mdops_avg" value={p.mdops_avg} unit="1/s" text={formatRate(p.mdops_avg)} help={HELP.mdops} />
      </Tile>
      <ModeTile direction="Read" name="io_mode_read" mode={p.io_mode_read} isKnown={p.read_ops !== null} />
      <ModeTile direction="Write" name="io_mode_write" mode={p.io_mode_write} isKnown={p.write_ops !== null} />
      <Tile label="Processes" help={HELP.processes} note={<>{count("io_processes", p.io_processes, HELP.ioProcesses)} {p.io_processes === 1 ? "does" : "do"} the I/O</>}>
        {count("processes", p.processes, HELP.processes)}
      </Tile>
      <Tile label="Files" help={HELP.files} note="read or written">{count("files", p.files, HELP.files)}</Tile>
      <Tile label="Phases" help={HELP.phases} note={slowest(p.slowest_op)}>{count("phases", p.phases, HELP.phases)}</Tile>
      <Tile label="Errors" help={HELP.errors} tone={p.errors ? "bad" : undefined} note="calls that failed">{count("errors", p.errors, HELP.errors)}</Tile>
    </dl>
  );
}

function ModeTile({ direction, name, mode, isKnown }: { direction: string; name: string; mode: IoMode | null; isKnown: boolean }) {
  const meaning = isKnown ? ioModeMeaning(mode) : "not seen";
  return (
    <Tile label={`${direction} mode`} help="How the processes share files" note={meaning}>
      <Figure name={name} value={mode} text={mode ?? (isKnown ? "none" : UNKNOWN)} help={meaning} />
      {mode && <IoModePicture mode={mode} />}
    </Tile>
  );
}

function slowest(op: Profile["slowest_op"]) {
  if (!op) return "spans of I/O";
  return <span title={op.file ?? undefined} data-testid="figure-slowest_op" data-value={op.seconds}>slowest: {op.op}, {formatDuration(op.seconds)}</span>;
}
