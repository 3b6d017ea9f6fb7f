/** Bellrock's mark: a lighthouse with its light on. */
export function Mark({ sizePx = 22 }: { sizePx?: number }) {
  return (
    <svg width={sizePx} height={sizePx} viewBox="0 0 32 32" aria-hidden="true">
      <path d="M12 8.5 2 4.5v8zM20 8.5l10-4v8z" fill="var(--lamp)" />
      <path d="M11.5 6 16 2.2 20.5 6z" fill="currentColor" />
      <rect x="12.6" y="6.6" width="6.8" height="4" rx=".6" fill="var(--lamp)" />
      <path d="M11.5 11.4h9L23 28H9z" fill="currentColor" />
      <path d="M10.9 15.6h10.2l.55 3.6h-11.3zM9.9 22.2h12.2l.55 3.6H9.350z" fill="var(--stripe)" />
      <path d="M5 28h22v2H5z" fill="currentColor" opacity=".6" />
    </svg>
  );
}
