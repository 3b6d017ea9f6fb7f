import type { ReactNode } from "react";

export interface Column<Row> {
  key: string;
  header: string;
  /** What the column means, shown on hovering its head. */
  help?: string;
  /** Numbers are set right. */
  numeric?: boolean;
  /** The API's name for sorting by this column; absent: not sortable. */
  sortKey?: string;
  /** The first click sorts downward; by default so for numbers. */
  downFirst?: boolean;
  cell: (row: Row) => ReactNode;
  /** The raw value; browser tests and the title attribute see it as it is. */
  value?: (row: Row) => string | number | null;
  title?: (row: Row) => string | undefined;
  /** Left out on narrow screens. */
  wideOnly?: boolean;
  grow?: boolean;
}

interface TableProps<Row> {
  /** What the table holds, for those who do not see it. */
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** "start" upward, "-start" downward. */
  sort?: string;
  onSort?: (sort: string) => void;
  onRow?: (row: Row) => void;
  rowProps?: (row: Row) => Record<string, string | boolean | undefined>;
  empty: ReactNode;
  /** Scrolls in its own place when it is long. */
  tall?: boolean;
  testId?: string;
}

/** The sort after a click on a column's head: the other way on the same column, else the column's own first way. */
export function nextSort(sort: string | undefined, key: string, downFirst: boolean): string {
  if (sort === key) return `-${key}`;
  if (sort === `-${key}`) return key;
  return downFirst ? `-${key}` : key;
}

export function Table<Row>(props: TableProps<Row>) {
  const { caption, columns, rows, rowKey, sort, onSort, onRow, rowProps, empty, tall, testId } = props;
  return (
    <div className={tall ? "table-scroll table-tall" : "table-scroll"} tabIndex={0} role="region" aria-label={caption}>
      <table data-testid={testId}>
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>{columns.map((column) => <Head key={column.key} column={column} sort={sort} onSort={onSort} />)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr
              key={rowKey(row)}
              className={onRow ? "pickable" : undefined}
              onClick={onRow && ((event) => { if (!isInteractive(event.target) && !hasSelection()) onRow(row); })}
              {...rowProps?.(row)}
            >
              {columns.map((column) => (
                <td
                  key={column.key}
                  className={cellClass(column)}
                  title={column.title?.(row)}
                  data-col={column.key}
                  data-value={column.value ? (column.value(row) ?? "") : undefined}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <div className="table-empty">{empty}</div>}
    </div>
  );
}

function cellClass<Row>(column: Column<Row>): string | undefined {
  const classes = [column.numeric && "num", column.wideOnly && "wide-only", column.grow && "grow"].filter(Boolean);
  return classes.length > 0 ? classes.join(" ") : undefined;
}

const isInteractive = (target: EventTarget) => target instanceof Element && target.closest("a, button, input") !== null;
const hasSelection = () => (window.getSelection()?.toString() ?? "") !== "";

function Head<Row>({ column, sort, onSort }: { column: Column<Row>; sort?: string; onSort?: (sort: string) => void }) {
  const { sortKey, header, help, numeric = false, downFirst = numeric } = column;
  if (sortKey === undefined || onSort === undefined) {
    return <th scope="col" className={cellClass(column)} title={help}>{header}</th>;
  }
  const direction = sort === sortKey ? "ascending" : sort === `-${sortKey}` ? "descending" : undefined;
  return (
    <th scope="col" className={cellClass(column)} aria-sort={direction ?? "none"} title={help}>
      <button type="button" className="head-button" onClick={() => onSort(nextSort(sort, sortKey, downFirst))} data-testid={`sort-${column.key}`}>
        {header}
        <span className="sort-mark" aria-hidden="true">{direction === "ascending" ? "↑" : direction === "descending" ? "↓" : ""}</span>
      </button>
    </th>
  );
}

/** Rows sorted in the browser, for tables that come whole; null last either way. The input is left as it is. */
export function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: string): Row[] {
  const down = sort.startsWith("-");
  const value = columns.find((column) => column.sortKey === sort.replace(/^-/, ""))?.value;
  if (!value) return [...rows];
  return [...rows].sort((left, right) => {
    const a = value(left);
    const b = value(right);
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return down ? -order : order;
  });
}
