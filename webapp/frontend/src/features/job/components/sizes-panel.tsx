import { useMemo } from "react";
import { Chart } from "@/shared/chart/chart";
import { usePalette } from "@/shared/chart/palette";
import { Segmented } from "@/shared/ui/controls";
import { Panel } from "@/shared/ui/states";
import { formatBytes, formatCount } from "@/shared/units";
import { choice, useUrlState } from "@/shared/url-state";
import type { SizeBin } from "../api/get-job";
import { SIZE_METRICS, sizeLabel, sizesOption } from "./sizes-option";

const LABELS = { ops: "Requests", bytes: "Bytes" } as const;

/** Request sizes as a histogram, by number of requests or by bytes moved; the numbers stand in a table for screen readers. */
export function SizesPanel({ bins }: { bins: readonly SizeBin[] }) {
  const { params, change } = useUrlState();
  const palette = usePalette();
  const metric = choice(params, "sizes", SIZE_METRICS);
  const option = useMemo(() => sizesOption(bins, metric, palette), [bins, metric, palette]);
  return (
    <Panel
      title="Request sizes" testId="sizes-panel"
      controls={
        <Segmented label="Request sizes by" value={metric} testId="sizes" options={SIZE_METRICS.map((value) => ({ value, label: LABELS[value] }))}
          onChange={(value) => change({ sizes: value === "ops" ? null : value })} />
      }
    >
      {bins.length === 0 ? <p className="state-note muted">No reads or writes.</p> : (
        <div className="chart-area">
          <Chart option={option} heightPx={350} label={`Histogram of request sizes by ${LABELS[metric].toLowerCase()}`} testId="sizes-chart" />
          <table className="visually-hidden">
            <caption>Request sizes</caption>
            <thead><tr><th scope="col">From</th><th scope="col">Reads</th><th scope="col">Writes</th><th scope="col">Read</th><th scope="col">Written</th></tr></thead>
            <tbody>
              {bins.map((bin) => (
                <tr key={bin.from_bytes} data-testid="size-bin" data-from={bin.from_bytes} data-read-ops={bin.read_ops} data-write-ops={bin.write_ops}>
                  <th scope="row">{sizeLabel(bin.from_bytes)}</th>
                  <td>{formatCount(bin.read_ops)}</td><td>{formatCount(bin.write_ops)}</td>
                  <td>{formatBytes(bin.read_bytes)}</td><td>{formatBytes(bin.write_bytes)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
