import { Fragment, type ReactNode } from "react";
import { UNKNOWN, formatBytes, formatCount } from "@/shared/units";
import type { FileSystemLayers, Layer } from "../api/get-layers";
import { LAYER_NAMES, NOT_TOLD, amplificationWords, cacheWords, latencyWords, layerWords, namedWords, queueWords, serviceOf, shownFigures, volumeTitle } from "./layer-words";

const KINDS = ["read", "write", "metadata"] as const;
type Kind = (typeof KINDS)[number];
const KIND_LABELS = { read: "Read", write: "Written", metadata: "Metadata" } as const;
const COLUMNS = 5;

interface LayerTableProps {
  fileSystem: FileSystemLayers;
  /** How long the job took, or takes, s. */
  wholeS: number;
  onToggle: (layer: Layer) => void;
  /** What stands below an opened layer; false where it is closed. */
  detailOf: (layer: Layer) => ReactNode;
}

/** One file system's layers, in order of the way, with what each did for the job. */
export function LayerTable({ fileSystem, wholeS, onToggle, detailOf }: LayerTableProps) {
  const most = mostBytes(fileSystem.layers);
  return (
    <section className="way" data-testid="file-system" data-name={fileSystem.name}>
      <h3>{fileSystem.name} <span className="muted">{fileSystem.kind}</span></h3>
      <table className="layers">
        <caption className="visually-hidden">Layers of {fileSystem.name}, from the job to the disks</caption>
        <thead>
          <tr>
            <th scope="col" className="layer-kind"><span className="visually-hidden">Kind</span></th>
            <th scope="col" className="layer-bytes">Bytes</th>
            <th scope="col" className="layer-amplification" title="Bytes of this layer ÷ bytes of a layer before it, both of this job">Amplification</th>
            <th scope="col" className="num" title="Operations">Count</th>
            <th scope="col" className="num" title="Of one operation">Mean time</th>
          </tr>
        </thead>
        {fileSystem.layers.map((layer) => {
          const detail = detailOf(layer);
          return (
            <tbody key={layer.layer} className={layer.own !== null ? undefined : "layer-shared"} data-testid="layer" data-layer={layer.layer}>
              <Head layer={layer} wholeS={wholeS} isOpen={Boolean(detail)} onToggle={onToggle} />
              {KINDS.filter((kind) => hasRow(layer, kind)).map((kind) => <Row key={kind} layer={layer} kind={kind} most={most} />)}
              <Service layer={layer} />
              {detail && <tr className="layer-detail"><td colSpan={COLUMNS}>{detail}</td></tr>}
            </tbody>
          );
        })}
      </table>
    </section>
  );
}

/** Of all layers whose bytes can be told apart: bars have one scale, on which an amplification shows. */
export function mostBytes(layers: readonly Layer[]): number {
  return layers.filter((one) => one.own !== null).map(shownFigures).reduce((most, one) => Math.max(most, one.read_bytes ?? 0, one.write_bytes ?? 0), 0);
}

/** What a kind of layer is for is shown also where it is not told; the rest only where it is. */
export function hasRow(layer: Layer, kind: Kind): boolean {
  if ((layer.layer === "metadata") === (kind === "metadata")) return true;
  const figures = shownFigures(layer);
  const told = kind === "metadata" ? [figures.metadata_ops] : [figures[`${kind}_bytes`], figures[`${kind}_ops`]];
  return told.some((one) => one !== null);
}

function Head({ layer, wholeS, isOpen, onToggle }: { layer: Layer; wholeS: number; isOpen: boolean; onToggle: (layer: Layer) => void }) {
  return (
    <tr className="layer-head">
      <th scope="rowgroup" colSpan={COLUMNS}>
        {layer.components.length === 0
          ? <strong>{LAYER_NAMES[layer.layer]}</strong>
          : (
            <button type="button" className="link-button" aria-expanded={isOpen} onClick={() => onToggle(layer)} data-testid="layer-toggle">
              <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> <strong>{LAYER_NAMES[layer.layer]}</strong>
            </button>
          )}
        {layer.other_jobs > 0 && layer.layer !== "client" && (
          <span className="tag tag-plain" data-testid="layer-shared" data-value={layer.other_jobs}>shared with {layer.other_jobs === 1 ? "1 other job" : `${formatCount(layer.other_jobs)} other jobs`}</span>
        )}
        <span className="layer-words" data-testid="layer-words">{layerWords(layer, wholeS)}</span>
      </th>
    </tr>
  );
}

function Row({ layer, kind, most }: { layer: Layer; kind: Kind; most: number }) {
  const figures = shownFigures(layer);
  const bytes = kind === "metadata" ? null : figures[`${kind}_bytes`];
  const operations = figures[`${kind}_ops`];
  const isPart = layer.how !== "alone" && layer.how !== null;
  const latency = latencyWords(serviceOf(layer, `${kind}_latency`));
  const amplification = kind === "metadata" ? null : amplificationWords(layer, kind);
  return (
    <tr className="layer-row" data-testid="layer-row" data-kind={kind}>
      <th scope="row" className="layer-kind"><span className="legend-inline"><i className={`legend-dot legend-${kind}`} />{KIND_LABELS[kind]}</span></th>
      <td className="layer-bytes" data-col="bytes" data-value={bytes ?? ""} title={kind === "metadata" ? undefined : volumeTitle(layer, `${kind}_bytes`)}>
        {kind !== "metadata" && (
          <span className="layer-volume">
            <span className="layer-bar" aria-hidden="true">
              {layer.own !== null && bytes !== null && most > 0 && <span className={`share-${kind}`} style={{ width: `${(100 * bytes) / most}%` }} />}
            </span>
            <span className="layer-figure">{formatBytes(bytes)}</span>
          </span>
        )}
      </td>
      <td className="layer-amplification" data-col="amplification" data-value={kind === "metadata" ? "" : (layer.amplification[kind] ?? "")} title={amplification?.meaning}>
        {amplification && (
          <><span className={amplification.isHigh ? "times times-high" : "times"}>{amplification.figure}</span> <span className="muted">{amplification.of}</span></>
        )}
      </td>
      <td className="num" data-col="ops" data-value={operations ?? ""} title={volumeTitle(layer, `${kind}_ops`)}>{formatCount(operations)}</td>
      <td className={isPart && layer.own?.[`${kind}_latency`] == null ? "num muted" : "num"} data-col="latency" title={latency.title}>{latency.text}</td>
    </tr>
  );
}

/** How full it was in there, and what it had at hand. */
function Service({ layer }: { layer: Layer }) {
  const named = namedWords(layer);
  const told = [["Queue", queueWords(layer)], ["Cache", cacheWords(layer)]].filter(([, words]) => layer.layer !== "client" || words !== null) as [string, string | null][];
  if (told.length === 0 && named === null) return null;
  return (
    <tr className="layer-row">
      <td className="layer-kind" />
      <td colSpan={COLUMNS - 1} className="layer-service muted">
        {told.map(([name, words]) => (
          <Fragment key={name}><span title={words === null ? NOT_TOLD : undefined} data-testid={`layer-${name.toLowerCase()}`}>{name} <span className={layer.how === "alone" ? "layer-figure" : undefined}>{words ?? UNKNOWN}</span></span>{" "}</Fragment>
        ))}
        {named !== null && <div data-testid="layer-operations">Metadata {named}</div>}
      </td>
    </tr>
  );
}
