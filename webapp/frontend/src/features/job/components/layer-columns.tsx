import { Link } from "react-router";
import { componentPath } from "@/shared/paths";
import type { Column } from "@/shared/ui/table";
import { UNKNOWN, formatBytes, formatCount, formatPlain } from "@/shared/units";
import { inWords } from "@/shared/words";
import type { Layer, LayerComponent } from "../api/get-layers";
import { NOT_TOLD, knownWords, latencyWords, serviceOf, shownFigures, volumeTitle } from "./layer-words";

export const componentKey = ({ node, component, instance }: LayerComponent) => JSON.stringify([node, component, instance]);

const BENEATH = "It tells what the servers of files above it did once more: not added to the layer";

/** Bytes both ways; null where neither is told. */
export function bytesOf(row: LayerComponent): number | null {
  const { read_bytes: read, write_bytes: written } = shownFigures(row);
  return read === null && written === null ? null : (read ?? 0) + (written ?? 0);
}

interface ColumnsOf {
  rows: readonly LayerComponent[];
  /** How long the job took, or takes, s. */
  wholeS: number;
  /** The job's time, as a query of the servers' pages; null for who may not see them. */
  span: URLSearchParams | null;
  onPick: (row: LayerComponent) => void;
}

export function layerColumns({ rows, wholeS, span, onPick }: ColumnsOf): Column<LayerComponent>[] {
  const kinds = new Set(rows.map((row) => row.component));
  const figure = (key: "read_bytes" | "write_bytes" | "read_ops" | "write_ops" | "metadata_ops", header: string): Column<LayerComponent> => {
    return {
      key, header, sortKey: key, numeric: true, value: (row) => shownFigures(row)[key], title: (row) => volumeTitle(row, key),
      cell: (row) => (key.endsWith("_bytes") ? formatBytes : formatCount)(shownFigures(row)[key]),
    };
  };
  const latency = (key: "read_latency" | "write_latency" | "metadata_latency", header: string): Column<LayerComponent> => ({
    key, header, sortKey: key, numeric: true, help: "Mean time of one operation", value: (row) => serviceOf(row, key)?.mean_s ?? null,
    cell: (row) => latencyWords(serviceOf(row, key)).text, title: (row) => latencyWords(serviceOf(row, key)).title,
  });
  return [
    {
      key: "component", header: kinds.size === 1 ? inWords([...kinds][0] ?? "") : "Component", sortKey: "component", value: (row) => `${row.node} ${row.component} ${row.instance}`,
      cell: (row) => (
        <span className="layer-component">
          <button type="button" className="link-button" onClick={() => onPick(row)}>{row.node}</button>{" "}
          {kinds.size > 1 && <><span className="muted">{inWords(row.component)}</span>{" "}</>}
          {row.instance !== row.node && <span className="mono">{row.instance}</span>}{" "}
          {row.is_beneath && <><span className="muted" title={BENEATH}>beneath</span>{" "}</>}
          {span && <Link to={componentPath(row, span)} title="All that is known of it in this job's time">charts</Link>}
        </span>
      ),
      title: (row) => `${row.node} ${row.component} ${row.instance}`,
    },
    {
      key: "target", header: "Target", sortKey: "target", value: (row) => row.target, title: (row) => (row.is_certain ? undefined : `Whether it served this job is ${NOT_TOLD}`),
      cell: (row) => <>{row.target ?? UNKNOWN}{!row.is_certain && " ?"}</>,
    },
    figure("read_bytes", "Read"), figure("write_bytes", "Written"), figure("read_ops", "Reads"), figure("write_ops", "Writes"), figure("metadata_ops", "Metadata"),
    latency("read_latency", "Read time"), latency("write_latency", "Write time"), latency("metadata_latency", "Meta time"),
    {
      key: "queue_mean", header: "Queue", sortKey: "queue_mean", numeric: true, help: "Requests in hand or waiting, on average", value: (row) => serviceOf(row, "queue_mean"),
      cell: (row) => formatCount(serviceOf(row, "queue_mean")), title: (row) => `${formatPlain(serviceOf(row, "queue_max"))} at most`,
    },
    {
      key: "own", header: "Of", help: "Whose bytes and operations these are: this job's, or all that it did meanwhile", value: (row) => row.how ?? "all",
      sortKey: "own", cell: (row) => (row.own !== null ? "this job" : row.known_s > 0 ? "all jobs" : UNKNOWN),
    },
    {
      key: "other_jobs", header: "Others", sortKey: "other_jobs", numeric: true, help: "Other jobs that had nodes that it serves, meanwhile", value: (row) => row.other_jobs,
      cell: (row) => formatCount(row.other_jobs),
    },
    {
      key: "known_s", header: "Known", sortKey: "known_s", numeric: true, help: "Of how much of the job's time anything is known of it", value: (row) => row.known_s,
      cell: (row) => knownWords(row.known_s, wholeS), title: (row) => `${formatPlain(row.known_s, "s")} of ${formatPlain(wholeS, "s")}`,
    },
  ];
}

/** Columns of which nothing is told by any of the layer's components are left out, but for the bytes of what stores them. */
export function toldColumns(columns: readonly Column<LayerComponent>[], { layer, components }: Pick<Layer, "layer" | "components">): Column<LayerComponent>[] {
  return columns.filter(({ key, value }) => (key.endsWith("_bytes") && layer !== "metadata") || components.some((row) => value?.(row) != null));
}
