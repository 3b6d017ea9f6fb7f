import type { Group } from "@/shared/api/status";
import { Empty, Panel } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { groupColumns } from "./group-columns";

interface GroupsPanelProps {
  groups: readonly Group[];
  nowMs: number;
  sort: string;
  onSort: (sort: string) => void;
}

/** The groups of nodes of a site: what is wrong in words, then a line each. */
export function GroupsPanel({ groups, nowMs, sort, onSort }: GroupsPanelProps) {
  const columns = groupColumns(nowMs);
  const troubled = groups.filter((group) => group.troubles.length > 0);
  return (
    <Panel title="Log servers" testId="groups">
      {troubled.length > 0 && (
        <div className="panel-body notes">
          {troubled.flatMap((group) => group.troubles.map(({ text, hint }) => (
            <div key={`${group.group} ${text}`} className="note note-bad" data-testid="trouble" data-group={group.group}>
              <strong>{group.group}</strong>: {text}. {hint && <span className="muted">{hint.charAt(0).toUpperCase() + hint.slice(1)}.</span>}
            </div>
          )))}
        </div>
      )}
      <Table
        caption="Log servers" columns={columns} rows={sortRows(groups, columns, sort)} rowKey={(group) => group.group}
        sort={sort} onSort={onSort} rowProps={(group) => ({ "data-testid": "group-row", "data-group": group.group })}
        empty={<Empty title="No log server has written yet" />}
      />
    </Panel>
  );
}
