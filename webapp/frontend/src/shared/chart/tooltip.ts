// Tooltips are HTML text, and names of files, nodes and programs are strangers' input: everything is escaped here.

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (one) => ESCAPES[one] ?? one);
}

export interface TooltipRow {
  colour: string;
  label: string;
  value: string;
}

/** A title and rows of (colour, label, value) as HTML. */
export function tooltipHtml(title: string, rows: readonly TooltipRow[]): string {
  const body = rows.map(({ colour, label, value }) =>
    `<div class="tip-row"><span class="tip-dot" style="background:${escapeHtml(colour)}"></span>` +
    `<span class="tip-label">${escapeHtml(label)}</span><span class="tip-value">${escapeHtml(value)}</span></div>`);
  return `<div class="tip"><div class="tip-title">${escapeHtml(title)}</div>${body.join("")}</div>`;
}
