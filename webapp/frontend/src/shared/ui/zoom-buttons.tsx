import { panned, zoomed, type Span } from "../chart/zoom";

interface ZoomButtonsProps {
  /** What is shown, in ms. */
  now: Span;
  /** The whole. */
  full: Span;
  isKnown: boolean;
  isZoomed: boolean;
  /** Null: the whole. */
  onZoom: (span: Span | null) => void;
}

/** The time range of a chart, for those who do not drag. */
export function ZoomButtons({ now, full, isKnown, isZoomed, onZoom }: ZoomButtonsProps) {
  return (
    <div className="zoom-buttons" role="group" aria-label="Time range">
      <ZoomButton label="Earlier" sign="←" disabled={!isZoomed} onClick={() => onZoom(panned(now, full, -0.5))} />
      <ZoomButton label="Zoom in" sign="+" disabled={!isKnown} onClick={() => onZoom(zoomed(now, full, 0.5))} testId="zoom-in" />
      <ZoomButton label="Zoom out" sign="−" disabled={!isZoomed} onClick={() => onZoom(zoomed(now, full, 2))} testId="zoom-out" />
      <ZoomButton label="Later" sign="→" disabled={!isZoomed} onClick={() => onZoom(panned(now, full, 0.5))} />
      <button type="button" className="button" disabled={!isZoomed} onClick={() => onZoom(null)} data-testid="zoom-reset">Reset zoom</button>
    </div>
  );
}

interface ZoomButtonProps {
  label: string;
  sign: string;
  disabled: boolean;
  onClick: () => void;
  testId?: string;
}

function ZoomButton({ label, sign, disabled, onClick, testId }: ZoomButtonProps) {
  return <button type="button" className="button button-square" aria-label={label} title={label} disabled={disabled} onClick={onClick} data-testid={testId}>{sign}</button>;
}
