import { useMemo, useState } from "react";
import { Link } from "react-router";
import { Chart } from "@/shared/chart/chart";
import { usePalette } from "@/shared/chart/palette";
import { jobPath } from "@/shared/paths";
import { ErrorNote, Loading } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { formatDuration, formatPlain } from "@/shared/units";
import { msToNs, nsToMs, useUrlState, zoomWindow } from "@/shared/url-state";
import { useLayerSeries, type Layer, type LayerComponent, type LayersAnswer } from "../api/get-layers";
import { useSeries } from "../api/get-series";
import { bytesOf, componentKey, layerColumns, toldColumns } from "./layer-columns";
import { isKnown, layerOption, layerSummary } from "./layer-option";
import { LAYER_NAMES, cacheWords, namedWords } from "./layer-words";

interface LayerDetailProps {
  jobId: string;
  fileSystem: string;
  layer: Layer;
  answer: LayersAnswer;
  isAdmin: boolean;
  intervalMs: number | false;
}

/** The component that the address names, if it is one of the layer's. */
export function chosenOf(params: URLSearchParams, components: readonly LayerComponent[]): LayerComponent | null {
  const [node, component, instance] = ["layer_node", "layer_component", "layer_instance"].map((name) => params.get(name) ?? "");
  return components.find((one) => one.node === node && one.component === component && one.instance === instance) ?? null;
}

/** A layer's components, and what they did over the job's time: all together, or the one that is picked. */
export function LayerDetail(props: LayerDetailProps) {
  const { layer, answer, isAdmin } = props;
  const { params, change } = useUrlState();
  const chosen = chosenOf(params, layer.components);
  const pick = (row: LayerComponent) => {
    const isSame = chosen !== null && componentKey(row) === componentKey(chosen);
    change({ layer_node: isSame ? null : row.node, layer_component: isSame ? null : row.component, layer_instance: isSame ? null : row.instance }, { push: true });
  };
  return (
    <>
      <Over {...props} chosen={chosen} />
      {chosen && <Particulars chosen={chosen} />}
      <Components layer={layer} answer={answer} chosen={chosen} onPick={pick} isAdmin={isAdmin} />
      <Others rows={chosen ? [chosen] : layer.components} total={(chosen ?? layer).other_jobs} />
    </>
  );
}

function Over({ jobId, fileSystem, layer, intervalMs, chosen }: LayerDetailProps & { chosen: LayerComponent | null }) {
  const { params, change } = useUrlState();
  const palette = usePalette();
  const window = zoomWindow(params);
  const { data: series, error, failureReason, isPlaceholderData } = useLayerSeries(jobId, { fileSystem, layer: layer.layer, component: chosen, window }, intervalMs);
  // The job's own chart asked for these already: both stand on one time axis.
  const { data: above } = useSeries(jobId, { window, node: params.get("node"), process: params.get("process") }, intervalMs);
  const fromMs = nsToMs(window?.fromNs ?? above?.from_ns ?? series?.from_ns ?? 0);
  const toMs = nsToMs(window?.toNs ?? above?.to_ns ?? series?.to_ns ?? 0);
  const drawn = useMemo(() => series && layerOption({ series, fromMs, toMs, palette }), [series, fromMs, toMs, palette]);
  const name = chosen ? `${chosen.node} ${chosen.instance}` : `All of ${LAYER_NAMES[layer.layer].toLowerCase()}`;
  const zoomTo = (span: [number, number] | null) => change({ from_ns: span && msToNs(span[0]), to_ns: span && msToNs(span[1]) }, { push: true });
  return (
    <>
      {error && <div className="panel-body"><ErrorNote error={error} stale={series !== undefined} /></div>}
      {!series && !error && <Loading what="what it did over time" failure={failureReason} />}
      {series && (!drawn || !isKnown(series)) && <p className="state-note muted" data-testid="layer-unknown">{name}: nothing is known over this time.</p>}
      {series && drawn && isKnown(series) && (
        <div className="chart-area" aria-busy={isPlaceholderData} data-testid="layer-series" data-from-ns={series.from_ns} data-to-ns={series.to_ns} data-bins={series.t_ns.length}>
          <p className="chart-caption muted">
            <span>{name}{(chosen ?? layer).how !== "alone" && ", whoever asked"}</span>
            <span>in steps of {formatDuration(series.step_s)}</span>
          </p>
          <Chart option={drawn.option} heightPx={drawn.heightPx} label={`${name}. ${layerSummary(series)}`} testId="layer-chart"
            onSpan={(from, to) => zoomTo([from, to])} onDoubleClick={() => window && zoomTo(null)} />
        </div>
      )}
    </>
  );
}

/** What finds no room in the table. */
function Particulars({ chosen }: { chosen: LayerComponent }) {
  const told = ([["Metadata operations", namedWords(chosen)], ["Cache", cacheWords(chosen)]] as const).filter(([, words]) => words !== null);
  if (told.length === 0) return null;
  return <p className="panel-body muted" data-testid="layer-particulars">{told.map(([name, words]) => `${name}: ${words}`).join(". ")}</p>;
}

interface ComponentsProps {
  layer: Layer;
  answer: LayersAnswer;
  chosen: LayerComponent | null;
  isAdmin: boolean;
  onPick: (row: LayerComponent) => void;
}

const SHOWN_FIRST = 100;

function Components({ layer, answer, chosen, isAdmin, onPick }: ComponentsProps) {
  const { params, change } = useUrlState();
  const [all, setAll] = useState(false);
  const sort = params.get("layer_sort");
  const wholeS = (answer.to_ns - answer.from_ns) / 1e9;
  const span = isAdmin ? new URLSearchParams({ from_ns: String(answer.from_ns), to_ns: String(answer.to_ns) }) : null;
  const columns = toldColumns(layerColumns({ rows: layer.components, wholeS, span, onPick }), layer);
  const sorted = sort === null ? byWork(layer.components) : sortRows(layer.components, columns, sort);
  const rows = all ? sorted : sorted.slice(0, SHOWN_FIRST);
  return (
    <>
      <Table
        tall caption={`Components of ${LAYER_NAMES[layer.layer].toLowerCase()}`} testId="layer-components" columns={columns} rows={rows} rowKey={componentKey} sort={sort ?? undefined}
        onSort={(next) => change({ layer_sort: next })} onRow={onPick} empty="None."
        rowProps={(row) => ({ "data-testid": "layer-component", "data-node": row.node, "data-instance": row.instance, "data-selected": row === chosen ? "true" : undefined })}
      />
      {rows.length < sorted.length && (
        <div className="panel-body"><button type="button" className="button" onClick={() => setAll(true)}>Show all {formatPlain(sorted.length)}</button></div>
      )}
    </>
  );
}

/** Those that did most first: by bytes, then by metadata operations; those that tell nothing last. */
export function byWork(components: readonly LayerComponent[]): LayerComponent[] {
  const work = (one: LayerComponent) => [bytesOf(one) ?? -1, (one.own ?? one.figures).metadata_ops ?? -1] as const;
  return [...components].sort((left, right) => work(right)[0] - work(left)[0] || work(right)[1] - work(left)[1]);
}

/** So many other jobs are named. */
const NAMED_MAX = 20;

/** The other jobs that used these; nothing for those who may not know which. */
export function Others({ rows, total }: { rows: readonly LayerComponent[]; total: number }) {
  const jobs = [...new Set(rows.flatMap((row) => row.jobs ?? []))].slice(0, NAMED_MAX);
  if (jobs.length === 0) return null;
  return (
    <p className="panel-body layer-others" data-testid="layer-jobs">
      <span className="muted">Other jobs meanwhile:</span>{" "}
      {jobs.map((job, place) => <span key={job}>{place > 0 && ", "}<Link to={jobPath(job)} className="mono">{job}</Link></span>)}
      {total > jobs.length && <span className="muted"> and {formatPlain(total - jobs.length)} more</span>}
    </p>
  );
}
