import { useSession } from "@/shared/api/session";
import { ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { formatBytes, formatCount } from "@/shared/units";
import { useUrlState } from "@/shared/url-state";
import { useLayers, type FileSystemLayers, type Layer, type LayerFigures, type LayersAnswer } from "../api/get-layers";
import { LayerDetail } from "./layer-detail";
import { LayerTable } from "./layer-table";

interface LayersPanelProps {
  jobId: string;
  intervalMs: number | false;
}

/** The way of the job's I/O through each file system that it used: client, forwarding, storage, metadata. */
export function LayersPanel({ jobId, intervalMs }: LayersPanelProps) {
  const { data, error, failureReason } = useLayers(jobId, intervalMs);
  const { data: viewer } = useSession();
  const isAdmin = viewer?.role === "admin";
  return (
    <Panel title="Where the I/O went" testId="layers-panel">
      {error && <div className="panel-body"><ErrorNote error={error} stale={data !== undefined} /></div>}
      {!data && !error && <Loading what="the layers" failure={failureReason} />}
      {data && !isPlain(data) && <Ways answer={data} jobId={jobId} isAdmin={isAdmin} intervalMs={intervalMs} />}
      {data && !isPlain(data) && <OfSummaries answer={data} />}
      {data && <Elsewhere answer={data} isAdmin={isAdmin} />}
    </Panel>
  );
}

const isPlain = (answer: LayersAnswer) => !answer.has_topology || answer.file_systems.length === 0;

interface Opened {
  fileSystem: string;
  layer: string;
}

/** The layer whose components are shown. */
export function openedOf(params: URLSearchParams): Opened | null {
  const [fileSystem, layer] = [params.get("layer_of"), params.get("layer")];
  return fileSystem === null || layer === null ? null : { fileSystem, layer };
}

function Ways({ answer, jobId, isAdmin, intervalMs }: LayersPanelProps & { answer: LayersAnswer; isAdmin: boolean }) {
  const { params, change } = useUrlState();
  const opened = openedOf(params);
  const wholeS = (answer.to_ns - answer.from_ns) / 1e9;
  const isOpen = (of: FileSystemLayers, layer: Layer) => opened?.fileSystem === of.name && opened.layer === layer.layer;
  const toggle = (of: FileSystemLayers, layer: Layer) => {
    const isClosing = isOpen(of, layer);
    change({
      layer_of: isClosing ? null : of.name, layer: isClosing ? null : layer.layer, layer_node: null, layer_component: null, layer_instance: null, layer_sort: null,
    }, { push: true });
  };
  return answer.file_systems.map((of) => (
    <LayerTable
      key={of.name} fileSystem={of} wholeS={wholeS} onToggle={(layer) => toggle(of, layer)}
      detailOf={(layer) => isOpen(of, layer) && (
        <LayerDetail key={layer.layer} jobId={jobId} fileSystem={of.name} layer={layer} answer={answer} isAdmin={isAdmin} intervalMs={intervalMs} />
      )}
    />
  ));
}

/** Where samples were dropped, figures of servers are as fine as what stands for them. */
export function OfSummaries({ answer: { resolution_s } }: { answer: LayersAnswer }) {
  if (resolution_s === null) return null;
  return (
    <p className="panel-body muted" data-testid="layers-resolution">
      Samples of this time were dropped: servers' figures are of summaries by the {resolution_s === 60 ? "minute" : "hour"}.
    </p>
  );
}

/** What no way can be told of: all of it where nothing is known of what serves the job's nodes. */
export function Elsewhere({ answer, isAdmin }: { answer: LayersAnswer; isAdmin: boolean }) {
  if (!answer.has_topology) {
    return (
      <p className="panel-body muted" data-testid="no-topology">
        {isAdmin
          ? <>What serves this job's nodes is not known. Write it down as docs/topology.md says, and have it kept: <code>bellrock topology apply</code>.</>
          : "What serves this job's nodes is not known here."}
      </p>
    );
  }
  if (answer.elsewhere === null) return answer.file_systems.length > 0 ? null : <p className="panel-body muted">It has done nothing to a file yet.</p>;
  return (
    <p className="panel-body muted" data-testid="elsewhere">
      {answer.file_systems.length > 0 ? "Files in no file system that the site has named" : "All of its files lie in no file system that the site has named"}: {volumeWords(answer.elsewhere)}.
    </p>
  );
}

function volumeWords({ read_bytes: read, write_bytes: written, metadata_ops: metadata }: LayerFigures): string {
  return `${formatBytes(read)} read, ${formatBytes(written)} written, ${formatCount(metadata)} metadata operations`;
}
