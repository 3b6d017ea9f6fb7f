import { useMemo } from "react";
import { usePalette } from "@/shared/chart/palette";
import { Segmented } from "@/shared/ui/controls";
import { formatBytes, formatCount, formatPlain } from "@/shared/units";
import { choice, useUrlState } from "@/shared/url-state";
import { useOffsets, type Offsets } from "../api/get-deep";
import { useRows } from "../api/get-rows";
import { COLOURS, offsetsOption, offsetsSummary, sumsOf, whoColour, type ColourBy } from "./offsets-option";
import { PlaneView, usePlane, type PlaneProps } from "./plane-view";
import { whoName } from "./who";

const COLOUR_LABELS = { op: "Read and write", rank: "Ranks" } as const;
/** Files to choose from: those with most bytes. Others are named in the address. */
const FILES = 50;
const LEGEND_MAX = 6;
/** Of the table that stands for the picture: whoever has it read to them is not read thousands of ranks. */
export const TABLE_ROWS = 50;

/** Where in one file was read and written, which shows who shares it and how. */
export function OffsetsView({ jobId, job, intervalMs }: PlaneProps) {
  const { params, change } = useUrlState();
  const palette = usePalette();
  const file = params.get("offsets_of");
  const by = choice(params, "colour", COLOURS);
  const plane = usePlane(job);
  const { data: files } = useRows("files", jobId, { sort: "-bytes", limit: FILES, cursor: null }, intervalMs);
  const { data: offsets, error, failureReason, isPlaceholderData } = useOffsets(jobId, { window: plane.window, file }, intervalMs);
  const [fromMs, toMs] = plane.span(offsets);
  const option = useMemo(() => offsets && offsetsOption(offsets, by, fromMs, toMs, palette), [offsets, by, fromMs, toMs, palette]);
  return (
    <PlaneView
      plane={plane} what="the offsets" answer={offsets} option={option} error={error} failure={failureReason} isBusy={isPlaceholderData}
      label={offsets ? offsetsSummary(offsets) : ""} testId="offsets" isEmpty={offsets?.runs === 0} empty={emptyWords(offsets)}
      controls={
        <>
          <Segmented label="Colours" value={by} testId="offsets-colour" options={COLOURS.map((value) => ({ value, label: COLOUR_LABELS[value] }))}
            onChange={(value) => change({ colour: value === "op" ? null : value })} />
          <FileChoice paths={(files?.rows ?? []).flatMap((row) => row.file ?? [])} chosen={file ?? offsets?.file ?? null} total={files?.total ?? 0}
            onChoose={(path) => change({ offsets_of: path }, { push: true })} />
        </>
      }
      caption={offsets && <OffsetsCaption offsets={offsets} by={by} />}
    >
      {offsets && <OffsetsTable offsets={offsets} />}
    </PlaneView>
  );
}

export function OffsetsTable({ offsets }: { offsets: Offsets }) {
  const sums = useMemo(() => sumsOf(offsets), [offsets]);
  return (
    <table className="visually-hidden" data-testid="offsets-table">
      <caption>Reads and writes of {offsets.file ?? "no file"} by rank{sums.length > TABLE_ROWS && `; those with most operations, ${formatCount(sums.length - TABLE_ROWS)} more are not listed`}</caption>
      <thead><tr>{["Rank", "Operation", "Operations", "Bytes", "Offsets"].map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
      <tbody>
        {sums.slice(0, TABLE_ROWS).map(({ who, op, count, bytes, low, high }) => (
          <tr key={`${who} ${op}`}><th scope="row">{who}</th><td>{op}</td><td>{formatPlain(count)}</td><td>{formatBytes(bytes)}</td><td>{formatBytes(low)} to {formatBytes(high)}</td></tr>
        ))}
      </tbody>
    </table>
  );
}

const emptyWords = (offsets: Offsets | undefined) => (offsets?.file ? "It was neither read nor written in this time." : "There is no file whose name is known and that was read or written.");

/** One that is not among the largest is there, too, once it is chosen. */
export function FileChoice({ paths, chosen, total, onChoose }: { paths: readonly string[]; chosen: string | null; total: number; onChoose: (path: string) => void }) {
  const listed = chosen === null || paths.includes(chosen) ? paths : [chosen, ...paths];
  return (
    <select className="select file-choice" aria-label="File" value={chosen ?? ""} onChange={(event) => onChoose(event.target.value)} disabled={listed.length === 0} data-testid="offsets-file">
      {chosen === null && <option value="" disabled>{listed.length === 0 ? "No file" : "Choose a file"}</option>}
      {listed.map((path) => <option key={path} value={path}>{path}</option>)}
      {total > paths.length && <option disabled>{formatCount(total - paths.length)} more with fewer bytes</option>}
    </select>
  );
}

/** What is shown, and what is not known well of it. */
export function OffsetsCaption({ offsets, by }: { offsets: Offsets; by: ColourBy }) {
  return (
    <>
      <span>{formatBytes(offsets.bytes)} in {formatCount(offsets.count)} operations by {offsets.who.length} {offsets.who.length === 1 ? "rank or process" : "ranks or processes"}</span>
      {offsets.is_grid && <span data-testid="offsets-grid">too many to draw one by one: the stronger the colour, the more operations; zoom in to part them</span>}
      {offsets.left_out > 0 && <span title="The file is in so many parts of the archive that some are drawn, taken evenly over the nodes.">{formatCount(offsets.left_out)} records were not looked at</span>}
      {offsets.unsure > 0 && <span title={formatPlain(offsets.unsure, "runs")}>of {formatCount(offsets.unsure)} runs offsets are unsure</span>}
      <span className="legend">
        {by === "op"
          ? offsets.ops.map((op) => <span key={op}><i className={`legend-dot legend-${op}`} />{op}</span>)
          : offsets.who.slice(0, LEGEND_MAX).map((who, at) => <span key={who}><i className={`legend-dot legend-${whoColour(at)}`} />{whoName(who)}</span>)}
        {by === "rank" && offsets.who.length > LEGEND_MAX && <span>colours repeat</span>}
        {by === "rank" && offsets.is_grid && <span><i className="legend-dot" />several</span>}
      </span>
    </>
  );
}
