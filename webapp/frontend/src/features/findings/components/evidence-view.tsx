import { Table } from "@/shared/ui/table";
import { formatCount } from "@/shared/units";
import { evidenceParts, figureWords, nameWords, plainWords, type EvidenceFigure, type EvidencePart } from "./evidence";
import { JobName } from "./subject";

/** What a finding rests on, whatever its kind. */
export function EvidenceView({ evidence }: { evidence: Record<string, unknown> }) {
  const parts = evidenceParts(evidence);
  if (parts.length === 0) return <p className="panel-body muted">Its detector kept no figures.</p>;
  return parts.map((part, place) => (
    <section key={place} className="evidence" data-testid="evidence" data-form={part.form}>
      {part.title !== "" && <h3>{part.title}</h3>}
      <Part part={part} />
    </section>
  ));
}

function Part({ part }: { part: EvidencePart }) {
  const caption = part.title || "Figures";
  if (part.form === "figures") return <Figures caption={caption} figures={part.figures} />;
  if (part.form === "values") {
    return (
      <p className="panel-body evidence-values">
        {part.range !== "" && <>{part.range}: </>}
        {part.values.length === 0 ? <span className="muted">none</span> : <bdi className={part.range === "" ? undefined : "muted"}>{part.values.join(", ")}</bdi>}<More count={part.more} />
      </p>
    );
  }
  const { columns, rows, more } = part;
  return (
    <>
      <Table<Record<string, unknown> & { place: number }>
        caption={caption} tall rows={rows.map((row, place) => ({ ...row, place }))} rowKey={({ place }) => String(place)} empty={null}
        columns={columns.map((name) => ({
          key: name, header: nameWords(name), numeric: rows.every((row) => typeof row[name] === "number"), title: (row) => plainWords(row[name]), cell: (row) => <Value name={name} value={row[name]} />,
        }))}
      />
      {more > 0 && <p className="panel-body"><More count={more} /></p>}
    </>
  );
}

function Figures({ caption, figures }: { caption: string; figures: EvidenceFigure[] }) {
  const hasBounds = figures.some((one) => one.bound !== undefined);
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label={caption}>
      <table className="figures">
        <caption className="visually-hidden">{caption}</caption>
        <thead><tr><th scope="col">Figure</th><th scope="col">Is</th>{hasBounds && <th scope="col" title="What it is beyond">Bound</th>}</tr></thead>
        <tbody>
          {figures.map(({ name, value, bound }) => (
            <tr key={name} data-testid="evidence-figure" data-name={name}>
              <th scope="row">{nameWords(name)}</th>
              <td title={plainWords(value)}>{value === undefined ? <span className="muted">see its bound</span> : <Value name={name} value={value} />}</td>
              {hasBounds && <td title={plainWords(bound)} className="muted">{bound !== undefined && figureWords(name, bound)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Words may be anybody's: they are text, and turn the order of nothing beside them. */
function Value({ name, value }: { name: string; value: unknown }) {
  if (name === "job" && (typeof value === "string" || value === null)) return <JobName job={value} />;
  return <bdi>{figureWords(name, value)}</bdi>;
}

const More = ({ count }: { count: number }) => (count > 0 ? <span className="muted"> and {formatCount(count)} more: <code>bellrock explain --json</code> shows all</span> : null);
