import { useTheme, type Theme } from "../theme";

/** The chart's colours, as the style sheet has them. */
export interface Palette {
  read: string;
  write: string;
  metadata: string;
  text: string;
  textMuted: string;
  line: string;
  panel: string;
  band: string;
  accent: string;
  lamp: string;
  stripe: string;
  font: string;
}

const palettes = new Map<Theme, Palette>();

/** The style sheet's custom properties under the present theme. The same object each time, so that options can be memoised on it. */
export function usePalette(): Palette {
  const { theme } = useTheme();
  const palette = palettes.get(theme) ?? readPalette();
  palettes.set(theme, palette);
  return palette;
}

function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    read: colour("--read"),
    write: colour("--write"),
    metadata: colour("--metadata"),
    text: colour("--text"),
    textMuted: colour("--text-muted"),
    line: colour("--line"),
    panel: colour("--panel"),
    band: colour("--band"),
    accent: colour("--accent"),
    lamp: colour("--lamp"),
    stripe: colour("--stripe"),
    font: colour("--sans"),
  };
}
